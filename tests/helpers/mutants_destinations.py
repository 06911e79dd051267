"""Planted faults in what judges destinations, each with the law that must find it."""

from __future__ import annotations

from fencepost.handle import masking, places
from fencepost.journal import standing
from fencepost.machine import claims, destinations, needs, settings
from fencepost.rules import authority
from fencepost.rules import destinations as rules
from fencepost.storage import loading
from helpers.mutants import bent, gone

SET = "a_destination_is_set_in_parts_and_what_is_left_out_stays"
GOOD = "a_queue_with_an_address_is_a_destination_for_good"
BROUGHT = "a_destination_is_brought_about_with_an_address_and_a_class"
TOGETHER = "what_cannot_hold_together_is_no_destination"
UNFENCED = "an_unfenced_destination_is_never_tried_again_by_itself"
ATTEMPTS = "a_new_destination_gives_what_is_owed_attempts_for_three_days"
STOPPED = "a_stopped_destination_gives_nothing_and_says_why"
DISPATCHER = "a_dispatcher_stops_and_moves_on_and_the_rest_is_the_operators"
RESOLVES = "a_dispatcher_resolves_on_destinations_alone"
POSITION = "a_position_is_compared_before_it_is_moved"
BATCH = "within_a_batch_a_destination_is_as_the_command_before_has_left_it"
SECRETS = "a_new_secret_is_signed_with_first_and_older_ones_until_their_end"
SIGNED = "secrets_are_for_what_is_signed_and_not_without_number"
TOLD = "what_lets_in_elsewhere_is_told_to_operator_and_dispatcher_alone"
ENTRY = "an_entry_tells_class_and_kind_and_nothing_that_lets_in"
GUARDED = "a_write_past_the_position_that_was_presented_is_undone"

DESTINATIONS = [
    gone(authority.hidden_destination, BROUGHT),
    gone(rules.stopped, STOPPED),
    gone(rules.stale_sequence, POSITION),
    bent("a position is moved from anywhere", rules.stale_sequence, "moved or other", "other",
         POSITION),
    bent("another head for the same position is taken", rules.stale_sequence, "moved or other",
         "moved", POSITION),
    bent("any address brings about nothing", authority.hidden_destination,
         "command.address is not None", "True", BROUGHT),
    bent("a dispatcher works everywhere", authority.forbidden_queue,
         'is_destination != (caller.kind == "dispatcher")',
         'is_destination and caller.kind != "dispatcher"', RESOLVES),
    bent("a dispatcher says where", authority.forbidden,
         " or _above_a_dispatcher(caller, command)", "", DISPATCHER),
    bent("a dispatcher has it go on", authority._above_a_dispatcher,
         " or command.stopped is None", "", DISPATCHER),
    bent("a dispatcher says more than that it stops", authority._above_a_dispatcher,
         "not only or ", "", DISPATCHER),
    bent("a dispatcher goes back", authority._above_a_dispatcher,
         "command.sequence < command.expected_sequence", "False", DISPATCHER),
    bent("everybody is told the secrets", authority.sees_secrets,
         'caller.kind in ("operator", "dispatcher")', "True", TOLD),
    bent("a dispatcher is not told the secrets", authority.sees_secrets,
         '("operator", "dispatcher")', '("operator",)', TOLD),
    bent("headers are shown", masking._hidden, 'dict.fromkeys(options["headers"], HIDDEN)',
         'options["headers"]', TOLD),
    bent("who is asked is shown", masking._hidden, "if asked is not None", "if False", TOLD),
    bent("a path is shown", masking._place, 'f"{found[0]}/{HIDDEN}"', "address", TOLD),
    bent("hidden queues are shown", places.Places.destinations,
         "if not authority.hidden_queue(self.caller, queue)", "", TOLD),
    bent("a class is not needed", destinations.change, "and command.class_ is None", "and False",
         BROUGHT),
    bent("a destination has destinations", destinations.change,
         "and known.settings.destinations", "and False", TOGETHER),
    bent("a secret outlives what is signed", destinations.change,
         "wrong or _unsigned(after.address, after.secrets)", "wrong", TOGETHER),
    bent("nothing contradicts", destinations.change,
         "destinations.contradiction(after.address, after.class_, after.options)", "None",
         TOGETHER),
    bent("options are replaced", destinations._changed,
         "{**before.options, **(command.options or {})}", "command.options or {}", SET),
    bent("it stays stopped", destinations._changed, "command.stopped is NOTHING",
         "command.stopped in (None, NOTHING)", SET),
    bent("an unfenced one is tried again", destinations._becomes_destination,
         '== "unfenced"', '== "none"', UNFENCED),
    bent("a destination keeps a queue's attempts", destinations._becomes_destination,
         "if first and", "if False and", ATTEMPTS),
    bent("each change gives the attempts anew", destinations._becomes_destination,
         "if first and", "if", ATTEMPTS),
    bent("what the operator has set is overwritten", destinations._becomes_destination,
         " and settings.max_attempts == DEFAULT_ATTEMPTS", "", ATTEMPTS),
    bent("verify does not know of a destination's attempts", standing.Standing._destination_set,
         "if place not in self._addressed:", "if False:", ATTEMPTS),
    bent("it becomes no destination", destinations._becomes_destination,
         "queue.is_destination, queue.settings = True,",
         "queue.is_destination, queue.settings = False,", GOOD),
    bent("it is one as long as it is named", settings._mark_destinations,
         "if place == scope", "if False", GOOD),
    bent("an unfenced one may be set to be tried again", settings._contradiction,
         'row.class_ == "unfenced"', "False", UNFENCED),
    bent("an older secret begins anew", destinations.sign,
         "until if s.until is None else min(s.until, until)", "until", SECRETS),
    bent("an older secret outlives its end", destinations.sign, "if end > now", "if end >= now",
         SECRETS),
    bent("a secret is taken twice", destinations.sign,
         "command.secret in {known.secret for known in before.secrets}", "False", SECRETS),
    bent("secrets without number", destinations.sign, "len(secrets) > destinations.MAX_SECRETS",
         "False", SIGNED),
    bent("anything has a secret", destinations._unsigned, "not secrets or ", "True or ", SIGNED),
    bent("a new position has no head", destinations.advance, "if not same and", "if False and",
         POSITION),
    bent("a head is lost", destinations.advance, "before.head if same else command.head",
         "command.head", POSITION),
    bent("what was heard is lost", destinations.advance,
         "before.heard if command.heard is None else command.heard", "command.heard or 0",
         POSITION),
    bent("who was announced is lost", destinations.advance,
         "command.announced or before.announced", "command.announced", POSITION),
    bent("a second move is guarded as the first was not", destinations._concluded,
         "changes[place] = changes[place][0], after", "changes[place] = presented, after", BATCH),
    bent("a move is not kept within the batch", destinations._concluded,
         "loaded[place] = after", "pass", BATCH),
    bent("an entry tells where", destinations._concluded, '"kind": after.kind',
         '"kind": after.address', ENTRY),
    bent("a claim does not look", claims._closed, "destinations.stopped(row)", "None", STOPPED),
    bent("a claim does not say why", claims._why_closed, "if leads else", "if False else",
         STOPPED),
    bent("a claim of one task does not look", needs._of_verb,
         "wanted.claimed.add(command.task_id)", "pass", STOPPED),
    bent("a claim loads no destination", loading._rows_of_destinations, "if claimed:",
         "if False:", STOPPED),
    bent("what is changed is not loaded", loading._rows_of_destinations, "if held:", "if False:",
         SET),
    bent("a queue's settings do not see destinations", loading._rows_of_destinations,
         "for scope in sorted(wanted.all_queues):", "for scope in ():", GOOD),
]  # fmt: skip
