"""Planted faults of work without a network: each is found by the law that is named for it."""

from __future__ import annotations

import logging

import pytest
import test_offline_record as records
import test_offline_wrong as wrong
import test_work_offline as laws
import test_work_offline_ends as ends
from helpers.faults import edit
from helpers.field import Field
from helpers.scratch import scratch

from fencepost.offline import checking, judge, notes, outbox, recording, syncing, working
from fencepost.worker import outbox as workers


def in_a_folder(law, *more):
    """Of laws that make their own field."""

    def run(field):
        with scratch() as folder:
            law(folder, *more)

    return run


def patching(law):
    def run(field):
        with pytest.MonkeyPatch.context() as patch:
            law(field, patch)

    return run


def of(law, *more):
    return lambda field: law(field, *more)


MOOT = of(laws.test_a_verdict_whose_lease_has_ended_is_told_only_where_it_still_says_something,
          "retry", "moot")  # fmt: skip
SAME = of(laws.test_a_verdict_that_another_has_given_too_is_needed_no_more, "give_up", "dead")
HAND = laws.test_a_result_by_hand_takes_the_place_of_a_failure_and_of_nothing_else
AGAIN = laws.test_the_same_verdict_again_is_recognised_and_one_that_was_dropped_stands_again
FOLLOWUPS = records.test_the_same_result_with_other_follow_ups_is_another_closing
NEXT_RUN = laws.test_what_failed_or_was_given_back_is_taken_up_by_the_next_run_and_no_sooner



FORGETFUL = '["followups"] = (); changes["expected_revision"] = revision + coming'

# what is wrong then: the function, the piece of its source, what stands there instead, the law
PLANTED = {
    "the policy is not asked after a refusal": (
        syncing.Sync.look, "self.fp.scope().policy_version", "kept.policy_version",
        wrong.test_a_policy_raised_in_the_middle_of_a_sync_is_a_conflict,
    ),
    "verify looks at many moments": (
        checking.verify, "with file.as_it_is():", "if True:",
        in_a_folder(wrong.test_an_outbox_that_others_write_to_is_not_found_broken),
    ),
    "why a task waits is written with its state": (
        notes.Notes.waits, '"set_waits", id=taking,', '"set_state", id=taking, state="open",',
        patching(wrong.test_why_a_task_waits_is_noted_beside_a_closing_that_comes_meanwhile),
    ),
    "a conflict keeps all that others have brought": (
        syncing._shown, "if left >= 0:", "if True:",
        wrong.test_of_many_results_of_others_a_conflict_keeps_no_more_than_64_kib,
    ),
    "a task is claimed to tell that it failed": (
        judge.judge, 'sent.verdict in ("retry", "release")', "False", MOOT,
    ),
    "a verdict that says nothing new is a conflict": (
        judge.judge, 'task.state == ENDS.get(sent.verdict or "")', "False", SAME,
    ),
    "a failure stands beside the result that replaces it": (
        notes.Notes.drop_verdict, "if row is None:", "if True:", HAND,
    ),
    "a verdict that was dropped cannot stand again": (
        notes.Notes.insert, 'if not self.file.rows("stand_again", key=key, place=place):',
        "if True:", AGAIN,
    ),
    "follow-ups are not compared": (
        recording.Recording.into, "and self._same_followups(kept)", "", FOLLOWUPS,
    ),
    "new bytes forget what the closing brings along": (
        notes.Notes.rewrite, '["expected_revision"] = revision + coming', FORGETFUL,
        records.test_follow_ups_and_log_go_along_when_the_task_is_claimed_again,
    ),
    "no start is counted": (
        working.Working.begin, "kept.tries + 1", "kept.tries",
        laws.test_a_task_fails_here_as_often_as_it_may_be_claimed,
    ),
    "what was given back counts as a start": (
        working.Working._ended, 'if what == "release" and kept.tries:', "if False:",
        laws.test_what_is_given_back_counts_as_no_start,
    ),
    "a failure is final": (
        working.Working.begin, "self.notes.drop_verdict(kept)", "False", NEXT_RUN,
    ),
    "nobody is kept out": (
        outbox.Outbox.give_back, "with self.alone():", "if True:",
        in_a_folder(ends.test_tasks_are_not_given_back_while_a_worker_works_on_them),
    ),
    "the laptop's clock ends leases": (
        workers.OutboxClaims._held, "held.ends = held.beat_at = now + LONGEST", "pass",
        laws.test_no_clock_ends_the_work_on_a_short_lease,
    ),
    "the last mark is left out of a verdict": (
        working.Working._command, "kept.mark", "None",
        records.test_a_verdict_brings_the_last_mark_along,
    ),
    "what a verdict says is not held against the chain": (
        checking._known, "and (label, content_of(command)) in player.recorded", "",
        of(records.test_what_was_tampered_with_in_a_verdict_or_its_follow_ups_is_named, "reason"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_by_its_law(name, tmp_path, monkeypatch):
    function, old, new, law = PLANTED[name]
    logging.disable(logging.CRITICAL)
    try:
        for folder in ("right", "planted"):
            (tmp_path / folder).mkdir()
        with Field(tmp_path / "right") as field:
            law(field)
        edit(monkeypatch, function, old, new)
        found = None
        try:
            with Field(tmp_path / "planted") as field:
                law(field)
        except BaseException as error:  # noqa: BLE001  whatever a fault breaks, it is found
            found = error
        assert found is not None, f"its law does not see that {name}"
    finally:
        logging.disable(logging.NOTSET)
