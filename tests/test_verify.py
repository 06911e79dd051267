"""Verify says nothing of a store that is whole, and names each edit by its place."""

from __future__ import annotations

import json
import shutil

import pytest
from helpers.lab import START, raw
from helpers.tamperings import TAMPERINGS
from helpers.workload import every_verb, opened

from fencepost.clock import FakeClock
from fencepost.commands import COMMANDS
from fencepost.issues import Forbidden
from fencepost.journal.checkpoint import Checkpoint
from fencepost.journal.problems import TOLD_OF_A_KIND, Findings
from fencepost.journal.reading import SHAPES, read
from fencepost.journal.tree import leaf_hash

pytestmark = pytest.mark.usefixtures("same_disk")


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A closed store that has lived through every verb, sealed; and its last checkpoint."""
    path = tmp_path_factory.mktemp("history") / "work.db"
    clock = FakeClock(START)
    with opened(path, clock) as fp:
        fp.ids = every_verb(fp, clock)
        head = fp.seal()
        return path, head, fp.ids


@pytest.fixture
def copy(history, tmp_path):
    """A copy to tamper with."""
    path = tmp_path / "copy.db"
    shutil.copyfile(history[0], path)
    return path


def verify(path, since=None):
    with opened(path) as fp:
        return fp.verify(since)


def tampered(path, *statements):
    """What verify finds after these statements of somebody who can write the file."""
    with raw(path) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount, f"changed nothing: {statement}"
    return verify(path)


def codes(found):
    return {problem.code for problem in found.problems}


def places(found):
    return {problem.place for problem in found.problems}


def test_a_whole_store_is_clean_and_its_parts_are_counted(history):
    path, head, _ = history
    with raw(path) as connection:
        bodies, gone, tasks, results = connection.execute(
            "select (select count(body) from fencepost_entry), "
            "(select count(*) from fencepost_entry where body is null), "
            "(select count(*) from fencepost_task), (select count(*) from fencepost_result)"
        ).fetchone()
    found = verify(path)
    assert found.problems == ()
    assert (found.entries, found.purged) == (bodies, gone)
    assert (found.tasks, found.results) == (tasks, results)
    assert (found.sealed, found.unsealed) == (bodies + gone, 0)
    assert found.root == head.root
    assert found.purged == 1  # what brought about a task that lives is kept for it


def test_entries_that_are_not_sealed_are_counted_and_their_rows_checked():
    with opened(":memory:") as fp:
        for number in range(3):
            fp.enqueue("q", number)
        fp.claim("q", worker_id="w")
        found = fp.verify()
    assert (found.entries, found.sealed, found.unsealed) == (4, 0, 4)
    assert (found.tasks, found.problems) == (3, ())


def test_an_empty_store_is_clean():
    with opened(":memory:") as fp:
        found = fp.verify()
    assert found.problems == ()
    assert (found.entries, found.tasks, found.results, found.sealed) == (0, 0, 0, 0)


def test_the_workload_leaves_an_entry_of_every_verb(history):
    with opened(history[0]) as fp:
        verbs = {json.loads(view.body)["verb"] for view in fp.entries() if view.body}
    assert verbs == set(SHAPES) == set(COMMANDS) - {"renew"}


def test_every_entry_that_is_written_is_read_back_by_its_shape(history):
    with opened(history[0]) as fp:
        for view in fp.entries():
            if view.body is not None:
                assert json.loads(view.body) == read(view.body)


@pytest.mark.parametrize("name", TAMPERINGS)
def test_verify_names(name, copy):
    statement, expected, place = TAMPERINGS[name]
    found = tampered(copy, statement)
    assert codes(found) == expected, found.problems
    assert place is None or place in places(found), found.problems
    assert all(p.place and p.message for p in found.problems), found.problems
    assert not any("None" in p.place for p in found.problems), found.problems


DONE = "id = (select min(id) from fencepost_task where state = 'done' and erased = 0)"
COUNTERS = {
    "last_fence": "last_fence - 1", "last_task": "last_task + 1", "last_entry": "last_entry + 1",
    "epoch": "epoch + 1", "floor": "0", "mark": "1", "writer_id": "'somebody'",
}  # fmt: skip


@pytest.mark.parametrize("column", COUNTERS)
def test_a_tampered_counter_is_named(column, copy):
    found = tampered(copy, f"update fencepost_store set {column} = {COUNTERS[column]}")
    named = [p.message for p in found.problems if p.code == "counter" and p.place == "store"]
    # last_task has only a lower bound once what entries brought about has been purged
    expected = [] if column == "last_task" else [column]
    assert [message.split()[0] for message in named] == expected


def test_without_a_purge_the_number_of_tasks_is_exact(tmp_path):
    path = tmp_path / "work.db"
    with opened(path) as fp:
        fp.enqueue("q", 1)
    found = tampered(path, "update fencepost_store set last_task = 2")
    assert [(p.code, p.message.split()[0]) for p in found.problems] == [("counter", "last_task")]


BOUND = {
    "state": "'dead'", "priority": "priority + 1", "due_at": "due_at + 1", "attempt": "attempt + 1",
    "max_attempts": "max_attempts + 1", "round": "round + 1", "revision": "revision + 1",
    "fence": "fence + 1", "epoch": "epoch + 1", "policy_version": "policy_version + 1",
    "worker_id": "'thief'", "created_at": "created_at + 1", "erased": "1",
    "content": "zeroblob(32)", "queue_id": "queue_id + 1", "key": "'other'",
    "granted_at": "granted_at + 1", "changed_at": "changed_at + 1", "entry": "entry - 1",
    "created_entry": "created_entry - 1", "parent": "5", "place": "0", "rank": "rank - 1",
    "task_id": "'01900000-0000-7000-8000-000000000000'", "id": "900",
}  # fmt: skip


@pytest.mark.parametrize("column", BOUND)
def test_a_row_edited_in_this_column_is_named_by_its_task(column, copy):
    with raw(copy) as connection:
        (task_id,) = connection.execute(
            f"select task_id from fencepost_task where {DONE}"
        ).fetchone()
    found = tampered(copy, f"update fencepost_task set {column} = {BOUND[column]} where {DONE}")
    assert {p.code for p in found.problems} & {"row_edited", "payload", "row_missing"}
    assert any(task_id in place for place in places(found)), found.problems


def test_every_column_of_a_task_is_bound_but_the_ones_that_the_docs_name(copy):
    with raw(copy) as connection:
        columns = {row[1] for row in connection.execute("pragma table_info(fencepost_task)")}
    assert columns - set(BOUND) == {"reason", "lease_expires_at"}


def test_the_end_of_a_lease_is_bound_to_the_place_where_claims_look_for_it(copy):
    found = tampered(
        copy, "update fencepost_task set lease_expires_at = lease_expires_at + 1 "
        "where state = 'leased'",
    )  # fmt: skip
    assert codes(found) == {"row_edited"}


def test_two_swapped_entries_are_both_named(copy):
    swap = "update fencepost_entry set number = {} where number = {}"
    found = tampered(copy, swap.format(-1, 14), swap.format(14, 15), swap.format(15, -1))
    assert {"entry 14", "entry 15"} <= {p.place for p in found.problems if p.code == "entry_edited"}


def test_an_added_row_is_named(copy):
    names = "id, task_id, queue_id, key, state, place, rank, priority, due_at, attempt"
    names += ", max_attempts, round, revision, fence, epoch, policy_version, worker_id, granted_at"
    names += ", lease_expires_at, created_at, changed_at, content, created_entry, entry, erased"
    forged = "01900000-0000-7000-8000-00000000beef"
    values = names.replace("id, task_id", f"900, '{forged}'", 1).replace("key", "null", 1)
    found = tampered(
        copy, f"insert into fencepost_task ({names}) select {values} from fencepost_task "
        f"where {DONE}",
    )  # fmt: skip
    assert ("row_added", f"task {forged}") in {(p.code, p.place) for p in found.problems}


def test_one_edited_entry_is_one_problem_and_not_one_at_each_node_above_it(copy):
    found = tampered(copy, TAMPERINGS["an edited actor"][0])
    assert [(p.code, p.place) for p in found.problems if p.code in ("node", "checkpoint")] == []
    assert [p.place for p in found.problems if p.code == "entry_edited"] == ["entry 15"]


def test_only_the_first_hundred_problems_of_a_kind_are_listed():
    findings = Findings()
    for number in range(TOLD_OF_A_KIND + 7):
        findings.tell("node", f"node 0/{number}", "x")
    found = findings.all()
    assert len(found) == TOLD_OF_A_KIND + 1
    assert found[-1].message == "7 more of this kind"


# -- against a checkpoint that was kept elsewhere


def test_a_kept_checkpoint_of_the_same_history_is_clean(history):
    path, head, _ = history
    with opened(path) as fp:
        for kept in [*fp.checkpoints(), head]:
            assert fp.verify(kept).problems == ()


def resealed(path):
    """Somebody drops the tree and lets it be made anew."""
    with raw(path) as connection:
        connection.execute("delete from fencepost_checkpoint")
        connection.execute("delete from fencepost_node")
    with opened(path) as fp:
        return fp.seal()


def test_a_rewritten_suffix_that_is_whole_in_itself_shows_against_a_kept_checkpoint(tmp_path):
    path = tmp_path / "work.db"
    with opened(path) as fp:
        for number in range(6):
            fp.enqueue("q", number)
        before = fp.seal()
    with raw(path) as connection:
        (body,) = connection.execute("select body from fencepost_entry where number = 5").fetchone()
        forged = body.replace(b'"actor":"local"', b'"actor":"mable"')
        connection.execute("update fencepost_entry set body = ? where number = 5", (forged,))
        connection.execute("update fencepost_entry set key = replace(key, 'local', 'mable') "
                           "where number = 5")  # fmt: skip
    after = resealed(path)
    with opened(path) as fp:
        assert after.size == before.size and after.root != before.root
        assert fp.verify().problems == ()  # nothing inside the file can show it
        found = fp.verify(before)
    assert [(p.code, p.place) for p in found.problems] == [("since_fork", "checkpoint of 6")]


def test_a_cut_tail_shows_against_a_kept_checkpoint(tmp_path):
    path = tmp_path / "work.db"
    with opened(path) as fp:
        for number in range(6):
            fp.enqueue("q", number)
        kept = fp.seal()
    with raw(path) as connection:
        connection.execute("delete from fencepost_entry where number > 4")
        connection.execute("delete from fencepost_payload where task > 4")
        connection.execute("delete from fencepost_task where id > 4")
        (at,) = connection.execute("select max(changed_at) from fencepost_task").fetchone()
        connection.execute(
            f"update fencepost_store set last_entry = 4, last_task = 4, mark = {at}"
        )
    assert resealed(path).size == 4
    assert verify(path).problems == ()  # nothing inside the file can show it
    found = verify(path, kept)
    assert [(p.code, p.place) for p in found.problems] == [("since_cut", "checkpoint of 6")]


def test_a_cut_tail_that_forgets_the_counters_shows_by_itself(copy):
    last = "(select max(number) from fencepost_entry)"
    found = tampered(copy, f"delete from fencepost_entry where number = {last}")
    assert "counter" in codes(found)
    assert "entry_missing" in codes(found)


def test_a_checkpoint_of_another_store_is_no_checkpoint_of_this_one(history):
    path, head, _ = history
    found = verify(path, Checkpoint("fencepost/other", head.size, head.root))
    assert codes(found) == {"since_fork"}


# -- who may, and how it is told


def test_only_operator_and_auditor_may_verify(history):
    with opened(history[0]) as fp:
        assert fp.as_caller("eve", "auditor").verify().clean
        for kind in ("worker", "producer", "human", "dispatcher"):
            with pytest.raises(Forbidden):
                fp.as_caller("eve", kind).verify()


def test_progress_goes_through_entries_and_then_tasks():
    seen = []
    with opened(":memory:") as fp:
        list(fp.enqueue_many("q", [{"payload": n} for n in range(1_100)]))
        for number in range(600):
            fp.enqueue("r", number)
        fp.verify(progress=seen.append)
    assert [(p.what, p.done, p.total) for p in seen] == [
        ("entries", 500, 605), ("tasks", 500, 1_700), ("tasks", 1_000, 1_700),
        ("tasks", 1_500, 1_700),
    ]  # fmt: skip


def test_a_verification_is_json(history):
    path, head, _ = history
    told = verify(path).to_json()
    assert json.loads(json.dumps(told)) == told
    assert (told["status"], told["root"], told["problems"]) == ("clean", head.root.hex(), [])


def test_verify_waits_for_nobody_and_sees_one_moment(tmp_path):
    path = tmp_path / "work.db"
    with opened(path) as fp, opened(path, seed=8) as other:
        list(fp.enqueue_many("q", [{"payload": n} for n in range(600)]))
        done = []

        def busy(progress):
            if not done:
                done.append(other.enqueue("q", "meanwhile").task_id)

        found = fp.verify(progress=busy)
        assert (found.problems, found.tasks) == ((), 600)
        assert fp.verify().tasks == 601


def test_leaf_hashes_are_shown_where_an_entry_is_not_the_callers_to_see(history):
    path, _, _ = history
    with opened(path) as fp:
        views = list(fp.entries())
        guest = list(fp.as_caller("w", "worker").entries())
        auditor = list(fp.as_caller("a", "auditor", "other").entries())
    assert auditor == views
    assert [view.leaf_hash for view in guest] == [view.leaf_hash for view in views]
    hidden = [view for view, seen in zip(guest, views, strict=True) if view != seen]
    assert {json.loads(views[view.number - 1].body)["scope"] for view in hidden} == {"other"}
    assert [(view.body, view.receipt) for view in hidden] == [(None, None)] * 2
    assert all(leaf_hash(view.body) == view.leaf_hash for view in views if view.body is not None)
    assert len([view for view in views if view.body is None]) == 1
