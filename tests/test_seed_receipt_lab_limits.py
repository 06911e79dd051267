"""What the receipt lab says of copies: its counter-example, kept executable, and its misuse guard.

An epoch check rejects an old epoch at the owner that receives the command. It cannot stop two
independently restored databases from both accepting. Only the receiver of an effect can.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from helpers.lab import ask, raw, submission
from helpers.same_file import the_same_disk

import fencepost
from fencepost import SchemaMismatch, Unavailable


def copied(lab, name="restored.db"):
    """A copy of the store made with SQLite's backup API, as an operator's tool would make it."""
    target = lab.path.with_name(name)
    with lab.sql() as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    return target


def test_independent_restored_owners_accept_divergent_results_with_the_copied_fence(lab):
    """Identity reader pinned: the copy is opened as what it was. The limit, not a promise."""
    lease = lab.lease()
    copy = copied(lab)
    bound = {"expected_revision": 0, "epoch": 0, "policy_version": 0}
    with the_same_disk():
        ours, theirs = lab.fp, lab.open(copy)
    first = fencepost.Request.of(submission(lease, "ours", **bound), "op-original")
    second = fencepost.Request.of(submission(lease, "theirs", **bound), "op-restored")

    assert ask(ours, first).accepted
    assert ask(theirs, second).accepted

    assert lab.counts() == lab.counts(copy) == (1, 1, 1)
    for owner, value in ((ours, "ours"), (theirs, "theirs")):
        (result,) = owner.results(lease.task_id)
        assert (result.value, result.revision, result.commitment) == (value, 1, "open")


def test_a_real_copy_refuses_the_copied_lease_and_after_new_claims_both_owners_accept(lab):
    """A copy begins a new epoch when it is opened, and the old lease is dead there; and yet two
    owners go on accepting: a fence of one lineage says nothing about the other."""
    lease = lab.lease()
    copy = copied(lab)
    theirs = lab.open(copy)
    assert [w.why for w in theirs.writers()] == ["installed", "copied"]
    assert [w.why for w in lab.fp.writers()] == ["installed"]

    outcome = ask(theirs, submission(lease, "copied"))
    assert (outcome.status, outcome.issues) == ("failed", ("stale_epoch", "lease_expired"))
    assert lab.counts(copy) == (0, 0, 0)

    lab.clock.advance(60)
    (here,) = lab.fp.claim("intake", worker_id="w1")
    (there,) = theirs.claim("intake", worker_id="w1")
    assert (here.grant.epoch, there.grant.epoch) == (0, 16)
    assert (here.fence, there.fence) == (2, (16 << 32) + 1)
    here.submit("ours", expected_revision=0)
    there.submit("theirs", expected_revision=0)

    assert lab.counts() == lab.counts(copy) == (1, 1, 1)
    for owner in (lab.fp, theirs):
        assert [r.commitment for r in owner.results(lease.task_id)] == ["open"]


def test_a_single_owner_with_a_raised_floor_refuses_the_old_epoch(lab):
    """The independent control of the counter-example."""
    lease = lab.lease()
    lab.fp.clock_reset()
    assert ask(lab.fp, submission(lease, "late")).issues[0] == "stale_epoch"
    assert lab.counts() == (0, 0, 0)


def foreign(path):
    with raw(path) as own:
        own.execute("create table theirs (value text)")
        own.execute("insert into theirs values ('precious')")
        own.execute("pragma application_id = 7")
    return path.read_bytes()


@pytest.mark.parametrize("create", [False, True])
def test_opening_a_database_that_is_not_a_store_is_refused_and_leaves_it_as_it_was(
    tmp_path, create
):
    path = tmp_path / "theirs.db"
    before = foreign(path)
    with pytest.raises(Unavailable, match="not a Fencepost store"):
        fencepost.open(str(path), create=create)
    assert path.read_bytes() == before


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("content", [b"a letter\n" * 99, b"SQLite format 3\0" + b"x" * 99])
def test_opening_a_file_that_is_no_database_is_refused_and_leaves_it_as_it_was(
    tmp_path, create, content
):
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    with pytest.raises(Unavailable):
        fencepost.open(str(path), create=create)
    assert path.read_bytes() == content


def test_creating_a_store_never_overwrites_an_existing_path(lab):
    task_id = lab.offer("first")
    with lab.sql() as own:
        (identity,) = own.execute("select writer_id, secret from fencepost_store").fetchall()
    again = lab.open(create=True)
    assert again.task(task_id).payload == "first"
    with lab.sql() as own:
        assert own.execute("select writer_id, secret from fencepost_store").fetchall() == [identity]


def test_a_directory_is_no_place_for_a_store(tmp_path):
    with pytest.raises(Unavailable):
        fencepost.open(str(tmp_path), create=True)


def test_the_store_is_recognised_by_its_own_row_and_not_by_an_application_id(lab):
    """An accidental-misuse guard, not a boundary against one who can edit the file."""
    with lab.sql() as own:
        assert own.execute("pragma application_id").fetchall() == [(0,)]
        own.execute("pragma application_id = 99")
    assert lab.open().claim("intake", worker_id="w1") == []


def test_a_store_of_a_newer_schema_is_refused_and_left_as_it_was(lab):
    with lab.sql() as own:
        own.execute("update fencepost_store set schema_version = 99")
    before = lab.dump()
    with pytest.raises(SchemaMismatch, match="99"):
        lab.open()
    assert lab.dump() == before
