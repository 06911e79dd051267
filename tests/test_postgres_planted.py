"""Each net is shown to be able to fail: what it is there to see is planted, and it sees it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import test_postgres_beside as beside
import test_postgres_lost as lost
import test_postgres_races as races
from helpers import failover, pg_side, postgres

from fencepost import lineage
from fencepost.issues import FencepostError
from fencepost.storage.postgres import commit as committing
from fencepost.storage.postgres import settled, talk

# what a law fails with
SEEN = (AssertionError, pytest.fail.Exception, FencepostError, TimeoutError)


def reworded(patch, name, old, new):
    """The statement with other words in it."""
    text = talk.STATEMENTS[name]
    assert old in text, f"{name} has changed: plant it anew"
    patch.setitem(talk._KNOWN, name, talk._statement(f"{name}_bent", text.replace(old, new)))


def instead(patch, name, text):
    """Another statement altogether."""
    patch.setitem(talk._KNOWN, name, talk._statement(f"{name}_bent", text))


def shared_holds_nothing(patch):
    reworded(patch, "store_shared", "where false for key share", "where false")


def the_row_is_locked(patch):
    """Locks of the row let the next past whoever waits to be alone."""
    instead(patch, "hold_alone", "select 1 from fencepost_store where id = 1 for update")
    held = "and not exists (select 1 from fencepost_store where false for key share)"
    reworded(patch, "store_shared", held, "for key share")


def the_clock_stands_still_in_a_wait(patch):
    reworded(patch, "clock", "clock_timestamp()", "now()")


def what_comes_late_is_passed_over(patch):
    sealed = "coalesce((select max(number) from fencepost_node), 0)"
    reworded(patch, "unsealed", "where number >= ", f"where number > {sealed} and number >= ")
    behind = f"from fencepost_unsealed where number > {sealed}"
    reworded(patch, "unsealed_count", "from fencepost_unsealed", behind)


def who_still_runs_is_not_waited_for(patch):
    def looking(self, last, *_):
        self._ended = last

    patch.setattr(settled.Settled, "looking", looking)


def sealers_go_side_by_side(patch):
    """The mark, which each of them raises, would be a second lock."""
    instead(patch, "sealer", "select 1")
    instead(patch, "raise_mark", "select %(now)s::bigint")


def names_in_any_order(patch):
    reworded(patch, "insert_entry", 'order by v.key collate "C", v.number', "")


def who_forgets_is_not_alone(patch):
    instead(patch, "forgetter", "select 1")


def no_key_is_held(patch):
    instead(patch, "hold_keys", "select %(keys)s::text[]")


@pytest.mark.parametrize(
    ("plant", "law", "arguments"),
    [
        (
            no_key_is_held,
            races.test_a_copy_of_a_claim_beside_it_hears_the_same_receipt,
            ("claim", False),
        ),
        (
            shared_holds_nothing,
            races.test_a_change_of_what_others_are_judged_by_waits_for_them_and_they_for_it,
            (races.revoke, races.ScopeRevoked),
        ),
        (
            the_row_is_locked,
            races.test_whoever_must_be_alone_is_not_overtaken_by_those_who_come_after,
            (),
        ),
        (
            what_comes_late_is_passed_over,
            races.test_a_late_commit_is_skipped_by_no_sealer_and_comes_behind,
            (),
        ),
        (
            who_still_runs_is_not_waited_for,
            races.test_no_number_is_passed_over_while_who_has_drawn_it_still_runs,
            (),
        ),
        (sealers_go_side_by_side, races.test_two_sealers_put_each_entry_in_once, ()),
        (
            names_in_any_order,
            races.test_two_batches_that_bring_the_same_into_being_in_both_orders_do_not_either,
            ("receipts",),
        ),
        (
            who_forgets_is_not_alone,
            beside.test_a_receipt_goes_with_the_last_of_its_tasks_though_two_purge_at_once,
            (),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", "with")[:40],
)  # fmt: skip
def test_a_race_that_is_planted_is_seen(monkeypatch, plant, law, arguments):
    monkeypatch.setattr(pg_side, "PATIENCE_SECONDS", 3.0)
    with pg_side.sides() as two:
        two.other = two.open()
        plant(monkeypatch)
        with pytest.raises(SEEN):
            law(two, *arguments)


def test_a_clock_that_stands_still_in_a_wait_is_seen(monkeypatch):
    the_clock_stands_still_in_a_wait(monkeypatch)
    with pytest.raises(AssertionError):
        races.test_a_claim_that_waited_for_its_task_has_its_lease_from_when_it_had_it()


@pytest.fixture(scope="module")
def server():
    with postgres.Server(lost.LASTING, tcp=True) as own:
        yield own


def the_newest_is_of_the_future(patch):
    instead(
        patch, "xact_status",
        "select true, case when %(xid)s::xid8 < pg_snapshot_xmax(pg_current_snapshot()) "
        "then pg_xact_status(%(xid)s::xid8) end",
    )  # fmt: skip


def warnings_are_not_heard(patch):
    @contextmanager
    def deaf(connection):
        yield []

    patch.setattr(committing, "_watched", deaf)


def a_receipt_is_told_as_it_stands(patch):
    instead(patch, "confirm", "select false")


@pytest.mark.parametrize(
    ("plant", "law", "arguments"),
    [
        (
            the_newest_is_of_the_future,
            lost.test_what_has_not_ended_at_the_server_is_never_told_as_not_done,
            (),
        ),
        (
            warnings_are_not_heard,
            lost.test_a_wait_for_a_standby_that_is_cancelled_is_no_success,
            ("pg_cancel_backend",),
        ),
        (
            a_receipt_is_told_as_it_stands,
            lost.test_a_stored_receipt_is_told_again_only_when_a_standby_has_it,
            (),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", "with")[:40],
)
def test_a_loss_that_is_planted_is_seen(monkeypatch, server, plant, law, arguments):
    with lost.far_from(server) as far:
        with monkeypatch.context() as patch:
            plant(patch)
            with pytest.raises(SEEN):
                law(far, patch, *arguments)
        lost.wait_for(far, "")


def test_a_fence_that_is_given_again_is_seen(monkeypatch):
    monkeypatch.setattr(lineage, "UNHEARD", 1)
    with pytest.raises(AssertionError, match="a fence of before was given again"):
        failover.restarted_unheard()
