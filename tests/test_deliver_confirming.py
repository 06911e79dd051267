"""A receiver is told now and then that its effects are known, so that it may drop its receipts."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from helpers.delivering import depot
from helpers.faults import asked_for, edit
from helpers.receivers import SECRET, Kit, Web, http
from helpers.working import comes_true

from fencepost.deliveries import confirming, stream
from fencepost.receiver.receiver import Receiver
from fencepost.receiver.sqlite import SqliteStore

PATIENCE = 30
HOUR = 3_600


@pytest.fixture
def place(tmp_path):
    with depot(tmp_path) as made:
        yield made


@pytest.fixture
def kit(tmp_path, place):
    made = Kit(tmp_path / "receiver.db", now=place.fp.wall)
    yield made
    made.close()


def hellos(web):
    """What was said of what is known, at each hello."""
    return [json.loads(each.body)["after"] for each in web.asked
            if "hello" in each.headers["content-type"]]  # fmt: skip


def receipts_after_tidying(kit):
    """How many are left once all that may be dropped has become old."""
    ahead = kit.receiver.now() + 2 * HOUR * 1_000_000
    made = Receiver(
        SqliteStore(str(kit.path)), kit._effect, [SECRET], keep_receipts_seconds=HOUR,
        now=lambda: ahead,
    )  # fmt: skip
    made.tidy()
    made.close()
    with closing(sqlite3.connect(kit.path)) as own:
        return own.execute("select count(*) from fencepost_receiver_receipt").fetchone()[0]


def delivered(place, *values):
    """These results, and that the store knows how far the receiver is."""
    place.results(*values)
    wanted = len(place.obligations())
    comes_true(
        lambda: place.fp.destination("out").heard >= wanted
        and all(each.state == "done" for each in place.obligations()),
        PATIENCE,
    )


def test_after_an_hour_the_next_delivery_says_what_is_known(place, kit):
    with Web(kit.answer) as web:
        place.destination(web.url)
        with place.delivering():
            delivered(place, 1, 2)
            place.skip(HOUR - 60)
            delivered(place, 3)
            assert hellos(web) == [0]
            assert receipts_after_tidying(kit) == 3
            place.skip(61)
            delivered(place, 4)
            assert len(hellos(web)) == 2 and hellos(web)[1] in (2, 3)  # the third is just saved
            delivered(place, 5)
            assert len(hellos(web)) == 2
            place.skip(HOUR)
    assert len(hellos(web)) == 3 and hellos(web)[2] == 5  # at its end
    assert receipts_after_tidying(kit) == 0
    assert len(kit.effects()) == 5


def test_after_so_many_effects_the_receiver_is_told_however_short_a_dispatcher_lives(
    place, kit, monkeypatch
):
    monkeypatch.setattr(confirming, "CONFIRM_EFFECTS", 4)
    with Web(kit.answer) as web:
        place.destination(web.url)
        for value in range(10):
            place.results(value)
            place.deliver()
    assert hellos(web) == [0, 4, 8]
    assert receipts_after_tidying(kit) == 2


def test_an_ordered_destination_is_told_too_and_its_stream_goes_on(place, kit, monkeypatch):
    monkeypatch.setattr(confirming, "CONFIRM_EFFECTS", 2)
    with Web(kit.answer) as web:
        place.destination(web.url, ordered=True)
        place.results(*range(7))
        place.deliver()
    assert hellos(web) == [0, 2, 4, 6]
    assert place.fp.destination("out").sequence == 7
    assert receipts_after_tidying(kit) == 1


def test_that_it_cannot_be_told_costs_no_delivery(place, kit, monkeypatch, caplog):
    monkeypatch.setattr(confirming, "CONFIRM_EFFECTS", 1)

    def answer(asked):
        late = "hello" in asked.headers["content-type"] and json.loads(asked.body)["after"]
        return http(500, b"") if late else kit.answer(asked)

    with Web(answer) as web:
        place.destination(web.url)
        for value in range(3):
            place.results(value)
            place.deliver()
    assert hellos(web) == [0, 1, 2, 3]
    assert {each.state for each in place.obligations()} == {"done"}
    assert place.fp.destination("out").stopped is None
    assert "that its effects are known up to 3 is told later" in caplog.text


def test_nothing_is_said_that_the_store_does_not_know(place, kit, monkeypatch):
    """Else the receipts of what a killed dispatcher had heard could be gone."""
    monkeypatch.setattr(confirming, "CONFIRM_EFFECTS", 1)
    monkeypatch.setattr(stream.Stream, "save", lambda self: None)
    with Web(kit.answer) as web:
        place.destination(web.url)
        place.results(*range(5))
        place.deliver()
    assert hellos(web) == [0]


PLANTED = {
    "an hour is nothing": (
        confirming.Confirming._due, "late or ", "",
        test_after_an_hour_the_next_delivery_says_what_is_known),
    "it is said at each delivery": (
        confirming.Confirming._due, "late or", "True or",
        test_after_an_hour_the_next_delivery_says_what_is_known),
    "nothing is said at the end": (
        stream.Stream.end, "if self.voice is not None and seconds", "if False",
        test_after_an_hour_the_next_delivery_says_what_is_known),
    "effects are not counted": (
        confirming.Confirming._due, "late or heard // CONFIRM_EFFECTS >", "late or heard <",
        test_after_so_many_effects_the_receiver_is_told_however_short_a_dispatcher_lives),
    "an ordered stream says nothing": (
        stream.Stream._settle_owed, "self._sure = heard or self._sure", "pass",
        test_an_ordered_destination_is_told_too_and_its_stream_goes_on),
    "what was heard is said": (
        stream.Stream.end, "self.voice, self._sure", "self.voice, self.positions.heard",
        test_nothing_is_said_that_the_store_does_not_know),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name, monkeypatch, place, kit):
    function, old, new, law = PLANTED[name]
    edit(monkeypatch, function, old, new)
    with pytest.raises(AssertionError):
        law(**asked_for(law, place=place, kit=kit, monkeypatch=monkeypatch))
