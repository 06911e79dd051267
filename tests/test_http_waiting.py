"""Claims that wait, the journal as it grows, and what a stop does to both."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from helpers.web import Reply, Served

import fencepost
from fencepost.clock import FakeClock

START = 1_767_225_600_000_000


def enqueue(web: Served, payload: object = 1, queue: str = "pages", **more: object) -> Reply:
    body = {"verb": "enqueue", "queue": queue, "tasks": [{"payload": payload, **more}]}
    return web.post(f"/v1/default/queues/{queue}/tasks", body)


def claim(web: Served, wait: int, worker: str = "w", key: str | None = None) -> Reply:
    body = {"verb": "claim", "queues": ["pages"], "worker_id": worker}
    return web.post(f"/v1/default/queues/pages/claims?wait_seconds={wait}", body, key=key)


class Asked(threading.Thread):
    """A claim that waits, in a thread of its own."""

    def __init__(self, web: Served, wait: int, worker: str, key: str | None = None) -> None:
        super().__init__()
        self.given = (web, wait, worker, key)
        self.start()

    def run(self) -> None:
        self.reply = claim(*self.given)

    def leases(self) -> list[object]:
        self.join(20)
        return self.reply.json["leases"]  # type: ignore[no-any-return]


def until(web: Served, waiting: int) -> None:
    """Until so many claims wait: they say so nowhere but in the service itself."""
    for _ in range(2_000):
        service = web.server.config.app.service
        if service.limits.waiting == waiting:
            return
        time.sleep(0.002)
    raise AssertionError(f"{service.limits.waiting} wait, not {waiting}")


@pytest.fixture
def web() -> Iterator[Served]:
    with Served(dev=True) as served:
        yield served


def test_a_claim_that_waits_gets_the_task_when_it_comes(web: Served) -> None:
    waiting = Asked(web, 30, "w")
    until(web, 1)
    enqueue(web, "late")
    (lease,) = waiting.leases()
    assert lease["payload"] == "late"  # type: ignore[index]


def test_a_claim_that_waits_in_vain_is_answered_when_the_time_is_over(web: Served) -> None:
    began = time.monotonic()
    reply = claim(web, 1)
    assert reply.status == 200 and reply.json["leases"] == []
    assert 0.9 < time.monotonic() - began < 10


def test_of_those_who_wait_as_many_are_woken_as_there_are_tasks_the_first_first(
    web: Served,
) -> None:
    first = Asked(web, 30, "first")
    until(web, 1)
    others = [Asked(web, 1, f"later-{number}", f"key-{number}") for number in range(3)]
    until(web, 4)
    enqueue(web)
    assert len(first.leases()) == 1
    assert [other.leases() for other in others] == [[], [], []]


def wake(web: Served) -> None:
    """Whoever waits for a page is woken, as by a task that somebody else then took."""
    service = web.server.config.app.service
    service.bridge._loop.call_soon_threadsafe(service.news.wake, ("default", "pages"), 1)


def test_who_was_woken_and_came_too_late_waits_on(web: Served) -> None:
    began = time.monotonic()
    waiting = Asked(web, 30, "w")
    for _ in range(3):
        until(web, 1)
        wake(web)
        time.sleep(0.05)
    until(web, 1)
    assert waiting.is_alive() and entries(web) == []
    enqueue(web, "late")
    (lease,) = waiting.leases()
    assert lease["payload"] == "late"  # type: ignore[index]
    told = float(waiting.reply.headers["fencepost-waited"])
    assert 0.1 < told <= time.monotonic() - began  # up to the claim that brought it


def test_who_was_woken_in_vain_is_still_answered_when_the_time_is_over(web: Served) -> None:
    began = time.monotonic()
    waiting = Asked(web, 1, "w")
    until(web, 1)
    wake(web)
    assert waiting.leases() == [] and time.monotonic() - began > 0.9


def entries(web: Served) -> list[str]:
    return [json.loads(entry.body)["verb"] for entry in web.fp.entries()]  # type: ignore[arg-type]


def test_a_key_that_waited_in_vain_leaves_nothing_and_finds_what_comes_later(web: Served) -> None:
    assert claim(web, 1, key="vain").json == {**claim(web, 0).json} and entries(web) == []
    enqueue(web, "later")
    found = claim(web, 30, key="vain")
    assert [lease["payload"] for lease in found.json["leases"]] == ["later"]
    again = claim(web, 30, key="vain")  # known: answered at once
    assert again.body == found.body and again.headers["idempotent-replayed"] == "true"


def test_a_claim_that_does_not_wait_leaves_its_receipt_and_ends_the_waiting_under_its_key(
    web: Served,
) -> None:
    waiting = Asked(web, 30, "w", "k")
    until(web, 1)
    now = claim(web, 0, key="k")
    assert waiting.leases() == [] == now.json["leases"] and entries(web) == ["claim"]
    enqueue(web)
    assert claim(web, 30, key="k").body == now.body


def test_who_asks_again_ends_the_earlier_waiting_though_nobody_may_claim(web: Served) -> None:
    web.fp.queue_set("pages", paused=True)
    waiting = Asked(web, 30, "w", "k")
    until(web, 1)
    assert claim(web, 0, key="k").code == "queue_paused"
    waiting.join(20)
    assert waiting.reply.code == "queue_paused"


def test_of_two_who_wait_under_one_key_the_later_waits_on(web: Served) -> None:
    first = Asked(web, 30, "w", "k")
    until(web, 1)
    second = Asked(web, 30, "w", "k")
    assert first.leases() == []
    until(web, 1)
    enqueue(web)
    assert len(second.leases()) == 1


def test_a_claim_of_a_batch_ends_the_waiting_under_its_key(web: Served) -> None:
    waiting = Asked(web, 30, "w", "k")
    until(web, 1)
    body = {"verb": "claim", "queues": ["pages"], "worker_id": "w"}
    found = web.post("/v1/default/batch", {"commands": [{"key": "k", "command": body}]})
    assert found.json["status"] == "accepted", found.json
    assert waiting.leases() == []


def test_an_answer_that_another_process_has_given_ends_the_waiting(tmp_path: object) -> None:
    path = f"{tmp_path}/work.db"
    with Served(path=path, dev=True) as web, fencepost.open(path) as beside:
        waiting = Asked(web, 30, "w", "k")
        until(web, 1)
        body = {"verb": "claim", "queues": ["pages"], "worker_id": "w"}
        request = fencepost.Request.read(json.dumps(body).encode(), "k")
        (outcome,) = beside.execute([request])
        assert outcome.accepted and waiting.leases() == []
        assert waiting.reply.headers["idempotent-replayed"] == "true"


def test_a_task_that_comes_due_and_a_lease_that_lapses_end_the_waiting() -> None:
    clock = FakeClock(START)
    with Served(clock=clock, dev=True) as web:
        enqueue(web, "due", due_at="2026-01-01T00:10:00Z")
        waiting = Asked(web, 30, "w")
        until(web, 1)
        clock.advance(600)
        assert len(waiting.leases()) == 1
        again = Asked(web, 30, "other")
        until(web, 1)
        clock.advance(60)
        (lease,) = again.leases()
        assert lease["attempt"] == 2  # type: ignore[index]


def test_what_another_process_enqueues_ends_the_waiting(tmp_path: object) -> None:
    path = f"{tmp_path}/work.db"
    with Served(path=path, dev=True) as web, fencepost.open(path) as beside:
        waiting = Asked(web, 30, "w")
        until(web, 1)
        beside.enqueue("pages", "from beside")
        (lease,) = waiting.leases()
        assert lease["payload"] == "from beside"  # type: ignore[index]


def test_a_stop_answers_those_who_wait_and_takes_no_more_claims() -> None:
    with Served(dev=True) as web:
        waiting = Asked(web, 30, "w")
        until(web, 1)
        began = time.monotonic()
        web.stop()
        waiting.join(10)
        assert (waiting.reply.status, waiting.reply.json["leases"]) == (200, [])
        assert time.monotonic() - began < 5
        assert list(web.fp.tasks()) == []


@pytest.mark.parametrize("wait", ["-1", "61", "1.5", "x", ""])
def test_a_wait_that_is_no_whole_number_from_0_to_60_is_refused(web: Served, wait: str) -> None:
    body = {"verb": "claim", "queues": ["pages"], "worker_id": "w"}
    path = f"/v1/default/queues/pages/claims?wait_seconds={wait}"
    assert web.post(path, body).status == 400


# -- the tail


@contextmanager
def tail(web: Served, query: str = "", **headers: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", f"/v1/default/journal/events{query}", headers=given)
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def events(answer: http.client.HTTPResponse, count: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    while len(found) < count:
        line = answer.readline().decode()
        assert line, f"the stream ended after {len(found)} of {count}"
        if line.startswith("data: "):
            found.append(json.loads(line[6:]))
    return found


def numbers(answer: http.client.HTTPResponse, count: int) -> list[object]:
    return [event["number"] for event in events(answer, count)]


def test_the_tail_tells_every_entry_once_and_in_order(web: Served) -> None:
    enqueue(web)
    enqueue(web)
    with tail(web) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert numbers(answer, 2) == [1, 2]
        enqueue(web)
        assert numbers(answer, 1) == [3]


def test_a_tail_that_is_taken_up_again_misses_no_entry(web: Served) -> None:
    for _ in range(3):
        enqueue(web)
    with tail(web, last_event_id="1") as answer:
        assert numbers(answer, 2) == [2, 3]
    with tail(web, "?after=2") as answer:
        assert numbers(answer, 1) == [3]


def test_a_long_journal_is_told_whole(web: Served) -> None:
    web.fp.execute([fencepost.Request.of(_enqueue(n), f"k{n}") for n in range(250)])
    with tail(web) as answer:
        assert numbers(answer, 250) == list(range(1, 251))


def _enqueue(number: int) -> fencepost.commands.Enqueue:
    return fencepost.commands.Enqueue("pages", ({"payload": number},))  # type: ignore[arg-type]


def test_a_stop_ends_the_tail(web: Served) -> None:
    with tail(web) as answer:
        assert answer.readline() == b"retry: 3000\n"
        began = time.monotonic()
        web.stop()
        assert answer.read().strip() == b""
        assert time.monotonic() - began < 5


def test_a_client_that_has_gone_frees_its_stream(web: Served) -> None:
    service = web.server.config.app.service
    with tail(web) as answer:
        answer.readline()
        assert service.limits.open_streams == 1
    for _ in range(2_000):
        if service.limits.open_streams == 0:
            return
        enqueue(web)
        time.sleep(0.002)
    raise AssertionError("the stream of a client that has gone is open still")
