"""Planted faults of who is told what, and of results that were accepted elsewhere."""

from __future__ import annotations

from fencepost.deliveries import event
from fencepost.machine import claims, importing, operators, owing, results, retention, settings
from fencepost.rules import fence
from fencepost.rules import owing as owed
from fencepost.rules import results as result_rules
from helpers.mutants import bent, gone

TOLD = "a_state_obliges_whoever_asked_for_it"
LAPSED = "a_lapse_obliges_as_any_other_end"
NAMEABLE = "a_sweep_takes_no_more_than_its_entry_can_name"
ALONG = "an_erase_in_the_batch_takes_along_what_a_state_has_brought_about"
SWEPT = "a_sweep_with_a_key_is_answered_in_its_batch_as_ever_after"
NEXT = "an_import_records_the_next_revision_in_any_state"
ENDS = "an_import_ends_a_running_lease_and_gives_its_attempt_back"
KNOWN = "an_import_of_what_is_known_changes_nothing"
OWES = "an_import_owes_what_was_owed_where_it_was_accepted"
OWN_NAME = "each_outcome_of_a_task_has_a_name_of_its_own"
AGAIN = "an_import_of_a_result_that_the_round_has_begins_the_next"

OWING_FAULTS = [
    gone(fence.unknown_lineage, "import_is_refused_by_unknown_fence"),
    gone(result_rules.result_conflict, "import_is_refused_by_result_conflict"),
    bent("what is said of outcomes is not looked at", owed.owed_by, "if settings.outcomes:",
         "if False:", TOLD),
    bent("all destinations are told of everything", owed.owed,
         "if outcome in outcomes.get(name, UNSAID)", "", TOLD),
    bent("a completion tells of no end", results.complete, "+ owe_state(batch, task)", "", TOLD),
    bent("a failure tells nobody", results.fail, "owe_state(batch, task, task.reason)", "()", TOLD),
    bent("an outcome's name has no fence", event.operation_of, 'about["fencing_token"]', "0",
         OWN_NAME),
    bent("an outcome's name has no round", event.operation_of, 'about["round"]', "1", OWN_NAME),
    bent("a result's name has no revision", event.operation_of, 'about["revision"]', "1",
         OWN_NAME),
    bent("a failure does not say why", results.fail, ", task.reason)", ")", TOLD),
    bent("a cancellation tells nobody", operators.cancel, "owe_state(batch, task, task.reason)",
         "()", TOLD),
    bent("a resolution tells nobody", operators.resolve,
         "obligations += owe_state(batch, task, task.reason)", "pass", TOLD),
    bent("a lapse tells nobody", claims._settle, "*owe_state(batch, row, row.reason, queue)", "",
         LAPSED),
    bent("what is owed is not counted", claims.nameable,
         "1 + len(owed_by(settings, retry.after_lapse(row, settings)))", "1", NAMEABLE),
    bent("an erase of the batch misses what is owed", owing._put,
         "if parent.id in batch.loaded.children:", "if False:", ALONG),
    bent("a purge forgets sweeps in its batch", retention._is_spent,
         'if stored.number in brought else ()', "if False else ()", SWEPT),
    bent("anybody may be told", settings._contradiction, "if name not in after.destinations:",
         "if False:", "only_a_destination_of_the_queue_can_be_told"),
    bent("an import ends nothing", importing._accept, "elif command.final:", "elif False:", NEXT),
    bent("an import may skip a revision", importing._issues,
         "stale_revision(command.revision - 1, task)", "None",
         "import_is_refused_by_stale_revision"),
    bent("a lease outlives an import", importing._accept, 'task.state = "ready"', "pass", ENDS),
    bent("an import takes the attempt", importing._accept, "task.attempt -= 1", "pass", ENDS),
    bent("an import takes what is known once more", importing.import_result,
         "known = command.revision <= task.revision", "known = False", KNOWN),
    bent("an import is owed as of now", importing._accept,
         "batch.now if command.at is None else from_rfc3339(str(command.at))", "batch.now", OWES),
    bent("an import is owed under the task's lease", importing._accept,
         "Accepted(at, command.epoch, command.fence, command.final)",
         "Accepted(at, batch.epoch, task.fence, command.final)", OWES),
    bent("an import tells of no end", importing._accept,
         "owe_state(batch, task) if task.state != before else []", "[]", OWES),
    bent("the same result again is of the same round", importing._accept, "task.round += 1", "pass",
         AGAIN),
    bent("a round that an import begins keeps what was said", importing._accept,
         "batch.unremark(task)", "pass", AGAIN),
    bent("a round that an import begins keeps the attempts", importing._accept,
         "task.attempt = 0", "pass", AGAIN),
]
