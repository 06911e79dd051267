"""What a receiver drops and when; and that nothing dropped is done again."""

from __future__ import annotations

import pytest
from helpers.receiving import DAY, STREAM, Sender, incarnation, place_of, task

from fencepost.receiver import clock, forgetting


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    with place_of(request.param, tmp_path, keep_receipts_seconds=90 * DAY) as made:
        yield made


@pytest.fixture
def sender(place):
    made = Sender()
    assert place.send(made.hello()).code == "ok"
    return made


def sent_now(place, sender, number, **members):
    """An event that came about just now."""
    return sender.event(number, time=clock.text(place.now), **members)


def receipts(place, sender):
    said = place.send(sender.hello(ask_only=True))
    return [one["position"] for one in said.value["accepted"]], said.value["forgotten"]


def test_a_receipt_goes_when_it_is_old_and_the_writer_knows_of_it_and_not_before(place, sender):
    for number in range(3):
        place.send(sent_now(place, sender, number))
        place.pass_time(DAY)
    place.pass_time(87 * DAY)
    place.receiver.tidy()  # the first is just 90 days old
    assert receipts(place, sender) == ([1, 2, 3], 0)
    place.send(sender.hello(after=2))  # it knows of two of them
    place.receiver.tidy()
    assert receipts(place, sender) == ([1, 2, 3], 0)
    place.pass_time(1)
    place.receiver.tidy()
    assert receipts(place, sender) == ([2, 3], 1)
    place.pass_time(500 * DAY)
    place.receiver.tidy()  # the third has not been heard of, however old it is
    assert receipts(place, sender) == ([3], 2)
    place.send(sender.hello(after=3))
    place.receiver.tidy()
    assert receipts(place, sender) == ([], 3)
    assert place.count("fencepost_receiver_subject") == 0


def test_what_was_dropped_is_not_done_again_and_what_is_new_is(place, sender):
    old = sent_now(place, sender, 1)
    waiting = sent_now(place, sender, 2)  # came about then, and is delivered after it all
    place.send(old)
    place.pass_time(100 * DAY)
    place.send(sender.hello(after=1))
    place.receiver.tidy()
    for sent in (old, waiting):
        refused = place.send(sent)
        assert refused.code == "forgotten"
        assert refused.value["forgotten"] == 1
    assert place.send(sent_now(place, sender, 3)).code == "accepted"
    assert place.effects() == [f"{task(1)}:1", f"{task(3)}:1"]


def test_a_task_of_which_something_is_left_is_judged_by_that(place, sender):
    """Its first result was dropped, its second is there: the third is later, the first is stale."""
    first = sent_now(place, sender, 1, revision=1)
    place.send(first)
    third = sent_now(place, sender, 1, revision=3, fence=9)
    place.pass_time(100 * DAY)
    place.send(sent_now(place, sender, 1, revision=2))
    place.send(sender.hello(after=2))
    place.receiver.tidy()
    assert receipts(place, sender) == ([2], 1)
    assert place.send(first).code == "stale_result"
    assert place.send(third).code == "accepted"


def test_a_clock_that_was_set_back_drops_nothing_too_early(place, sender):
    """A receipt that seems old stands behind one that is young: it waits for that."""
    place.send(sent_now(place, sender, 1))
    place.pass_time(-80 * DAY)
    place.send(sent_now(place, sender, 2))
    place.pass_time(80 * DAY)
    place.pass_time(20 * DAY)
    place.send(sender.hello(after=2))
    place.receiver.tidy()
    assert receipts(place, sender) == ([1, 2], 0)


def test_a_writer_restored_from_long_ago_is_told_that_not_all_can_be_told(place, sender):
    place.send(sent_now(place, sender, 1))
    place.pass_time(100 * DAY)
    place.send(sender.hello(after=1))
    place.receiver.tidy()
    said = place.send(sender.copied(2, incarnation(2)).hello(after=0))
    assert (said.value["accepted"], said.value["forgotten"], said.value["position"]) == ([], 1, 1)


def test_the_data_of_events_are_kept_as_long_as_is_asked_and_the_receipts_longer(place, sender):
    short = place.open(keep_events_seconds=7 * DAY)
    try:
        place.send(sent_now(place, sender, 1, value="a"), short)
        place.pass_time(5 * DAY)
        place.send(sent_now(place, sender, 2, value="b"), short)
        place.pass_time(2 * DAY + 1)
        short.tidy()
        said = place.send(sender.hello())
        assert [one["event"] and one["event"]["result"] for one in said.value["accepted"]] == [
            None, "b",
        ]  # fmt: skip
        place.pass_time(7 * DAY)
        short.tidy()
        said = place.send(sender.hello())
        assert [one["event"] for one in said.value["accepted"]] == [None, None]
        assert [one["operation"] for one in said.value["accepted"]] == [
            f"{task(1)}:1", f"{task(2)}:1",
        ]  # fmt: skip
    finally:
        short.close()


def test_events_that_are_not_to_be_kept_are_never_written(place, sender):
    none = place.open(keep_events_seconds=0)
    try:
        first = place.send(sent_now(place, sender, 1), none)
        assert place.send(sent_now(place, sender, 1), none).body == first.body
        with place.eyes() as eyes:
            found = eyes.execute("select event from fencepost_receiver_receipt").fetchall()
        assert found == [(None,)]
    finally:
        none.close()


def test_what_is_dropped_of_one_stream_leaves_the_others(place, sender):
    """One writer has heard of everything, the other of nothing."""
    other = Sender(stream="22222222-2222-7222-8222-222222222222/default/out")
    place.send(other.hello())
    for writer in (sender, other):
        place.send(sent_now(place, writer, 1, value="kept"))
    place.send(sent_now(place, other, 2))
    place.pass_time(100 * DAY)
    place.send(sender.hello(after=1))
    short = place.open(keep_receipts_seconds=90 * DAY, keep_events_seconds=1)
    try:
        place.receiver.tidy()
        assert receipts(place, sender) == ([], 1)
        assert receipts(place, other) == ([1, 2], 0)
        assert place.count("fencepost_receiver_subject") == 2
        assert place.send(other.hello(ask_only=True)).value["accepted"][0]["event"] is not None
        place.send(sent_now(place, sender, 2))
        short.tidy()
        assert place.send(other.hello(ask_only=True)).value["accepted"][0]["event"] is None
        assert place.send(sender.hello()).value["accepted"][0]["event"] is not None
    finally:
        short.close()


def test_a_long_tidying_goes_in_steps_and_to_the_end(place, sender, monkeypatch):
    monkeypatch.setattr(forgetting, "AT_ONCE", 3)
    for number in range(8):
        place.send(sent_now(place, sender, number))
    place.send(sender.hello(after=8))
    place.pass_time(100 * DAY)
    steps = []
    place.receiver.tidy(
        lambda job: steps.append(job.stream) or place.receiver.desk.submit(job).result()
    )
    assert steps == ["", STREAM, STREAM, STREAM]
    assert receipts(place, sender) == ([], 8)
