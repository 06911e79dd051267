"""Deliveries about one task go one after another, whatever threads do."""

from __future__ import annotations

import threading

from fencepost.deliveries.admission import Line


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
