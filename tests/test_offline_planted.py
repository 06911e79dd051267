"""Planted faults of the outbox: each is found by the law that is named for it."""

from __future__ import annotations

import pytest
import test_offline as laws
from helpers.faults import edit
from helpers.field import Field
from helpers.scratch import scratch
from test_offline_chain import PUBLISHED, feed

from fencepost.offline import chain, judge, notes, recording, syncing, taking


def the_seed_s_hashes(field):
    """Of the feed; it has a field of its own."""
    with scratch() as folder:
        assert feed(folder)[0] == PUBLISHED


def lost_answers(field):
    with scratch() as folder:
        laws.test_a_network_that_ends_at_any_exchange_costs_nothing(folder, "local", "told")


def too_long(field):
    with scratch() as folder:
        laws.test_a_lease_that_is_too_long_is_refused_with_the_setting_that_is_in_the_way(
            folder, "local"
        )


def long_result(field):
    with scratch() as folder:
        laws.test_a_result_longer_than_the_queue_allows_is_refused_before_anybody_leaves(
            folder, "local"
        )


def rolled_back(field):
    with scratch() as folder:
        laws.test_a_store_rolled_back_behind_what_it_acknowledged_is_noticed(folder, True)


def sorted_rows(field):
    rows = [("b", "1"), ("a", "2"), ("a", "1")]
    assert chain.state_text(rows, {}) == chain.state_text(sorted(rows), {})


def wrong_store(field):
    with scratch() as folder:
        laws.test_a_store_that_does_not_know_the_task_makes_no_conflict_of_it(folder, "local")


RETAKEN = (
    laws.test_work_retaken_by_another_waits_while_he_holds_it_and_is_a_conflict_when_he_is_done
)
ROW = laws.test_a_row_of_another_is_a_conflict_and_what_was_claimed_for_it_is_given_back
BETWEEN = laws.test_a_row_that_comes_in_between_reading_and_claiming_is_seen
BEFORE = laws.test_a_result_that_stood_before_the_take_is_recognised_and_the_closing_still_fits
TWICE = laws.test_what_is_recorded_twice_is_kept_once_and_another_closing_is_refused
ROUND = laws.test_a_task_that_comes_back_in_a_new_round_is_worked_on_anew
POLICY = laws.test_a_raised_policy_is_a_conflict_until_a_human_has_spoken

# what is wrong then: the function, the piece of its source, what stands there instead, the law
PLANTED = {
    "a row that another brought is sent again": (
        judge.judge, '(here or (same and "duplicate_result" in sent.issues))', "False",
        laws.test_the_same_result_by_another_is_recognised,
    ),
    "a row from before the take is not recognised": (
        judge.judge, '(same and "duplicate_result" in sent.issues)', "False", BEFORE,
    ),
    "another's row is passed over": (judge.judge, "if foreign:", "if False:", ROW),
    "every result is taken for ours": (
        judge.judge, "if sha256 not in ours.known", "if False", ROW,
    ),
    "a raised policy is passed over": (
        judge.judge, "theirs.policy_version != ours.policy_version", "False", POLICY,
    ),
    "an erased task is waited for": (
        judge.judge, "if task.erased:", "if False:",
        laws.test_an_erased_task_is_a_conflict_and_its_work_is_kept,
    ),
    "what the store has lost is passed over": (
        judge.judge, "task.revision < max(ours.base_revision, ours.accepted)", "False", rolled_back,
    ),
    "an unknown task is a conflict": (
        judge.judge, 'Verdict("wait", "not_found")', 'Verdict("conflict", "not_found")',
        wrong_store,
    ),
    "any closing is recognised once the task is done": (
        judge._ended, "here and max(here) > max(foreign, default=0)",
        "(here := here or [1])", RETAKEN,
    ),
    "a lapsed lease of another is waited for": (
        judge._open, " and now < task.lease_expires_at", "",
        laws.test_work_retaken_by_another_who_gave_up_is_claimed_again,
    ),
    "a live lease of another is claimed": (
        judge._open, 'return Verdict("wait", "task_leased")', 'return Verdict("claim")',
        RETAKEN,
    ),
    "a limit is no conflict": (
        judge._open, "2 <= ISSUES[code].rule <= 4", "False",
        laws.test_a_result_that_a_new_limit_forbids_is_a_conflict_that_names_it,
    ),
    "what happened between looking and claiming is not looked at": (
        syncing.Sync._bring, 'if verdict.means == "conflict":  # it', 'if False:  # it', BETWEEN,
    ),
    "what was claimed for nothing is kept": (
        syncing.Sync._bring, "if not stop:", "if False:", BETWEEN,
    ),
    "who may not send does not stop the sync": (
        syncing.stops, "return issue.rule <= 1 or outcome.status", "return outcome.status",
        laws.test_who_sends_as_another_worker_is_told_so_and_nothing_comes_of_it,
    ),
    "a paused queue stops everything": (
        syncing.Sync._claimed, " and outcome.issues[0] != QueuePaused.code", "",
        laws.test_a_paused_queue_takes_results_and_lets_expired_work_wait,
    ),
    "a lost take is not asked for again": (
        taking.Taking.take, "if taking is None:", "if False:",
        laws.test_a_take_whose_answer_was_lost_brings_the_same_tasks,
    ),
    "a lost claim is not heard before anything is sent": (
        taking.Taking.hear_again, 'self.file.rows("open_claims")', "()", lost_answers,
    ),
    "a take that never arrived is sent days later": (
        taking.Taking.hear_again, "self.fp.receipt(key, actor=self.file.worker_id)", "pass",
        laws.test_a_take_that_never_arrived_is_not_sent_by_a_sync,
    ),
    "only one of the two lengths is looked at": (
        taking.check_lease, '("max_lease_seconds", "max_hold_seconds")', '("max_lease_seconds",)',
        too_long,
    ),
    "a result of any length is recorded": (
        recording._too_long, "limit is None or len(content) <= limit", "True", long_result,
    ),
    "another closing is recorded beside the first": (
        recording.Recording.into, "if not same:", "if False:", TWICE,
    ),
    "what was recorded is not looked for": (
        recording.Recording.into, "there = self._there(kept)", "there = None", TWICE,
    ),
    "a task of a new round is the old one": (
        notes.Notes._granted, 'known.state in ("open", "closed")', "True", ROUND,
    ),
    "new bytes are not written for a fresh fence": (
        notes.Notes.rewrite, "if request.sha256.hex() not in known:", "if False:",
        laws.test_expired_and_untaken_work_is_claimed_again_and_accepted,
    ),
    "a closing does not count the rows before it": (
        notes.Notes.rewrite,
        'coming += old.verb == "submit" and self.sha256_of(old) not in have', "pass",
        laws.test_a_closing_names_the_revision_it_builds_on_and_a_row_none,
    ),
    "text is hashed as JSON": (
        chain.digest_of, "type(result) is str", "False", the_seed_s_hashes,
    ),
    "a link does not hold the one before it": (
        chain.link, "{before}|", "", the_seed_s_hashes,
    ),
    "rows stand in the order of their coming": (
        chain.state_text, "listed = sorted(", "listed = list(", sorted_rows,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_by_its_law(name, tmp_path, monkeypatch):
    function, old, new, law = PLANTED[name]
    edit(monkeypatch, function, old, new)
    found = None
    try:
        with Field(tmp_path) as field:
            law(field)
    except BaseException as error:  # noqa: BLE001  whatever a fault breaks, it is found
        found = error
    assert found is not None, f"{law.__name__} does not see that {name}"


def test_the_laws_hold_where_nothing_is_planted(tmp_path):
    for number, law in enumerate({entry[3] for entry in PLANTED.values()}):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Field(folder) as field:
            law(field)
