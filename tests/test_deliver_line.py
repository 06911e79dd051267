"""Deliveries about one task go one after another, whatever threads do."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from helpers.sinks import event

from fencepost.deliveries.admission import Admission, Gate, Line
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
