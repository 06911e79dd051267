"""Time: asked in one place, never backwards in a store, and exact in text."""

from __future__ import annotations

import logging
import random
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from fencepost.clock import (
    MAX_INSTANT,
    MIN_INSTANT,
    REMEMBERED_JUMPS,
    ClockJump,
    FakeClock,
    StoreTime,
    SystemClock,
    from_datetime,
    from_rfc3339,
    to_rfc3339,
)

SECOND = 1_000_000
START = from_rfc3339("2026-01-31T12:00:00Z")


@pytest.fixture
def clock():
    return FakeClock(START)


# --- clocks ---------------------------------------------------------------------------------


def test_the_system_clock_counts_microseconds():
    clock = SystemClock()
    before, wall, after = time.time_ns() // 1_000, clock.wall(), time.time_ns() // 1_000
    assert before <= wall <= after
    first = clock.steady()
    began = time.monotonic_ns()
    time.sleep(0.01)
    passed = (time.monotonic_ns() - began) // 1_000
    assert clock.steady() - first >= passed - 20_000  # 20 ms: Windows counts in ticks


def test_a_fake_clock_moves_only_when_told(clock):
    clock.advance(1.5)
    assert (clock.wall() - START, clock.steady()) == (1_500_000, 1_500_000)
    clock.jump_wall(-0.5)
    assert (clock.wall() - START, clock.steady()) == (1_000_000, 1_500_000)
    with pytest.raises(ValueError, match="jump_wall"):
        clock.advance(-1)


# --- the store's time -------------------------------------------------------------------------


def test_time_is_the_wall_clocks_while_that_goes_forward(clock):
    store = StoreTime(clock)
    assert store.now(0) == START
    clock.advance(2)
    assert store.now(START) == START + 2 * SECOND
    clock.jump_wall(3600)
    assert store.now(START) == START + 3602 * SECOND


def test_time_goes_on_from_the_mark_by_the_steady_clock_when_the_wall_jumps_back(clock):
    store = StoreTime(clock)
    mark = store.now(0)
    clock.jump_wall(-3600)
    assert store.now(mark) == mark
    clock.advance(0.25)
    assert store.now(mark) == mark + 250_000
    clock.advance(10)
    assert store.now(mark) == mark + 10_250_000


def test_time_follows_the_wall_again_once_that_has_caught_up(clock):
    store = StoreTime(clock)
    mark = store.now(0)
    clock.jump_wall(-10)
    clock.advance(1)
    assert store.now(mark) == mark + 1 * SECOND
    clock.jump_wall(12)
    assert store.now(mark) == clock.wall() == mark + 3 * SECOND


def test_a_process_that_starts_behind_the_mark_goes_on_from_it(clock):
    store = StoreTime(clock)
    mark = START + 100 * SECOND
    assert store.now(mark) == mark
    clock.advance(5)
    assert store.now(mark) == mark + 5 * SECOND


def test_an_answer_that_was_not_committed_is_not_taken_back(clock):
    store = StoreTime(clock)
    clock.advance(1)
    seen = store.now(START)
    clock.jump_wall(-0.5)
    assert store.now(START) == seen


def test_two_processes_with_one_mark_go_on_and_no_faster_than_the_steady_clock(clock):
    one, other = StoreTime(clock), StoreTime(clock)
    mark = one.now(0)
    clock.jump_wall(-3600)
    clock.advance(1)
    mark = one.now(mark)
    assert mark == START + 1 * SECOND
    assert other.now(mark) == mark  # it has seen nothing of the second that passed before
    for seconds in range(2, 100):
        clock.advance(1)
        process = other if seconds % 3 else one
        answer = process.now(mark)
        assert answer == START + seconds * SECOND
        mark = answer


def test_a_process_that_lags_is_drawn_on_by_the_marks_of_another(clock):
    early = StoreTime(clock)
    mark = early.now(START + 50 * SECOND)
    clock.advance(7)
    late = StoreTime(clock)
    assert late.now(mark) == START + 50 * SECOND
    mark = early.now(mark)
    assert mark == START + 57 * SECOND
    assert late.now(mark) == mark
    clock.advance(1)
    assert late.now(mark) == early.now(mark) == START + 58 * SECOND


@pytest.mark.parametrize("seed", range(20))
def test_no_sequence_of_jumps_makes_time_go_back(seed):
    dice = random.Random(seed)
    clock = FakeClock(START)
    processes = [StoreTime(clock) for _ in range(3)]
    own = [0, 0, 0]
    mark = 0
    for _ in range(2_000):
        choice = dice.random()
        if choice < 0.5:
            clock.advance(dice.choice([0, 0.000001, 0.3, 20]))
        elif choice < 0.7:
            clock.jump_wall(dice.choice([-1, 1]) * dice.choice([0.000001, 0.9, 1.1, 6, 86_400]))
        elif choice < 0.72:
            number = dice.randrange(3)  # one process ends, another takes its place
            processes[number], own[number] = StoreTime(clock), 0
        number = dice.randrange(3)
        answer = processes[number].now(mark)
        assert answer >= mark
        assert answer >= own[number]
        own[number] = answer
        if dice.random() < 0.6:  # else nothing was committed
            mark = answer


def test_reset_lets_time_go_back_to_a_lowered_mark(clock):
    store = StoreTime(clock)
    clock.jump_wall(86_400)
    store.now(0)
    clock.jump_wall(-86_400)
    store.reset()
    assert store.now(0) == START
    assert store.jumps == StoreTime(clock).jumps  # nothing to report of a fresh start


# --- jumps are reported -----------------------------------------------------------------------


def test_a_jump_forward_is_reported_once(clock, caplog):
    store = StoreTime(clock)
    store.now(0)
    clock.advance(60)
    clock.jump_wall(5.5)
    at = store.now(0)
    clock.advance(60)
    store.now(at)
    assert list(store.jumps) == [ClockJump(5.5, at)]
    assert [record.code for record in caplog.records] == ["clock_jump"]
    assert caplog.records[0].levelno == logging.WARNING
    assert caplog.records[0].name == "fencepost.clock"
    assert "clock_jump: the wall clock has jumped ahead" in caplog.text
    assert "(+5.500 s)" in caplog.text


def test_a_jump_back_is_reported_once_and_again_when_it_gets_worse(clock, caplog):
    store = StoreTime(clock)
    mark = store.now(0)
    clock.jump_wall(-1.5)
    for _ in range(5):
        store.now(mark)
        clock.advance(1)
    assert list(store.jumps) == [ClockJump(-1.5, START)]
    clock.jump_wall(-100)
    store.now(mark)
    store.now(mark)
    assert [jump.seconds for jump in store.jumps] == [-1.5, -101.5]
    clock.jump_wall(200)
    store.now(mark)
    clock.jump_wall(-50)
    store.now(mark)
    assert [jump.seconds for jump in store.jumps] == [-1.5, -101.5, 200.0, -50.0]
    assert [record.code for record in caplog.records] == ["clock_jump"] * 4


def test_a_process_that_starts_behind_the_mark_reports_it(clock):
    store = StoreTime(clock)
    store.now(START + 3 * SECOND)
    assert list(store.jumps) == [ClockJump(-3.0, START + 3 * SECOND)]


def test_to_be_behind_is_reported_anew_after_the_wall_had_caught_up(clock):
    store = StoreTime(clock)
    store.now(START + 3 * SECOND)
    clock.jump_wall(4)
    assert store.now(0) == START + 4 * SECOND
    store.now(START + 6 * SECOND)
    assert [jump.seconds for jump in store.jumps] == [-3.0, -2.0]


def test_small_steps_and_long_waits_are_no_jumps(clock, caplog):
    store = StoreTime(clock)
    mark = store.now(0)
    for step in (5, -1, 0.5, -0.5):
        clock.jump_wall(step)
        mark = store.now(mark)
        clock.advance(86_400)
        mark = store.now(mark)
    assert list(store.jumps) == []
    assert caplog.records == []


def test_only_the_latest_jumps_are_remembered(clock):
    store = StoreTime(clock)
    store.now(0)
    for seconds in range(100):
        clock.jump_wall(10 + seconds)
        store.now(0)
    assert [jump.seconds for jump in store.jumps] == [10.0 + n for n in range(36, 100)]
    assert len(store.jumps) == REMEMBERED_JUMPS


# --- text -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (951_782_400 * SECOND, "2000-02-29T00:00:00.000000Z"),
        (MIN_INSTANT, "0001-01-01T00:00:00.000000Z"),
        (MAX_INSTANT, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_an_instant_is_written_with_six_digits_and_z(us, text):
    assert to_rfc3339(us) == text
    assert from_rfc3339(text) == us


@pytest.mark.parametrize("us", [MIN_INSTANT - 1, MAX_INSTANT + 1, 10**30, -(10**30)])
def test_an_instant_outside_four_digit_years_is_not_written(us):
    with pytest.raises(ValueError, match="outside the years 0001 to 9999"):
        to_rfc3339(us)


def test_whole_and_broken_seconds_order_rightly_as_numbers_and_as_text():
    texts = ["12:00:00Z", "12:00:00.000001Z", "12:00:00.5Z", "12:00:00.500001Z", "12:00:01.000Z"]
    instants = [from_rfc3339("2026-01-31T" + text) for text in texts]
    assert [us - instants[0] for us in instants] == [0, 1, 500_000, 500_001, 1_000_000]
    written = [to_rfc3339(us) for us in instants]
    assert written == sorted(written)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00.0Z",
        "2026-01-31T12:00:00.000000000Z",
        "2026-01-31T12:00:00+00:00",
        "2026-01-31T12:00:00-00:00",
        "2026-01-31T17:30:00+05:30",
        "2026-01-31T01:00:00-11:00",
        "2026-02-01T11:59:00+23:59",
        "2026-01-30T12:01:00-23:59",
    ],
)
def test_the_same_instant_is_read_whatever_its_offset(text):
    assert from_rfc3339(text) == START


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-01-31T12:00:00", "time zone"),
        ("2026-01-31", "not a time"),
        ("", "not a time"),
        ("2026-01-31 12:00:00Z", "not a time"),
        ("2026-01-31t12:00:00z", "not a time"),
        ("2026-01-31T12:00Z", "not a time"),
        ("2026-01-31T12:00:00.Z", "not a time"),
        ("2026-01-31T12:00:00,5Z", "not a time"),
        ("2026-01-31T12:00:00.0000000000Z", "not a time"),
        ("2026-01-31T12:00:00+0530", "not a time"),
        ("2026-01-31T12:00:00+05", "not a time"),
        ("2026-01-31T12:00:00Z\n", "not a time"),
        (" 2026-01-31T12:00:00Z", "not a time"),
        ("12026-01-31T12:00:00Z", "not a time"),
        ("\u0662026-01-31T12:00:00Z", "not a time"),
        ("2026-01-31T12:00:00.1234567Z", "finer than a microsecond"),
        ("2026-01-31T12:00:00.000000001Z", "finer than a microsecond"),
        ("2026-02-29T12:00:00Z", "no date"),
        ("2026-13-01T12:00:00Z", "no date"),
        ("0000-01-01T00:00:00Z", "no date"),
        ("2026-01-31T24:00:00Z", "no time of day"),
        ("2026-01-31T12:60:00Z", "no time of day"),
        ("2026-01-31T12:00:61Z", "no time of day"),
        ("2016-12-31T23:59:60Z", "leap second"),
        ("2026-01-31T12:00:00+24:00", "no possible offset"),
        ("2026-01-31T12:00:00-01:60", "no possible offset"),
        ("0001-01-01T00:00:00+00:01", "outside the years"),
        ("9999-12-31T23:59:59-00:01", "outside the years"),
    ],
)
def test_what_is_not_an_exact_instant_is_refused_in_words(text, why):
    with pytest.raises(ValueError, match=why):
        from_rfc3339(text)


def test_a_long_text_is_not_repeated_in_full():
    with pytest.raises(ValueError, match="not a time") as caught:
        from_rfc3339("9" * 10_000)
    assert len(str(caught.value)) < 200


def test_random_instants_come_back_from_text_and_agree_with_datetime():
    dice = random.Random(7)
    for _ in range(2_000):
        us = dice.randint(MIN_INSTANT, MAX_INSTANT)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
        assert to_rfc3339(us) == moment.isoformat(timespec="microseconds")[:-6] + "Z"
        assert from_rfc3339(to_rfc3339(us)) == us
        assert from_datetime(moment) == us


@pytest.mark.parametrize("minutes", [330, -660, 0, 1439, -1439])
def test_an_aware_datetime_is_read_whatever_its_offset(minutes):
    zone = timezone(timedelta(minutes=minutes))
    moment = datetime(2026, 1, 31, 12, 0, 0, 500_001, tzinfo=UTC).astimezone(zone)
    assert from_datetime(moment) == START + 500_001
    assert from_rfc3339(moment.isoformat()) == START + 500_001


def test_a_naive_datetime_is_refused():
    with pytest.raises(ValueError, match="has no time zone"):
        from_datetime(datetime(2026, 1, 31, 12))  # noqa: DTZ001 - that is the point


def test_a_datetime_that_is_out_of_range_in_utc_is_refused():
    east = timezone(timedelta(hours=5, minutes=30))
    with pytest.raises(ValueError, match="outside the years"):
        from_datetime(datetime(1, 1, 1, tzinfo=east))
