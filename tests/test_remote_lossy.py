"""The product's own client through a network that cuts, repeats and delays at any byte: each task
ends once, with one result, and nobody is told what is not so."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from helpers.lossy import TABLE, Lossy, seeded
from helpers.web import Served

import fencepost
from fencepost.issues import FencepostError, OutcomeUnknown

QUEUE = "pages"


@pytest.fixture
def web():
    with Served(settings={"max_requests_per_second": 10**9}) as served:
        yield served


def client(web, proxy, **more):
    token = web.token("operator")
    return fencepost.open(
        f"http://127.0.0.1:{proxy.port}", token=token, sleep=lambda seconds: None, **more
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_through_a_lossy_network_each_task_ends_once_and_every_receipt_is_true(web, seed):
    told = {}
    with Lossy(web.port, seeded(seed, 0.4)) as proxy, client(web, proxy) as fp:
        for number in range(60):
            made = fp.enqueue(QUEUE, {"n": number})
            (lease,) = fp.claim(QUEUE, worker_id="w1", limit=1)
            assert lease.task_id == made.task_id, seed
            told[made.task_id] = (number, lease.complete({"n": number}))
        assert len(list(fp.tasks(QUEUE))) == 60
        print(f"seed {seed}: {proxy.done}")
        assert len(proxy.done) == 6 and min(proxy.done.values()) >= 5
    entries = list(web.fp.entries())
    verbs = Counter(json.loads(entry.body)["verb"] for entry in entries)
    assert (verbs["enqueue"], verbs["claim"], verbs["complete"]) == (60, 60, 60), seed
    for task_id, (number, receipt) in told.items():
        assert [row.value for row in web.fp.results(task_id)] == [{"n": number}]
        assert entries[receipt.number - 1].body == receipt.body
    assert web.fp.verify().clean


# A request that is held back for ever never arrives.
STAYS = [fault for fault in TABLE if fault.what != "request late"]


def enqueued(fp):
    """The receipt and the key by which to ask for it, of which one is None."""
    try:
        return fp.enqueue(QUEUE, 1, idempotency_key="once"), None
    except OutcomeUnknown as unknown:
        return None, unknown.key


@pytest.mark.parametrize("fault", STAYS, ids=str)
def test_where_the_network_stays_so_the_client_knows_nothing_and_says_so(web, fault):
    """Every request meets the same fault: the client is told the receipt, or that it is unknown
    with the key to ask by; never a refusal, and the effect is at most one."""
    with (
        Lossy(web.port, lambda request: fault) as proxy,
        client(web, proxy, deadline_seconds=0.3) as fp,
    ):
        receipt, key = enqueued(fp)
    tasks = list(web.fp.tasks(QUEUE))
    assert len(tasks) == (1 if fault.delivered else 0)
    assert key in (None, "once")
    assert receipt is None or receipt.task_id == tasks[0].task_id


def test_a_service_that_is_not_there_is_unavailable_and_nothing_is_unknown(web):
    with Lossy(web.port, lambda request: None) as proxy:
        port = proxy
    with client(web, port, deadline_seconds=0.3) as fp, pytest.raises(FencepostError) as told:
        fp.enqueue(QUEUE, 1)
    assert told.value.code == "store_unavailable" and list(web.fp.tasks(QUEUE)) == []
