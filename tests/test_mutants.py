"""The tests of the tests: each planted fault is found by the law that is named for it.

A rule taken away, a boundary moved, a condition of a statement dropped or turned round: each is
planted in the running program, and a test that could not tell it from the real one would be no
test. Two that no test can tell apart are named, with the reason, in `SAME`.
"""

from __future__ import annotations

import inspect

import helpers.laws_destinations
import helpers.laws_owing
import helpers.laws_people
import helpers.laws_purge
import helpers.laws_remarks
import helpers.laws_tokens  # noqa: F401
import pytest
from helpers import faults, guards, lookups
from helpers.laws import LAWS
from helpers.mutants import MACHINE, RULES
from helpers.mutants_destinations import DESTINATIONS
from helpers.mutants_owing import OWING_FAULTS
from helpers.mutants_tokens import TOKENS
from helpers.stand import Stand

from fencepost.rules import authority, fence, lifecycle, limits
from fencepost.rules import destinations as destination_rules
from fencepost.rules import results as result_rules
from fencepost.storage.sqlite import driver

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("name", LAWS)
def test_each_law_holds(name):
    LAWS[name](Stand)


def found_by(law):
    """What the law says of the planted fault; None where it finds nothing."""
    try:
        LAWS[law](Stand)
    except BaseException as found:  # noqa: BLE001  whatever a fault breaks, it is found
        return found
    return None


PLANTED = [*RULES, *MACHINE, *TOKENS, *DESTINATIONS, *OWING_FAULTS]


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_each_planted_fault_is_found_by_the_law_named_for_it(mutant, monkeypatch):
    mutant.plant(monkeypatch)
    assert found_by(mutant.law) is not None, f"{mutant.law} does not see that {mutant.name}"


def test_at_least_forty_faults_are_planted_and_each_law_named_exists():
    assert len(PLANTED) >= 40
    assert {mutant.law for mutant in PLANTED} <= set(LAWS)
    assert len({mutant.name for mutant in PLANTED}) == len(PLANTED)


def test_every_rule_is_taken_away_once():
    """A new rule must come with its fault: all functions of rules/ that answer with a code."""
    rules = {
        function.__name__
        for module in (authority, fence, lifecycle, limits, result_rules, destination_rules)
        for function in vars(module).values()
        if inspect.isfunction(function) and function.__module__ == module.__name__
        and function.__annotations__.get("return") == "str | None"
    }  # fmt: skip
    planted = [*RULES, *TOKENS, *DESTINATIONS, *OWING_FAULTS]
    taken = {m.name.removesuffix(" never refuses") for m in planted if "never refuses" in m.name}
    assert taken == rules


# --- statements -------------------------------------------------------------------------------

ERASED = "an_erase_leaves_no_content_of_the_task_or_of_what_it_owes"
NEIGHBOUR = "an_erase_touches_no_other_task"
NAMED = "an_erase_takes_the_receipts_that_name_its_task_again_and_no_others"
PURGED = "a_purge_takes_what_is_over_and_ended_and_nothing_else"
OWING = "a_purge_leaves_the_receipt_of_the_completion_that_owed_what_it_takes"
LAST = "the_receipt_of_an_enqueue_goes_with_the_last_of_its_tasks"
ROUND = "a_new_round_begins_without_the_words_of_the_last"
GONE = "of_what_was_purged_nothing_stays_once_the_horizon_is_over"
BATCHED = "a_batch_that_purges_answers_the_rest_of_it_as_every_later_one"
# statement: the laws and guard cases that find a fault in it, beside those of its own lookup
SEEN_BY = {
    "update_task": [
        "a result under the fence before the last", "a result for a revision that has passed",
        "a change of an erased task", "a change of a task that is not there", "cancel_is_accepted",
    ],
    "update_store": [
        "numbers under another writer", "numbers of an older epoch",
        "a fence that another has drawn", "an entry that another has written",
        "a last fence that goes back", "an entry number that goes back",
        "an epoch that goes back",
    ],
    "close_commitment": [
        "a second word of a human on one revision", "a human's word on another task's revision",
        "a human's word on a revision that is not there",
        "a_review_closes_its_own_revision_once_and_only_a_human_reviews",
    ],
    "delete_task": [
        "a purge of a task that is not there", "a purge of a task that lives",
        "a purge under another fence than the task ended with", PURGED,
    ],
    "tombstone": ["an_erased_command_is_never_carried_out_again",
                  "an_erased_key_is_not_another_key"],
    "delete_payload": [ERASED, NEIGHBOUR],
    "delete_remark": [ERASED, NEIGHBOUR, ROUND],
    "delete_refused": [NEIGHBOUR],
    "forget_results": [ERASED, NEIGHBOUR],
    "forget_key": [ERASED, NEIGHBOUR],
    "close_openings": [ERASED, NEIGHBOUR, NAMED],
    "keys_of_task": ["an_erased_command_is_never_carried_out_again", NEIGHBOUR, NAMED],
    "delete_naming": [NAMED],
    "revoke_token": ["what_is_written_of_a_revocation_is_guarded",
                     "a_token_that_is_revoked_again_stays_as_it_was"],
    "update_destination": ["a_write_past_the_position_that_was_presented_is_undone",
                           "a_position_is_compared_before_it_is_moved"],
    "delete_results": [GONE, OWING],
    "entries_of_tasks": [OWING, LAST],
    "entries_naming": [LAST, BATCHED],
    "spent_entries": [LAST],
    "close_entry": [LAST],
    **{name: [] for name in lookups.LOOKUPS},
}  # fmt: skip
EVERY_QUEUE = "queue_id in (select id from fencepost_queue)"
IMPLIED = "an index of the rows where it is set, and what it is compared with is never null"
# (statement, condition, what was done): why nobody can tell it from the real one
SAME: dict[tuple[str, str, str], str] = {
    ("update_store", "id = 1", "dropped"): "the table has one row, by a check of its own",
    ("receipts_by_key", "e.key is not null", "dropped"): IMPLIED,
    ("receipts_by_request", "e.task is not null", "dropped"): IMPLIED,
    ("entries_of_tasks", "e.task is not null", "dropped"): IMPLIED,
    ("tasks_by_key", "t.key is not null", "dropped"): IMPLIED,
    ("end_leases", EVERY_QUEUE, "dropped"): "it only leads the planner to the index",
    ("wait_again", EVERY_QUEUE, "dropped"): "it only leads the planner to the index",
}


def finders(name):
    """(what it is, how it is tried) of everything that may find a fault in the statement."""
    if name in lookups.LOOKUPS:
        yield f"lookup {name}", lambda: lookups.attempt(name, Stand)
    for law in SEEN_BY[name]:
        if law in guards.CASES:
            yield law, lambda law=law: guards.attempt(law, Stand)
        else:
            yield law, lambda law=law: LAWS[law](Stand)


def seen(name, mutant, monkeypatch):
    """The first lookup, law or guard case that finds the mutant."""
    monkeypatch.setitem(driver.STATEMENTS, name, mutant)
    for finder, attempt in finders(name):
        try:
            attempt()
        except BaseException:  # noqa: BLE001  whatever a fault breaks, it is found
            return finder
    return None


@pytest.mark.parametrize("name", SEEN_BY)
def test_what_must_find_a_faulty_statement_finds_nothing_in_the_real_one(name):
    for _, attempt in finders(name):
        attempt()


MUTANTS = [(n, cond, how, sql) for n, cond, how, sql in faults.statement_mutants(*SEEN_BY)]


@pytest.mark.parametrize(
    ("name", "condition", "how", "sql"), MUTANTS,
    ids=[f"{n}: {' '.join(cond.split())} {how}" for n, cond, how, _ in MUTANTS],
)
def test_each_condition_of_a_statement_is_missed_when_it_is_gone(
    name, condition, how, sql, monkeypatch
):
    same = SAME.get((name, condition, how))
    by = seen(name, sql, monkeypatch)
    assert (by is None) == (same is not None), (condition, how, by)
