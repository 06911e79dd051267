"""What told a mutant of machine/ from the program and no quick test asked for."""

from __future__ import annotations

import json

import pytest
from helpers.stand import QUEUE, SCOPE, SECOND, WORKER, Stand, binding

from fencepost import commands as c
from fencepost.machine.fold import fold
from fencepost.machine.rows import Stored
from fencepost.model import Receipt, TaskRow
from fencepost.record import replace


def decided(stand, command):
    """What the machine alone makes of a command: the verdict and the changes."""
    with stand.loaded(command) as loaded:
        caller = stand.fp.as_caller("local").caller
        (verdict,), changes = fold([(caller, c.Request.of(command))], loaded)
    return verdict, changes


@pytest.mark.parametrize("verb", ["submit", "complete"])
@pytest.mark.parametrize("expected", [None, 0])
def test_a_result_is_guarded_with_the_fence_and_the_revision_that_were_presented(verb, expected):
    with Stand() as stand:
        lease = stand.leased()
        command = c.COMMANDS[verb](**binding(lease), result=1, expected_revision=expected)
        verdict, changes = decided(stand, command)
        assert verdict.outcome.accepted
        assert changes.updated[lease.task_id].guard == (lease.fence, expected)


def test_a_lease_lasts_as_long_as_the_claim_asks_and_else_as_the_queue_says():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, lease_seconds=7)
        for asked, seconds in ((30, 30), (None, 7)):
            stand.task()
            lease = stand.claim(lease_seconds=asked)
            assert lease.lease_expires_at - lease.grant.granted_at == seconds * SECOND
            assert stand.fp.task(lease.task_id).lease_expires_at == lease.lease_expires_at


def test_one_key_with_two_payloads_in_one_command_is_a_conflict():
    with Stand() as stand:
        two = ({"payload": 1, "key": "k"}, {"payload": 2, "key": "k"})
        assert stand.ask(c.Enqueue(QUEUE, two)).issues == ("key_conflict",)
        same = ({"payload": 1, "key": "k"}, {"payload": 1, "key": "k"})
        told = stand.ask(c.Enqueue(QUEUE, same))
        assert told.accepted
        assert len(set(told.task_ids)) == 1


def test_the_entry_of_a_purge_or_a_sweep_names_the_queue_that_was_asked_for():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, retain_seconds=0)
        stand.leased().complete()
        for verb in ("sweep", "purge"):
            for queue in (QUEUE, None):
                told = stand.ask(c.COMMANDS[verb](queue), key=f"{verb} {queue}".replace(" ", "-"))
                assert told.receipt is not None
                assert told.receipt.entry.get("queue") == queue
                named = [item.get("queue") for item in told.receipt.entry["tasks"]]
                assert named == [None if queue else QUEUE] * (len(told.task_ids))


def test_each_task_of_a_purge_or_a_sweep_of_the_scope_names_its_own_queue():
    with Stand() as stand:
        stand.fp.set_policy(retain_seconds=0)
        for queue in ("a", "b"):
            stand.task(queue=queue)
            stand.claim(queue=queue)
        stand.clock.advance(60)
        swept = stand.ask(c.Sweep("a"))
        assert [item.get("queue") for item in swept.receipt.entry["tasks"]] == [None]
        swept = stand.ask(c.Sweep())
        assert [item.get("queue") for item in swept.receipt.entry["tasks"]] == ["b"]
        for task in stand.fp.tasks():
            stand.fp.cancel(task.task_id)
        for queue, named in (("b", None), (None, "a")):
            told = stand.ask(c.Purge(queue))
            assert [item.get("queue") for item in told.receipt.entry["tasks"]] == [named]


def test_a_purge_of_a_queue_finds_its_tasks_behind_older_ones_of_others():
    with Stand() as stand:
        stand.fp.set_policy(retain_seconds=0)
        tasks = [stand.task(queue=queue) for queue in "aaab"]
        for task_id in tasks:
            stand.fp.cancel(task_id)
        assert stand.ask(c.Purge("b", limit=1)).task_ids == (tasks[3],)
        assert stand.ask(c.Purge(limit=1)).task_ids == (tasks[0],)


def test_a_claim_goes_on_past_a_task_that_its_batch_has_purged():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, retain_seconds=0)
        ended = stand.leased()
        ended.complete()
        ready = stand.task()
        again, over = c.Requeue(ended.task_id), c.Cancel(ended.task_id)
        told = stand.fp.execute([again, over, c.Purge(), c.Claim("v", (QUEUE,))])
        assert [outcome.task_ids for outcome in told][2:] == [(ended.task_id,), (ready,)]


def test_a_new_task_is_ready_and_was_never_leased():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, max_attempts=7)
        _, changes = decided(stand, c.Enqueue(QUEUE, ({"payload": 1}, {"payload": 2, "key": "k"})))
        rows = list(changes.inserted.values())
        now, number = stand.fp.now(), changes.entries[0].number
        for row, key in zip(rows, (None, "k"), strict=True):
            have = {name: getattr(row, name) for name in TaskRow.__record__}
            fixed = ("id", "task_id", "content", "guard")
            assert {name: value for name, value in have.items() if name not in fixed} == {
                "scope": SCOPE, "queue": QUEUE, "key": key, "state": "ready", "priority": 0,
                "due_at": now, "attempt": 0, "max_attempts": 7, "round": 1, "revision": 0,
                "fence": 0, "epoch": 0, "policy_version": 0, "worker_id": None, "granted_at": 0,
                "lease_expires_at": 0, "created_at": now, "changed_at": now,
                "created_entry": number, "entry": number, "parent": None, "reason": None,
                "erased": 0,
            }  # fmt: skip
        assert [row.id for row in rows] == [1, 2]


def test_a_batch_leaves_the_stores_row_as_its_commands_have_moved_it():
    with Stand() as stand:
        stand.leased()
        stand.task()
        with stand.loaded() as loaded:
            store = loaded.store
        _, changes = decided(stand, c.Claim("w", (QUEUE,)))
        moved = {"last_fence": store.last_fence + 1, "last_entry": store.last_entry + 1}
        assert changes.store == replace(store, **moved)


def test_a_receipt_without_a_part_of_its_entry_is_none():
    whole = Stored(1, b"{}", b"s", b"r", None)
    assert whole.receipt() == Receipt(1, b"{}", b"s", b"r", None)
    for part in ("body", "salt", "request_sha256"):
        assert replace(whole, **{part: None}).receipt() is None


@pytest.mark.parametrize(
    ("queue", "settings", "message"),
    [("out", {"destinations": ["x"]}, "a destination has no destinations of its own"),
     ("new", {"destinations": [QUEUE]}, (f"{QUEUE} cannot be a destination: it has destinations, "
      "or is the queue itself")),
     ("new", {"destinations": ["new"]}, ("new cannot be a destination: it has destinations, "
      "or is the queue itself")),
     ("new", {"lease_seconds": 901}, "lease_seconds is above max_lease_seconds"),
     ("new", {"lease_seconds": 9, "max_hold_seconds": 8}, ("lease_seconds is above "
      "max_hold_seconds"))],
)  # fmt: skip
def test_settings_that_cannot_hold_together_are_refused_and_change_nothing(
    queue, settings, message
):
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        before = stand.dump()
        told = stand.ask(c.QueueSet(queue, settings))
        assert (told.issues, told.message) == (("invalid_request",), f"queue.set: {message}")
        assert stand.dump() == before
        stand.fp.queue_set("new", lease_seconds=9, max_lease_seconds=9, max_hold_seconds=9,
                           destinations=["out"])  # fmt: skip


def test_the_entry_of_a_review_says_the_revision_and_the_verdict():
    with Stand() as stand:
        lease = stand.leased()
        lease.complete(1)
        told = stand.ask(c.Review(lease.task_id, 1, "rejected"), "ann", "human", key="r")
        assert told.receipt is not None
        assert told.receipt.entry["note"] == {"revision": 1, "verdict": "rejected"}


def test_the_answer_to_an_erase_sent_again_says_how_much_is_left():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        lease = stand.leased()
        for number in range(181):
            lease.submit(number)
        first = stand.ask(c.Erase(lease.task_id), key="e")
        again = stand.ask(c.Erase(lease.task_id), key="e")
        assert (first.facts["remaining"], again.facts["remaining"]) == (1, 1)
        assert (first.replayed, again.replayed) == (False, True)
        assert again.receipt == first.receipt
        assert stand.fp.verify().problems == ()  # its target is not the first that it names


def test_a_result_command_of_one_worker_is_not_kept_aside_for_a_queue_that_keeps_none():
    with Stand() as stand:
        lease = stand.leased(WORKER)
        stand.clock.advance(60)
        _, changes = decided(stand, c.Submit(**binding(lease), result=1))
        assert changes.kept == []
        stand.fp.queue_set(QUEUE, keep_refused=3)
        _, changes = decided(stand, c.Submit(**binding(lease), result=1))
        (kept,) = changes.kept
        assert (kept.worker_id, kept.fence, kept.issues) == (WORKER, lease.fence, "lease_expired")
        assert (kept.at, kept.body, kept.limit) == (stand.fp.now(), b"1", 3)


def test_an_enqueue_of_known_tasks_alone_says_so_and_leaves_no_entry():
    with Stand() as stand:
        new = stand.ask(c.Enqueue(QUEUE, ({"payload": 1, "key": "k"},)))
        assert "known" not in new.facts
        known = stand.ask(c.Enqueue(QUEUE, ({"payload": 1, "key": "k"},)))
        assert (known.accepted, known.receipt, known.facts) == (True, None, {"known": True})
        assert known.task_ids == new.task_ids
        mixed = ({"payload": 1, "key": "k"}, {"payload": 2})
        told = stand.ask(c.Enqueue(QUEUE, mixed))
        assert told.receipt is not None and "known" not in told.facts
        keyed = stand.ask(c.Enqueue(QUEUE, ({"payload": 1, "key": "k"},)), key="K")
        assert keyed.receipt is not None and keyed.task_ids == new.task_ids


def test_a_result_that_is_recorded_names_the_entry_that_did_it():
    with Stand() as stand:
        lease = stand.leased()
        receipt = lease.submit(1)
        told = stand.ask(c.Submit(**binding(lease), result=1), key="again")
        assert told.issues == ("duplicate_result",)
        assert told.facts == {
            "state": "leased", "fencing_token": lease.fence, "revision": 1,
            "receipt": receipt.number,
        }  # fmt: skip
        other = stand.ask(c.Submit(**binding(lease), result=2), key="other")
        assert other.accepted


def test_a_claim_takes_what_its_batch_has_just_added_by_priority_and_then_by_age():
    with Stand() as stand:
        tasks = [{"payload": n, "priority": priority} for n, priority in enumerate((1, 9, 5, 9))]
        added, *claims = stand.fp.execute(
            [c.Enqueue(QUEUE, tuple(tasks)), *[c.Claim("w", (QUEUE,))] * 4, c.Claim("w", (QUEUE,))]
        )
        first, second, third, fourth = added.task_ids
        assert [told.task_ids for told in claims] == [(second,), (fourth,), (third,), (first,), ()]


def test_what_a_claim_settles_on_its_way_bears_no_key_and_its_receipt_is_the_claims():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, max_attempts=1)
        spent = stand.leased()
        stand.clock.advance(60)
        ready = stand.task()
        told = stand.ask(c.Claim(WORKER, (QUEUE,)), WORKER, "worker", key="k")
        assert told.task_ids == (ready,)
        assert stand.fp.task(spent.task_id).state == "dead"
        sweep, claim = [json.loads(view.body) for view in stand.fp.entries()][-2:]
        assert (sweep["verb"], "key" in sweep) == ("sweep", False)
        assert (claim["verb"], "key" in claim) == ("claim", True)
        again = stand.ask(c.Claim(WORKER, (QUEUE,)), WORKER, "worker", key="k")
        assert (again.replayed, again.receipt) == (True, told.receipt)
        rows = "select key, request_sha256 from fencepost_entry order by number desc limit 2"
        (key, request), (none, same) = stand.connection.execute(rows)
        assert (key is not None, none, request) == (True, None, same)


def test_a_follow_up_names_its_queue_only_where_it_is_another_than_its_parents():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, max_followups=4)
        known = {queue: stand.task("x", queue, key="k") for queue in (QUEUE, "other")}
        lease = stand.claim_of(stand.task())
        new = [{"queue": queue, "payload": payload, "key": key}
               for queue in known for payload, key in (("x", "k"), ("new", "n"))]  # fmt: skip
        receipt = lease.complete(followups=new)
        items = receipt.entry["tasks"][1:]
        assert [item["role"] for item in items] == ["followup"] * 4
        assert [item.get("queue") for item in items] == [None, None, "other", "other"]
        assert [item.get("before") for item in items] == ["ready", None, "ready", None]
        assert {items[0]["task_id"], items[2]["task_id"]} == set(known.values())
