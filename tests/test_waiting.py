"""A claim that waits until there is a task, on a store of one's own."""

from __future__ import annotations

import pytest
from helpers.lab import QUEUE, Lab
from helpers.stand import Stand

import fencepost
from fencepost.issues import InvalidRequest, QueuePaused


class Sleeper:
    """Sleeping moves the clock, and at a given moment something happens."""

    def __init__(self, clock):
        self.clock, self.slept, self.events = clock, 0.0, []

    def at(self, seconds, event):
        self.events.append((seconds, event))

    def __call__(self, seconds):
        assert 0 < seconds <= 0.1
        self.slept += seconds
        self.clock.advance(seconds)
        for each in [e for e in self.events if e[0] <= self.slept]:
            self.events.remove(each)
            each[1]()


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path / "work.db", obligations=False)
    lab.sleeper = Sleeper(lab.clock)
    lab.fp.sleep = lab.sleeper
    yield lab
    lab.close()


@pytest.mark.parametrize("key", [None, "k"])
def test_a_claim_that_waits_takes_what_this_process_enqueues_meanwhile(lab, key):
    lab.sleeper.at(3, lambda: lab.offer("new"))
    (lease,) = lab.fp.claim(QUEUE, worker_id="w", wait_seconds=60, idempotency_key=key)
    assert lease.payload == "new" and 3 <= lab.sleeper.slept <= 3.2
    assert lease.remaining() == 60.0, "the waiting is not counted"


def test_a_claim_that_waits_takes_what_another_process_enqueues(lab):
    other = lab.open()
    lab.sleeper.at(2, lambda: other.enqueue(QUEUE, "theirs"))
    (lease,) = lab.fp.claim([QUEUE, "more"], worker_id="w", wait_seconds=60)
    assert lease.payload == "theirs" and lab.sleeper.slept <= 2.2


def test_a_claim_that_waits_takes_what_comes_due_and_what_lapses(lab):
    lab.offer("held")
    lab.claim("w1")
    (lease,) = lab.fp.claim(QUEUE, worker_id="w2", wait_seconds=60)
    assert lease.attempt == 2 and 60 <= lab.sleeper.slept <= 60.2
    lease.fail(then="retry", retry_seconds=9)
    (lease,) = lab.fp.claim(QUEUE, worker_id="w2", wait_seconds=60)
    assert lease.attempt == 3 and 69 <= lab.sleeper.slept <= 69.4


@pytest.mark.parametrize("key", [None, "k"])
def test_where_nothing_comes_it_ends_with_the_time_and_empty(lab, key):
    before = len(list(lab.fp.entries()))
    assert lab.fp.claim(QUEUE, worker_id="w", wait_seconds=5, idempotency_key=key) == []
    assert 5 <= lab.sleeper.slept < 5.001
    assert len(list(lab.fp.entries())) == before
    (lease,) = (lab.offer("later"), *lab.fp.claim(QUEUE, worker_id="w", idempotency_key=key))[1:]
    assert lease.payload == "later", "the same key finds what has come meanwhile"


def test_a_claim_without_waiting_leaves_its_receipt_and_ends_the_waiting_under_its_key(lab):
    claim = {"worker_id": "w", "idempotency_key": "k"}
    lab.sleeper.at(3, lambda: lab.fp.claim(QUEUE, **claim))
    assert lab.fp.claim(QUEUE, **claim, wait_seconds=60) == [] and lab.sleeper.slept <= 3.2
    lab.offer("too late for this key")
    assert lab.fp.claim(QUEUE, **claim) == []
    assert sum(b'"verb":"claim"' in each.body for each in lab.fp.entries()) == 1


@pytest.mark.parametrize("wait", [0, 5])
def test_who_asks_again_ends_the_earlier_waiting_though_nobody_may_claim(lab, wait):
    ended = []

    def again():
        with pytest.raises(QueuePaused):
            lab.fp.claim(QUEUE, worker_id="w", idempotency_key="k", wait_seconds=wait)
        ended.append(lab.sleeper.slept)

    lab.fp.queue_set(QUEUE, paused=True)
    lab.sleeper.at(3, again)
    with pytest.raises(QueuePaused):
        lab.fp.claim(QUEUE, worker_id="w", idempotency_key="k", wait_seconds=60)
    assert len(ended) == 1 and ended[0] - wait <= 3.2 and lab.sleeper.slept <= ended[0] + 0.2


@pytest.mark.parametrize("other", [{"idempotency_key": "l"}, {"worker_id": "v"}])
def test_another_claim_does_not_end_the_waiting(lab, other):
    claim = {"worker_id": "w", "idempotency_key": "k"}
    lab.sleeper.at(1, lambda: lab.fp.claim(QUEUE, **{**claim, **other}))
    assert lab.fp.claim(QUEUE, **claim, wait_seconds=5) == [] and lab.sleeper.slept >= 4.9


def test_a_claim_with_a_key_that_was_answered_is_replayed_at_once(lab):
    claim = {"worker_id": "w", "idempotency_key": "k", "wait_seconds": 60}
    lab.offer("one")
    (lease,) = lab.fp.claim(QUEUE, **claim)
    (again,) = lab.fp.claim(QUEUE, **claim)
    assert again.fence == lease.fence and lab.sleeper.slept == 0


def test_without_waiting_it_looks_once(lab):
    assert lab.fp.claim(QUEUE, worker_id="w") == [] and lab.sleeper.slept == 0


def test_nobody_waits_for_the_one_task_that_a_claim_names(lab):
    task_id = lab.offer("later", due_at="2030-01-01T00:00:00Z")
    assert lab.fp.claim(task_id=task_id, worker_id="w", wait_seconds=60) == []
    assert lab.sleeper.slept == 0


def test_a_paused_queue_is_told_as_soon_as_it_has_a_task(lab):
    lab.fp.queue_set(QUEUE, paused=True)
    lab.sleeper.at(1, lambda: lab.offer("x"))
    with pytest.raises(QueuePaused):
        lab.fp.claim(QUEUE, worker_id="w", wait_seconds=60)


def test_what_only_looked_free_does_not_make_it_spin(lab):
    """A lapsed task without attempts left is settled by the claim and given to nobody."""
    lab.offer("poison", max_attempts=1)
    lab.claim("w1")
    lab.clock.advance(61)
    assert lab.fp.claim(QUEUE, worker_id="w", wait_seconds=3) == []
    assert lab.sleeper.slept >= 2.9


def test_a_transaction_does_not_wait(tmp_path):
    from helpers.lab import raw

    path = tmp_path / "app.db"
    with fencepost.open(str(path), create=True) as fp, raw(path) as own, fp.within(own) as tx:
        with pytest.raises(InvalidRequest, match="hold up"):
            tx.claim(QUEUE, worker_id="w", wait_seconds=1)
        assert tx.claim(QUEUE, worker_id="w") == []


def test_a_store_in_memory_waits_too():
    with Stand() as stand:
        stand.fp.sleep = Sleeper(stand.clock)
        stand.fp.sleep.at(1, lambda: stand.task("new"))
        assert stand.claim(wait_seconds=2).payload == "new"
