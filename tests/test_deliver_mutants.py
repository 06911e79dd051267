"""The nets of deliveries are nets: each planted fault makes the law fail that is named for it."""

from __future__ import annotations

import pytest
import test_deliver_answers as answering
import test_deliver_breaker as breaking
import test_deliver_dispatcher as whole
import test_deliver_event as events
import test_deliver_guard as guarding
import test_deliver_judging as judging_laws
import test_deliver_line as lines
import test_deliver_reconcile as asking
import test_deliver_together as side_by_side
from helpers.delivering import depot
from helpers.faults import edit, edited
from helpers.receivers import Kit, http

from fencepost.deliveries import (
    admission,
    answers,
    breaker,
    delivering,
    event,
    flights,
    guard,
    hearing,
    hello,
    judging,
    marks,
    reconcile,
    stream,
    together,
)
from fencepost.deliveries import http as sending
from fencepost.issues import FencepostError


def with_kit(law, *more):
    """A law of `test_deliver_answers.py`, with a receiver of its own that was greeted."""

    def run(folder):
        kit = Kit(folder / "receiver.db")
        try:
            kit.receiver.handle(**answering.greeting())
            law(kit, *more)
        finally:
            kit.close()

    return run


def with_place(law, *more, kit=True):
    """A law of a whole dispatcher, with a store and a receiver of its own."""

    def run(folder):
        made = Kit(folder / "receiver.db")
        try:
            with depot(folder) as place:
                place.patience = 5
                law(place, made, *more) if kit else law(place, *more)
        finally:
            made.close()

    return run


put_back = whole.test_an_ordered_receiver_that_was_put_back_stops_the_destination


def alone(law, *given):
    """A law that needs nothing."""
    return lambda folder: law(*given)


def greeted_beside(folder):
    """What it waits for in vain here, it does not wait for long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_by_side, "SECONDS", 5.0)
        side_by_side.test_what_the_receiver_asks_for_is_done_in_a_thread_of_its_own(patch)


# name: (the function, what stands there, the fault, the law that has to fail)
PLANTED = {
    "an uncertain delivery is sent again to who keeps no fence": (
        judging._uncertain, '"retry" if safe else "block"', '"retry"',
        alone(judging_laws.test_what_is_uncertain_is_sent_again_only_where_a_second_sending_is_none,
              "unanswered", "unfenced")),
    "what was never sent costs an attempt": (
        judging.judge, 'return Judgement(Verdict("release"), "hold", tried.wait_seconds)',
        'return Judgement(Verdict("retry"), "hold", tried.wait_seconds)',
        alone(judging_laws.test_a_word_is_judged_the_same_for_each_class, "unsent", "fenced")),
    "202 is taken for delivered": (
        answers.understood, "if status == 202:", "if status == 0:",
        alone(answering.test_a_status_is_understood, "idempotent", 202, {}, "taken", None)),
    "a gateway's word is taken for the receiver's": (
        answers.understood, "if status in GATEWAY:", "if False:",
        alone(answering.test_a_status_is_understood, "unfenced", 504, {}, "unanswered", None)),
    "a receipt of another effect will do": (
        answers._delivered, "if wrong := not_ours(receipt, event):", "if wrong := '':",
        with_kit(answering.test_a_receipt_of_another_effect_is_none_of_this_one)),
    "a receipt signed for another message will do": (
        answers._signed, "signed.message_id == message_id and ", "",
        with_kit(answering.test_a_receipt_that_was_not_signed_for_this_very_message_proves_nothing,
                 answering.wrong_ids)),
    "a stranger's word is believed": (
        answers._signed, "signed = signing.verify(keys, answer.headers, answer.body, now)",
        "signed = signing.Signed(message_id, 0)",
        alone(answering.test_a_strangers_word_decides_nothing, "fork")),
    "an unfenced connection is kept": (
        sending.HttpSender.__init__, 'keep=0 if place.kind == "unfenced" else', "keep=",
        alone(answering.test_an_unfenced_destination_is_asked_on_a_new_connection_each_time)),
    "a dead connection is the answer": (
        flights.unheard, "stale = not fresh and", "stale = False and",
        alone(answering.test_what_found_a_kept_connection_dead_is_sent_again_with_the_same_bytes)),
    "the name is asked again as it is connected to": (
        sending.Exchange._reached, "sock.connect((address,", "sock.connect((self.target.host,",
        alone(guarding.test_a_name_that_resolves_to_another_address_a_moment_later_changes_nothing)),
    "an address of the inside is connected to": (
        guard.permitted, "return good", "return found",
        alone(guarding.test_of_a_names_addresses_only_those_that_may_be_are_connected_to)),
    "an address within an address is not looked at": (
        guard.refused, "inside = _inside(address)", "inside = []",
        alone(guarding.test_what_is_no_address_of_one_machine_is_always_refused, "::ffff:0.0.0.0")),
    "a number is a name": (
        guard._is_host, " and NUMERIC.fullmatch(host) is None", "",
        alone(guarding.test_a_url_that_could_be_read_in_two_ways_is_refused_and_not_shown,
              "http://0177.0.0.1/")),
    "a cut answer is whole": (
        hearing.Ear._exactly, "while len(self._got) < size:", "while not self._got:",
        with_kit(answering.test_an_answer_that_is_cut_at_any_byte_is_uncertain)),
    "an answer may be of any length": (
        hearing.Ear._bounded, "if size > self._max_bytes:", "if False:",
        alone(answering.test_an_answer_that_is_too_long_or_none_at_all_is_not_believed,
              http(200, b"x" * 2_000))),
    "each byte of an answer has the whole time": (
        hearing.Ear._more, "self._sock.settimeout(self._left())", "pass",
        alone(answering.test_one_that_drips_its_answer_is_left_in_time)),
    "one that is over takes those beside it along": (
        together.Together._listen, "if one.flight.until <= now", "if True",
        alone(side_by_side.test_one_whose_time_is_over_is_given_up_and_the_others_are_not)),
    "of an answer in parts the last is heard": (
        flights.Flight.hear, "self._got += part", "self._got = part",
        alone(side_by_side.test_an_answer_that_comes_in_parts_is_put_together)),
    "what was sent in vain is not sent again": (
        together.Together._look, "partial(alone, steps, self._sender, sending)",
        'partial(alone, steps, self._sender, tried=Try("unanswered"))',
        alone(side_by_side.test_what_found_its_connection_dead_is_sent_again_with_the_same_bytes)),
    "a greeting is waited for by others": (
        together.Together._look, "if tried.word in LENGTHY", "if False",
        greeted_beside),
    "more are taken than can be launched": (
        together.Together._group, "min(MOST, self._sender.ready)", "MOST",
        alone(side_by_side.test_no_more_are_taken_than_can_be_launched_and_none_that_has_to_wait)),
    "who has to wait is waited for by others": (
        together.Together._group, "if not self._delivering.at_once(held)", "if False",
        alone(side_by_side.test_no_more_are_taken_than_can_be_launched_and_none_that_has_to_wait)),
    "while a probe is under way another is sent": (
        breaker.Breaker._free, "if self._probing or", "if",
        alone(breaking.test_while_a_probe_is_under_way_nothing_else_is)),
    "what has gathered goes out at once": (
        breaker.Breaker._answered, "self._room = 1", "self._room = self._most",
        alone(breaking.test_a_days_outage_costs_a_try_a_minute_and_ends_with_one_probe)),
    "an old success opens a closed door": (
        breaker.Breaker.leave, "if ticket != self._generation:", "if False:",
        alone(breaking.test_what_began_before_it_closed_does_not_open_it)),
    "a line has no order": (
        admission.Line.join, "line.sort()", "pass",
        alone(lines.test_one_subject_goes_by_revision_and_others_do_not_wait)),
    "who gives up keeps his place": (
        admission.Line.leave, "line[:] = [each for each in line if each[2] != name]", "pass",
        alone(lines.test_who_gives_up_while_it_waits_holds_up_nobody_and_nothing_is_left_behind)),
    "one that failed is overtaken": (
        admission.Line._behind, "return owed.revision <= revision", "return False",
        with_place(whole.test_a_result_that_failed_is_not_overtaken_by_the_next_of_its_task)),
    "what comes before waits for what comes after": (
        admission.Line._behind, "return owed.revision <= revision", "return True",
        alone(lines.test_what_comes_before_one_that_failed_does_not_wait_for_it_and_nothing_waits_for_long)),
    "one that never comes is waited for": (
        admission.Line._behind, "or owed.until <= now", "or False",
        alone(lines.test_what_comes_before_one_that_failed_does_not_wait_for_it_and_nothing_waits_for_long)),
    "all slots wait": (
        admission.Line._next, "self._idle() <= self._most", "True",
        alone(lines.test_who_waits_for_one_that_comes_again_leaves_half_of_the_slots_to_others)),
    "all that are claimed wait": (
        admission.Line.join, "self._idle() < self._most", "True",
        alone(lines.test_who_waits_for_one_that_comes_again_leaves_half_of_the_slots_to_others)),
    "the receiver has forgotten a moment later": (
        marks.over, ">= dedupe_seconds", "> dedupe_seconds",
        alone(events.test_attempts_without_a_mark_are_uncertain_and_a_mark_tells_since_when)),
    "a mark is not left": (
        delivering.Delivering._marked, "held.pending = (mark,)", "pass",
        with_place(
            whole.test_an_uncertain_delivery_is_not_sent_again_once_the_receiver_may_have_forgotten,
            kit=False)),
    "the fence of the delivery is told for that of the result": (
        event.event_of, '"fpwriterepoch":"{voice.epoch}"', '"fpwriterepoch":"{about["epoch"]}"',
        alone(events.test_an_event_says_of_the_result_what_the_result_was_accepted_under)),
    "what failed is overtaken": (
        delivering.Delivering._in_order, "if not (self._stream.ordered and", "if not (False and",
        with_place(whole.test_nothing_overtakes_what_failed_on_an_ordered_destination)),
    "a receiver that was put back is gone on with": (
        hello._met, "if at is not None and", "if False and",
        with_place(lambda place, kit: put_back(place, kit, place.folder))),
    "a place is moved on by a receipt of the past": (
        stream.Stream.delivered, "if sequence != event.turn.sequence:", "if False:",
        with_place(whole.test_what_was_there_before_moves_no_stream_on)),
    "a stopped destination is gone on with": (
        stream.Stream.stop, "DestinationSet(self.queue, stopped=why)",
        "DestinationSet(self.queue, stopped=None)",
        with_place(lambda place, kit: whole.test_410_stops_the_destination_until_a_person_says_so(
            place, _Caplog()))),
    "a page that is not there says that an effect is not": (
        reconcile.read, 'type(said.get("found")) is not bool', "False",
        with_place(asking.test_only_a_plain_yes_or_no_settles_an_uncertain_effect,
                   http(200, b'{"found": "yes"}'), "blocked", 1, kit=False)),
}  # fmt: skip


FOUND = (AssertionError, pytest.fail.Exception, FencepostError, OSError, sending.Unsent)
LAWS = (answering, breaking, whole, events, guarding, judging_laws, lines, asking, side_by_side)


class _Caplog:
    """Where a law asks for the log, and that is not what it is about here."""

    records = ()


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name, monkeypatch, tmp_path):
    function, old, new, law = PLANTED[name]
    edit(monkeypatch, function, old, new)
    for module in LAWS:  # they hold some of what is changed by its name
        for held, value in list(vars(module).items()):
            if value is function:
                monkeypatch.setattr(module, held, edited(function, old, new))
    with pytest.raises(FOUND):
        law(tmp_path)
