"""Planted faults: what is done to the program, and the law that must find it.

`RULES` takes each rule away or bends its boundary, `MACHINE` bends what the machine does with
them. The faults in statements are made from the statements themselves (see test_mutants.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost import issues
from fencepost.journal import entry
from fencepost.machine import (
    batch,
    claims,
    fold,
    operators,
    results,
    retention,
    settings,
    tasks,
)
from fencepost.rules import authority, fence, lifecycle, limits, retry
from fencepost.rules import results as result_rules
from fencepost.storage import loading, saving
from fencepost.storage.sqlite import driver
from helpers.faults import Patch, edit, replace_function


@dataclass(frozen=True)
class Mutant:
    """`plant` puts the fault in; `law` is the name of the law that must fail then."""

    name: str
    plant: Callable[[Patch], None]
    law: str


def gone(rule: Callable[..., Any], law: str) -> Mutant:
    """A rule that never refuses any more."""
    return Mutant(
        f"{rule.__name__} never refuses",
        lambda patch: replace_function(patch, rule, lambda *_: None), law,
    )  # fmt: skip


def bent(name: str, function: Callable[..., Any], old: str, new: str, law: str) -> Mutant:
    """One piece of a function's source changed."""
    return Mutant(name, lambda patch: edit(patch, function, old, new), law)


def restated(name: str, statement: str, old: str, new: str, law: str) -> Mutant:
    """One piece of a statement changed."""
    sql = driver.STATEMENTS[statement]
    assert sql.count(old) == 1
    return Mutant(
        name, lambda patch: patch.setitem(driver.STATEMENTS, statement, sql.replace(old, new)), law
    )


REPLAYED = "the_same_bytes_get_the_same_receipt_whatever_has_happened_since"
LIMIT = "a_setting_of_a_limit_is_the_last_value_that_passes"
RENEWED = "a_renewal_moves_the_end_within_the_longest_hold_and_never_back"
LAPSE = "a_lapse_leads_where_the_queue_says"
END = "a_lease_has_ended_at_its_very_end"
POISON = "a_killed_worker_counts_as_an_attempt_and_a_poison_task_runs_out"
FENCES = "every_claim_draws_a_higher_fence_than_any_before"
FLOOR = "a_clock_reset_or_a_raised_floor_ends_every_lease"
NAMED = "a_named_epoch_or_policy_must_be_the_leases_own"
REVISION = "each_result_is_one_revision_and_its_commitment_is_open"
ROUND = "a_result_counts_once_in_a_round_and_afresh_in_the_next"
OWED = "every_accepted_result_owes_one_message_to_each_destination"
ASIDE = "a_late_result_is_kept_aside_and_a_forged_one_is_not"
TASK_KEY = "a_known_task_key_gives_the_task_and_adds_none"
REVIEWED = "a_review_closes_its_own_revision_once_and_only_a_human_reviews"
WAITS = "a_failed_task_waits_at_least_half_and_at_most_all_of_its_back_off"
FAILED = "a_failure_leads_to_ready_dead_or_blocked_as_it_says"
ERASED = "an_erase_leaves_no_content_of_the_task_or_of_what_it_owes"
PURGED = "a_purge_takes_what_is_over_and_ended_and_nothing_else"
BATCHED = "a_batch_that_purges_answers_the_rest_of_it_as_every_later_one"
RELEASED = "a_release_gives_back_the_attempt_and_not_the_fence"
ORDER = "several_issues_are_told_in_the_order_of_the_rules"
LIVE = "a_replayed_claim_shows_the_leases_that_still_live"
NAMED_AGAIN = "an_erase_takes_the_receipts_that_name_its_task_again_and_no_others"
GIVEN_ON = "what_an_attempt_leaves_is_given_to_the_next_one"
LOGGED = "every_verb_of_a_lease_may_leave_a_log"
WORDS = "each_word_replaces_its_like_and_leaves_the_other"
NEW_ROUND = "a_new_round_begins_without_the_words_of_the_last"
NEVER_AGAIN = "an_erased_command_is_never_carried_out_again"

RULES = [
    gone(authority.forbidden, "submit_is_refused_by_forbidden"),
    gone(authority.forbidden_queue, "only_a_dispatcher_works_on_a_destination"),
    gone(authority.scope_revoked, "submit_is_refused_by_scope_revoked"),
    gone(limits.payload_too_large, "enqueue_is_refused_by_payload_too_large"),
    gone(limits.result_too_large, "submit_is_refused_by_payload_too_large"),
    gone(limits.too_many_followups, "complete_is_refused_by_too_many_followups"),
    gone(limits.queue_paused, "claim_is_refused_by_queue_paused"),
    gone(limits.lease_too_long, "renew_is_refused_by_lease_too_long"),
    gone(limits.hold_used_up, RENEWED),
    gone(fence.stale_epoch, "complete_is_refused_by_stale_epoch"),
    gone(fence.stale_policy, "complete_is_refused_by_stale_policy"),
    gone(lifecycle.lease_state, "complete_is_refused_by_task_cancelled"),
    gone(lifecycle.state_issue, "cancel_is_refused_by_task_done"),
    gone(fence.wrong_worker, "complete_is_refused_by_wrong_worker"),
    gone(fence.unknown_fence, "complete_is_refused_by_unknown_fence"),
    gone(fence.stale_fence, "complete_is_refused_by_stale_fence"),
    gone(fence.moved_on, "who_saw_an_older_fence_neither_cancels_requeues_resolves_nor_erases"),
    gone(fence.lease_expired, "complete_is_refused_by_lease_expired"),
    gone(result_rules.duplicate_result, "submit_is_refused_by_duplicate_result"),
    gone(result_rules.stale_revision, "submit_is_refused_by_stale_revision"),
    gone(result_rules.commitment_closed, "review_is_refused_by_commitment_closed"),
    bent("a lease lives at its very end", fence.lease_expired, ">=", ">", END),
    bent("a lapse comes after the very end", fence.lapsed, ">=", ">",
         "a_lapsed_task_can_be_claimed_at_the_very_end_of_its_lease"),
    bent("a lapse forgets the floor", fence.lapsed, "task.epoch < moment.floor", "False", FLOOR),
    bent("a stale epoch forgets the floor", fence.stale_epoch, "below or wrong", "wrong", FLOOR),
    bent("a named epoch is not looked at", fence.stale_epoch, "below or wrong", "below", NAMED),
    bent("a raised policy is not looked at", fence.stale_policy, "raised or wrong", "wrong",
         "renew_is_refused_by_stale_policy"),
    bent("a named policy is not looked at", fence.stale_policy, "raised or wrong", "raised", NAMED),
    bent("a fence is given twice", fence.next_fence, "+ 1", "+ 0", FENCES),
    bent("a fence is not of its epoch", fence.next_fence, "max(last_fence, epoch << 32)",
         "last_fence", FENCES),
    bent("fences that are used up begin no epoch", fence.needs_new_epoch, "fence >> 32 > epoch",
         "False", "an_epoch_is_left_when_its_fences_are_used_up"),
    bent("only half of the lease rules are asked", fence.lease_issues, "in LEASE_RULES",
         "in LEASE_RULES[:4]", "release_is_refused_by_stale_fence"),
    bent("only the first lease rule is told", fence.lease_issues, "is not None]",
         "is not None][:1]", ORDER),
    bent("codes come as they were found", issues.in_order,
         "sorted(set(codes), key=ORDER.__getitem__)", "reversed(list(codes))", ORDER),
    bent("a worker may act for another", authority.forbidden, "bound and", "False and",
         "a_worker_acts_for_nobody_else"),
    bent("an operator reviews", authority.forbidden, "not in MAY[caller.kind]",
         "not in MAY['operator'] | {'review'}", REVIEWED),
    bent("a revoked scope is closed to its operator", authority.scope_revoked,
         "None if spared else", "", "the_operator_lifts_what_he_revoked_and_may_erase_meanwhile"),
    bent("keys belong to the caller and not to the worker", authority.actor_of,
         'getattr(command, "worker_id", None) or ', "", "a_worker_acts_for_nobody_else"),
    bent("the largest payload is refused", limits.payload_too_large, "size > ", "size >= ", LIMIT),
    bent("the largest result is refused", limits.result_too_large, "size > ", "size >= ", LIMIT),
    bent("the last follow-up is refused", limits.too_many_followups, "number > ", "number >= ",
         LIMIT),
    bent("the longest lease is refused", limits.lease_too_long, "> settings", ">= settings", LIMIT),
    bent("a lease outlasts the longest hold", limits.lease_end, "min(", "max(", RENEWED),
    bent("one attempt more than allowed", retry.exhausted, ">=", ">", POISON),
    bent("jitter lengthens the wait", retry.backoff, "1 - jitter", "1 + jitter", WAITS),
    bent("jitter takes all of the wait", retry.backoff, "jitter / 2", "jitter", WAITS),
    bent("a wait does not double", retry.backoff, "attempt - 1", "0", WAITS),
    bent("a wait has no limit", retry.backoff, "min(doubled, settings.max_backoff_seconds)",
         "doubled", WAITS),
    bent("giving up tries again", retry.after_failure, 'then == "give_up" or ', "", FAILED),
    bent("a failure forgets the attempts", retry.after_failure, " or exhausted(task)", "", FAILED),
    bent("a block gives up", retry.after_failure, 'return "blocked"', 'return "dead"', FAILED),
    bent("a lapse asks nobody", retry.after_lapse, '"reconcile"', '"never"', LAPSE),
    bent("a lapse forgets the attempts", retry.after_lapse, '"dead" if exhausted(task) else ', "",
         LAPSE),
    bent("a claim takes over any lapse", retry.claimable_after_lapse,
         'after_lapse(task, settings) == "ready"', "True", LAPSE),
    bent("a task without a time waits for an old clock", retry.due,
         "or task.due_at == task.created_at", "",
         "a_task_enqueued_without_a_time_is_due_though_the_clock_is_set_back"),
]  # fmt: skip

MACHINE = [
    bent("a replay goes before authority", fold.decide,
         "code = _no_authority(",
         "code = replay(batch, caller, request, task) is None and _no_authority(",
         "a_revoked_scope_learns_nothing_by_a_replay"),
    bent("nothing is replayed", fold.decide, "known = replay(batch, caller, request, task)",
         "known = None", REPLAYED),
    bent("a replay by the key alone", fold.replay, "receipt.request_sha256 != request.sha256",
         "False", "a_key_is_known_by_its_bytes_and_not_by_itself"),
    bent("no replay by the bytes alone", fold.replay,
         "loaded.digests.get((task.id, request.sha256))", "None", REPLAYED),
    bent("tombstones are not looked at", fold.replay, "in loaded.tombstones", "in ()", NEVER_AGAIN),
    bent("an erased task answers", fold.decide, "task.erased and", "False and", NEVER_AGAIN),
    bent("another scope's task is found", authority.hidden_task,
         "task is None or task.scope != caller.scope", "task is None",
         "another_scopes_task_is_not_found"),
    bent("an entry may be too large", fold._too_large, "size > MAX_ENTRY_BYTES", "False",
         "complete_is_refused_by_entry_too_large"),
    bent("a replayed claim shows ended leases", fold.live_leases, 'row.state == "leased"', "True",
         LIVE),
    bent("a replayed claim shows lapsed leases", fold.live_leases, "not lapsed(", "lapsed is not (",
         LIVE),
    bent("keys of all scopes are one", batch.lookup_of, "{scope} ", "",
         "keys_of_two_actors_or_scopes_are_two_keys"),
    bent("keys of all actors are one", batch.lookup_of, "{actor} ", "",
         "keys_of_two_actors_or_scopes_are_two_keys"),
    bent("a read-only store is written", batch.Batch.blocked, "self.loaded.read_only", "False",
         "cancel_is_refused_by_store_read_only"),
    bent("the guard is what was loaded, not what was presented", batch.Batch.touch,
         "task.fence if fence is None else fence", "task.fence",
         "the_guard_compares_with_what_was_presented"),
    bent("an attempt is not charged at the claim", claims._lease, "row.attempt += 1",
         "row.attempt += 0", POISON),
    bent("a claim keeps the fence", claims._lease, "row.fence = batch.draw_fence()",
         "batch.draw_fence()", FENCES),
    bent("a claim notes no policy", claims._lease,
         "row.policy_version = batch.scope(row.scope).policy_version", "pass",
         "a_lease_claimed_under_a_new_policy_completes_under_it"),
    bent("a claim notes no epoch", claims._lease, "row.epoch = batch.epoch", "pass",
         "a_lease_claimed_under_a_new_policy_completes_under_it"),
    bent("a claim takes what is not due", claims.Candidates._free,
         "retry.due(row, self.batch.now)", "True", "another_task_waits_for_its_time"),
    bent("a claim takes live leases", claims.Candidates._free,
         "lapsed(row, self.batch.moment(row.scope))", "True",
         "a_live_lease_is_never_given_twice"),
    bent("a claim takes from paused queues", claims.claim, "if not _closed(batch, queue)", "",
         "a_paused_queue_is_skipped_beside_others_and_refuses_alone"),
    bent("a claim leaves spent tasks as they are", claims.claim,
         "settle_lapsed(batch, caller, request, spent(batch, open_queues, task))", "pass", POISON),
    bent("a release keeps the attempt", claims.release, "task.attempt -= 1", "pass", RELEASED),
    bent("a release gives back the fence", claims.release, "task.attempt -= 1",
         "task.attempt -= 1; task.fence -= 1", RELEASED),
    bent("a renewal shortens", claims.renew, "max(task.lease_expires_at, end)", "end", RENEWED),
    bent("a renewal is not kept", claims.renew, "batch.touch(task, command.fence)", "pass",
         "a_renewed_lease_is_nobody_elses"),
    *(bent(f"a {verb.__name__} leaves no word", verb, "batch.remark(task, command)", "pass", LOGGED)
      for verb in (claims.renew, claims.release, results.submit, results.complete, results.fail)),
    bent("progress takes the log of its batch with it", batch.Batch.remark,
         'given.get("log", log)', 'given.get("log")', WORDS),
    bent("a log takes the progress of its batch with it", batch.Batch.remark,
         'given.get("progress", progress)', 'given.get("progress")', WORDS),
    bent("progress is not given on", fold.grant, "payload, progress,", "payload, None,", GIVEN_ON),
    bent("a new round keeps the words", operators._new_round, "batch.unremark(task)", "pass",
         NEW_ROUND),
    bent("a new round keeps the words of its batch", batch.Batch.unremark,
         "self.changes.remarks.pop(task.id, None)", "pass", NEW_ROUND),
    bent("a new round keeps the words of before", batch.Batch.unremark,
         "self.changes.unremarked.add(task.id)", "pass", NEW_ROUND),
    bent("the words of a new round go with those of the last", saving._tasks,
         "if changes.unremarked:", "if False:", NEW_ROUND),
    restated("a log takes the progress with it", "write_remark",
             "coalesce(excluded.progress, progress)", "excluded.progress", WORDS),
    restated("progress takes the log with it", "write_remark",
             "coalesce(excluded.log, log)", "excluded.log", WORDS),
    bent("a sweep settles live leases", claims.sweep,
         "if lapsed(row, batch.moment(row.scope))", "", "a_sweep_leaves_its_own_batch_alone"),
    bent("a revision does not step", results.accept_result, "task.revision += 1",
         "task.revision += 0", REVISION),
    bent("a result is dropped", results.accept_result, "batch.changes.results.append(",
         "(lambda _: None)(", REVISION),
    bent("a commitment is born closed", results.accept_result, '= "open"', '= "accepted"',
         "a_review_may_follow_in_the_batch_of_its_result"),
    bent("a duplicate is not seen", results.submit,
         "if code := duplicate_result(command, task, recorded):", "if code := None:",
         ROUND),
    bent("a completion adds what it has", results.accept_once,
         "or (task.id, task.round, digest) in batch.loaded.results", "", ROUND),
    bent("a result owes nothing", results.accept_result,
         "owe_result(batch, task, result, digest, by)", "[]", OWED),
    bent("a forged result is kept aside", results._late, '"unknown_fence" not in codes', "True",
         ASIDE),
    bent("a stranger's result is kept aside", results._late, "and not never", "", ASIDE),
    bent("follow-ups are lost", results.complete, "for new in command.followups]", "for new in ()]",
         "followups_come_with_their_completion_and_a_known_key_gives_the_known_task"),
    bent("a key may change its payload", tasks.key_issues, "[] if same else", "[] if True else",
         TASK_KEY),
    bent("a task key names nothing", tasks.known_task, "if new.key is None:", "if True:", TASK_KEY),
    bent("a review leaves the commitment open", operators.review,
         "batch.changes.reviews.append(", "(lambda _: None)(", REVIEWED),
    bent("a requeue goes on with the round", operators._new_round, "task.round += 1", "pass",
         "a_requeue_starts_a_round_with_all_its_attempts"),
    bent("a requeue keeps the attempts", operators._new_round, "task.attempt = 0", "pass",
         "a_requeue_starts_a_round_with_all_its_attempts"),
    bent("evidence is no result", operators.resolve,
         "accept_once(batch, task, evidence, request.result_sha256)", "[]",
         "evidence_of_a_resolve_is_a_result"),
    bent("an erase leaves the obligations", retention.still_owed,
         "[child for child in children if child is not None and not child.erased]", "[]", ERASED),
    bent("an enqueue of a known key leaves no trace", tasks.enqueue,
         "batch.changes.named += known", "pass", NAMED_AGAIN),
    bent("a follow-up of a known key leaves no trace", tasks.add_followup,
         "batch.changes.named.append((row.id, batch.next_entry))", "pass", NAMED_AGAIN),
    bent("a purge forgets the retention", retention._due, "row.changed_at + kept <= batch.now",
         "True", "a_purge_obeys_the_retention_that_its_batch_has_set"),
    bent("a retention of the queue is not looked at", retention.retention,
         "settings.retain_seconds", "None", PURGED),
    bent("a purge takes living tasks", retention._due, "row.state not in ENDED", "False",
         "a_purge_spares_what_its_batch_has_requeued"),
    bent("a purge closes what has brought its task about", retention._forget_receipts,
         "stored.task in purged or _is_spent(batch, stored, brought)",
         "stored.number in {row.created_entry for row in rows}", BATCHED),
    bent("a purge forgets enqueues in its batch", retention._forget_receipts,
         "or _is_spent(batch, stored, brought)", "", BATCHED),
    bent("a purge forgets the receipts of its tasks in its batch", retention._forget_receipts,
         "stored.task in purged or", "", BATCHED),
    bent("a purge does not look at what is left of an enqueue", loading._receipts,
         '("claim", "enqueue", "sweep") if wanted.purges else ("claim",)', '("claim",)', BATCHED),
    bent("a purge forgets no task key", retention._forget_key, "if row.key is not None:",
         "if False:", BATCHED),
    bent("a duplicate is told to whoever guesses", result_rules.duplicate_result,
         "recorded_by is not None and held_last(command, task)", "recorded_by is not None",
         "a_result_is_told_to_be_recorded_to_its_worker_and_fence_alone"),
    bent("a reset begins no epoch", settings.clock_reset, "batch.epoch += 1", "pass", FENCES),
    bent("a reset raises no floor", settings.clock_reset, "batch.floor = batch.epoch", "pass",
         FLOOR),
    bent("an entry tells the state of a moment before", entry.item, "{task.state}", "{before}",
         "the_entry_tells_the_task_as_it_is_afterwards"),
    bent("after is blind to the fence", entry.projection, "task.fence,", "0,",
         "the_entry_tells_the_task_as_it_is_afterwards"),
]  # fmt: skip
