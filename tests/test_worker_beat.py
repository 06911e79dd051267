"""Leases that a worker holds: when they are renewed, what ends them, and who is told in time."""

from __future__ import annotations

import pytest
from helpers.lab import QUEUE
from helpers.working import desk, down, lost, slow

from fencepost.commands import Renew
from fencepost.fields import MAX_PROGRESS_BYTES
from fencepost.issues import InvalidRequest
from fencepost.worker.held import pace

SECOND = 1_000_000


def test_a_lease_lives_as_long_as_its_work():
    with desk() as own:
        held = own.hold(lease_seconds=10)
        own.live(300)
        assert not held.lost.is_set()
        assert own.expires(held) > 0


@pytest.mark.parametrize("length", [3, 9, 10, 60, 900])
def test_a_lease_is_renewed_at_a_third_of_its_length(length):
    with desk() as own:
        held = own.hold(lease_seconds=length)
        own.clock.advance(length / 3 - 0.01)
        assert own.turn() == []
        own.clock.advance(0.01)
        assert own.turn() == [held]
        assert own.expires(held) == length * SECOND


@pytest.mark.parametrize("length", range(1, 120))
def test_two_beats_fit_before_the_work_is_told_and_it_is_told_before_the_lease_can_end(length):
    times = pace(length * SECOND)
    told = length * SECOND - times.margin - times.grace
    assert times.beat <= told
    assert length < 3 or told - times.beat >= length * SECOND / 12  # the pause of a second try
    assert times.grace > 0 and times.margin >= min(SECOND, length * SECOND // 3)


@pytest.mark.parametrize("fault", [down, lost])
def test_a_beat_that_fails_is_made_again_and_the_lease_stays(fault):
    with desk() as own:
        held = own.hold(lease_seconds=9)
        own.way.before = [fault, fault]
        own.live(60)
        assert not held.lost.is_set()


def test_a_beat_whose_answer_is_lost_is_made_again_and_the_lease_stays():
    with desk() as own:
        held = own.hold(lease_seconds=9)
        own.way.after = [lost, lost]
        own.live(60)
        assert not held.lost.is_set()


def test_whatever_a_beat_meets_the_next_is_made():
    def broken(_):
        raise ZeroDivisionError

    with desk() as own:
        held = own.hold(lease_seconds=9)
        own.way.before = [broken]
        own.live(60)
        assert not held.lost.is_set()


def test_without_an_answer_the_work_is_told_before_the_lease_can_end():
    with desk() as own:
        held = own.hold(lease_seconds=9)
        own.way.before = [down] * 1_000
        while not held.lost.is_set():
            own.live(0.05, step=0.05)
        assert held.why == "lease_expired" and not held.refused
        assert own.expires(held) >= held.pace.margin + held.pace.grace - SECOND // 10
        assert held.remaining() == 0.0


def test_the_deadline_counts_from_the_sending_and_not_from_the_answer():
    with desk() as own:
        held = own.hold(lease_seconds=30)
        own.clock.advance(10)
        own.clock.jump_wall(15)  # so that nothing else tells how long it holds
        sent = own.clock.steady()
        own.way.after = [slow(8)]
        assert own.turn() == [held]
        assert held.ends == sent + 30 * SECOND
        own.clock.advance(0.1)
        assert held.ends - own.clock.steady() <= own.expires(held)


def test_a_late_answer_takes_nothing_back():
    with desk() as own:
        held = own.hold(lease_seconds=30)
        own.clock.advance(12)
        own.turn()
        ends = held.ends
        held.renewed(own.clock.steady() - 11 * SECOND, 30, held.lease.lease_expires_at)
        assert held.ends == ends


def test_a_worker_that_slept_past_its_lease_is_told_before_it_renews_anything():
    with desk() as own:
        held = own.hold(lease_seconds=9)
        own.clock.advance(3_600)
        assert own.turn() == []
        assert held.why == "lease_expired"
        assert own.way.sent == []


def test_a_wall_clock_that_is_wrong_by_a_year_ends_no_lease():
    with desk() as own:
        held = own.hold(lease_seconds=9)
        steady = own.clock.steady
        own.live(2)
        before = held.tell_at - steady()
        own.clock.jump_wall(-365 * 86_400)
        assert held.tell_at - steady() == before
        own.live(60)
        assert not held.lost.is_set()


def test_a_refusal_ends_the_lease_at_once_and_says_why():
    with desk() as own:
        held = own.hold(lease_seconds=9)
        own.stand.fp.cancel(held.lease.task_id)
        own.live(4)
        assert (held.lost.is_set(), held.refused, held.why) == (True, True, "task_cancelled")


def test_a_revoked_scope_ends_the_lease():
    with desk() as own:
        held = own.hold(lease_seconds=9)
        own.stand.fp.revoke()
        own.live(4)
        assert (held.refused, held.why) == (True, "scope_revoked")


def test_the_end_of_the_hold_is_no_lost_lease_and_is_told_in_time():
    with desk() as own:
        own.stand.fp.queue_set(QUEUE, lease_seconds=10, max_hold_seconds=19)
        held = own.hold(lease_seconds=10)
        own.way.after = [None, None, lost]  # the renewal that reaches the limit is never heard of
        own.live(13)
        assert not held.lost.is_set() and not held.refused
        own.live(2)
        assert (held.lost.is_set(), held.refused) == (True, False)
        assert own.expires(held) >= held.pace.margin


def test_a_queue_whose_leases_were_made_shorter_is_asked_for_less():
    with desk() as own:
        held = own.hold(lease_seconds=60)
        own.stand.fp.queue_set(QUEUE, max_lease_seconds=20, lease_seconds=20)
        own.live(300)
        assert not held.lost.is_set()
        assert 0 < held.wish <= 20


def test_of_a_lease_that_is_being_settled_no_refusal_is_told():
    with desk() as own:
        held = own.hold(lease_seconds=9)
        held.lease.complete("done")
        held.settling = True
        own.live(20)
        assert not held.lost.is_set()


def test_all_leases_that_are_due_are_renewed_in_one_batch():
    with desk() as own:
        leases = [own.hold(lease_seconds=9) for _ in range(50)]
        own.clock.advance(3)
        assert own.turn() == leases
        assert [len(batch) for batch in own.way.sent] == [50]


def test_a_mark_is_told_within_a_second_and_the_last_one_counts():
    with desk() as own:
        held = own.hold(lease_seconds=60)
        own.beat.mark(held, {"page": 1})
        own.beat.mark(held, {"page": 2})
        own.live(1.1)
        assert own.stand.fp.task(held.lease.task_id).progress == {"page": 2}
        for page in range(20):
            own.beat.mark(held, {"page": page})
            own.live(0.1)
        assert sum(len(batch) for batch in own.way.sent) <= 4
        own.live(1)
        assert own.stand.fp.task(held.lease.task_id).progress == {"page": 19}
        assert held.pending is None


def test_a_mark_whose_renewal_fails_is_told_with_the_next():
    with desk() as own:
        held = own.hold(lease_seconds=60)
        own.way.before = [down]
        own.beat.mark(held, [1])
        own.live(6)
        assert own.stand.fp.task(held.lease.task_id).progress == [1]


@pytest.mark.parametrize("later", [{"pages": {1}}, {"pages": "x" * MAX_PROGRESS_BYTES}])
def test_a_mark_is_told_as_it_was_when_it_was_made_and_spoils_no_other_lease(later):
    """Whoever made it may go on with the same object, while the renewal of all has not gone out."""
    with desk() as own:
        leases = [own.hold(lease_seconds=9) for _ in range(3)]
        mark = {"pages": [1]}
        own.beat.mark(leases[0], mark)
        mark.update(later)
        own.live(60)
        assert own.stand.fp.task(leases[0].lease.task_id).progress == {"pages": [1]}
        assert not any(held.lost.is_set() for held in leases)


@pytest.mark.parametrize("fails", ["renewed", "lost"])
def test_work_that_cannot_be_told_keeps_it_from_no_other(fails):
    def broken(held):
        if held.lost.is_set() == (fails == "lost"):
            raise LookupError("its pipe has gone")

    with desk() as own:
        leases = [own.hold(lease_seconds=9) for _ in range(3)]
        for held in leases:
            held.listen(broken)
        if fails == "renewed":
            own.live(60)
            assert not any(held.lost.is_set() for held in leases)
        else:
            own.way.before = [down] * 1_000
            own.live(9)
            assert all(held.why == "lease_expired" for held in leases)


def test_the_thread_that_keeps_leases_goes_on_after_an_error(monkeypatch):
    with desk() as own:
        asked = []

        def judge():
            asked.append(1)
            if len(asked) == 1:
                raise ZeroDivisionError
            own.beat.stop()

        monkeypatch.setattr(own.beat, "judge", judge)
        own.beat._run()
        assert len(asked) == 2


def test_a_mark_that_cannot_be_kept_is_refused_where_it_is_made():
    with desk() as own:
        held = own.hold(lease_seconds=60)
        with pytest.raises(InvalidRequest):
            own.beat.mark(held, "x" * MAX_PROGRESS_BYTES)
        assert held.pending is None


def test_a_lost_lease_is_renewed_no_more():
    with desk() as own:
        held = own.hold(lease_seconds=9)
        held.lose("lease_expired")
        own.live(9)
        assert not [c for batch in own.way.sent for c in batch if isinstance(c, Renew)]


def test_stopping_keeps_the_lease_while_the_work_ends():
    with desk() as own:
        held = own.hold(lease_seconds=9)
        held.lose("stopping")
        own.live(30)
        assert not held.over and own.expires(held) > 0
