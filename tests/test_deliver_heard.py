"""What a receiver has accepted and a store has not heard of: it is heard of later, and where it
cannot be any more that is said, and nothing is done as if it could."""

from __future__ import annotations

import json
import logging
import time

import pytest
from helpers.delivering import Depot, JumpClock, depot
from helpers.faults import asked_for, edit
from helpers.receivers import SECRET, Kit, Web

import fencepost
from fencepost.deliveries import hello, http, stream
from fencepost.operate import restore
from fencepost.operate.backup import backup
from fencepost.operate.restoring import receivers
from fencepost.operate.restoring.receipt import lines
from fencepost.operate.restoring.steps import Wishes
from fencepost.receiver.receiver import Receiver
from fencepost.receiver.sqlite import SqliteStore


@pytest.fixture
def place(tmp_path):
    with depot(tmp_path) as made:
        yield made


@pytest.fixture
def patience():
    """Seconds for what comes about by itself."""
    return 60


def hellos(web):
    return [each for each in web.asked if "hello" in each.headers["content-type"]]


def heard(place):
    return place.fp.destination("out").heard


def greet(fp):
    """The receiver is told up to where its effects are known here."""
    talk = receivers.Talk(receivers.Peer(fp, fp.destination("out")), fp.about()["writer_id"])
    talk.announce()
    talk.close()


def drop(kit, **keep):
    """The receiver drops what may be dropped, were it that old."""
    begun = int(time.time())
    while int(time.time()) < begun + 2:  # ages are whole seconds
        time.sleep(0.05)
    made = Receiver(SqliteStore(str(kit.path)), kit._effect, [SECRET], **keep)
    made.tidy()
    made.close()


def two_results_after_a_backup(place, kit, web, **keep):
    """They are delivered, the receiver hears that they are known, and drops what it may. Path of
    the backup, and the tasks."""
    place.destination(web.url)
    place.results("before")
    place.deliver()
    tasks = [place.fp.enqueue("pages", {"of": n}).task_id for n in (1, 2)]
    kept = place.folder / "kept.db"
    backup(place.fp, kept)
    for lease in place.fp.claim("pages", worker_id="w", limit=2):
        lease.complete("of the lost future")
    place.deliver()
    greet(place.fp)
    drop(kit, **keep)
    return kept, tasks


def restored(place, kept, **wishes):
    """The receipt, and what it says of the receiver."""
    made = restore.restore(kept, place.folder / "new.db", Wishes(**{"who": "anna", **wishes}))
    told = json.loads(made.receipt)
    return made.complete, told, told["receivers"][0]


# -- what cannot be heard of any more


def test_a_restore_is_not_complete_where_a_receiver_has_dropped_what_it_would_have_to_know(
    place, kit
):
    """Else the tasks would be worked on again, and their second results have a second effect."""
    with Web(kit.answer) as web:
        kept, _ = two_results_after_a_backup(place, kit, web, keep_receipts_seconds=0)
        complete, _, told = restored(place, kept)
        assert not complete and not (place.folder / "new.db").exists()
        assert told["why"].startswith("forgotten: up to position 1 ")
        assert "up to 3" in told["why"] and told["imported"] == []
        wish = {"overrides": ("default/out",), "reason": "looked up by hand"}
        complete, _, told = restored(place, kept, **wish)
        assert complete and told["override"]["reason"] == "looked up by hand"
    assert len(kit.effects()) == 3


def test_a_dispatcher_stops_where_a_receiver_has_dropped_what_it_would_have_to_know(place, kit):
    with Web(kit.answer) as web:
        kept, _ = two_results_after_a_backup(place, kit, web, keep_receipts_seconds=0)
        with fencepost.open(kept, clock=JumpClock()) as fp:
            later = Depot(fp, place.folder / "later")
            fp.destination_set("out", stopped=None)
            later.results("another", "another")
            later.deliver()
            assert (fp.destination("out").stopped or "").startswith("forgotten: up to position 1 ")
            assert len(kit.effects()) == 3
            fp.destination_advance("out", expected_sequence=0, sequence=0, heard=3)  # looked up
            fp.destination_set("out", stopped=None)
            later.deliver()
            assert fp.destination("out").stopped is None
            assert {each.state for each in later.obligations()} == {"done"}


def test_what_a_receiver_has_no_more_than_receipts_of_is_recorded_by_a_restore(place, kit):
    with Web(kit.answer) as web:
        kept, tasks = two_results_after_a_backup(place, kit, web, keep_events_seconds=0)
        complete, whole, told = restored(place, kept)
        assert complete and told["imported"] == [f"{each}:1" for each in tasks]
        assert told["without_data"] == told["imported"]
        assert any(tasks[0] in line and "dropped the data" in line for line in lines(whole))
        with fencepost.open(place.folder / "new.db") as fp:
            assert [fp.task(each).state for each in tasks] == ["done", "done"]
            assert [(r.revision, r.kept) for r in fp.results(tasks[0])] == [(1, False)]


def test_a_dispatcher_records_what_a_receiver_has_no_more_than_receipts_of(place, kit, caplog):
    with Web(kit.answer) as web:
        kept, tasks = two_results_after_a_backup(place, kit, web, keep_events_seconds=0)
        with fencepost.open(kept, clock=JumpClock()) as fp:
            later = Depot(fp, place.folder / "later")
            fp.destination_set("out", stopped=None)
            later.deliver()
            assert [fp.task(each).state for each in tasks] == ["done", "done"]
            assert fp.destination("out").stopped is None and fp.verify().clean
    told = [record.getMessage() for record in caplog.records]
    assert any(each.endswith("they are imported, 2 of them as digests") for each in told)
    assert len(kit.effects()) == 3


def put_back_told(now, before):
    told = f"out is at position {now}, and its effects up to {before} were known"
    return f"{told}: it was put back, and has lost what lies between"


def test_a_receiver_that_was_put_back_is_told_of_although_it_takes_more(place, kit, caplog):
    with Web(kit.answer) as web:
        place.destination(web.url)
        place.results(1, 2)
        place.deliver()
        fresh = Kit(place.folder / "fresh.db")
        web.answer = fresh.answer
        place.results(3)
        place.deliver()
        fresh.close()
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert told == [put_back_told(0, 2)]


# -- what is heard of later


def never_says(patch):
    """A dispatcher is killed before it says how far it has come."""
    patch.setattr(stream.Stream, "save", lambda self: None)
    patch.setattr(stream.Stream, "end", lambda self, seconds: None)


def test_a_result_whose_task_was_purged_is_nothing_to_import(place, kit, monkeypatch, caplog):
    """A dispatcher was killed before it had said how far it had come, and since then the tasks
    were purged: the next hello tells of them."""
    with Web(kit.answer) as web:
        place.destination(web.url)
        for queue in ("pages", "out"):
            place.fp.queue_set(queue, retain_seconds=1)
        (task,) = place.results("a")
        with monkeypatch.context() as dying:
            never_says(dying)
            place.deliver()
        assert heard(place) == 0
        place.skip(10)
        assert task in place.fp.purge().task_ids
        place.fp.begin_writer("started")
        place.results("b")
        place.deliver()
        assert place.fp.destination("out").stopped is None and heard(place) == 2
        assert [each.state for each in place.obligations()] == ["done"]
    assert f"not in this store: {task}:1" in caplog.text and len(kit.effects()) == 2


def test_what_a_hello_tells_is_told_to_the_store_once(place, kit, monkeypatch):
    with Web(kit.answer) as web:
        place.destination(web.url)
        place.results("a")
        with monkeypatch.context() as dying:
            never_says(dying)
            place.deliver()
        place.fp.begin_writer("started")
        before = advances(place)
        place.deliver()
        assert heard(place) == 1 and advances(place) == before + 1


def advances(place):
    return sum(b"destination.advance" in each.body for each in place.fp.entries())


def test_a_receiver_may_tell_more_than_an_answer_to_a_delivery_may_be_long(place, kit):
    """Hundreds of effects, and one of them large."""
    with Web(kit.answer) as web:
        place.destination(web.url, max_response_bytes=1_000)
        place.results("before")
        place.deliver()
        kept = place.folder / "kept.db"
        place.fp.enqueue("pages", "large")
        backup(place.fp, kept)
        place.fp.claim("pages", worker_id="w")[0].complete("x" * 500_000)
        place.many(200)
        place.deliver()
        complete, _, told = restored(place, kept)
        assert complete and told["position"] == 202
        assert len(told["imported"]) == 1 and len(told["foreign"]) == 200


def one_that_was_not_heard_of(place, web, monkeypatch):
    """A result is delivered by a dispatcher that dies before it has said so."""
    place.destination(web.url)
    with monkeypatch.context() as dying:
        never_says(dying)
        place.results(1)
        place.deliver()
    assert heard(place) == 0 and len(hellos(web)) == 1


def test_what_another_dispatcher_has_delivered_is_heard_of_at_the_end(place, kit, monkeypatch):
    with Web(kit.answer) as web:
        one_that_was_not_heard_of(place, web, monkeypatch)
        place.results(2)
        place.deliver()
        assert heard(place) == 2 and len(hellos(web)) == 2
        place.results(3)
        place.deliver()
        assert heard(place) == 3 and len(hellos(web)) == 2  # nothing was missing


def test_what_stays_missing_is_asked_for_while_a_dispatcher_goes_on(
    place, kit, monkeypatch, patience
):
    with Web(kit.answer) as web:
        one_that_was_not_heard_of(place, web, monkeypatch)
        with place.delivering():
            over = time.monotonic() + patience
            while heard(place) < 2:
                assert time.monotonic() < over, "it was never heard of"
                place.results("more")
                time.sleep(0.05)
        assert len(hellos(web)) >= 2


PLANTED = {
    "what was dropped is taken for nothing": (
        hello.forgotten, "or gone <= after", "or True",
        test_a_dispatcher_stops_where_a_receiver_has_dropped_what_it_would_have_to_know),
    "a restore takes what was dropped for nothing": (
        hello.forgotten, "or gone <= after", "or True",
        test_a_restore_is_not_complete_where_a_receiver_has_dropped_what_it_would_have_to_know),
    "an effect without data is known": (
        hello.knows, "return receipt[", 'return receipt["event"] is None or receipt[',
        test_what_a_receiver_has_no_more_than_receipts_of_is_recorded_by_a_restore),
    "what is recorded as a digest is not named": (
        receivers.imports, 'if each["event"] is None', "if False",
        test_what_a_receiver_has_no_more_than_receipts_of_is_recorded_by_a_restore),
    "what was purged is to be imported": (
        stream.Stream._knows, "return True", "return False",
        test_a_result_whose_task_was_purged_is_nothing_to_import),
    "what is missing stays so": (
        stream.Stream.save, "gap == self._gap", "False",
        test_what_stays_missing_is_asked_for_while_a_dispatcher_goes_on),
    "an answer to a hello is as short as one to a delivery": (
        http.HttpSender.greet, ", MAX_GREETING_BYTES", "",
        test_a_receiver_may_tell_more_than_an_answer_to_a_delivery_may_be_long),
    "nobody is asked at the end": (
        stream.Stream.end, "if seconds and", "if False and",
        test_what_another_dispatcher_has_delivered_is_heard_of_at_the_end),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name, monkeypatch, place, kit):
    function, old, new, law = PLANTED[name]
    edit(monkeypatch, function, old, new)
    given = {"place": place, "kit": kit, "monkeypatch": monkeypatch, "patience": 2, "caplog": None}
    with pytest.raises(AssertionError):
        law(**asked_for(law, **given))
