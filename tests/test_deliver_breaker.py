"""When a destination is sent to: the time is an argument here, and a day takes no time."""

from __future__ import annotations

import pytest

from fencepost.deliveries.breaker import LONGEST_PAUSE, SILENT, Breaker, Rate


def entered(breaker, now, most=100):
    """Tickets for all that may begin now."""
    found = []
    while len(found) < most and (ticket := breaker.enter(now)) is not None:
        found.append(ticket)
    return found


def warm(breaker, now=0.0):
    """Let as many be under way as may ever be."""
    for _ in range(12):
        for ticket in entered(breaker, now):
            breaker.leave(ticket, "on", now)


def test_it_begins_with_one_and_twice_as_many_go_each_time():
    breaker = Breaker(8, lambda: 0.0)
    sizes = []
    for _ in range(5):
        tickets = entered(breaker, 0.0)
        sizes.append(len(tickets))
        for ticket in tickets:
            breaker.leave(ticket, "on", 0.0)
    assert sizes == [1, 2, 4, 8, 8]


def test_one_that_cannot_be_reached_closes_the_door_and_the_others_that_fail_with_it_say_no_more():
    breaker = Breaker(8, lambda: 0.0)
    warm(breaker)
    tickets = entered(breaker, 0.0)
    assert len(tickets) == 8
    for ticket in tickets:
        breaker.leave(ticket, "hold", 0.0)
    assert breaker.open and breaker.room(0.24) == 0 and breaker.room(0.25) == 1


def test_a_days_outage_costs_a_try_a_minute_and_ends_with_one_probe():
    breaker = Breaker(64, lambda: 0.5)
    warm(breaker)
    for ticket in entered(breaker, 0.0):
        breaker.leave(ticket, "hold", 0.0)
    now, tries = 0.0, 0
    while now < 86_400:
        now += 1.0
        for ticket in entered(breaker, now):
            tries += 1
            breaker.leave(ticket, "hold", now)
    assert 86_400 / LONGEST_PAUSE <= tries <= 2.2 * 86_400 / LONGEST_PAUSE
    now += LONGEST_PAUSE
    sizes = []
    for _ in range(8):
        tickets = entered(breaker, now)
        sizes.append(len(tickets))
        for ticket in tickets:
            breaker.leave(ticket, "on", now)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64]


def test_while_a_probe_is_under_way_nothing_else_is():
    breaker = Breaker(8, lambda: 0.0)
    breaker.leave(breaker.enter(0.0), "hold", 0.0)
    probe = breaker.enter(10.0)
    assert probe is not None and breaker.enter(99.0) is None and breaker.room(99.0) == 0
    breaker.leave(probe, "none", 99.0)  # it was not sent after all
    assert breaker.open and breaker.room(99.0) == 1


def test_retry_after_is_kept_to_and_has_an_end():
    breaker = Breaker(8, lambda: 0.0, 600.0)
    breaker.leave(breaker.enter(0.0), "hold", 0.0, 30.0)
    assert breaker.room(29.9) == 0 and breaker.room(30.0) == 1
    breaker.leave(breaker.enter(30.0), "hold", 30.0, 1e9)
    assert breaker.room(629.9) == 0 and breaker.room(630.0) == 1


def test_a_late_word_to_wait_counts_although_the_door_is_closed_already():
    breaker = Breaker(8, lambda: 0.0)
    warm(breaker)
    first, second, *_ = entered(breaker, 0.0)
    breaker.leave(first, "hold", 0.0)
    breaker.leave(second, "hold", 0.0, 30.0)
    assert breaker.room(29.9) == 0 and breaker.room(30.0) == 1


def test_what_began_before_it_closed_does_not_open_it():
    breaker = Breaker(8, lambda: 0.0)
    warm(breaker)
    first, second, *_ = entered(breaker, 0.0)
    breaker.leave(first, "hold", 0.0)
    breaker.leave(second, "on", 0.0)
    assert breaker.open


def test_one_silence_is_a_chance_and_many_in_a_row_are_none():
    breaker = Breaker(1, lambda: 0.0)
    for _ in range(SILENT - 1):
        breaker.leave(breaker.enter(0.0), "keep", 0.0)
    breaker.leave(breaker.enter(0.0), "on", 0.0)
    for _ in range(SILENT):
        assert not breaker.open
        breaker.leave(breaker.enter(0.0), "keep", 0.0)
    assert breaker.open
    breaker.leave(breaker.enter(1.0), "keep", 1.0)
    assert breaker.open and breaker.room(1.0) == 0


@pytest.mark.parametrize("per_second", [1, 7, 1000])
def test_a_rate_spaces_what_is_sent_evenly(per_second):
    rate = Rate(float(per_second))
    waits = [rate.take(5.0) for _ in range(10)]
    assert waits == pytest.approx([n / per_second for n in range(10)])
    assert rate.take(100.0) == 0.0
