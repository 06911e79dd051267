"""From a result to its effect, over a real store, a real dispatcher and real HTTP."""

from __future__ import annotations

import json
import logging
import threading
import time

import pytest
from helpers.delivering import Depot, JumpClock, depot
from helpers.receivers import SECRET, Kit, Reply, Web, http
from helpers.working import comes_true

import fencepost
from fencepost.commands import Complete
from fencepost.deliveries import run
from fencepost.issues import InvalidRequest
from fencepost.operate import backup
from fencepost.receiver import signing
from fencepost.worker.memory import Memory


@pytest.fixture
def place(tmp_path):
    with depot(tmp_path) as made:
        yield made


def states(place, queue="out"):
    return [each.state for each in place.obligations(queue)]


def is_hello(asked):
    return "hello" in asked.headers["content-type"]


# -- what arrives


def test_every_result_has_its_effect_once_and_the_receivers_receipt_as_evidence(place, kit):
    awkward = ["😀\u2028", 1.0, 1e5, {"b": 1, "a": [None, "/"]}]
    with Web(kit.answer) as web:
        place.destination(web.url)
        tasks = place.results(*awkward)
        made = place.deliver()
    assert made.counts == {"complete": 4}
    effects = dict(kit.effects())  # they are not ordered: eight are under way at a time
    assert sorted(name for name, _ in kit.effects()) == sorted(f"{each}:1" for each in tasks)
    for task in place.obligations():
        assert task.state == "done"
        receipt = json.loads(place.evidence(task.task_id)["receipt"])
        assert receipt["operation"] == f"{task.payload['task_id']}:1"
        assert receipt["status"] == "accepted"
        assert json.loads(effects[receipt["operation"]]) == task.payload


def test_a_receiver_is_greeted_once_for_a_writer_and_what_it_has_is_remembered(place, kit):
    with Web(kit.answer) as web:
        place.destination(web.url)
        place.results(1, 2)
        place.deliver()
        hellos = [each for each in web.asked if is_hello(each)]
        assert len(hellos) == 1
        assert place.fp.destination("out").announced == place.fp.writers()[-1].incarnation
        assert place.fp.destination("out").heard == 2
        place.results(3)
        place.deliver()
        assert len([each for each in web.asked if is_hello(each)]) == 1
    assert states(place) == ["done"] * 3


def test_a_receiver_that_has_forgotten_the_writer_is_greeted_again(place, kit, tmp_path):
    """It was put back to before the first contact: it is told who writes, and then takes it."""
    with Web(kit.answer) as web:
        place.destination(web.url)
        place.results(1)
        place.deliver()
        fresh = Kit(tmp_path / "fresh.db")
        web.answer = fresh.answer
        place.results(2)
        place.deliver()
        assert states(place) == ["done"] * 2 and len(fresh.effects()) == 1
        fresh.close()


def test_the_same_id_and_the_same_bytes_go_out_at_each_try_and_after_a_restart(place):
    answers = iter([500, 502, 500, 200])
    with Web(lambda asked: http(next(answers))) as web:
        place.destination(web.url, "idempotent")
        place.fp.queue_set("out", backoff_seconds=0)
        place.results("😀 \u2028 \u001b / 1e5")
        for _ in range(4):
            place.deliver()
        assert states(place) == ["done"]
        assert len({each.body for each in web.asked}) == 1 and len(web.asked) == 4
        assert len({each.headers["webhook-id"] for each in web.asked}) == 1
        for each in web.asked:
            signing.verify([signing.secret_bytes(SECRET)], each.headers, each.body, time.time())


def test_a_result_that_failed_is_not_overtaken_by_the_next_of_its_task(place, kit):
    failed = []

    def answer(asked):
        if asked.headers["content-type"].startswith("application/cloudevents") and not failed:
            failed.append(asked.body)
            return http(500)
        return kit.answer(asked)

    with Web(answer) as web:
        place.destination(web.url)
        place.fp.queue_set("pages", destinations=["out"])
        task = place.fp.enqueue("pages", {}).task_id
        (lease,) = place.fp.claim("pages", worker_id="w")
        lease.submit(1)
        lease.complete(2)
        assert place.deliver().counts == {"complete": 2, "retry": 1}
    assert [name for name, _ in kit.effects()] == [f"{task}:1", f"{task}:2"]
    assert states(place) == ["done", "done"]


@pytest.mark.parametrize(("class_", "again"), [("fenced", True), ("idempotent", False)])
def test_only_where_a_second_sending_is_none_a_result_may_be_forgotten(
    place, kit, class_, again, monkeypatch
):
    made, init = [], Memory.__init__

    def spied(self, *given, **more):
        made.append(more)
        init(self, *given, **more)

    monkeypatch.setattr(Memory, "__init__", spied)
    with Web(kit.answer) as web:
        place.destination(web.url, class_)
        place.deliver()
    assert made == [{"again": again}]


def test_while_a_secret_is_rotated_both_sign_and_then_the_new_one_alone(place):
    old, new = SECRET, signing.new_secret()
    with Web(lambda asked: http(200)) as web:
        place.destination(web.url, "idempotent", secret=old)
        place.fp.destination_secret("out", new, keep_seconds=60)
        place.results(1)
        place.deliver()
        place.skip(61)
        place.results(2)
        place.deliver()
        first, second = web.asked
        for secret in (old, new):
            signing.verify([signing.secret_bytes(secret)], first.headers, first.body, time.time())
        now = time.time() + 61
        signing.verify([signing.secret_bytes(new)], second.headers, second.body, now)
        with pytest.raises(signing.BadSignature):
            signing.verify([signing.secret_bytes(old)], second.headers, second.body, now)


def test_a_second_result_under_one_lease_arrives_after_the_first(place, kit):
    place.fp.queue_set("pages", destinations=["out"])
    with Web(kit.answer) as web:
        place.destination(web.url, concurrency=16)
        for number in range(8):
            place.fp.enqueue("pages", number)
            (lease,) = place.fp.claim("pages", worker_id="w")
            for part in range(4):
                lease.submit({"part": part})
            lease.complete({"part": "last"})
        place.deliver()
    assert states(place) == ["done"] * 40
    by_task = {}
    for operation, _ in kit.effects():
        task, _, revision = operation.rpartition(":")
        by_task.setdefault(task, []).append(int(revision))
    assert set(map(tuple, by_task.values())) == {(1, 2, 3, 4, 5)} and len(by_task) == 8


def copied_before_the_second_result(place, kit, web, **options):
    """Two tasks: the first is delivered, then the store is copied, then the second is worked on and
    delivered, which the copy does not know. The copy's file, and the second task."""
    place.destination(web.url, **options)
    place.results("first")
    place.deliver()
    task = place.fp.enqueue("pages", "second").task_id
    copy = place.folder / "copy.db"
    backup.backup(place.fp, copy)
    (lease,) = place.fp.claim("pages", worker_id="w")
    lease.complete("of the second")
    place.deliver()
    assert len(kit.effects()) == 2
    return copy, task


@pytest.mark.parametrize("ordered", [False, True])
def test_a_copy_that_takes_over_imports_what_the_receiver_has_and_sends_none_of_it(
    place, kit, ordered
):
    """It begins a new epoch, whose lineage holds the writer that the receiver knows."""
    with Web(kit.answer) as web:
        copy, task = copied_before_the_second_result(place, kit, web, ordered=ordered)
        with fencepost.open(copy, clock=JumpClock()) as fp:
            later = Depot(fp, place.folder / "later")
            assert fp.destination("out").stopped == "copied"
            later.deliver()
            assert fp.task(task).state == "ready"
            fp.destination_set("out", stopped=None)
            (before,) = [each for each in kit.effects() if each[0] == f"{task}:1"]
            later.deliver()  # there is nothing for it yet: it is greeted all the same
            assert fp.task(task).state == "done"
            later.results("third")
            assert [each.value for each in fp.results(task)] == ["of the second"]
            later.deliver()  # what is owed for the imported result is answered with its receipt
            assert {each.state for each in later.obligations()} == {"done"}
            assert [each for each in kit.effects() if each[0] == f"{task}:1"] == [before]
            assert len(kit.effects()) == 3
            fp.verify()
        place.results("too late")
        place.deliver()
        assert (place.fp.destination("out").stopped or "").startswith("old_epoch: ")
    assert len(kit.effects()) == 3


def test_a_result_that_was_accepted_twice_is_for_a_person(place, kit):
    """Somebody has worked on the task again before the receiver was asked: two writers have each
    accepted another result of the same revision."""
    with Web(kit.answer) as web:
        copy, task = copied_before_the_second_result(place, kit, web)
        with fencepost.open(copy, clock=JumpClock()) as fp:
            later = Depot(fp, place.folder / "later")
            (lease,) = fp.claim("pages", worker_id="w")
            assert lease.complete("another").task_id == task
            fp.destination_set("out", stopped=None)
            later.deliver()
            why = fp.destination("out").stopped or ""
            assert why.startswith("import_needed: ") and "result_conflict" in why
    assert len(kit.effects()) == 2


def test_a_dispatcher_that_may_not_import_stops_and_says_what_is_needed(place, kit):
    with Web(kit.answer) as web:
        copy, task = copied_before_the_second_result(place, kit, web)
        with fencepost.open(copy, clock=JumpClock()) as fp:
            fp.destination_set("out", stopped=None)
            later = Depot(fp, place.folder / "later")
            later.results("third")
            later.fp = fp.as_caller("dispatcher", "dispatcher")
            later.deliver()
            why = fp.destination("out").stopped or ""
            assert why.startswith("import_needed: ") and f"{task}:1" in why
    assert len(kit.effects()) == 2


# -- what does not


@pytest.mark.parametrize(
    ("class_", "answer", "state", "reason", "attempt"),
    [
        ("fenced", http(500), "ready", "answered 500", 1),
        ("idempotent", http(404), "ready", "answered 404", 1),
        ("idempotent", http(302, location="/"), "ready", "leads elsewhere", 1),
        ("unfenced", http(500), "ready", "answered 500", 1),
        ("fenced", None, "ready", "effect_uncertain", 1),
        ("idempotent", None, "ready", "effect_uncertain", 1),
        ("unfenced", None, "blocked", "effect_uncertain", 1),
        ("unfenced", http(504), "blocked", "effect_uncertain", 1),
        ("idempotent", http(202), "ready", "effect_uncertain", 1),
        ("unfenced", http(202), "blocked", "effect_uncertain", 1),
    ],
)
def test_what_becomes_of_one_that_did_not_arrive(place, class_, answer, state, reason, attempt):
    with Web(lambda asked: answer) as web:
        place.destination(web.url, class_)
        place.fp.queue_set("out", backoff_seconds=600, max_backoff_seconds=600)
        if class_ == "fenced":
            accept_hello(web)
        place.results(1)
        place.deliver()
    (task,) = place.obligations()
    assert (task.state, task.attempt) == (state, attempt) and reason in task.reason


def accept_hello(web):
    """Answer a hello as a receiver would; anything else as before."""
    before = web.answer
    body = json.dumps(
        {
            "status": "ok",
            "position": 0,
            "accepted": [],
            "more": False,
            "sequence": 0,
            "head": "00" * 32,
        }
    ).encode()

    def answer(asked):
        if not is_hello(asked):
            return before(asked)
        key = signing.secret_bytes(SECRET)
        signed = signing.sign([key], asked.headers["webhook-id"], int(time.time()), body)
        return http(200, body, **{name.replace("-", "_"): value for name, value in signed.items()})

    web.answer = answer


@pytest.mark.parametrize("how", ["refused", "asked for time", "no name"])
def test_a_days_outage_kills_no_obligation_and_ends_without_one_lost(place, kit, how):
    """The clock is moved: a whole day of tries, each of which gives the attempt back."""
    later = http(503, retry_after="30")
    kit.receiver.now = place.fp.clock.wall
    with Web(lambda asked: later) as web:
        place.destination(web.url if how != "no name" else "http://no.such.host.invalid/")
        week = 7 * 86_400  # a jump of the clock ends no lease here: that is not what is looked at
        place.fp.queue_set(
            "out", max_attempts=2, lease_seconds=week, max_lease_seconds=week, max_hold_seconds=week
        )
        place.results(*range(3))
        if how == "refused":
            web.close()
        with place.delivering() as dispatcher:
            for _ in range(6):
                before = sum(dispatcher.meters.words().values())
                place.skip(4 * 3_600)
                comes_true(lambda before=before: sum(dispatcher.meters.words().values()) > before)
            assert set(states(place)) <= {"ready", "leased"}
            assert all(each.attempt <= 1 for each in place.obligations())
            if how == "refused":
                web.listen()
            web.answer = kit.answer
            if how == "no name":
                place.destination(web.url)
            place.skip(3_600)
            comes_true(lambda: states(place) == ["done"] * 3)
    assert len(kit.effects()) == 3
    assert all(each.attempt == 1 for each in place.obligations())


def test_a_destination_that_is_down_costs_another_nothing(place, kit):
    """One hangs for as long as it may, one refuses, one works: it is done long before."""
    hang = threading.Event()

    def hanging(asked):
        hang.wait(20)

    with Web(kit.answer) as web, Web(hanging) as slow:
        place.destination(web.url)
        place.destination(slow.url, "idempotent", queue="slow", timeout_seconds=30)
        place.destination("http://127.0.0.1:9/", "idempotent", queue="down")
        place.many(20, "a", "slow")
        place.many(20, "b", "down")
        place.many(50)
        with place.delivering():
            try:
                comes_true(lambda: len(kit.effects()) == 50, 15)
                assert not hang.is_set()
                assert set(states(place, "down")) <= {"ready", "leased"}
            finally:
                hang.set()


def test_410_stops_the_destination_until_a_person_says_so(place, caplog):
    with Web(lambda asked: http(410)) as web:
        place.destination(web.url, "idempotent")
        place.results(1, 2, 3)
        place.deliver()
        assert (place.fp.destination("out").stopped or "").startswith("gone: ")
        assert set(states(place)) == {"ready"} and len(web.asked) == 1
        assert any(each.levelno == logging.ERROR for each in caplog.records)
        place.deliver()
        assert len(web.asked) == 1
        web.answer = lambda asked: http(200)
        place.fp.destination_set("out", stopped=None)
        place.deliver()
    assert states(place) == ["done"] * 3


def test_a_store_that_is_a_copy_stops_its_destination_loudly(place, kit, caplog, tmp_path):
    """Another copy of the store has greeted the receiver in the same epoch."""
    other = signing.secret_bytes(SECRET)
    with Web(kit.answer) as web:
        place.destination(web.url)
        place.results(1)
        place.deliver()
        hello = next(each for each in web.asked if is_hello(each))
        said = json.loads(hello.body)
        said["epoch"] += 1
        said["lineage"].append([said["epoch"], "0" * 8 + said["incarnation"][8:]])
        said["incarnation"] = said["lineage"][-1][1]
        body = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
        signed = signing.sign([other], "hello_2", int(time.time()), body)
        kind = {"content-type": hello.headers["content-type"]}
        assert kit.receiver.handle({**signed, **kind}, body).status == 200
        place.results(2)
        place.deliver()
        assert (place.fp.destination("out").stopped or "").startswith("old_epoch: ")
        assert states(place) == ["done", "ready"] and len(kit.effects()) == 1
    assert any("old_epoch" in each.getMessage() for each in caplog.records)


def test_a_result_that_came_too_late_is_dead_and_says_what_is_newer(place, kit):
    """The first result of a task waits for its retry while the second arrives."""
    with Web(kit.answer) as web:
        place.destination(web.url)
        place.fp.queue_set("pages", destinations=["out"])
        place.fp.queue_set("out", backoff_seconds=0)
        task = place.fp.enqueue("pages", 1).task_id
        (lease,) = place.fp.claim("pages", worker_id="w")
        lease.submit("first")
        (first,) = place.fp.claim("out", worker_id="dispatcher")
        lease.complete("second")
        place.deliver(max_seconds=5)
        first.fail("was tried", retry_seconds=0)
        place.deliver()
    late, newer = place.obligations()
    assert (late.state, newer.state) == ("dead", "done")
    assert late.reason.startswith("stale_result: ") and f"{task}:2" in late.reason


def test_an_effect_of_the_same_name_and_other_data_waits_for_a_person(place, kit):
    with Web(kit.answer) as web:
        place.destination(web.url)
        (task,) = place.results({"n": 1})
        # the receiver has an effect of this name, of other data
        real = kit.answer
        place.deliver()
        obligation = place.obligations()[0]
        place.fp.queue_set("pages", destinations=[])
        forged = {**obligation.payload, "result": {"n": 2}}
        place.fp.enqueue("out", forged)
        web.answer = real
        place.deliver()
        assert place.obligations()[1].state == "blocked"
        assert place.obligations()[1].reason.startswith("effect_conflict: ")
    assert len(kit.effects()) == 1 and task


def test_an_erased_obligation_is_not_sent(place):
    with Web(lambda asked: http(200)) as web:
        place.destination(web.url, "idempotent")
        (task,) = place.results({"name": "Ada"})
        place.fp.erase(task)
        place.deliver()
        assert web.asked == []


# -- idempotent receivers know an id for a while


def test_an_uncertain_delivery_is_not_sent_again_once_the_receiver_may_have_forgotten(place):
    with Web(lambda asked: None) as web:
        place.destination(web.url, "idempotent", dedupe_seconds=3_600)
        place.fp.queue_set("out", backoff_seconds=1_800, max_backoff_seconds=1_800, max_attempts=9)
        place.results(1)
        place.deliver()
        (task,) = place.obligations()
        assert (task.state, len(web.asked)) == ("ready", 1)
        place.skip(1_801)
        place.deliver()
        assert (states(place), len(web.asked)) == (["ready"], 2)
        place.skip(1_801)
        place.deliver()
        (task,) = place.obligations()
        assert (task.state, len(web.asked)) == ("blocked", 2)  # never sent a third time
        assert task.reason.startswith("effect_uncertain: ") and "dedupe_seconds" in task.reason
        web.answer = lambda asked: http(200)
        place.fp.resolve(task.task_id, "retry", reason="looked it up: it is not there")
        place.deliver()
    assert states(place) == ["done"]


# -- one after another


def test_an_ordered_destination_goes_one_by_one_with_a_head_that_the_receiver_has_too(place, kit):
    with Web(kit.answer) as web:
        place.destination(web.url, ordered=True)
        tasks = place.results(*range(12))
        place.deliver()
        row = place.fp.destination("out")
    assert [operation for operation, _ in kit.effects()] == [f"{each}:1" for each in tasks]
    events = [
        json.loads(each.body) for each in web.asked if "cloudevents" in each.headers["content-type"]
    ]
    assert [each["sequence"] for each in events] == [f"{n:015d}" for n in range(1, 13)]
    assert events[0]["fpprevious"] == "00" * 32
    assert (row.sequence, len(row.head)) == (12, 64)


def test_nothing_overtakes_what_failed_on_an_ordered_destination(place, kit):
    fail = {"left": 3}

    def answer(asked):
        if "cloudevents" in asked.headers["content-type"] and fail["left"]:
            fail["left"] -= 1
            return http(500)
        return kit.answer(asked)

    with Web(answer) as web:
        place.destination(web.url, ordered=True)
        tasks = place.results(*range(5))
        place.deliver()
    assert [operation for operation, _ in kit.effects()] == [f"{each}:1" for each in tasks]
    assert [each.attempt for each in place.obligations()] == [4, 1, 1, 1, 1]


def test_a_stream_of_which_an_answer_was_lost_goes_on_where_the_receiver_is(place, kit):
    """The receiver has the effect, the store does not know: the same delivery gives its receipt."""
    lose = {"left": 1}

    def answer(asked):
        made = kit.answer(asked)
        if "cloudevents" in asked.headers["content-type"] and lose["left"]:
            lose["left"] -= 1
            return None
        return made

    with Web(answer) as web:
        place.destination(web.url, ordered=True)
        place.results(*range(4))
        place.deliver()
        assert place.fp.destination("out").sequence == 4
    assert len(kit.effects()) == 4 and states(place) == ["done"] * 4


def test_what_was_there_before_moves_no_stream_on(place, kit):
    """The store had moved on, and had not heard that the obligation was settled: it is delivered
    again under the next number, and answered with the receipt of its own."""
    with Web(kit.answer) as web:
        place.destination(web.url, ordered=True)
        place.results(1, 2)
        place.deliver()
        again = place.obligations()[0].payload
        place.fp.enqueue("out", again)
        place.deliver()
        assert place.fp.destination("out").sequence == 2
        place.results(3)
        place.deliver()
        assert place.fp.destination("out").sequence == 3
    assert len(kit.effects()) == 3 and states(place) == ["done"] * 4


def test_an_ordered_receiver_that_was_put_back_stops_the_destination(place, kit, tmp_path):
    with Web(kit.answer) as web:
        place.destination(web.url, ordered=True)
        place.results(1, 2)
        place.deliver()
        older = Kit(tmp_path / "older.db")
        web.answer = older.answer
        place.results(3)
        place.deliver()
        assert (place.fp.destination("out").stopped or "").startswith("gap: ")
        assert older.effects() == [] and states(place) == ["done", "done", "ready"]
        older.close()


# -- how it is run


def test_no_more_are_under_way_than_the_option_says_and_no_faster_than_the_rate(place):
    under_way, most = [0], [0]
    lock = threading.Lock()

    def answer(asked):
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(0.01)
        with lock:
            under_way[0] -= 1
        return http(200)

    with Web(answer) as web:
        place.destination(web.url, "idempotent", concurrency=3, rate=50)
        place.many(30)
        begun = time.monotonic()
        place.deliver()
        assert time.monotonic() - begun >= 29 / 50
    assert most[0] <= 3 and states(place) == ["done"] * 30


def test_a_changed_row_begins_a_new_run_with_what_it_says_now(place, kit):
    with Web(kit.answer) as web, Web(lambda asked: http(500)) as wrong:
        place.destination(wrong.url)
        place.fp.queue_set("out", backoff_seconds=0, max_attempts=100)
        place.results(1)
        with place.delivering():
            comes_true(lambda: wrong.asked)
            place.destination(web.url)
            comes_true(lambda: states(place) == ["done"])


def test_a_queue_that_is_no_destination_is_named(place):
    place.fp.enqueue("pages", 1)
    with pytest.raises(InvalidRequest, match="pages is no destination"):
        place.deliver("pages")


def test_an_address_that_nothing_can_be_sent_to_is_told_and_costs_the_others_nothing(
    place, kit, caplog
):
    with Web(kit.answer) as web:
        place.destination("http://127.1/", "idempotent", queue="odd")
        place.destination(web.url)
        place.results(1)
        made = place.dispatcher()
        assert made.run() == "left"
    assert states(place) == ["done"]
    assert any("odd" in each.getMessage() for each in caplog.records)


def test_no_secret_and_no_header_stands_in_a_reason_a_log_or_a_result(place, caplog):
    caplog.set_level(logging.DEBUG)
    with Web(
        lambda asked: Reply(b"HTTP/1.1 500 Bearer hidden-word\r\n\r\nhidden-word", close=True)
    ) as web:
        place.destination(
            web.url + "?key=hidden-word",
            "idempotent",
            headers={"Authorization": "Bearer hidden-word"},
        )
        place.fp.queue_set("out", backoff_seconds=0)
        place.results(1)
        place.deliver()
        web.answer = lambda asked: http(200, b"hidden-word")
        place.deliver()
        web.close()
        place.results(2)
        place.deliver(max_seconds=1)
    told = json.dumps([each.to_json() for each in place.obligations()])
    told += json.dumps(
        [place.evidence(each.task_id) for each in place.obligations() if each.state == "done"]
    )
    told += "".join(each.getMessage() + str(each.exc_info) for each in caplog.records)
    assert "hidden-word" not in told and SECRET not in told and SECRET[6:20] not in told


def test_what_another_token_may_not_do_a_dispatchers_may(place, kit):
    """The same over a caller that is a dispatcher and nothing more."""
    with Web(kit.answer) as web:
        place.destination(web.url)
        place.results(1)
        whole, place.fp = place.fp, place.fp.as_caller("dispatcher", "dispatcher")
        place.deliver()
        place.fp = whole
    assert states(place) == ["done"] and len(kit.effects()) == 1


def test_metrics_tell_what_tries_came_to(place, kit):
    from fencepost.server.meters import exposition

    with Web(kit.answer) as web:
        place.destination(web.url)
        place.results(1, 2)
        made = place.deliver()
    text = exposition(made.meters.families()).decode()
    assert 'fencepost_deliveries_total{destination="out",outcome="delivered"} 2' in text
    assert 'fencepost_delivery_seconds_count{destination="out"} 2' in text
    assert 'fencepost_destination_held{destination="out"} 0' in text


def test_a_run_that_cannot_begin_is_begun_again(place, kit, monkeypatch):
    """Its memory is in another process's hands for a moment."""
    real, calls = run._memory, []

    def busy(*given, **more):
        calls.append(given)
        if len(calls) == 1:
            raise InvalidRequest("a worker of this name runs already")
        return real(*given, **more)

    monkeypatch.setattr(run, "_memory", busy)
    with Web(kit.answer) as web:
        place.destination(web.url)
        place.results(1)
        with place.delivering():
            comes_true(lambda: states(place) == ["done"])


def test_what_is_owed_to_two_destinations_reaches_both(tmp_path):
    one, two = Kit(tmp_path / "one.db"), Kit(tmp_path / "two.db")
    with depot(tmp_path) as place, Web(one.answer) as first, Web(two.answer) as second:
        place.destination(first.url)
        place.destination(second.url, queue="also")
        place.fp.queue_set("pages", destinations=["out", "also"])
        place.fp.enqueue("pages", 1)
        (lease,) = place.fp.claim("pages", worker_id="w")
        place.fp.execute([Complete(lease.task_id, "w", lease.fence, result="x")])
        place.deliver()
        assert [len(each.effects()) for each in (one, two)] == [1, 1]
    one.close()
    two.close()
