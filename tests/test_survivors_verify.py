"""What told a mutant of `verify` or of rare answers from the program, and no quick test asked."""

from __future__ import annotations

import json

import pytest
from helpers import folding
from helpers.stand import QUEUE, Stand, binding

from fencepost import canonical
from fencepost import commands as c
from fencepost.journal.problems import TOLD_OF_A_KIND, Findings
from fencepost.journal.reading import read
from fencepost.journal.tree import EMPTY_ROOT
from fencepost.machine.fold import fold
from fencepost.record import replace


def test_the_first_entry_is_read_as_strictly_as_any_other():
    with Stand() as stand:
        for number in range(2):
            stand.task(number)
        for number in (1, 2):
            stand.connection.execute("savepoint whole")
            spaced = """update fencepost_entry set body =
                cast(replace(cast(body as text), '"v":1', '"v": 1') as blob) where number = ?"""
            stand.connection.execute(spaced, (number,))
            found = stand.fp.verify().problems
            assert ("entry_form", f"entry {number}") in {(p.code, p.place) for p in found}
            stand.connection.execute("rollback to whole")


def test_where_the_tree_is_longer_than_the_journal_no_root_is_made_up():
    with Stand() as stand:
        for number in range(3):
            stand.task(number)
        stand.fp.seal()
        stand.connection.execute("delete from fencepost_entry where number = 3")
        told = stand.fp.verify().to_json()
        assert (told["root"], told["sealed"]) == (EMPTY_ROOT.hex(), 3)
        assert ("entry_missing", "entry 3") in {(p["code"], p["place"]) for p in told["problems"]}


@pytest.mark.parametrize(
    ("number", "more"), [(99, None), (100, None), (101, "1 more of this kind")]
)
def test_a_hundred_of_a_kind_are_told_one_by_one_and_the_rest_as_a_number(number, more):
    findings = Findings()
    for each in range(number):
        findings.tell("node", f"node 0/{each}", "x")
    found = findings.all()
    assert len(found) == min(number, TOLD_OF_A_KIND) + (more is not None)
    assert (found[-1].message == more) is (more is not None)


@pytest.mark.parametrize("tasks", [{}, {"a": 1}, [1], [{}, 1], "x", None])
def test_tasks_that_are_no_list_of_objects_are_told_as_that(tasks):
    with Stand() as stand:
        stand.task()
        (body,) = stand.connection.execute("select body from fencepost_entry").fetchone()
    told = canonical.dumps({**json.loads(body), "tasks": tasks})
    with pytest.raises(ValueError, match="its tasks are not a list of objects"):
        read(told)


def test_a_note_that_is_refused_says_that_it_is_the_note():
    place = next(
        place
        for place, each in enumerate(folding.history())
        if b'"verb":"scope.set_policy"' in (each.body or b"")
    )
    entry = json.loads(folding.history()[place].body)
    entry["note"]["policy_version"] = 0
    found = folding.with_other_bytes(place, canonical.dumps(entry))
    assert [p.message for p in found] == ["its note: the policy version does not rise"]


@pytest.mark.parametrize(
    ("changed", "sealed", "clean"),
    [({}, True, True), ({"task": None}, True, False), ({}, False, False),
     ({"salt": b"s"}, True, False), ({"request_sha256": b"r"}, True, False),
     ({"result_sha256": b"r"}, True, False), ({"key": ("s", "a", "k")}, True, False)],
)  # fmt: skip
def test_bytes_are_gone_as_a_purge_leaves_it_or_it_is_told(changed, sealed, clean):
    place = next(n for n, each in enumerate(folding.history()) if each.body is None)
    row = folding.history()[place]
    assert row.task is not None
    entries = folding.taking_from(place)
    entries.tree.size = row.number if sealed else row.number - 1
    entries.take(replace(row, **changed))
    told = [(p.code, p.place) for p in entries.findings.all()]
    assert told == ([] if clean else [("entry_missing", f"entry {row.number}")])


# --- answers ----------------------------------------------------------------------------------


def test_a_review_that_requeues_leaves_no_reason_of_the_round_before():
    with Stand() as stand:
        lease = stand.leased()
        lease.submit(1)
        lease.fail("no luck", then="give_up")
        reason = "select reason from fencepost_task"
        assert stand.connection.execute(reason).fetchone() == (b'"no luck"',)
        stand.fp.as_caller("ann", "human").review(lease.task_id, 1, "rejected", requeue=True)
        assert stand.connection.execute(reason).fetchone() == (None,)


def test_two_purges_of_a_batch_take_each_its_own_queue():
    with Stand() as stand:
        stand.fp.set_policy(retain_seconds=0)
        tasks = {queue: stand.task(queue=queue) for queue in "ab"}
        for task_id in tasks.values():
            stand.fp.cancel(task_id)
        told = stand.fp.execute([c.Purge("a", limit=2), c.Purge("b", limit=2)])
        assert [outcome.task_ids for outcome in told] == [(tasks["a"],), (tasks["b"],)]


@pytest.mark.parametrize("key", ["K", None])
def test_a_receipt_whose_opening_is_lost_is_told_as_erased(key):
    with Stand() as stand:
        lease = stand.leased()
        sent = c.Request.of(c.Complete(**binding(lease), result=1), key)
        assert stand.ask(sent).accepted
        stand.connection.execute("update fencepost_entry set salt = null")
        assert stand.ask(sent).issues == ("receipt_erased",)
        assert stand.fp.task(lease.task_id).state == "done"
        assert stand.fp.task(lease.task_id).queue == QUEUE


def test_a_claim_of_one_task_settles_it_where_its_attempts_are_spent():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, max_attempts=1)
        other, spent = stand.leased(), stand.leased()
        stand.clock.advance(60)
        assert stand.fp.claim(task_id=spent.task_id, worker_id="v") == []
        states = [stand.fp.task(lease.task_id).state for lease in (spent, other)]
        assert states == ["dead", "leased"]  # the other one was not asked for


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_an_epoch_whose_fences_are_used_up_is_followed_by_the_next(epoch):
    with Stand() as stand:
        stand.task()
        sent = c.Claim("w", (QUEUE,))
        with stand.loaded(sent) as loaded:
            last = ((epoch + 1) << 32) - 1
            loaded.store = replace(loaded.store, epoch=epoch, last_fence=last)
            caller = stand.fp.as_caller("local").caller
            (verdict,), changes = fold([(caller, c.Request.of(sent))], loaded)
        assert verdict.outcome.accepted
        assert (changes.store.epoch, changes.store.last_fence) == (epoch + 1, last + 1)
        (row,) = changes.updated.values()
        assert (row.epoch, row.fence) == (epoch + 1, last + 1)
