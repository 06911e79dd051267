"""What an outbox keeps when it ends badly: killed at each step of a take, a recording and a sync,
and the power cut at each write."""

from __future__ import annotations

import pytest
from helpers import offline_ends
from helpers.children import result_of, start
from helpers.field import DAY, Dead, Field
from helpers.lab import QUEUE
from helpers.scratch import scratch

from fencepost.offline.file import File


class Killer:
    """Dies at the n-th point: before and after each exchange and each commit."""

    def __init__(self, patch, lap, which):
        self.which, self.seen, self.where = which, 0, ""
        lap.wire.at = lambda point, sent: self.point(f"{point} {sent[0].command.verb}")
        commit = File._commit

        def committed(file, db):
            self.point("before a commit")
            commit(file, db)
            self.point("after a commit")

        patch.setattr(File, "_commit", committed)

    def point(self, where):
        self.seen += 1
        if self.seen == self.which:
            self.where = where
            raise Dead(where)


def at_every_point(play, check, wire="local"):
    """Play it, dead at the first point, the second, ... and go on each time as the next process
    does. Where it died."""
    places = []
    for which in range(1, 1_000):
        with scratch() as folder, Field(folder, wire) as field:
            lap, more = play(field)
            with pytest.MonkeyPatch.context() as patch:
                killer = Killer(patch, lap, which)
                try:
                    more(lap)
                except Dead:
                    places.append(killer.where)
            lap.killed()
            check(field, lap, more)
        if len(places) < which:
            return places
    raise AssertionError("it never came to its end")


def expired_and_not(field):
    field.offer("S1", "S2")
    lap = field.laptop()
    first, second = lap.take(limit=1), lap.take(limit=1, lease_seconds=60)
    for task_id in (*first, *second):
        lap.box.record(task_id, "row", close=False)
        lap.box.record(task_id, "end")
    field.clock.advance(61)
    return lap, lambda lap: lap.sync()


def all_brought(field, lap, more):
    assert lap.sync()["status"] == "accepted"
    for task in field.fp.tasks(QUEUE):
        assert (task.state, field.results(task.task_id)) == ("done", ["row", "end"])
    assert lap.box.counts()["accepted"] == 4


def test_a_sync_killed_at_any_step_is_ended_by_the_next():
    places = at_every_point(expired_and_not, all_brought)
    print(f"{len(places)} points")
    assert len(places) >= 25
    assert {"ask submit", "told submit", "ask complete", "told complete", "ask claim", "told claim",
            "before a commit", "after a commit"} == set(places)  # fmt: skip


def test_a_sync_over_http_killed_around_each_exchange_is_ended_by_the_next():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Killer, "point", exchanges_only(Killer.point))
        places = at_every_point(expired_and_not, all_brought, "http")
    assert len(places) == 12 and "told claim" in places


def exchanges_only(point):
    def counted(killer, where):
        if "commit" not in where:
            point(killer, where)

    return counted


def to_be_taken(field):
    field.offer(*"abcdefghijkl")
    return field.laptop(), lambda lap: lap.take(limit=12, lease_seconds=DAY)


def all_taken(field, lap, more):
    """No task is leased to an outbox that does not have it, once it has asked again."""
    more(lap)
    leased = {t.task_id: t.fence for t in field.fp.tasks(QUEUE) if t.state == "leased"}
    assert len(leased) == 12
    for task_id, fence in leased.items():
        assert lap.box.task(task_id).fence == fence


def test_a_take_killed_at_any_step_has_all_it_was_given_after_the_next():
    places = at_every_point(to_be_taken, all_taken)
    assert {"ask claim", "told claim", "before a commit", "after a commit"} == set(places)
    assert len(places) >= 12


def test_a_recording_killed_at_any_step_is_kept_whole_or_not_at_all(tmp_path):
    """By SIGKILL, in a process of its own each time."""
    found = result_of(start(offline_ends.killed_recording, str(tmp_path)))
    print(f"{len(found) - 1} steps")
    assert len(found) >= 15
    for kept, new, results, to_send in found:
        assert (kept, new) in ((0, True), (1, False)) and (results, to_send) == (1, 1)
    assert found[0][:2] == [0, True] and found[-1][:2] == [1, False]


def test_what_was_told_to_be_kept_survives_a_power_cut_at_any_write():
    number, wrong = offline_ends.cuts(offline_ends.recorded_life())
    print(f"{number} cuts")
    assert wrong == [] and number > 300


@pytest.mark.parametrize("fault", [{"early": True}, {"synchronous": 1}])
def test_an_outbox_that_tells_too_early_or_does_not_sync_is_found(fault):
    _, wrong = offline_ends.cuts(offline_ends.recorded_life(**fault))
    assert any("is not there" in problem or "not_found" in problem or "NotFound" in problem
               for problem in wrong), wrong[:3]  # fmt: skip
