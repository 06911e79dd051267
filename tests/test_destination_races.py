"""Destinations on PostgreSQL, where transactions run side by side."""

from __future__ import annotations

import pytest
from helpers.lab import QUEUE
from helpers.pg_side import outcomes, two_sides
from helpers.wires import SECRET

from fencepost import commands as c
from fencepost.commands import Request
from fencepost.issues import QueuePaused
from fencepost.machine.needs import Needs

OUT = "out"
ROW = "select 1 from fencepost_destination for no key update"


@pytest.fixture
def two():
    with two_sides() as made:
        made.fp.queue_set(QUEUE, destinations=[OUT])
        made.fp.destination_set(OUT, "https://h.example", class_="fenced")
        yield made


def advance(sequence, key, of=OUT):
    return Request.of(c.DestinationAdvance(of, sequence - 1, sequence, f"{sequence:064x}"), key)


def test_of_two_that_move_a_destination_from_one_position_one_has_to_look_again(two):
    with two.holding(ROW):
        first = two.go(two.fp.execute, [advance(1, "a")])
        two.waiting(1)
        second = two.go(two.other.execute, [advance(1, "b")])
        two.waiting(2)
    ((one,), (other,)) = outcomes([first, second])
    assert (one.status, other.issues) == ("accepted", ("stale_sequence",))
    assert dict(other.facts) == {"sequence": 1}
    assert two.fp.destination(OUT).sequence == 1


def test_a_copy_of_a_move_beside_it_hears_the_same_receipt(two):
    with two.holding(ROW):
        asked = [two.go(fp.execute, [advance(1, "a")]) for fp in (two.fp, two.other)]
        two.waiting(2)
    ((one,), (copy,)) = outcomes(asked)
    assert one.receipt == copy.receipt is not None
    assert sorted([one.replayed, copy.replayed]) == [False, True]


def test_numbers_are_drawn_once_the_destination_is_held(two):
    """Else entries about it could stand in the journal in another order than they came about."""
    with two.holding(ROW):
        moving = two.go(two.fp.execute, [advance(1, "a")])
        two.waiting(1)
        between = two.other.enqueue("beside", 1).number
    ((moved,),) = outcomes([moving])
    assert moved.receipt.number > between


def test_moves_of_different_destinations_do_not_wait_for_each_other(two):
    two.fp.destination_set("other", "https://h.example", class_="fenced")
    held = (
        "select 1 from fencepost_destination where queue_id = "
        "(select id from fencepost_queue where queue = 'out') for no key update"
    )
    with two.holding(held):
        waits = two.go(two.fp.execute, [advance(1, "a")])
        two.waiting(1)
        ((passed,),) = outcomes([two.go(two.other.execute, [advance(1, "b", "other")])])
        assert passed.accepted and not waits.done()
        owed = two.go(two.other.enqueue, QUEUE, 1)  # nor does anybody else
        assert owed.result(30).number
    assert outcomes([waits])[0][0].accepted


@pytest.mark.parametrize("change", [
    lambda fp: fp.destination_set(OUT, stopped="no stamps"),
    lambda fp: fp.destination_secret(OUT, SECRET),
], ids=["stop", "secret"])  # fmt: skip
def test_who_changes_a_destination_is_alone(two, change):
    """What was begun before it ends first; what comes after it sees it."""
    with two.holding(ROW):
        early = two.go(two.fp.execute, [advance(1, "a")])
        two.waiting(1)
        changing = two.go(change, two.other)
        two.waiting(2)
        assert not changing.done()
    assert outcomes([early])[0][0].accepted
    changing.result(30)
    found = two.fp.destination(OUT)
    assert found.sequence == 1 and (found.stopped == "no stamps") != bool(found.secrets)


def test_a_stop_waits_for_the_claims_that_have_not_seen_it(two):
    two.lease().complete(1)
    dispatcher = two.fp.as_caller("d", "dispatcher")
    with two.holding_key("early", "d"):
        early = two.go(dispatcher.claim, OUT, worker_id="d", idempotency_key="early")
        two.waiting(1)
        stopping = two.go(two.other.destination_set, OUT, stopped="no stamps")
        two.waiting(2)
        assert not stopping.done()
    assert len(early.result(30)) == 1
    stopping.result(30)


def test_after_an_acknowledged_stop_no_claim_is_accepted(two):
    two.lease().complete(1)
    two.fp.destination_set(OUT, stopped="no stamps")
    with pytest.raises(QueuePaused, match="out is stopped: no stamps"):
        two.other.as_caller("d", "dispatcher").claim(OUT, worker_id="d")


def test_many_who_move_one_destination_leave_a_journal_that_is_sound(two):
    """Each looks again until it has moved ten times; the end of `two_sides` verifies."""

    def move(fp, name):
        done = 0
        while done < 10:
            sequence = fp.destination(OUT).sequence + 1
            (outcome,) = fp.execute([advance(sequence, f"{name}-{done}-{sequence}")])
            done += outcome.accepted

    outcomes([two.go(move, fp, n) for n, fp in enumerate([two.fp, two.other, two.open()])])
    assert two.fp.destination(OUT).sequence == 30


def test_that_numbers_are_drawn_too_early_is_seen(two, monkeypatch):
    """The planted fault: what names a destination alone is asked for as if nothing were held."""
    monkeypatch.setattr(Needs, "names_tasks", lambda self: bool(self.tasks or self.keys))
    with pytest.raises(AssertionError):
        test_numbers_are_drawn_once_the_destination_is_held(two)
