"""Deliveries about one task go one after another, whatever threads do."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from helpers.sinks import event
from helpers.working import comes_true

import fencepost.deliveries.admission
from fencepost.deliveries.admission import BACK_SECONDS, Admission, Gate, Line
from fencepost.deliveries.breaker import Breaker


def test_one_subject_goes_by_revision_and_others_do_not_wait():
    line = Line()
    for name, subject, revision in (("a1", "a", 1), ("a3", "a", 3), ("a2", "a", 2), ("b9", "b", 9)):
        line.join(name, subject, revision)
    assert line.ahead("a1") is None and line.ahead("b9") is None
    two, three = line.ahead("a2"), line.ahead("a3")
    assert not two.is_set() and not three.is_set()
    line.leave("a1")
    assert two.is_set() and not three.is_set() and line.ahead("a2") is None
    line.leave("a2")
    assert three.is_set()


def test_who_has_begun_is_not_overtaken_by_a_lower_revision_that_comes_later():
    line = Line()
    line.join("a2", "a", 2)
    line.join("a1", "a", 1)
    assert line.ahead("a2") is None and line.ahead("a1") is not None


def test_who_gives_up_while_it_waits_holds_up_nobody_and_nothing_is_left_behind():
    line = Line()
    for name, revision in (("a1", 1), ("a2", 2), ("a3", 3)):
        line.join(name, "a", revision)
    line.leave("a2")
    line.leave("a2")
    line.leave("never joined")
    three = line.ahead("a3")
    line.leave("a1")
    assert three.is_set()
    line.leave("a3")
    assert (line._waiting, line._first, line._where) == ({}, {}, {})


def test_of_many_threads_on_one_subject_one_is_under_way_at_a_time():
    line, under_way, order, lock = Line(), [], [], threading.Lock()
    names = [f"a{n}" for n in range(40)]
    for revision, name in enumerate(names):
        line.join(name, "a", revision)

    def deliver(name):
        ahead = line.ahead(name)
        if ahead is not None:
            assert ahead.wait(30)
        with lock:
            under_way.append(name)
            assert len(under_way) == 1
        order.append(name)
        with lock:
            under_way.remove(name)
        line.leave(name)

    threads = [threading.Thread(target=deliver, args=(name,)) for name in reversed(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert order == names


def test_what_comes_after_one_that_failed_waits_until_it_has_come_again():
    line = Line(most=4)
    line.join("one:1", "a", 1, 0.0)
    line.join("two:2", "a", 2, 0.0)
    two = line.ahead("two:2")
    line.leave("one:1", 0.0, again=True)
    assert not two.is_set() and line.stands_still("two:2", 59.9)
    line.join("three:3", "a", 3, 1.0)  # claimed meanwhile
    three = line.ahead("three:3")
    line.join("one:4", "a", 1, 2.0)  # its next lease
    assert line.ahead("one:4") is None and not two.is_set() and three is not None
    assert not line.stands_still("two:2", 2.0)
    line.leave("one:4", 3.0)
    assert two.is_set() and not three.is_set()
    line.leave("two:2", 3.0)
    line.leave("three:3", 3.0)
    line.join("four:5", "a", 4, 3.0)
    assert line.ahead("four:5") is None
    line.leave("four:5", 3.0)
    assert (line._waiting, line._first, line._where, line._owed) == ({}, {}, {}, {})


def test_what_comes_before_one_that_failed_does_not_wait_for_it_and_nothing_waits_for_long():
    line = Line(most=4)
    line.join("two:1", "a", 2, 0.0)
    line.leave("two:1", 0.0, again=True)
    line.join("one:2", "a", 1, 1.0)
    assert line.ahead("one:2") is None
    line.leave("one:2", 1.0)
    line.join("three:3", "a", 3, 1.0)
    three = line.ahead("three:3")
    assert line.stands_still("three:3", 59.0) and not three.is_set()
    assert not line.stands_still("three:3", BACK_SECONDS) and three.is_set()


def test_who_waits_for_one_that_comes_again_leaves_half_of_the_slots_to_others():
    line = Line(most=2)
    for name in "abc":
        line.join(f"{name}1:1", name, 1, 0.0)
        line.leave(f"{name}1:1", 0.0, again=True)
        line.join(f"{name}2:2", name, 2, 0.0)
    assert [line.ahead(f"{name}2:2") is None for name in "abc"] == [False, False, True]
    line = Line(most=2)
    for name in "abc":
        line.join(f"{name}1:1", name, 1, 0.0)
        line.join(f"{name}2:2", name, 2, 0.0)
    behind = [line.ahead(f"{name}2:2") for name in "abc"]
    for name in "abc":
        line.leave(f"{name}1:1", 0.0, again=True)
    assert [each.is_set() for each in behind] == [False, False, True]


def test_who_waits_for_one_that_comes_again_takes_no_place_of_it(monkeypatch):
    """Of a destination that is tried with one alone, that one has to be the one that is waited
    for."""
    monkeypatch.setattr(fencepost.deliveries.admission, "GLANCE_SECONDS", 0.01)
    breaker = Breaker(1, lambda: 0.0)
    admission = Admission(breaker, None, lambda: 0, jobs=2)
    first, second = claimed(1), claimed(2, event(revision=2).data)
    second.name = "other:2"
    admission.arrived([first])
    assert admission.begin(first)
    admission.end(first, "on", None, again=True)
    admission.arrived([second])
    begun = []
    thread = threading.Thread(target=lambda: begun.append(admission.begin(second)))
    thread.start()
    comes_true(lambda: breaker.room(0.0) != 0, 30)
    again = claimed(3)
    admission.arrived([again])
    assert admission.begin(again) and not begun
    admission.end(again, "on", None)
    thread.join(30)
    assert begun == [True] and breaker.room(0.0) == 0
    admission.end(second, "on", None)
    assert breaker.room(0.0) == 1


def claimed(fence, data=None):
    """A lease on one obligation, as far as an admission looks at it."""
    grant = SimpleNamespace(payload=data or event().data)
    held = SimpleNamespace(name=f"task:{fence}", settling=False, lost=threading.Event())
    held.lease = SimpleNamespace(grant=grant)
    return held


def test_one_that_came_too_late_to_begin_holds_up_nobody():
    """Its process stood still between the claim and the work, so it is given back at once: what is
    claimed next of the same task does not wait for it, and it takes no slot."""

    def gives_back(held):
        for each in held:
            each.settling = True

    desk = SimpleNamespace(take=gives_back, room=lambda: 1)
    admission = Admission(Breaker(1, lambda: 0.0), None, lambda: 0)
    gate = Gate(desk, admission)
    gate.take([claimed(1)])
    assert gate.room() == 1
    desk.take = lambda held: None
    again = claimed(2)
    gate.take([again])
    assert gate.room() == 0 and admission.begin(again)
    admission.end(again, "on", None)
    admission.end(again, "on", None)
    assert gate.room() == 1


def test_of_an_ordered_stream_nothing_is_claimed_until_what_went_before_is_settled():
    """A dispatcher that began anew claimed the second obligation while it gave the first one back,
    which an earlier life had died on: so the first was overtaken."""
    desk = SimpleNamespace(room=lambda: 1, in_hand=lambda: 1)
    admission = Admission(Breaker(1, lambda: 0.0), None, lambda: 0)
    assert Gate(desk, admission, ordered=True).room() == 0
    assert Gate(desk, admission).room() == 1
    desk.in_hand = lambda: 0
    assert Gate(desk, admission, ordered=True).room() == 1
