"""Settling: the same bytes until they are answered, remembered before they are first sent."""

from __future__ import annotations

import pytest
from helpers.stand import QUEUE, Stand
from helpers.working import Way, down, lost

from fencepost.commands import Complete, Request
from fencepost.worker.memory import Memory
from fencepost.worker.settle import Settler


class Settling:
    """A settler over a store, whose rounds are made one by one."""

    def __init__(self, stand, folder) -> None:
        self.stand, self.folder = stand, folder
        self.way = Way(stand.fp, stand.clock)
        self.memory = Memory(folder, {"worker": "w"})
        self.told: list[tuple[str, bool]] = []
        self.why: list[str | None] = []
        self.settler = Settler(
            self.way, self.memory, lambda each, o: self.told.append((each.name, o.accepted)),
            self.why.append,
        )  # fmt: skip

    def again(self) -> Settling:
        """The next life of the worker."""
        self.memory.close()
        life = Settling(self.stand, self.folder)
        for name, kept in life.memory.settling.items():
            life.settler.add(name, kept.request(), remembered=True)
        return life

    def complete(self, result: object = "done") -> Request:
        self.stand.task()
        lease = self.stand.claim()
        request = Request.of(Complete(lease.task_id, "w", lease.fence, result=result))
        self.settler.add(lease.task_id, request)
        return request

    def results(self) -> int:
        return sum(len(list(self.stand.fp.results(t.task_id))) for t in self.stand.fp.tasks(QUEUE))


@pytest.fixture
def own(tmp_path):
    with Stand() as stand:
        made = Settling(stand, tmp_path)
        yield made
        made.memory.close()


@pytest.mark.parametrize("fault", [down, lost])
@pytest.mark.parametrize("place", ["before", "after"])
def test_the_same_bytes_are_sent_until_they_are_answered(own, fault, place):
    request = own.complete()
    getattr(own.way, place)[:] = [fault, fault]
    assert [own.settler.round() for _ in range(3)] == [False, False, True]
    assert own.way.bodies == [request.body] * 3
    assert (own.told, own.results()) == ([(request.command.task_id, True)], 1)
    code = "store_unavailable" if fault is down else "outcome_unknown"
    assert own.why == [code, code, None]


def test_bytes_and_key_are_remembered_before_they_are_sent_at_all(own):
    seen = []
    own.way.before = [lambda way: seen.append(dict(own.memory.settling))]
    request = own.complete()
    own.settler.round()
    assert [kept.body for kept in seen[0].values()] == [request.body]
    assert own.memory.settling == {}


def test_a_completion_whose_answer_was_lost_is_sent_again_by_the_next_life(own):
    request = own.complete()
    own.way.after = [lost]
    assert not own.settler.round()
    life = own.again()
    assert life.settler.round()
    assert life.way.bodies == [request.body]
    assert (life.told, life.results()) == ([(request.command.task_id, True)], 1)
    life.memory.close()


def test_a_completion_that_never_arrived_is_sent_by_the_next_life(own):
    own.complete()
    own.way.before = [down]
    own.settler.round()
    life = own.again()
    life.settler.round()
    assert life.results() == 1
    life.memory.close()


def test_a_refusal_is_final_and_is_told(own):
    request = own.complete()
    own.stand.fp.cancel(request.command.task_id)
    assert own.settler.round()
    assert own.told == [(request.command.task_id, False)]
    assert own.memory.settling == {}


def test_who_does_not_count_at_the_moment_keeps_what_he_has(own):
    request = own.complete()
    own.stand.fp.revoke()
    assert not own.settler.round()
    assert own.told == [] and list(own.memory.settling) == [request.command.task_id]
    own.stand.fp.revoke(revoked=False)
    assert own.settler.round() and own.results() == 1


def test_what_gathers_is_sent_in_one_batch_of_a_hundred(own):
    for n in range(120):
        own.complete(n)
    assert own.settler.round() and own.settler.round()
    assert [len(batch) for batch in own.way.sent] == [100, 20]
    assert own.results() == 120 and own.settler.open == 0


def test_a_batch_is_bounded_in_bytes_too(own):
    own.stand.fp.queue_set(QUEUE, max_result_bytes=10_000_000)
    for _ in range(3):
        own.complete("x" * 5_000_000)
    while own.settler.open:
        assert own.settler.round()
    assert [len(batch) for batch in own.way.sent] == [1, 1, 1]


def test_a_full_disk_of_the_worker_keeps_no_result_from_the_store(own, monkeypatch):
    own.complete()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fencepost.worker.memory.os.fsync", full)
    assert own.settler.round()
    assert own.results() == 1


def test_whatever_a_round_meets_nothing_is_forgotten(own):
    def broken(_):
        raise ZeroDivisionError

    own.complete()
    own.way.before = [broken]
    assert not own.settler.round() and own.settler.open == 1
    assert own.settler.round() and own.results() == 1


def test_a_task_whose_end_cannot_be_told_keeps_it_from_no_other(own):
    told = own.settler._told

    def broken(each, outcome):
        if not own.told and not own.why:
            own.why.append("broken")
            raise ZeroDivisionError
        told(each, outcome)

    own.settler._told = broken
    for _ in range(3):
        own.complete()
    assert own.settler.round() and own.settler.open == 0
    assert len(own.told) == 2 and own.results() == 3
