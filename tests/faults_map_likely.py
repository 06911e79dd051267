"""Real faults of queues by number, and the tests that hold each: the very likely ones (31 to 96).

number: (the fault, tests that hold it, {later subject: why}). `test_faults_table.py` holds it.
"""

from __future__ import annotations

from faults_map import NEEDS_POSTGRES, Fault
from helpers.nodeids import held

LIKELY: dict[int, Fault] = {
    31: ("a blocked loop starves the heartbeat", held(
        "worker",
        "a_task_that_runs_longer_than_its_lease_is_done_once",
        "a_handler_that_has_not_worked_when_it_returns_is_refused_at_once",
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
              "a_hostile_tree_does_not_outlive_a_lost_lease_nor_its_worker",
              "a_network_that_is_cut_for_longer_than_the_lease_ends_the_work_in_time"),
    ), {}),
    37: ("SIGTERM in the wrong direction", (
        *held("http_process",
              "a_signal_ends_waiting_and_streams_and_lets_commits_finish",
              "a_second_signal_ends_it_at_once_and_spoils_nothing"),
        *held("work_killed",
              "the_first_signal_lets_tasks_end_and_the_exit_code_is_0",
              "after_the_grace_what_is_unfinished_is_given_back_with_its_mark",
              "a_second_signal_ends_it_at_once",
              "a_hangup_that_was_ignored_before_stays_ignored",
              "over_http_too_a_worker_that_waits_stops_at_once"),
        *held("worker_claims",
              "a_stop_ends_a_claim_that_waits_also_on_a_paused_queue"),
    ), {}),
    38: ("a clean exit code after a crash", (
        *held("worker_ending", "a_fault_of_its_own_is_raised_and_no_clean_end",
              "a_store_that_cannot_be_reached_for_too_long_ends_it"),
        *held("work_killed", "a_revoked_token_ends_the_worker_with_3",
              "a_service_that_is_not_there_ends_the_worker_with_6"),
    ), {}),
    39: ("the worker's clock counts", held(
        "remote_lease",
        "the_wall_clock_has_no_say_in_what_is_left",
        "a_worker_whose_clock_is_wrong_claims_nothing_and_says_why",
    ) + held(
        "worker_beat",
        "a_wall_clock_that_is_wrong_by_a_year_ends_no_lease",
        "a_worker_that_slept_past_its_lease_is_told_before_it_renews_anything",
    ) + held(
        "offline", "a_clock_that_is_wrong_by_a_year_changes_nothing",
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
    ) + held("deliver_dispatcher", "a_destination_that_is_down_costs_another_nothing"), {}),
    54: ("a later task under a ticking lease", held(
        "faults_time",
        "a_task_due_later_is_claimed_once_and_its_lease_begins_with_the_claim",
        "a_retry_with_a_delay_holds_no_lease_while_it_waits",
    ) + held(
        "worker", "a_task_that_runs_longer_than_its_lease_is_done_once",
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
    ) + held(
        "faults_offline",
        "what_is_sent_again_and_again_while_the_store_is_busy_has_one_effect",
        "processes_that_begin_fill_and_empty_one_outbox_at_once_lose_and_double_nothing",
    ) + held(
        "offline",
        "a_lost_answer_is_heard_again_as_the_same_receipt",
        "a_network_that_ends_at_any_exchange_costs_nothing",
    ) + held(
        "offline_faces",
        "through_a_network_that_cuts_repeats_and_delays_all_is_brought_in_the_end",
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
    ) + held(
        "work_killed", "answers_that_get_lost_double_no_result",
    ) + held(
        "worker_claims",
        "no_copy_of_a_claim_takes_a_task_that_nobody_works_on",
        "leases_whose_claim_was_not_heard_are_found_under_its_key",
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
    68: ("a webhook reaches inside", held(
        "deliver_guard",
        "an_address_of_the_inside_is_refused_unless_it_is_allowed",
        "a_url_that_could_be_read_in_two_ways_is_refused_and_not_shown",
        "a_name_that_resolves_to_another_address_a_moment_later_changes_nothing",
        "no_proxy_of_the_environment_is_used",
    ) + held("deliver_answers", "a_status_is_understood"), {}),
    70: ("a signature over other bytes", held(
        "receiver_signing",
        "every_changed_byte_of_what_is_signed_is_seen",
        "a_secret_is_rotated_by_signing_with_both_for_a_while",
    ) + held(
        "receiver_reading", "the_bytes_are_those_of_rfc_8785",
    ) + held(
        "deliver_event", "the_bytes_are_the_rfc_8785_form_whatever_the_result_is",
    ) + held(
        "deliver_dispatcher",
        "the_same_id_and_the_same_bytes_go_out_at_each_try_and_after_a_restart",
        "while_a_secret_is_rotated_both_sign_and_then_the_new_one_alone",
    ), {}),
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
    ) + held(
        "offline_chain",
        "what_was_tampered_with_is_named",
        "a_chain_written_anew_shows_against_a_head_that_was_noted",
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
    ) + held(
        "restore_wrong", "a_wrong_backup_is_refused_and_nothing_is_left",
        "what_lies_where_the_store_is_to_be_is_not_touched",
    ), {}),
    80: ("a restore winds counters back", held(
        "faults_store",
        "a_fence_from_a_future_that_was_rolled_back_is_told_as_unknown",
        "ids_that_a_copy_gives_out_are_not_those_that_were_given_out_after_it",
    ) + held(
        "offline",
        "a_laptop_restored_from_a_backup_loses_and_doubles_nothing",
        "a_store_rolled_back_behind_what_it_acknowledged_is_noticed",
    ) + held(
        "restore",
        "leases_of_before_end_and_a_worker_of_the_lost_future_is_told",
        "a_lease_that_ran_at_the_backup_is_told_that_the_store_is_another",
        "its_epoch_is_above_all_that_anybody_has_heard_of",
        "what_a_receiver_has_accepted_is_recorded_and_nobody_works_on_it_again",
        "two_live_owners_have_each_effect_once_and_the_old_one_is_refused",
    ) + held(
        "restore_killed", "killed_at_any_step_it_goes_on_and_ends_as_if_nothing_had_been",
    ), {}),
    82: ("the wrong one of several backups", held(
        "restore_wrong",
        "of_several_backups_the_one_that_was_named_is_restored_whatever_their_times_say",
        "a_wrong_backup_is_refused_and_nothing_is_left",
        "what_lies_where_the_store_is_to_be_is_not_touched",
        "a_store_that_is_there_goes_on",
        "the_same_backup_twice_to_one_place_is_refused_the_second_time",
        "another_backup_does_not_go_on_with_a_run_that_was_interrupted",
    ), {}),
    84: ("ids are used again", held(
        "faults_store",
        "ids_never_repeat_after_the_newest_task_or_all_of_them_are_gone",
        "entry_numbers_go_on_after_a_purge_and_a_restart",
    ), {}),
    86: ("an acknowledged commit vanishes", held(
        "faults_store",
        "every_connection_that_writes_or_reads_is_synchronous_full",
        "the_log_is_synced_before_the_answer_is_given",
    ) + held(
        "worker_memory", "the_line_is_on_the_disk_before_the_call_returns",
    ) + held(
        "offline_ends", "what_was_told_to_be_kept_survives_a_power_cut_at_any_write",
    ), {}),
    88: ("disk full", held(
        "faults_store",
        "a_full_disk_gives_a_clear_answer_leaves_nothing_half_done_and_needs_no_restart",
        "when_the_disk_is_full_only_the_command_that_needs_room_fails",
        "a_really_full_file_system_loses_nothing_and_recovers_without_a_restart",
        "after_a_failed_commit_and_a_failed_reopening_the_store_comes_back_by_itself",
    ) + held(
        "http_watching", "a_disk_that_fills_up_is_told_before_it_is_full_and_needs_no_restart",
    ) + held(
        "worker_memory", "a_full_disk_leaves_the_lines_before_it_whole",
    ) + held(
        "worker_settle", "a_full_disk_of_the_worker_keeps_no_result_from_the_store",
    ) + held(
        "faults_offline",
        "an_outbox_on_a_full_disk_keeps_what_it_acknowledged_and_goes_on_when_there_is_room",
    ), {}),
    90: ("two begin on a new store", held(
        "faults_races",
        "ten_processes_that_begin_a_store_at_once_all_come_up_on_one_schema",
    ) + held(
        "faults_offline",
        "processes_that_begin_fill_and_empty_one_outbox_at_once_lose_and_double_nothing",
    ), {"PostgreSQL": "an empty database"}),
    92: ("network file systems", held(
        "faults_store",
        "a_store_on_a_network_file_system_is_refused_at_once_unless_it_is_named",
        "a_store_reached_through_a_symlink_is_the_same_store_with_the_same_turn",
    ) + held(
        "faults_offline",
        "an_outbox_on_a_network_file_system_is_refused_at_once_unless_it_is_named",
    ), {}),
    94: ("LISTEN dies silently", (), {"PostgreSQL": NEEDS_POSTGRES}),
    96: ("pgbouncer in transaction mode", (), {"PostgreSQL": NEEDS_POSTGRES}),
}  # fmt: skip
