"""Each sentence of the three seeds, and what holds it.

A sentence is named by its beginning (and, in the two JSON seeds, by the path of its field); how
the seeds are cut is in helpers/texts.py. It is held by tests of this repository, or it belongs to
a later subject of SUBJECTS; a `statement` says something that nothing can test here: a heading, a
name, a claim of origin, a word on the seed's own program. `test_seed_map.py` holds the map.
"""

from __future__ import annotations

from functools import partial

from helpers.nodeids import held

SUBJECTS = ("PostgreSQL", "deliveries", "statement")
STATEMENT = ("statement",)
DELIVERIES = ("deliveries",)
RESTORE = held(
    "restore",
    "its_epoch_is_above_all_that_anybody_has_heard_of",
    "every_token_ends",
    "where_a_receiver_does_not_answer_nothing_serves_and_the_same_call_goes_on",
    "two_live_owners_have_each_effect_once_and_the_old_one_is_refused",
)
REHEARSED = held(
    "drill", "the_drill_holds_and_its_receipt_names_both_writers_and_what_each_receiver_did",
)

queue = partial(held, "seed_fenced_queue")
feed = partial(held, "seed_shelter_feed")
outbox = partial(held, "offline")
chain = partial(held, "offline_chain")
lab = partial(held, "seed_receipt_lab")
limits = partial(held, "seed_receipt_lab_limits")
privacy = partial(held, "seed_receipt_lab_privacy")
leases = partial(held, "faults_leases")
kill = partial(held, "faults_kill")
beat = partial(held, "worker_beat")
killed = partial(held, "work_killed")
trees = partial(held, "containment")
kit = partial(held, "kit")
kit_command = partial(held, "kit_command")
contract = partial(held, "contract")

FIELDS = queue(
    "the_contracts_fields_stand_under_their_names_with_their_types",
    "commands_take_the_contracts_field_names_and_no_other_type",
)
ONE_OWNER = queue(
    "two_concurrent_claimants_produce_exactly_one_active_owner",
    "concurrent_claimants_in_processes_of_their_own_never_share_a_task",
)
STALE = queue("reclaim_increments_the_fence_and_a_stale_worker_changes_no_data")
REPLAYED = queue("timeout_after_commit_replay_returns_the_original_receipt_byte_for_byte")
REUSED = queue("the_same_idempotency_key_with_different_content_fails")
BOUNDARY = queue("the_exact_expiry_boundary_rejects_what_was_right_a_microsecond_before")
SAME_BYTES = privacy("raw_bytes_are_hashed_as_they_came_and_same_means_byte_equal")
WRONG_OWNER = lab("the_same_fence_with_a_wrong_holder_is_refused_by_the_holder_alone")
WRONG_FENCE = lab("the_same_holder_with_a_wrong_fence_is_refused_by_the_fence_alone")
NO_TRACE = lab("failure_before_commit_leaves_no_result_receipt_or_outbox_row")
ALL_OR_NONE = kill("killed_at_any_step_a_command_is_there_as_a_whole_or_not_at_all")
STATUSES = queue("an_outcome_says_accepted_failed_or_blocked_with_machine_readable_issues")

SEVEN_FIELDS = contract("the_seeds_seven_fields_and_three_states_are_kept_as_given")
OUTPUT = contract("the_seeds_output_is_kept_as_given_and_verification_has_all_of_it")
VERIFICATION = kit("the_verification_keeps_the_contract_and_names_what_was_run")
SCHEMA = contract("the_contract_is_valid_against_the_meta_schema_of_2020_12")
OFFLINE = kit_command("the_copied_folder_accepts_the_reference_with_nothing_installed")
REFERENCE = (*kit("the_reference_is_accepted_too"), *OFFLINE)
CASES = (
    *kit("the_product_is_accepted"),
    *held("kit_broken", "a_broken_queue_is_failed_with_the_code_that_it_did_not_tell"),
)
WRITTEN = kit_command("the_verification_is_written_and_never_overwritten_unasked")
ARTIFACTS = ((*SCHEMA, *OUTPUT), REFERENCE, CASES, (*WRITTEN, *VERIFICATION))

FENCED_QUEUE: dict[str, tuple[str, ...]] = {
    "schema_id:": STATEMENT,
    "version:": STATEMENT,
    "object_key:": STATEMENT,
    "title:": STATEMENT,
    "description:": STATEMENT,
    "problem: Expired workers": (
        *STALE, *REPLAYED,
        *held(
            "http_answers",
            "a_completion_whose_answer_was_lost_is_answered_with_the_same_bytes",
        ),
        *held("remote_lost", "through_many_faults_each_task_is_completed_once"),
        *killed(
            "a_worker_that_stood_still_past_its_leases_ends_their_trees_and_goes_on",
            "answers_that_get_lost_double_no_result",
        ),
    ),
    "solution_mechanism: Atomically increment": (*ONE_OWNER, *STALE),
    "solution_mechanism: Commit result and": (
        *NO_TRACE, *ALL_OR_NONE, *STALE, *WRONG_OWNER, *BOUNDARY,
    ),
    "solution_mechanism: Replay only": (*REPLAYED, *SAME_BYTES),
    "input_type.type:": (*FIELDS, *SEVEN_FIELDS),
    "input_type.required_fields.task_id:": FIELDS,
    "input_type.required_fields.worker_id:": FIELDS,
    "input_type.required_fields.fencing_token:": FIELDS,
    "input_type.required_fields.lease_expires_at:": FIELDS,
    "input_type.required_fields.idempotency_key:": FIELDS,
    "input_type.required_fields.request_sha256:": FIELDS,
    "input_type.required_fields.state:": (
        *FIELDS, *queue("the_contracts_three_states_are_passed_through_in_order"),
    ),
    "input_type.schema_status: Normative field contract": (*SCHEMA, *SEVEN_FIELDS),
    "output_type.status:": (*STATUSES, *OUTPUT),
    "output_type.issues:": STATUSES,
    **{f"output_type.artifacts[{place}]:": by for place, by in enumerate(ARTIFACTS)},
    "common_use_cases[0]:": STATEMENT,
    "common_use_cases[1]:": (
        *OFFLINE, *kit("a_case_asks_the_same_again_under_the_same_seed"),
        *held("bench", "every_figure_is_measured_and_ratios_are_taken_within_a_repetition"),
    ),
    "acceptance_criteria[0]: Two concurrent claimants": ONE_OWNER,
    "acceptance_criteria[1]: Reclaim increments": STALE,
    "acceptance_criteria[2]: Timeout-after-commit": REPLAYED,
    "acceptance_criteria[3]: Same idempotency key": REUSED,
    "acceptance_criteria[4]: The exact expiry": BOUNDARY,
    **{f"deliverables[{place}]:": by for place, by in enumerate(ARTIFACTS)},
    "upstream_objects[0]:": STATEMENT,
    "reference_kit:": contract("the_contract_says_where_it_comes_from"),
    "verification_status:": VERIFICATION,
    "history_basis.method:": STATEMENT,
    "history_basis.source_classes[0]:": STATEMENT,
    "history_basis.historical_test_claims:": STATEMENT,
    "resource_target.opt_goal:": held(
        "house", "the_core_imports_without_any_third_party_package"
    ),
    "resource_target.status:": STATEMENT,
    "resource_target.max_worker_seconds: 900": (
        *queue(
            "a_worker_that_is_not_heard_of_holds_a_task_for_900_seconds_at_most_by_default",
            "a_worker_that_renews_holds_a_task_for_a_day_at_most_by_default",
        ),
        *beat("the_end_of_the_hold_is_no_lost_lease_and_is_told_in_time"),
    ),
    "resource_target.max_followup_tasks: 2": (
        *queue("a_completion_brings_at_most_two_follow_up_tasks_by_default"),
        *held("worker", "followups_go_with_the_completion_and_with_nothing_else"),
    ),
    "limitations[0]: Implementation": VERIFICATION,
    "limitations[1]: Examples": STATEMENT,
}  # fmt: skip

PLAYED = feed("the_nine_published_verdicts_come_from_the_products_answers")
HASHES = feed("the_seven_published_hashes_are_reproduced_from_the_stores_state")
AGAIN = feed("playing_the_log_again_gives_the_same_chain")
TAMPERED = feed("tampering_with_one_step_breaks_the_chain_from_there_on")
ROWS = feed("the_final_row_count_is_the_published_one")
PROGRAM = feed("the_seeds_own_program_publishes_what_we_reproduce")
EXPIRED_OFFLINE = outbox("expired_and_untaken_work_is_claimed_again_and_accepted")
OUTBOX_PLAYED = chain("the_seven_published_hashes_come_out_of_the_outbox_s_state")
OUTBOX_AGAIN = chain("the_same_life_gives_the_same_chain_refused_steps_included")

SHELTER_FEED: dict[str, tuple[str, ...]] = {
    "spec: Shelter-feed offline outbox": (
        *PLAYED, *PROGRAM, *EXPIRED_OFFLINE,
        *held("offline_faces", "all_of_it_runs_within_40_mib"),
    ),
    "spec: Invariants: (1) fencing token": feed(
        "invariant_1_the_fencing_token_is_monotonic_per_snapshot_lease"
    ),
    "spec: (2) submit accepted only": feed(
        "invariant_2_a_submit_is_accepted_only_under_the_current_token_within_the_lease"
    ),
    "spec: (3) outbox row keyed": (
        *feed("invariant_3_duplicates_of_a_snapshot_and_its_payload_never_insert_twice"),
        *outbox("what_is_recorded_twice_is_kept_once_and_another_closing_is_refused"),
    ),
    "spec: (4) after every step": (
        *HASHES, *AGAIN,
        *feed("invariant_4_accepted_steps_are_only_appended_and_checkpoints_chain"),
        *OUTBOX_PLAYED, *OUTBOX_AGAIN,
    ),
    **{f"steps[{step}]:": (*PLAYED, *OUTBOX_PLAYED) for step in range(6)},
    "steps[6]: checkpoint chain": (*PLAYED, *HASHES, *AGAIN, *OUTBOX_PLAYED, *OUTBOX_AGAIN),
    **{f"observed_verdicts[{verdict}]:": PLAYED for verdict in range(9)},
    "all_pass:": PLAYED,
    "final_row_count:": (*ROWS, *OUTBOX_PLAYED),
    **{f"checkpoint_chain[{step}]:": (*HASHES, *OUTBOX_PLAYED) for step in range(7)},
    "harness:": (
        *PROGRAM, *chain("the_seed_s_own_program_gives_the_hashes_that_ours_are_held_against"),
    ),
    "run_command:": PROGRAM,
    "failure_modes_covered[0]: stale token after": (*PLAYED, *BOUNDARY, *EXPIRED_OFFLINE),
    "failure_modes_covered[1]: superseded token": (
        *PLAYED, *STALE,
        *outbox(
            "work_retaken_by_another_waits_while_he_holds_it_and_is_a_conflict_when_he_is_done",
            "two_laptops_with_the_same_outbox_end_with_one_result_each",
        ),
    ),
    "failure_modes_covered[2]: duplicate payload": (
        *PLAYED, *outbox("what_is_recorded_twice_is_kept_once_and_another_closing_is_refused"),
    ),
    "failure_modes_covered[3]: replay checkpoint": (
        *TAMPERED, *chain("what_was_tampered_with_is_named"),
    ),
}  # fmt: skip

HUMAN = lab("neither_a_result_nor_a_staged_event_completes_a_human_commitment")
COPIES = limits(
    "independent_restored_owners_accept_divergent_results_with_the_copied_fence",
    "a_real_copy_refuses_the_copied_lease_and_after_new_claims_both_owners_accept",
)
ONE_COPY = COPIES[:1]
CONTROL = limits("a_single_owner_with_a_raised_floor_refuses_the_old_epoch")
OWN_ROW = limits("the_store_is_recognised_by_its_own_row_and_not_by_an_application_id")
SCOPES = privacy("scope_is_part_of_key_uniqueness_and_of_receipt_identity")
REVOKED = lab("a_revoked_scope_discloses_no_result_and_no_receipt_not_even_to_a_replay")
EXPIRED = lab(
    "an_expired_lease_is_refused_at_the_committing_owner",
    "a_replaced_lease_is_refused_at_the_committing_owner_whichever_handle_it_comes_through",
)
CANCELLED = lab(
    "cancelled_work_stays_cancelled_when_a_success_comes_late_and_no_result_is_accepted"
)
DIMENSIONS = lab(
    "a_stale_revision_is_refused_by_itself",
    "a_stale_policy_is_refused_by_itself_whether_or_not_the_command_names_it",
    "a_stale_epoch_is_refused_by_itself_whether_or_not_the_command_names_it",
)
ACKNOWLEDGED = lab(
    "after_a_lost_acknowledgement_a_retry_recovers_one_receipt_and_no_second_effect",
    "a_commit_that_reports_an_error_after_it_happened_is_answered_with_its_receipt",
)
NO_OUTBOX = lab("when_the_outbox_insert_fails_result_and_receipt_roll_back_too")
OBLIGATION = lab("one_outbox_row_is_one_persisted_obligation_and_not_a_delivery")
IDENTIFIED = held(
    "http_authority",
    "without_a_token_or_with_a_wrong_one_nobody_comes_in",
    "a_revoked_token_is_401_at_once_for_everything",
    "a_token_ends_at_its_very_instant",
    "a_worker_acts_for_itself_alone",
)
AUTHORIZED = held(
    "http_authority",
    "a_kind_sends_what_it_may_and_is_told_403_for_the_rest_whatever_exists",
    "another_scope_is_not_there",
    "a_revoked_scope_tells_nothing_but_that_it_is_revoked",
    "a_token_of_some_queues_neither_sees_nor_does_anything_on_others",
)
SKEW = held(
    "remote_lease",
    "a_worker_whose_clock_is_wrong_claims_nothing_and_says_why",
    "the_wall_clock_has_no_say_in_what_is_left",
)
NOT_OURS = limits(
    "opening_a_database_that_is_not_a_store_is_refused_and_leaves_it_as_it_was",
    "opening_a_file_that_is_no_database_is_refused_and_leaves_it_as_it_was",
    "creating_a_store_never_overwrites_an_existing_path",
)
STEADY = beat(
    "a_wall_clock_that_is_wrong_by_a_year_ends_no_lease",
    "the_deadline_counts_from_the_sending_and_not_from_the_answer",
)
HEARTBEAT = beat(
    "a_lease_lives_as_long_as_its_work",
    "a_beat_that_fails_is_made_again_and_the_lease_stays",
    "without_an_answer_the_work_is_told_before_the_lease_can_end",
)
CONTAINED = (
    *trees(
        "when_the_lease_is_lost_the_whole_tree_dies",
        "when_the_worker_is_killed_the_whole_tree_dies",
        "when_worker_and_shim_are_killed_the_next_life_finds_the_tree",
    ),
    *killed("a_hostile_tree_does_not_outlive_a_lost_lease_nor_its_worker"),
)
INJECTED = (  # what a command was talked into: the kit's hostile worker, and no secret at hand
    *kit("the_product_is_accepted"),
    *held("work_command", "the_environment_tells_of_the_task_and_of_nothing_else_of_ours"),
)
BLOCKED = leases("a_queue_that_reconciles_blocks_a_lapsed_task_for_a_person")

RECEIPT_LAB: dict[str, tuple[str, ...]] = {
    "Workspace receipt lab": STATEMENT,
    "Status: executable": STATEMENT,
    "Tracks #416": STATEMENT,
    "All data and identities": STATEMENT,
    "Question and result": STATEMENT,
    "Can one owner transaction": (*NO_TRACE, *NO_OUTBOX, *ALL_OR_NONE, *EXPIRED),
    "scripts/workspace_receipt_lab.py": STATEMENT,
    "Existing scripts/merge_gate_model.py": STATEMENT,
    "Run from this repository": STATEMENT,
    "python -m unittest": STATEMENT,
    "The test suite starts": STATEMENT,
    "It never reads a product": STATEMENT,
    "Opening a non-lab": NOT_OURS,
    "The application ID is only": OWN_ROW,
    "Modeled contract": STATEMENT,
    "The fixture has one work row": (*SCOPES, *ONE_OWNER),
    "A claim names a worker": lab("a_claim_names_a_worker_an_expiry_and_an_increasing_fence"),
    "A result command binds": lab(
        "a_receipt_binds_scope_work_actor_key_revision_epoch_fence_and_result"
    ),
    "Command hashing is": (
        *privacy("a_command_from_python_is_hashed_over_its_rfc_8785_bytes"), *SAME_BYTES,
    ),
    "The SQLite owner serializes": (
        *lab("the_same_key_from_two_connections_gives_both_the_same_receipt_and_one_effect"),
        *held("faults_races", "a_foreign_write_transaction_is_waited_for"),
    ),
    "Before a new effect": (
        *REVOKED, *DIMENSIONS, *CANCELLED, *WRONG_OWNER, *WRONG_FENCE, *EXPIRED,
    ),
    "A current-authorized replay": lab(
        "a_current_replay_returns_the_saved_receipt_even_after_the_old_lease_expires"
    ),
    "Reusing a key with": lab(
        "a_key_that_comes_again_with_other_content_conflicts_and_shows_no_receipt"
    ),
    "Scope is part of both": SCOPES,
    "Result count/revision": (*NO_TRACE, *NO_OUTBOX, *ALL_OR_NONE),
    "human_state stays open": HUMAN,
    "Neither a recorded result": HUMAN,
    "The model has no dispatcher": (*OBLIGATION, *DELIVERIES),
    "| Failure or interleaving": STATEMENT,
    "| Failure before commit": NO_TRACE,
    "| Lost acknowledgement": ACKNOWLEDGED,
    "| Outbox insert fails": NO_OUTBOX,
    "| Same key from two": lab(
        "the_same_key_from_two_connections_gives_both_the_same_receipt_and_one_effect"
    ),
    "| Different keys": lab(
        "of_different_keys_targeting_the_same_revision_one_accepts_and_the_other_conflicts"
    ),
    "| Expired/replaced lease": EXPIRED,
    "| Same holder, wrong": WRONG_FENCE,
    "| Same fence, wrong": WRONG_OWNER,
    "| Revoked scope": REVOKED,
    "| Stale revision/policy/epoch": DIMENSIONS,
    "| Cancelled work": CANCELLED,
    "The explicit before/after-commit": (*NO_TRACE, *ACKNOWLEDGED, *ALL_OR_NONE),
    "The trigger-induced": (
        *NO_OUTBOX,
        *held(
            "faults_store",
            "a_full_disk_gives_a_clear_answer_leaves_nothing_half_done_and_needs_no_restart",
            "a_really_full_file_system_loses_nothing_and_recovers_without_a_restart",
        ),
    ),
    "What the lab does not": STATEMENT,
    "Identity and time are supplied": (*IDENTIFIED, *SKEW, *STEADY),
    "There is no HTTP authentication": (
        *IDENTIFIED, *AUTHORIZED, *SKEW, *HEARTBEAT, *CONTAINED, *INJECTED, *RESTORE,
    ),
    "Test code changes fixture": STATEMENT,
    "Those edits are not": STATEMENT,
    "SQLite has a single writer": held(
        "faults_store",
        "a_store_on_a_network_file_system_is_refused_at_once_unless_it_is_named",
    ),
    "See the official isolation": STATEMENT,
    "This model demonstrates": STATEMENT,
    "An epoch check rejects": CONTROL,
    "It cannot stop two": COPIES,
    "Production restore needs": RESTORE,
    "Restoring a counter": COPIES,
    "test_independent_restored": ONE_COPY,
    "It uses SQLite": ONE_COPY,
    "The original and restored": ONE_COPY,
    "Each ends with": COPIES,
    "Human work stays": COPIES,
    "A passing counterexample": STATEMENT,
    "The existing stale-epoch": CONTROL,
    "Only the native effect": REHEARSED,
    "Request a synthetic": (*REHEARSED, *held(
        "restore", "the_receipt_is_canonical_and_names_both_writers_and_what_is_enforced",
    )),
    "A copied counter": STATEMENT,
    "No distributed coordination": STATEMENT,
    "An external service": DELIVERIES,
    "A local transaction cannot": DELIVERIES,
    "Unless the remote": (*BLOCKED, *DELIVERIES),
    "Do not advertise": held("seed_map", "no_page_of_ours_promises_exactly_once_execution"),
    "The record stores only": (
        *privacy(
            "a_queue_that_stores_digests_keeps_no_result",
            "the_journal_names_no_payload_result_reason_or_key",
        ),
    ),
    "Production must additionally": privacy(
        "reads_are_scoped",
        "a_revoked_scope_shows_nothing_to_a_worker_a_producer_or_a_human",
        "retention_purges_ended_tasks_only_once_their_time_is_over",
        "a_deleted_task_leaves_a_tombstone_and_its_keys_execute_nothing_again",
        "no_payload_result_reason_or_key_reaches_the_log",
    ) + held(
        "work_command", "the_last_of_standard_error_is_the_task_s_log_and_stands_nowhere_else",
    ),
    "Consumer adoption": STATEMENT,
    "Translate one case": (
        *kit_command("one_case_runs_alone_writes_nothing_and_ends_with_its_own_code"),
        *kit_command("the_guide_to_adopt_one_case_names_cases_that_there_are"),
    ),
    "Preserve independent": (
        *SCOPES, *WRONG_FENCE, *WRONG_OWNER, *CONTROL, *DIMENSIONS,
    ),
    "Qualify provider": DELIVERIES,
    "Record exact source": (
        *VERIFICATION, *kit("the_example_is_incomplete_and_names_what_it_lacks"),
    ),
    "A model pass never": VERIFICATION,
}  # fmt: skip

SEED_MAP = (FENCED_QUEUE, SHELTER_FEED, RECEIPT_LAB)
