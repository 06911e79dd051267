"""Real faults of queues by number, and the tests that hold each: those that nearly every first
version has (3 to 30), and the rarer ones (98 to 124).

number: (the fault, tests that hold it, {later subject: why}). `test_faults_table.py` holds it.
"""

from __future__ import annotations

from helpers.nodeids import held

NEEDS_PEER = "needs a dispatcher and a receiver"
NEEDS_POSTGRES = "PostgreSQL alone knows it: SQLite has one writer and no such session"

Fault = tuple[str, tuple[str, ...], dict[str, str]]

SURE: dict[int, Fault] = {
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
    ) + held(
        "worker", "a_handler_is_told_of_a_cancelled_task_within_a_beat",
    ), {}),
    13: ("a killed worker is no attempt", held(
        "faults_leases",
        "a_task_that_kills_its_worker_is_dead_after_its_attempts_with_the_reason",
        "a_poison_task_can_be_cancelled_while_it_goes_round",
    ) + held(
        "work_killed",
        "a_task_that_kills_its_worker_runs_out_of_attempts_and_harms_no_other",
    ) + held(
        "work_command", "a_poison_command_runs_out_of_attempts",
    ), {}),
    14: ("one error ends the heartbeat", (
        *held("faults_http",
              "a_heartbeat_gets_through_a_503_a_silence_and_a_reset",
              "only_an_answer_that_says_so_ends_a_lease"),
        *held("worker_beat",
              "a_beat_that_fails_is_made_again_and_the_lease_stays",
              "without_an_answer_the_work_is_told_before_the_lease_can_end",
              "the_thread_that_keeps_leases_goes_on_after_an_error",
              "work_that_cannot_be_told_keeps_it_from_no_other",
              "a_mark_is_told_as_it_was_when_it_was_made_and_spoils_no_other_lease"),
    ), {}),
    17: ("NUL in a result or reason", held(
        "faults_input",
        "a_nul_in_payload_or_result_is_stored_without_loss",
        "a_nul_in_a_name_or_key_is_refused",
        "whatever_stands_in_a_reason_the_failure_itself_is_recorded",
    ) + held(
        "worker",
        "any_exception_fails_the_attempt_and_the_worker_lives",
        "a_reason_may_be_the_error_itself",
        "whatever_goes_wrong_in_settling_a_task_fails_its_attempt",
    ), {"PostgreSQL": "the same verdict there, though its text and jsonb refuse 0x00"}),
    19: ("NaN and Infinity", held(
        "faults_input",
        "a_number_that_json_does_not_have_is_refused_and_leaves_task_and_key_free",
    ) + held(
        "faults_http", "what_was_refused_as_no_json_leaves_lease_and_key_free",
    ) + held(
        "work_command", "what_is_no_result_is_none",
    ) + held(
        "worker", "what_is_no_result_fails_the_attempt_with_the_reason",
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
    26: ("a cursor skips late commits", held(
        "deliver_faces",
        "an_obligation_that_is_committed_late_is_delivered_though_later_ones_were",
    ), {}),
    28: ("a row stays in sending", held(
        "deliver_killed",
        "a_dispatcher_killed_at_any_step_leaves_each_effect_once",
        "an_unfenced_delivery_that_a_death_cut_off_is_uncertain_and_is_not_sent_again",
        "one_that_nobody_starts_again_is_taken_over_when_its_lease_lapses",
    ) + held("deliver_reconcile", "only_a_plain_yes_or_no_settles_an_uncertain_effect"), {}),
    30: ("a fresh id for a second try", held(
        "receiver_killed",
        "killed_at_each_step_it_has_both_effect_and_receipt_or_neither",
        "under_load_and_killed_again_and_again_each_effect_is_there_once",
    ) + held(
        "deliver_dispatcher",
        "the_same_id_and_the_same_bytes_go_out_at_each_try_and_after_a_restart",
        "what_becomes_of_one_that_did_not_arrive",
    ), {}),
}  # fmt: skip

RARE: dict[int, Fault] = {
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
    ) + held(
        "work_command",
        "the_environment_tells_of_the_task_and_of_nothing_else_of_ours",
        "the_last_of_standard_error_is_the_task_s_log_and_stands_nowhere_else",
    ), {"deliveries": "addresses with credentials, answers that echo secrets"}),
    122: ("work in flight is lost", held(
        "faults_kill",
        "under_random_kills_every_task_ends_once_with_one_receipt_and_none_is_lost",
    ) + held(
        "work_killed",
        "a_worker_that_is_killed_again_and_again_gets_each_task_done_once",
        "what_a_killed_worker_had_in_hand_is_taken_up_at_once_by_its_next_life",
        "a_service_that_is_killed_and_started_again_costs_no_result",
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
