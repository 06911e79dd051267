"""Whoever watches the service is told the truth at once: /livez, /readyz, /metrics, whatever
happens to the store meanwhile."""

from __future__ import annotations

import http.client
import os
import re
import statistics
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.holding import foreign, hold_the_turn, stopped_with_the_turn
from helpers.service import Service
from helpers.shell import run
from helpers.tools import tmpfs
from helpers.web import Asking, Reply, Served
from prometheus_client.parser import text_string_to_metric_families

import fencepost
from fencepost.clock import to_rfc3339
from fencepost.machine.needs import Sent
from fencepost.model import Outcome
from fencepost.server import commands, health, tail
from fencepost.server.bridge import Bridge
from fencepost.server.meters import BUCKETS, exposition

ROOT = Path(__file__).resolve().parent.parent
ENQUEUE = {"verb": "enqueue", "queue": "q", "tasks": [{"payload": 1}]}
CLAIM = {"verb": "claim", "queues": ["q"], "worker_id": "w"}
HELD = 2.0  # seconds for which somebody else has the store
AT_ONCE = 0.05  # seconds within which /livez answers; half of the answers may be slower once


def livez(web: Asking, seconds: float) -> list[float]:
    """How long each answer took, asked on one connection for so long."""
    link = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
    took = []
    end = time.monotonic() + seconds
    try:
        while (began := time.monotonic()) < end:
            link.request("GET", "/livez")
            assert link.getresponse().read() == b"ok\n"
            took.append(time.monotonic() - began)
            time.sleep(0.01)  # so as not to load the machine: it is a sample
    finally:
        link.close()
    return took


def at_once(took: list[float]) -> bool:
    """Nothing that lasts as long as the store was held stood in the way of an answer."""
    print(f"{len(took)} answers: median {statistics.median(took):.4f} s, slowest {max(took):.4f} s")
    return statistics.median(took) < AT_ONCE and max(took) < HELD / 2


class Busy:
    """Requests that need the store, each in a thread, begun while somebody else has it."""

    def __init__(self, web: Asking) -> None:
        self.replies: list[Reply] = []
        path = "/v1/default/queues/q/tasks"
        asks = [lambda: web.post(path, ENQUEUE)] * 12 + [lambda: web.get("/v1/default/tasks")] * 12
        asks += [lambda: web.get("/readyz")] * 12  # more than there are threads to read
        self.threads = [threading.Thread(target=self.keep, args=(ask,)) for ask in asks]
        for thread in self.threads:
            thread.start()

    def keep(self, ask: object) -> None:
        self.replies.append(ask())  # type: ignore[operator]

    def statuses(self) -> set[int]:
        for thread in self.threads:
            thread.join(40)
        return {reply.status for reply in self.replies if reply.body != b"not ready\n"}


HOLDERS = {
    "a process stopped with the turn": stopped_with_the_turn,
    "a foreign write transaction": lambda path: foreign(path, "begin immediate"),
    "a reader that does not end": lambda path: foreign(path, "begin"),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_livez_answers_at_once_while_somebody_else_has_the_store(
    tmp_path: Path, holder: str
) -> None:
    with Service(tmp_path, "--dev") as web:
        with HOLDERS[holder](web.path):  # type: ignore[no-untyped-call]
            busy = Busy(web)
            took = livez(web, HELD)
        assert at_once(took)
        assert busy.statuses() == {200}


def test_a_loop_that_waits_for_the_store_itself_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blocking(self: Bridge, sent: list[Sent]) -> list[Outcome]:
        return self.fp.hand_in(sent, lambda _: None).wait(30)

    monkeypatch.setattr(Bridge, "send", blocking)
    path = tmp_path / "work.db"
    with Served(path=str(path), dev=True) as web:
        holder = hold_the_turn(path, HELD)
        busy = Busy(web)
        took = livez(web, HELD)
        holder.join()
        assert busy.statuses() == {200}
    assert not at_once(took)


def test_what_is_long_is_read_and_made_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, str] = {}
    for module, name in ((commands, "_requests"), (commands, "_of_batch"), (tail, "_page")):

        def noted(*given: object, real: object = getattr(module, name), name: str = name) -> object:
            seen[name] = threading.current_thread().name
            return real(*given)  # type: ignore[operator]

        monkeypatch.setattr(module, name, noted)
    with Served(dev=True) as web:
        web.post("/v1/default/batch", {"commands": [{"command": ENQUEUE}] * 100})
        link = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
        link.request("GET", "/v1/default/journal/events")
        answer = link.getresponse()
        while not answer.readline().startswith(b"id: 100"):
            pass
        link.close()
    assert set(seen) == {"_requests", "_of_batch", "_page"}
    assert all(thread.startswith("fencepost-reader") for thread in seen.values()), seen


# -- ready


def readyz(web: Asking) -> tuple[int, bytes, float]:
    """(status, body, seconds)."""
    began = time.monotonic()
    reply = web.get("/readyz")
    return reply.status, reply.body, time.monotonic() - began


def test_while_a_stopped_process_has_the_turn_it_is_not_ready_and_says_so_soon(
    tmp_path: Path,
) -> None:
    with Service(tmp_path, "--dev") as web:
        assert readyz(web)[:2] == (200, b"ok\n")
        with stopped_with_the_turn(web.path):
            status, body, seconds = readyz(web)
            assert (status, body) == (503, b"not ready\n") and seconds < 10
            assert web.get("/livez").status == web.get("/v1/default").status == 200
        assert readyz(web)[:2] == (200, b"ok\n")


def test_many_who_ask_at_once_are_told_of_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    real = health._ready
    monkeypatch.setattr(health, "_ready", lambda service: looks.append(1) or real(service))
    path = tmp_path / "work.db"
    with Served(path=str(path), dev=True) as web:
        holder = hold_the_turn(path, 1.0)
        threads = [threading.Thread(target=readyz, args=(web,)) for _ in range(30)]
        for thread in threads:
            thread.start()
        # anybody may ask so, and must not keep out those who have come to read
        assert web.get("/v1/default/tasks").status == 200
        assert holder.is_alive(), "the reading had to wait"
        for thread in threads:
            thread.join()
        holder.join()
    assert len(looks) < 5


def test_a_disk_that_fills_up_is_told_before_it_is_full_and_needs_no_restart(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "small"
    with tmpfs(folder, "80m"), Service(folder, "--dev") as web:
        assert readyz(web)[:2] == (200, b"ok\n")
        (folder / "other").write_bytes(bytes(40 * 2**20))
        assert readyz(web)[:2] == (503, b"not ready\n")
        path = "/v1/default/queues/q/tasks"
        assert web.post(path, ENQUEUE, key="in-time").status == 200, "there is some room yet"
        with (folder / "more").open("wb", buffering=0) as more, suppress(OSError):
            while more.write(bytes(4096)) == 4096:
                pass
        refused = web.post(path, {**ENQUEUE, "tasks": [{"payload": "x" * 100_000}]}, key="full")
        assert refused.status == 503 and refused.json["retryable"] is True
        assert int(refused.headers["retry-after"]) >= 1
        assert web.get("/livez").status == 200
        assert [row["state"] for row in web.get("/v1/default/tasks").json["tasks"]] == ["ready"]
        for name in ("other", "more"):
            (folder / name).unlink()
        again = web.post(path, {**ENQUEUE, "tasks": [{"payload": "x" * 100_000}]}, key="full")
        assert again.status == 200
        assert readyz(web)[:2] == (200, b"ok\n")
        assert web.ended()[0] == 0


def test_a_store_that_cannot_be_written_is_not_ready_and_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "work.db")
    with fencepost.open(path, create=True) as fp:
        fp.enqueue("q", 1)
    # root may write any file, so the look is faked
    monkeypatch.setattr("fencepost.storage.sqlite.place._may", lambda path, mode: mode != os.W_OK)
    with Served(path=path, dev=True) as web:
        assert readyz(web)[:2] == (503, b"not ready\n")
        assert web.get("/livez").status == 200
        assert len(web.get("/v1/default/tasks").json["tasks"]) == 1
        refused = web.post("/v1/default/queues/q/tasks", ENQUEUE)
        assert (refused.status, refused.code) == (503, "store_read_only")
        assert int(refused.headers["retry-after"]) >= 1


def test_on_a_read_only_file_system_it_does_not_start_and_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    with tmpfs(folder, "8m"):
        fencepost.open(folder / "work.db", create=True).close()
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        ran = run(tmp_path, "--store", folder / "work.db", "serve", "--port", "0", "--dev")
    assert ran.code == 6 and "is not writable" in ran.err and len(ran.err.splitlines()) == 1


# -- measured

LABELS = {"scope", "queue", "state", "route", "status", "verb", "code", "le", "version"}


def measured(web: Asking, token: str | None = None) -> dict[str, list[tuple[str, dict, float]]]:  # type: ignore[type-arg]
    """Every sample by the name of its family, as Prometheus reads it."""
    reply = web.get("/metrics", token)
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(reply.body.decode()))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.documentation and family.type in ("counter", "gauge", "histogram")
    return {f.name: [(s.name, s.labels, s.value) for s in f.samples] for f in families}


def test_what_prometheus_reads_is_what_has_happened() -> None:
    with Served() as web:
        worker, root = web.token("worker", "w"), web.token("auditor", "a", every_scope=True)
        path, key = "/v1/default/queues/q/tasks", "k"
        producer = web.token("producer", "p")
        for _ in range(2):
            web.post(path, ENQUEUE, producer, key=key)
        web.post("/v1/default/queues/q/tasks", ENQUEUE, worker)
        (lease,) = web.post("/v1/default/queues/q/claims", CLAIM, worker).json["leases"]
        found = measured(web, root)
    tasks = {(s["queue"], s["state"]): value for _, s, value in found["fencepost_tasks"]}
    assert tasks == {("q", "leased"): 1}
    entries = [value for _, _, value in found["fencepost_journal_entries"]]
    assert entries == [5]  # three tokens, a task, a claim
    assert [value for *_, value in found["fencepost_replays"]] == [1]
    commands = {labels["verb"]: value for _, labels, value in found["fencepost_commands"]}
    assert commands == {"enqueue": 1, "claim": 1}
    refusals = {labels["code"]: value for _, labels, value in found["fencepost_refusals"]}
    assert refusals == {"forbidden": 1}
    routes = {(s["route"], s["status"]): value for _, s, value in found["fencepost_http_requests"]}
    queue = "/v1/{scope}/queues/{queue}"
    assert routes == {
        (f"{queue}/tasks", "200"): 2, (f"{queue}/tasks", "403"): 1, (f"{queue}/claims", "200"): 1,
    }  # fmt: skip
    (first,) = found["fencepost_first_task_timestamp_seconds"]
    assert first[1]["state"] == "leased"
    assert to_rfc3339(round(first[2] * 1_000_000)) == lease["lease_expires_at"]


def test_a_histogram_adds_up() -> None:
    with Served(dev=True) as web:
        for _ in range(5):
            web.get("/v1/default")
        samples = measured(web)["fencepost_http_request_seconds"]
    buckets = [(s["le"], value) for name, s, value in samples if name.endswith("_bucket")]
    assert [float(limit) for limit, _ in buckets] == [*BUCKETS, float("inf")]
    counts = [value for _, value in buckets]
    assert counts == sorted(counts) and counts[-1] == 5
    rest = {name.rsplit("_", 1)[1]: value for name, s, value in samples if not s}
    assert rest["count"] == 5 and 0 < rest["sum"] < 60


def test_names_have_base_units_and_no_label_has_an_id() -> None:
    with Served(dev=True) as web:
        task_id = web.post("/v1/default/queues/q/tasks", ENQUEUE, key="a-key").json["task_ids"][0]
        web.post("/v1/default/queues/q/claims", {
            "verb": "claim", "queues": ["q"], "worker_id": "some-worker",
        })  # fmt: skip
        for path in (f"tasks/{task_id}", f"tasks/{task_id}/history", "receipts/a-key",
                     "tasks/no-such-id", "nowhere/at-all"):  # fmt: skip
            web.get(f"/v1/default/{path}")
        web.get(f"/problems/{task_id}")
        text = web.get("/metrics").body.decode()
        found = measured(web)
    for hidden in (task_id, "a-key", "some-worker", "no-such-id", "at-all"):
        assert hidden not in text
    kinds = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    for name, kind in kinds.items():
        assert name.startswith("fencepost_") and (kind != "counter" or name.endswith("_total"))
        for unit in ("milli", "micro", "minutes", "_ms", "_age"):
            assert unit not in name
        if kind == "histogram":
            assert name.endswith("_seconds")
    labels = {name for samples in found.values() for _, given, _ in samples for name in given}
    assert labels <= LABELS


def test_the_page_lists_every_measure_with_its_kind_and_labels() -> None:
    page = (ROOT / "docs/http.md").read_text(encoding="utf-8").split("| measure |")[1]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", page, re.MULTILINE)
    told = {name: (kind, set(re.findall(r"\w+", labels))) for name, kind, labels in rows}
    with Served(dev=True) as web:
        web.post("/v1/default/queues/q/tasks", ENQUEUE, key="k")
        web.post("/v1/default/queues/q/tasks", b"{}")
        web.post("/v1/default/queues/q/claims", CLAIM)
        text = web.get("/metrics").body.decode()
        found = measured(web)
    kinds = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    assert {name: kind for name, (kind, _) in told.items()} == kinds
    for name, (_, labels) in told.items():
        samples = found[name.removesuffix("_total")]
        assert {label for _, given, _ in samples for label in given} == labels, name


def test_a_name_that_needs_escaping_is_read_as_it_is() -> None:
    text = exposition([("fencepost_x", "gauge", "X.", [("", {"queue": 'a"b\\c\nd'}, 1)])])
    (family,) = text_string_to_metric_families(text.decode())
    assert family.samples[0].labels == {"queue": 'a"b\\c\nd'}
