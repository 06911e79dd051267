"""Many clients at once, of one service and of two on one file: what they are told stands."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from helpers.http_crowd import Client, crowd, judged
from helpers.service import Service, planted
from helpers.web import Reply

import fencepost

CLIENTS, SECONDS, SEED = 30, 3.0, 8470


def test_thirty_clients_are_told_what_stands_once_each_and_no_answer_is_a_fault_of_ours(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as web:
        told = crowd(web.path, [web], CLIENTS, SECONDS, SEED)
        assert web.ended()[0] == 0
        statuses = Counter(line["status"] for line in web.lines() if "status" in line)
    counts, wrong = judged(web.path, told)
    print(f"seed {SEED}: {dict(counts)} {dict(statuses)}")
    assert wrong == []
    assert set(statuses) <= {200, 429, 503}
    assert counts["done"] > CLIENTS and counts["sent_again"] > 0


def test_two_services_on_one_file_lose_and_double_nothing_and_serve_alike(tmp_path: Path) -> None:
    with (
        Service(tmp_path, log=tmp_path / "1.err") as one,
        Service(tmp_path, log=tmp_path / "2.err") as two,
    ):
        told = crowd(one.path, [one, two], 12, SECONDS, SEED)
        assert one.ended()[0] == two.ended()[0] == 0
    counts, wrong = judged(one.path, told)
    served = [sum(len(client.receipts) for client in told[n::2]) for n in (0, 1)]
    print(f"seed {SEED}: {dict(counts)}; each: {served}")
    assert wrong == []
    assert min(served) >= 0.5 * max(served), "turns are not fair"


def test_a_claim_that_waits_at_one_service_is_woken_by_an_enqueue_at_the_other(
    tmp_path: Path,
) -> None:
    with (
        Service(tmp_path, "--dev", log=tmp_path / "1.err") as one,
        Service(tmp_path, "--dev", log=tmp_path / "2.err") as two,
    ):
        body = {"verb": "claim", "queues": ["q"], "worker_id": "w"}
        path = "/v1/default/queues/q/claims?wait_seconds=50"
        replies: list[Reply] = []
        waiting = threading.Thread(target=lambda: replies.append(one.post(path, body)))
        waiting.start()
        until_it_waits(one)
        began = time.monotonic()
        enqueue = {"verb": "enqueue", "queue": "q", "tasks": [{"payload": "from the other"}]}
        assert two.post("/v1/default/queues/q/tasks", enqueue).status == 200
        waiting.join(30)
        assert time.monotonic() - began < 3
        (lease,) = replies[0].json["leases"]
        assert lease["payload"] == "from the other"


def test_a_tail_at_one_service_tells_what_was_committed_at_the_other(tmp_path: Path) -> None:
    with (
        Service(tmp_path, "--dev", log=tmp_path / "1.err") as one,
        Service(tmp_path, "--dev", log=tmp_path / "2.err") as two,
    ):
        link = http.client.HTTPConnection("127.0.0.1", one.port, timeout=20)
        link.request("GET", "/v1/default/journal/events")
        tail = link.getresponse()
        assert tail.readline() == b"retry: 3000\n"
        enqueue = {"verb": "enqueue", "queue": "q", "tasks": [{"payload": 1}]}
        for number in (1, 2):
            assert two.post("/v1/default/queues/q/tasks", enqueue).status == 200
            while not (line := tail.readline()).startswith(b"id: "):
                assert line, "the tail ended"
            assert line == b"id: %d\n" % number
        link.close()


def until_it_waits(web: Service) -> None:
    """A tail of the journal is read by the same looking; a claim that waits has no sign but that
    it is not answered. So: as long as several of its looks at the store take."""
    link = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
    for _ in range(20):
        link.request("GET", "/v1/default")
        assert link.getresponse().read()
        time.sleep(0.02)
    link.close()


# -- the judge is shown to see


@pytest.fixture
def told(tmp_path: Path) -> tuple[Path, list[Client]]:
    with Service(tmp_path) as web:
        clients = crowd(web.path, [web], 3, 0.5, SEED)
        web.ended()
    assert judged(web.path, clients)[1] == []
    return web.path, clients


@pytest.mark.parametrize("lie", ["another receipt", "a task nobody made", "done by two", "untold"])
def test_the_judge_sees(told: tuple[Path, list[Client]], lie: str) -> None:
    path, clients = told
    if lie == "another receipt":
        key = next(iter(clients[0].receipts))
        clients[0].receipts[key] = clients[0].receipts[key].replace(b'"number":', b'"number":1')
    elif lie == "a task nobody made":
        clients[0].enqueued.append("01900000-0000-7000-8000-000000000000")
    elif lie == "done by two":
        clients[0].done.append(next(task_id for each in clients for task_id in each.done))
    else:
        with fencepost.open(path) as fp:
            fp.enqueue("crowd", "by somebody else")
    assert judged(path, clients)[1] != []


PLANTS = {
    "keys are forgotten": (
        "from fencepost.commands import Request\n"
        "real = Request.read\n"
        "Request.read = staticmethod(lambda body, key=None: real(body))\n"
    ),
    "a replay looks like a first answer": (
        "from fencepost.server import answers, commands\n"
        "real = answers.of_outcome\n"
        "commands.of_outcome = lambda o, **more: real(o._replace(replayed=False), **more)\n"
    ),
    "a fault of ours now and then": (
        "from random import random\n"
        "from fencepost.server import commands\n"
        "real = commands.execute\n"
        "async def execute(service, sent):\n"
        "    assert random() > 0.2\n"
        "    return await real(service, sent)\n"
        "commands.execute = execute\n"
    ),
    "told before it is committed": (
        "from fencepost.storage.sqlite.transaction import SqliteTransaction\n"
        "SqliteTransaction.commit = SqliteTransaction.rollback\n"
    ),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_service_with_a_bug_is_seen_by_the_crowd(tmp_path: Path, plant: str) -> None:
    with Service(tmp_path, **planted(tmp_path, PLANTS[plant])) as web:
        told = crowd(web.path, [web], 6, 0.7, SEED)
        web.ended()
    counts, wrong = judged(web.path, told)
    print(plant, dict(counts), wrong[:2])
    assert wrong != []
