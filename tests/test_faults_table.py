"""Real faults of queues, leases, outboxes and their stores, by number: where each is tried.

The numbers are those of the collection that the project was given (they have gaps). What cannot
be tried yet names the later subject that it belongs to, and why; a number may have both.
"""

from __future__ import annotations

import pytest
from helpers.nodeids import held, missing
from seed_map import SUBJECTS

NEEDS_PEER = "needs a dispatcher and a receiver"
NEEDS_POSTGRES = "PostgreSQL alone knows it: SQLite has one writer and no such session"

# number: (the fault, tests that hold it, {later subject: why})
FAULTS: dict[int, tuple[str, tuple[str, ...], dict[str, str]]] = {
    3: ("expiry compared as text", held(
        "faults_time",
        "a_lease_ends_at_its_true_instant_whatever_its_fraction",
        "leases_that_end_within_one_second_are_taken_over_in_the_order_of_their_ends",
        "a_due_time_counts_by_its_instant_and_not_by_its_spelling",
    ), {"PostgreSQL": "the same verdict from both stores"}),
    4: ("a lease that ran out still works until it is taken", held(
        "faults_leases",
        "a_lease_that_ran_out_changes_nothing_though_nobody_has_taken_the_task",
        "a_task_whose_lease_ran_out_is_claimable_at_once_under_a_higher_fence",
    ), {}),
    6: ("a late heartbeat takes the task back", (
        *held("faults_leases",
              "a_worker_that_wakes_late_neither_takes_the_task_back_nor_moves_the_new_end",
              "a_late_heartbeat_does_not_extend_a_lease_from_the_past"),
        *held("work_killed", "a_worker_that_wakes_judges_its_leases_before_it_claims"),
    ), {}),
    9: ("locked at once, the timeout is not honoured", held(
        "faults_races",
        "processes_on_one_file_never_meet_a_lock_and_neither_lose_nor_double_a_task",
        "a_foreign_write_transaction_is_waited_for",
        "a_foreign_write_transaction_that_lasts_too_long_gives_a_clear_retryable_answer",
    ) + held(
        "faults_http",
        "a_foreign_transaction_of_two_seconds_is_waited_for",
        "who_waits_too_long_is_told_to_come_again_and_nothing_was_done",
    ) + held(
        "http_crowd", "two_services_on_one_file_lose_and_double_nothing_and_serve_alike",
    ), {}),
    11: ("late finish against late cancel", held(
        "faults_races",
        "of_cancel_and_complete_exactly_one_wins_and_the_loser_is_told_500_times",
        "a_worker_learns_of_the_cancellation_at_its_next_renewal",
    ), {}),
    13: ("a killed worker is no attempt", held(
        "faults_leases",
        "a_task_that_kills_its_worker_is_dead_after_its_attempts_with_the_reason",
        "a_poison_task_can_be_cancelled_while_it_goes_round",
    ), {}),
    14: ("one error ends the heartbeat", (
        *held("faults_http",
              "a_heartbeat_gets_through_a_503_a_silence_and_a_reset",
              "only_an_answer_that_says_so_ends_a_lease"),
        *held("worker_beat",
              "a_beat_that_fails_is_made_again_and_the_lease_stays",
              "without_an_answer_the_work_is_told_before_the_lease_can_end"),
    ), {}),
    17: ("NUL in a result or reason", held(
        "faults_input",
        "a_nul_in_payload_or_result_is_stored_without_loss",
        "a_nul_in_a_name_or_key_is_refused",
        "whatever_stands_in_a_reason_the_failure_itself_is_recorded",
    ), {"PostgreSQL": "the same verdict there, though its text and jsonb refuse 0x00"}),
    19: ("NaN and Infinity", held(
        "faults_input",
        "a_number_that_json_does_not_have_is_refused_and_leaves_task_and_key_free",
    ) + held(
        "faults_http", "what_was_refused_as_no_json_leaves_lease_and_key_free",
    ), {}),
    20: ("true, 1.0 and '1' taken for 1", held(
        "faults_input",
        "only_the_json_integer_is_an_integer", "only_a_python_int_is_a_fence",
        "a_missing_fence_is_refused_and_named",
    ) + held("http_json", "only_a_whole_number_is_one"), {}),
    22: ("impossible lease lengths", held(
        "faults_leases",
        "an_impossible_lease_length_is_refused_with_the_range_and_changes_nothing",
        "a_lease_longer_than_the_queue_allows_is_refused_and_changes_nothing",
        "the_longest_lease_that_can_be_set_reaches_no_overflow",
    ) + held("http_json", "a_lease_of_an_impossible_length_is_refused"), {}),
    24: ("a key bound to too little", held(
        "faults_races",
        "a_key_never_gives_another_commands_receipt",
        "another_actor_or_scope_learns_nothing_of_a_key",
    ), {}),
    26: ("a cursor skips late commits", (), {"PostgreSQL": NEEDS_POSTGRES}),
    28: ("a row stays in sending", (), {"deliveries": NEEDS_PEER}),
    30: ("a fresh id for a second try", (), {"deliveries": NEEDS_PEER}),
    31: ("a blocked loop starves the heartbeat", held(
        "worker", "a_task_that_runs_longer_than_its_lease_is_done_once",
    ), {}),
    33: ("beat too close to the lease", held(
        "worker_beat",
        "two_beats_fit_before_the_work_is_told_and_it_is_told_before_the_lease_can_end",
        "all_leases_that_are_due_are_renewed_in_one_batch",
    ), {}),
    35: ("work goes on after the lease is lost", (
        *held("worker", "a_handler_is_told_of_a_cancelled_task_within_a_beat"),
        *held("work_killed",
              "a_worker_that_stood_still_past_its_leases_ends_their_trees_and_goes_on",
              "a_hostile_tree_does_not_outlive_a_lost_lease_nor_its_worker"),
    ), {}),
    37: ("SIGTERM in the wrong direction", (
        *held("http_process",
              "a_signal_ends_waiting_and_streams_and_lets_commits_finish",
              "a_second_signal_ends_it_at_once_and_spoils_nothing"),
        *held("work_killed",
              "the_first_signal_lets_tasks_end_and_the_exit_code_is_0",
              "after_the_grace_what_is_unfinished_is_given_back_with_its_mark",
              "a_second_signal_ends_it_at_once"),
    ), {}),
    38: ("a clean exit code after a crash", (
        *held("worker_ending", "a_fault_of_its_own_is_raised_and_no_clean_end"),
        *held("work_killed", "a_revoked_token_ends_the_worker_with_3",
              "a_service_that_is_not_there_ends_the_worker_with_6"),
    ), {}),
    39: ("the worker's clock counts", held(
        "remote_lease",
        "the_wall_clock_has_no_say_in_what_is_left",
        "a_worker_whose_clock_is_wrong_claims_nothing_and_says_why",
    ), {"PostgreSQL": "two servers"}),
    41: ("naive times, summer time", held(
        "faults_time",
        "behaviour_is_the_same_in_every_time_zone",
        "a_lease_across_a_change_to_summer_time_lasts_as_long_as_it_says",
        "a_time_without_a_zone_is_refused_and_never_guessed",
    ), {"PostgreSQL": "the session's zone"}),
    43: ("no claim after one lost lease", held(
        "worker",
        "after_a_lost_lease_the_worker_goes_on",
        "claims_beats_and_completions_that_fail_are_made_again",
    ) + held(
        "worker_ending", "a_caller_who_is_refused_for_a_moment_goes_on",
    ), {}),
    45: ("serialization failure is not retried", (), {"PostgreSQL": NEEDS_POSTGRES}),
    48: ("a claim takes more than its limit", held(
        "faults_leases", "a_claim_never_takes_more_than_it_asked_for",
    ), {"PostgreSQL": "plans under which SKIP LOCKED runs its inner query again"}),
    50: ("a finished task is swept into failure", held(
        "faults_races",
        "around_the_end_of_a_lease_no_task_ends_twice_though_a_sweeper_never_rests",
    ), {}),
    52: ("a page to skip hides what is behind it", held(
        "faults_leases",
        "tasks_that_cannot_be_claimed_do_not_hide_one_behind_them_that_can",
        "lapsed_tasks_without_attempts_do_not_hide_one_behind_them_for_good",
        "a_sweep_gets_past_leases_that_still_run_and_settles_the_one_that_ended",
    ), {"deliveries": NEEDS_PEER}),
    54: ("a later task under a ticking lease", held(
        "faults_time",
        "a_task_due_later_is_claimed_once_and_its_lease_begins_with_the_claim",
        "a_retry_with_a_delay_holds_no_lease_while_it_waits",
    ), {}),
    56: ("a lease that counts from before its grant", held(
        "faults_time",
        "a_lease_counts_from_its_grant_however_long_the_claim_waited_for_its_turn",
        "a_replayed_claim_gives_no_lease_that_has_ended_meanwhile",
    ) + held(
        "faults_http", "the_lease_of_a_claim_that_waited_counts_from_its_grant",
    ) + held(
        "remote_lease", "a_long_poll_that_says_how_long_it_waited_gives_the_whole_lease",
    ) + held(
        "worker", "what_comes_too_late_is_not_begun_and_costs_no_attempt",
    ), {}),
    58: ("renewal for a dead handler", (
        *held("worker_beat", "the_end_of_the_hold_is_no_lost_lease_and_is_told_in_time"),
        *held("work_command",
              "a_command_that_reads_nothing_and_writes_without_end_is_bounded"),
        *held("worker", "any_exception_fails_the_attempt_and_the_worker_lives"),
    ), {}),
    60: ("copies while the store is slow", held(
        "faults_races",
        "copies_sent_while_the_store_is_busy_have_one_effect_and_one_receipt",
        "a_caller_that_gave_up_waiting_has_done_nothing_and_may_send_again",
    ) + held(
        "faults_http", "copies_sent_while_the_store_is_slow_have_one_effect_and_one_answer",
    ), {}),
    62: ("HTTP repeats a POST by itself", held(
        "faults_http", "a_request_that_the_network_sends_twice_has_one_effect",
    ) + held(
        "remote_lost",
        "a_command_that_meets_a_fault_on_the_way_is_carried_out_once",
        "a_command_that_nothing_makes_a_replay_is_not_sent_again",
        "a_stale_connection_is_replaced_at_once_and_without_a_pause",
    ) + held(
        "kit_http", "through_a_lossy_network_the_same_bytes_until_an_answer_pass_the_kit",
    ), {}),
    64: ("a dead request blocks its key", held(
        "faults_kill",
        "killed_at_any_step_a_command_is_there_as_a_whole_or_not_at_all",
    ), {}),
    66: ("the event is written after the commit", held(
        "faults_kill",
        "killed_at_any_step_a_command_is_there_as_a_whole_or_not_at_all",
        "under_random_kills_every_task_ends_once_with_one_receipt_and_none_is_lost",
    ), {}),
    68: ("a webhook reaches inside", (), {"deliveries": NEEDS_PEER}),
    70: ("a signature over other bytes", (), {"deliveries": NEEDS_PEER}),
    72: ("time hashed finer than stored", held(
        "faults_audit",
        "a_thousand_entries_verify_after_a_restart_and_from_a_fresh_process",
        "a_journal_verifies_under_another_time_zone",
        "a_journal_that_was_dumped_as_text_and_loaded_again_verifies",
        "the_time_in_an_entry_is_the_time_in_the_row_to_the_microsecond",
        "a_flipped_byte_of_an_entry_fails_with_its_place",
        "an_edited_row_no_longer_agrees_with_its_last_entry",
    ), {"PostgreSQL": "the other store"}),
    74: ("a cut tail verifies", held(
        "faults_audit",
        "entries_that_were_cut_out_are_missed", "two_entries_that_changed_places_are_found",
        "a_tail_cut_with_everything_that_belongs_to_it_shows_only_against_a_kept_checkpoint",
        "a_journal_goes_on_from_every_checkpoint_that_was_kept",
    ), {}),
    76: ("content comes back other", held(
        "faults_audit",
        "entries_and_contents_come_back_byte_for_byte_and_are_rfc_8785_to_anyone",
        "the_commitments_can_be_checked_with_nothing_but_sha_256",
    ), {"PostgreSQL": "jsonb"}),
    78: ("a backup of the main file only", held(
        "faults_store",
        "a_backup_taken_while_writers_are_busy_holds_every_receipt_that_came_before_it",
        "a_backup_never_overwrites_what_is_there",
    ), {}),
    80: ("a restore winds counters back", held(
        "faults_store",
        "a_fence_from_a_future_that_was_rolled_back_is_told_as_unknown",
        "ids_that_a_copy_gives_out_are_not_those_that_were_given_out_after_it",
    ), {"restore": "a new writer; until then a copy is opened as what it is"}),
    82: ("the wrong one of several backups", (), {"restore": "the choice and the target"}),
    84: ("ids are used again", held(
        "faults_store",
        "ids_never_repeat_after_the_newest_task_or_all_of_them_are_gone",
        "entry_numbers_go_on_after_a_purge_and_a_restart",
    ), {}),
    86: ("an acknowledged commit vanishes", held(
        "faults_store",
        "every_connection_that_writes_or_reads_is_synchronous_full",
        "the_log_is_synced_before_the_answer_is_given",
    ), {}),
    88: ("disk full", held(
        "faults_store",
        "a_full_disk_gives_a_clear_answer_leaves_nothing_half_done_and_needs_no_restart",
        "when_the_disk_is_full_only_the_command_that_needs_room_fails",
        "a_really_full_file_system_loses_nothing_and_recovers_without_a_restart",
        "after_a_failed_commit_and_a_failed_reopening_the_store_comes_back_by_itself",
    ) + held(
        "http_watching", "a_disk_that_fills_up_is_told_before_it_is_full_and_needs_no_restart",
    ), {}),
    90: ("two begin on a new store", held(
        "faults_races",
        "ten_processes_that_begin_a_store_at_once_all_come_up_on_one_schema",
    ), {"PostgreSQL": "an empty database"}),
    92: ("network file systems", held(
        "faults_store",
        "a_store_on_a_network_file_system_is_refused_at_once_unless_it_is_named",
        "a_store_reached_through_a_symlink_is_the_same_store_with_the_same_turn",
    ), {}),
    94: ("LISTEN dies silently", (), {"PostgreSQL": NEEDS_POSTGRES}),
    96: ("pgbouncer in transaction mode", (), {"PostgreSQL": NEEDS_POSTGRES}),
    98: ("a member twice", held(
        "faults_input", "an_object_with_a_member_twice_is_refused",
    ) + held("http_json", "json_that_readers_read_differently_is_refused"), {}),
    100: ("deep nesting, giant numbers", held(
        "faults_input",
        "a_monstrous_value_gets_the_products_own_answer_and_quickly",
        "deep_python_values_get_the_products_own_answer",
        "large_content_is_refused_by_the_queues_own_limit",
    ) + held(
        "http_json", "json_that_readers_read_differently_is_refused",
    ) + held(
        "http_limits", "a_body_above_the_limit_is_refused_before_it_is_read",
    ), {}),
    102: ("ids with slashes and dots", held(
        "faults_input",
        "a_name_that_some_surface_cannot_carry_is_refused_where_it_would_be_made",
        "a_name_that_is_allowed_can_be_used_for_everything",
        "what_is_no_task_id_is_refused_before_anything_is_looked_up",
    ) + held(
        "http_json",
        "a_key_with_any_sign_is_found_at_its_quoted_path",
        "a_name_that_could_stand_in_no_path_cannot_be_made",
    ) + held(
        "http_oddities", "a_target_is_taken_as_it_is_and_never_tidied",
    ) + held(
        "remote_handle", "a_key_of_any_characters_finds_its_task_and_its_receipt",
    ), {}),
    106: ("a forced unlock hits another lease", held(
        "faults_answers",
        "a_forced_step_with_the_fence_its_author_saw_hits_that_lease_and_tells_who_and_why",
        "a_forced_step_is_refused_once_the_task_has_moved_on",
        "a_forced_step_used_twice_says_the_second_time_what_the_state_is",
        "after_a_forced_step_the_old_worker_can_change_nothing",
    ), {}),
    108: ("requeue as copy, then acknowledge", held(
        "faults_kill",
        "killed_at_any_step_a_command_is_there_as_a_whole_or_not_at_all",
        "redriving_a_task_twice_does_not_make_two",
    ), {}),
    110: ("identity and order by created_at", held(
        "faults_time",
        "a_thousand_tasks_of_one_microsecond_are_claimed_in_the_order_of_their_enqueueing",
        "a_clock_that_steps_back_between_enqueues_does_not_turn_their_order",
        "pages_of_a_listing_neither_repeat_nor_skip",
    ), {}),
    112: ("all expires at once", held(
        "faults_leases",
        "when_5000_leases_expire_at_once_old_fences_are_refused_and_each_pass_is_bounded",
    ), {}),
    114: ("an old primary is read-only", (), {"PostgreSQL": NEEDS_POSTGRES}),
    116: ("a fence wasted or issued twice", held(
        "faults_leases",
        "a_hundred_claims_that_fail_at_commit_waste_no_fence_and_change_nothing",
        "no_fence_that_a_client_saw_is_given_to_another_though_commits_fail_after_it_happened",
    ), {}),
    118: ("a key freed or kept at the wrong moment", held(
        "task_keys",
        "an_enqueue_with_a_known_key_answers_as_the_page_says",
        "twenty_concurrent_enqueues_are_answered_alike_and_make_at_most_one_task",
    ), {"PostgreSQL": "the same page"}),
    120: ("secrets in logs", held(
        "seed_receipt_lab_privacy", "no_payload_result_reason_or_key_reaches_the_log",
    ) + held(
        "http_authority", "no_secret_is_ever_written_to_the_log",
    ) + held(
        "remote_token", "nothing_that_can_be_printed_holds_the_token",
    ), {"deliveries": "addresses with credentials, answers that echo secrets"}),
    122: ("work in flight is lost", held(
        "faults_kill",
        "under_random_kills_every_task_ends_once_with_one_receipt_and_none_is_lost",
    ), {}),
    124: ("answers that mislead", held(
        "faults_answers",
        "each_reason_alone_and_each_two_at_once_have_one_stable_answer",
        "every_code_says_whether_sending_the_same_again_can_ever_help",
        "a_lost_lease_can_be_told_from_every_other_refusal_by_one_class",
    ) + held(
        "faults_http",
        "each_reason_alone_and_with_another_is_told_over_http_as_it_is_told_here",
        "the_statuses_that_mean_the_same_thing_are_the_same",
    ) + held(
        "http_authority", "another_scope_is_not_there",
    ), {}),
}  # fmt: skip

NUMBERS = [
    3, 4, 6, 9, 11, 13, 14, 17, 19, 20, 22, 24, 26, 28, 30, 31, 33, 35, 37, 38, 39, 41, 43, 45, 48,
    50, 52, 54, 56, 58, 60, 62, 64, 66, 68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90, 92, 94, 96,
    98, 100, 102, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124,
]  # fmt: skip


def test_every_fault_of_the_collection_has_its_place():
    assert list(FAULTS) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_a_fault_is_held_by_tests_that_exist_or_by_a_named_later_subject(number):
    _, tests, later = FAULTS[number]
    assert tests or later
    assert missing(list(tests)) == []
    assert set(later) <= set(SUBJECTS) - {"statement"} and all(later.values())
