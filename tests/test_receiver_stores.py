"""A receiver on each of its stores: effect, state and receipt are there together or not at all."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from helpers.receiving import STREAM, Sender, Sent, incarnation, place_of, task

from fencepost.receiver import Reject, TryLater, desk, signing, wire
from fencepost.receiver.store import statements


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    with place_of(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def sender(place):
    """A writer that has announced itself."""
    made = Sender()
    assert place.send(made.hello()).code == "ok"
    return made


def test_the_first_contact_is_a_hello(place):
    refused = place.send(Sender().event())
    assert refused.code == "hello_needed"
    assert refused.value["epoch"] is None and refused.value["incarnation"] is None
    assert place.effects() == []


def test_an_effect_and_its_receipt_are_told_once_and_then_the_same_bytes_again(place, sender):
    event = sender.event(7, revision=2, fence=5, epoch=0)
    first = place.send(event)
    assert first.code == "accepted"
    assert first.value == {
        "status": "accepted", "receiver": "receiver", "stream": STREAM, "id": event.id,
        "operation": f"{task(7)}:2", "type": "result", "subject": f"pages/{task(7)}",
        "data_sha256": event.data_sha256.hex(), "result_sha256": "0" * 64,
        "final": True, "at": "2027-01-01T00:00:00.000000Z", "epoch": 1,
        "incarnation": incarnation(1), "result_epoch": 0, "fence": 5, "revision": 2,
        "sequence": None, "position": 1, "accepted_at": "2027-01-15T08:00:00.000000Z",
    }  # fmt: skip
    place.pass_time(1000)
    again = place.send(event)
    assert (again.code, again.body) == ("replayed", first.body)
    assert place.effects() == [f"{task(7)}:2"]
    assert place.count("fencepost_receiver_receipt") == 1


def test_a_replay_is_the_same_after_a_restart_of_the_receiver(place, sender):
    first = place.send(sender.event())
    place.close()
    place.receiver = place.open()
    again = place.send(sender.event())
    assert (again.code, again.body) == ("replayed", first.body)


def test_the_same_operation_with_other_data_is_a_conflict(place, sender):
    place.send(sender.event(value=1))
    refused = place.send(sender.event(value=2))
    assert refused.code == "effect_conflict"
    assert refused.value["known_data_sha256"] == sender.event(value=1).data_sha256.hex()
    assert place.effects() == [f"{task(1)}:1"]


def test_every_answer_to_a_signed_request_is_signed_under_its_id(place, sender):
    key = [signing.secret_bytes(secret) for secret in place.receiver._secrets]
    for sent in (sender.event(), sender.event(value=2), sender.hello(), Sender(0).event(3)):
        answer = place.send(sent)
        signed = signing.verify(key, answer.headers, answer.body, place.now // 1_000_000)
        assert signed.message_id == sent.id


def test_a_failing_effect_leaves_nothing_and_can_be_tried_again(place, sender):
    def fail(connection, event):
        raise ArithmeticError("secret detail")

    place.after = fail
    failed = place.send(sender.event())
    assert (failed.status, failed.code) == (500, "effect_failed")
    assert b"secret detail" not in failed.body
    assert place.effects() == [] and place.count("fencepost_receiver_receipt") == 0
    place.after = lambda connection, event: None
    assert place.send(sender.event()).value["position"] == 1


def test_an_effect_may_say_never_and_not_now(place, sender):
    def never(connection, event):
        raise Reject("no_such_page", "page 17 was torn out")

    def later(connection, event):
        raise TryLater(40)

    place.after = never
    refused = place.send(sender.event())
    assert (refused.status, refused.code) == (422, "rejected")
    assert (refused.value["reason"], refused.value["detail"]) == (
        "no_such_page", "page 17 was torn out",
    )  # fmt: skip
    place.after = later
    refused = place.send(sender.event())
    assert (refused.status, refused.headers["retry-after"]) == (503, "40")
    assert place.effects() == []


def test_what_fails_takes_nothing_else_of_its_transaction_with_it(place, sender):
    """Thirty at once, of which every third fails; each of the others is there once."""

    def fail(connection, event):
        if event.value()["result"] % 3 == 0:
            raise ArithmeticError

    place.after = fail
    hold = threading.Event()
    place.before = lambda connection, event: hold.wait(20) if event.fence == 999 else None
    seconds = place.now // 1_000_000
    futures = []
    for number in range(30):
        sent = sender.event(number, fence=999 if number == 1 else 1, value=number)
        futures.append(place.receiver.submit(sent.headers(seconds), sent.body))
    hold.set()
    statuses = [future.result(30).status for future in futures]
    assert statuses == [500 if number % 3 == 0 else 200 for number in range(30)]
    assert place.effects() == [f"{task(number)}:1" for number in range(30) if number % 3]
    positions = sorted(json.loads(f.result().body).get("position", 0) for f in futures)
    assert positions == [0] * 10 + list(range(1, 21))


def test_sixteen_threads_with_the_same_event_get_one_effect_and_the_same_bytes(place, sender):
    barrier = threading.Barrier(16)
    event = sender.event()

    def send(_):
        barrier.wait(30)
        return place.send(event)

    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(send, range(16)))
    assert sorted(answer.code for answer in said) == ["accepted"] + ["replayed"] * 15
    assert len({answer.body for answer in said}) == 1
    assert place.effects() == [event.operation]


def test_receivers_of_several_processes_share_a_store(place, sender):
    """Each has a connection and a thread of its own, as in processes of their own."""
    others = [place.receiver, *(place.open() for _ in range(3))]
    events = [sender.event(number) for number in range(12)]

    def send(job):
        number, receiver = job
        return place.send(events[number % 12], receiver).code

    try:
        with ThreadPoolExecutor(8) as pool:
            jobs = [(number, others[number % 4]) for number in range(60)]
            codes = list(pool.map(send, jobs))
    finally:
        for receiver in others[1:]:
            receiver.close()
    # A receiver that was too long in the way of another is no fault: the sender comes again.
    assert codes.count("accepted") <= 12 and set(codes) <= {"accepted", "replayed", "unavailable"}
    for event in events:
        assert place.send(event).code in ("accepted", "replayed")
    assert place.effects() == sorted(event.operation for event in events)


def test_ordered_deliveries_follow_one_another_by_number_and_head(place, sender):
    first = sender.event(1, ordered=True)
    assert place.send(first).value["sequence"] == 1
    refused = place.send(sender.event(2, ordered=True))  # one again: it has not been counted
    assert refused.code == "gap"
    assert refused.value["sequence"] == 1
    sender.delivered(first)
    assert refused.value["head"] == sender.head.hex()
    skipped = sender.event(3, ordered=True, sequence=wire.sequence_text(3))
    assert place.send(skipped).code == "gap"
    forged = sender.event(3, ordered=True, fpprevious="ab" * 32)
    assert place.send(forged).code == "gap"
    assert place.send(sender.event(3)).code == "gap"  # beside the order
    assert place.send(sender.event(2, ordered=True)).value["sequence"] == 2
    assert place.effects() == [f"{task(1)}:1", f"{task(2)}:1"]


def test_a_rejected_effect_leaves_its_place_in_the_order_to_the_next(place, sender):
    def never(connection, event):
        raise Reject("no")

    place.after = never
    assert place.send(sender.event(1, ordered=True)).code == "rejected"
    place.after = lambda connection, event: None
    assert place.send(sender.event(2, ordered=True)).value["sequence"] == 1


def test_a_late_first_result_is_stale_and_a_second_one_of_the_same_lease_is_not(place, sender):
    assert place.send(sender.event(1, revision=1, fence=9)).code == "accepted"
    assert place.send(sender.event(1, revision=3, fence=9)).code == "accepted"
    late = place.send(sender.event(1, revision=2, fence=9))
    assert late.code == "stale_result"
    assert late.value["newest"] == {
        "epoch": 1, "fence": 9, "revision": 3, "operation": f"{task(1)}:3",
    }  # fmt: skip
    assert place.send(sender.event(2, revision=2, fence=3)).code == "accepted"
    assert place.effects() == [f"{task(1)}:1", f"{task(1)}:3", f"{task(2)}:2"]


def test_a_result_is_not_stale_because_of_another_outcome_of_its_task(place, sender):
    assert place.send(sender.event(1, kind="done", revision=3, fence=9)).code == "accepted"
    assert place.send(sender.event(1, revision=2, fence=9)).code == "accepted"
    assert place.send(sender.event(1, revision=3, fence=9)).code == "accepted"
    dead = [sender.event(2, kind="dead", revision=0, fence=9, round=n) for n in (2, 1)]
    assert [place.send(one).code for one in dead] == ["accepted", "stale_result"]


def test_a_hello_tells_what_was_accepted_with_the_events_in_pages(place, sender):
    for number in range(7):
        place.send(sender.event(number, value=number))
    said = place.send(sender.hello(after=2, limit=3))
    assert [one["position"] for one in said.value["accepted"]] == [3, 4, 5]
    assert [one["event"]["result"] for one in said.value["accepted"]] == [2, 3, 4]
    assert said.value["accepted"][0]["operation"] == f"{task(2)}:1"
    assert (said.value["more"], said.value["position"]) == (True, 7)
    rest = place.send(sender.hello(after=5, limit=3))
    assert [one["position"] for one in rest.value["accepted"]] == [6, 7]
    assert rest.value["more"] is False


def test_a_hello_answers_about_a_megabyte_at_once_and_at_least_one(place, sender):
    for number in range(3):
        place.send(sender.event(number, value="x" * 700_000))
    for after in range(3):
        said = place.send(sender.hello(after=after))
        assert [one["position"] for one in said.value["accepted"]] == [after + 1]
        assert said.value["more"] is (after < 2)


def test_more_receipts_than_one_page_of_the_store_come_whole(place, sender):
    seconds = place.now // 1_000_000
    sent = [sender.event(number) for number in range(120)]
    for future in [place.receiver.submit(one.headers(seconds), one.body) for one in sent]:
        assert future.result(30).status == 200
    said = place.send(sender.hello())
    assert [one["position"] for one in said.value["accepted"]] == list(range(1, 121))
    said = place.send(sender.hello(limit=100))
    assert len(said.value["accepted"]) == 100 and said.value["more"] is True


def test_who_only_asks_changes_nothing_and_hears_what_a_hello_would_meet(place, sender):
    place.send(sender.event())
    sibling = Sender(1, incarnation(9))
    said = place.send(sibling.hello(ask_only=True))
    assert said.value["would"] == "fork"
    assert (said.value["epoch"], said.value["incarnation"]) == (1, incarnation(1))
    assert [one["operation"] for one in said.value["accepted"]] == [f"{task(1)}:1"]
    assert place.send(sender.copied(2, incarnation(2)).hello(ask_only=True)).value["would"] is None
    assert place.send(sender.event(2)).code == "accepted"  # it still holds the stream
    nobody = Sender(stream="w9/default/out").hello(ask_only=True)
    assert place.send(nobody).value["epoch"] is None
    assert place.count("fencepost_receiver_stream") == 1


def test_a_take_over_tells_who_was_there_and_leaves_the_old_writer_outside(place, sender):
    place.send(sender.event(1))
    heir = sender.copied(2, incarnation(2))
    assert place.send(heir.event(2)).code == "hello_needed"
    said = place.send(heir.hello())
    assert said.value["was"] == {"epoch": 1, "incarnation": incarnation(1)}
    assert (said.value["epoch"], said.value["incarnation"]) == (2, incarnation(2))
    assert place.send(heir.hello()).value["was"] is None
    assert place.send(sender.event(2)).code == "old_epoch"
    assert place.send(sender.hello()).code == "old_epoch"
    assert place.send(sender.event(1)).code == "replayed"  # what is there is told to anybody
    assert place.send(heir.event(2)).code == "accepted"


def test_streams_are_independent_of_one_another(place, sender):
    other = Sender(5, incarnation(5), stream="22222222-2222-7222-8222-222222222222/default/out")
    assert place.send(other.event()).code == "hello_needed"
    assert place.send(other.hello()).code == "ok"
    assert place.send(other.event()).value["position"] == 1
    assert place.send(sender.event()).value["position"] == 1  # the same task id, another stream
    assert place.send(sender.event()).code == "replayed"


def test_two_receivers_of_other_names_in_one_store_know_nothing_of_each_other(place, sender):
    place.send(sender.event())
    second = place.open(name="second")
    try:
        assert place.send(sender.event(), second).code == "hello_needed"
        place.send(sender.hello(), second)
        assert place.send(sender.event(), second).value["receiver"] == "second"
    finally:
        second.close()


def test_an_effect_cannot_end_the_transaction_that_holds_its_receipt(place, sender, caplog):
    def commit(connection, event):
        connection.commit()

    place.after = commit
    refused = place.send(sender.event())
    assert refused.status in (500, 503)
    place.after = lambda connection, event: connection.rollback()
    assert place.send(sender.event()).status in (500, 503)
    assert place.effects() == []
    place.after = lambda connection, event: None
    assert place.send(sender.event()).code == "accepted"


@pytest.mark.parametrize("statement", ["COMMIT", "END", "ROLLBACK", "commit and chain"])
def test_nor_by_a_statement_and_what_was_beside_it_is_there_once(place, sender, caplog, statement):
    """One that tries it stands between others, in one transaction."""

    def commit(connection, event):
        if event.task_id == task(2):
            connection.execute(statement)

    hold = threading.Event()
    place.before = lambda connection, event: hold.wait(20) if event.task_id == task(0) else None
    place.after = commit
    seconds = place.now // 1_000_000
    sent = [sender.event(number) for number in range(4)]
    futures = [place.receiver.submit(one.headers(seconds), one.body) for one in sent]
    hold.set()
    statuses = [future.result(30).status for future in futures]
    assert statuses[2] in (500, 503) and statuses[:2] + statuses[3:] == [200] * 3
    assert place.effects() == [f"{task(number)}:1" for number in (0, 1, 3)]
    place.after = lambda connection, event: None
    assert place.send(sender.event(2)).value["position"] == 4


def test_what_is_no_effect_of_the_kits_is_refused_before_anything_runs(place, sender):
    place.before = lambda connection, event: pytest.fail("it ran")
    sent = sender.event()
    answer = place.receiver.handle({"content-type": wire.EVENT_TYPE}, sent.body)
    assert (answer.status, "webhook-signature" in answer.headers) == (401, False)
    spoilt = Sent(sent.id, sent.body.replace(b'"pages"', b'"Pages"'))
    headers = {**spoilt.headers(0), **sent.headers(place.now // 1_000_000)}
    assert place.receiver.handle(headers, spoilt.body).status == 401
    assert place.receiver.handle({**headers, "content-type": "text/plain"}, b"").status == 415
    assert place.send(Sent("msg_1", b"{}")).code == "malformed"
    assert place.effects() == []


def test_a_stream_that_may_not_come_here_is_refused(place):
    receiver = place.open(streams=lambda name: name.startswith("22222222"))
    try:
        assert place.send(Sender().hello(), receiver).code == "stream_refused"
        assert place.send(Sender().event(), receiver).code == "stream_refused"
    finally:
        receiver.close()


def test_a_store_of_another_version_is_refused(place, sender):
    with place.eyes() as eyes:
        eyes.execute("update fencepost_receiver_schema set version = 2")
        eyes.commit()
    with pytest.raises(ValueError, match="version 2, not 1"):
        place.store().open()


def test_both_dialects_have_the_same_statements_with_the_same_parameters_in_order():
    ours, theirs = statements("sqlite.sql"), statements("postgres.sql")
    assert [*ours] == [name for name in theirs if name not in ("settle", "unseal")]
    for name, text in ours.items():
        there = re.findall(r"%\((\w+)\)s", theirs[name])
        assert re.findall(r"(?<!:):(\w+)", text) == there, name


def test_a_message_on_postgres_costs_a_round_trip_beside_its_effects(tmp_path, monkeypatch):
    """A shared transaction has four more: its begin, what holds the streams, what is left to be
    written, its commit. (The first and the last are not counted here.)"""
    trips = []
    with place_of("postgres", tmp_path) as place:
        sender = Sender()
        place.send(sender.hello())
        receiver, second = place.open(), int(place.now / 1e6)
        sent = [sender.event(number) for number in range(20)]
        jobs = [receiver.admit(one.headers(second), one.body)[1] for one in sent]
        store = receiver.desk._store
        store.open()
        enter = psycopg.Connection.pipeline
        execute = psycopg.Connection.execute

        def pipeline(connection):
            trips.append("pipeline")
            return enter(connection)

        def executed(connection, query, *given, **options):
            if connection.info.pipeline_status == psycopg.pq.PipelineStatus.OFF:
                trips.append(query)
            return execute(connection, query, *given, **options)

        monkeypatch.setattr(desk, "LONGEST_SECONDS", 3_600)
        monkeypatch.setattr(psycopg.Connection, "pipeline", pipeline)
        monkeypatch.setattr(psycopg.Connection, "execute", executed)
        answers = receiver.desk.carry_out(jobs[:2])
        few = len(trips)
        answers += receiver.desk.carry_out(jobs[2:])
        monkeypatch.undo()
        receiver.close()
        assert {answer.status for answer in answers} == {200}
        effects = sum(each.startswith("insert into effect") for each in trips)
        assert effects == 20
        assert few == 2 + 2 * 2 and len(trips) == few + 2 + 18 * 2, trips
