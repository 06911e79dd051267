"""The nets of the client are nets: each planted fault makes the law fail that is named for it."""

from __future__ import annotations

import pytest
import test_remote_asking as asking
import test_remote_handle as handle
import test_remote_lease as lease
import test_remote_lost as lost
import test_remote_token as token
from helpers.faults import edit

from fencepost.handle import lease as leases
from fencepost.issues import FencepostError
from fencepost.remote import answers, origin, paths, reads, skew, transport
from fencepost.remote import asking as asked
from fencepost.remote import handle as handles

UNKNOWN = lost.test_without_an_answer_the_key_is_told_and_asking_again_with_it_gives_the_receipt


def elsewhere():
    with pytest.MonkeyPatch.context() as patch:
        token.test_a_name_that_says_localhost_and_leads_elsewhere_gets_no_token(patch)


# what is planted: (function, piece of its source, in its place); the law, and its arguments
PLANTED = {
    "the digest is not looked at": (
        transport.Transport._body, "if digest is not None and digest_of", "if False and digest_of",
        lost.test_what_is_spoilt_on_the_way_back_is_read_again),
    "there is no bound on an answer": (
        transport.Transport._body, "if size > longest:", "if False:",
        lambda: asking.test_an_answer_that_never_ends_is_left(None)),
    "ended connections are kept and not told apart": (
        transport.Transport.exchange, "stale = kept is not None and", "stale = False and",
        lost.test_a_stale_connection_is_replaced_at_once_and_without_a_pause),
    "a token goes to any machine": (
        transport.Transport._look_where, "if not is_loopback(where):", "if False:",
        elsewhere),
    "plain http is no matter": (
        origin.refuse_plaintext, "not is_loopback(origin.host)", "False",
        lambda: token.test_to_another_machine_a_token_goes_by_https_only("http://10.0.0.1")),
    "userinfo is let through": (
        origin._refuse_more, 'if "@" in parts.netloc:', "if False:",
        lambda: token.test_a_url_that_could_carry_a_token_is_refused_and_never_shown(
            f"https://user:{token.TOKEN}@host")),
    "all is sent again": (
        paths.repeatable, "return request.key is not None or", "return True or",
        lambda: lost.test_a_command_that_nothing_makes_a_replay_is_not_sent_again(lost.c.Purge())),
    "a claim has no key": (
        handles._keyed, "Request.of(command, random_key())", "Request.of(command)",
        handle.test_a_claim_has_a_key_of_its_own_so_that_its_leases_come_again),
    "each try has a key of its own": (
        handles.RemoteHandle._piece, "self._one(piece[0])",
        "self._one(_keyed(piece[0].command))",
        lambda: UNKNOWN("lost")),
    "a lost answer is told as nothing done": (
        handles.RemoteHandle._told, "if error.reached:", "if False:",
        lambda: UNKNOWN("lost")),
    "what was never sent is told as unknown": (
        handles.RemoteHandle._told, "if error.reached:", "if True:",
        lost.test_where_nobody_listens_nothing_was_done_and_it_says_so),
    "the first lost try is forgotten": (
        asked.Asking.ask, "reached = reached or error.reached", "reached = error.reached",
        lambda: asking.test_it_tells_whether_any_try_may_have_reached_the_service(
            [asking.NotSent("x"), asking.Lost("x"), asking.Busy("x", reached=False)], True)),
    "the deadline is not looked at": (
        asked.Asking.ask, ">= until", ">= until * 3",
        lambda: asking.test_no_try_begins_after_the_deadline_and_nobody_sleeps_past_it(7)),
    "Retry-After is passed over": (
        asked.Asking.ask, "max(pause, self._back_off(tries))", "self._back_off(tries)",
        lambda: asking.test_the_service_is_given_the_time_it_asks_for(
            asking.stub.saying(503, Retry_After="9"))),
    "a receipt of other bytes is taken": (
        answers._own, "found.receipt.request_sha256 != request.sha256 or", "",
        lost.test_an_answer_to_somebody_elses_command_is_no_answer),
    "a redirect is a page like others": (
        answers.refusal, "if 300 <= status < 400:", "if False:",
        lambda: asking.test_a_redirect_is_never_followed(302)),
    "a lease counts from the hearing": (
        handles._moment, "begun = sent +", "begun = received +",
        lease.test_a_lease_counts_from_the_sending_of_its_claim),
    "waiting is believed without bound": (
        handles._moment, "if held <= received - sent else 0", "",
        lambda: lease.test_a_long_poll_that_does_not_or_lies_counts_from_its_sending("41.1")),
    "a renew counts from the store's time alone": (
        leases.Lease._end, "ends.append(moment.last", "ends.append(self._verbs.steady()",
        lease.test_a_claim_that_is_replayed_for_another_process_counts_by_the_stores_time),
    "the way there is called skew": (
        skew.Skew.note, "max(0, early - theirs)", "(early - theirs)",
        lease.test_the_difference_is_what_is_certain_and_no_more),
    "a wrong clock claims": (
        handles.RemoteHandle._mind_the_clock, "if skew.too_far:", "if False:",
        lambda: lease.test_a_worker_whose_clock_is_wrong_claims_nothing_and_says_why(31.0)),
    "a proof is believed": (
        reads.Reads.prove, "proof.check()", "pass",
        handle.test_a_proof_of_another_entry_or_one_that_does_not_hold_is_not_believed),
    "a key is not quoted": (
        paths.segment, 'quote(text, safe=":@")', "text",
        lambda: handle.test_a_key_of_any_characters_finds_its_task_and_its_receipt("a/b")),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name, monkeypatch):
    function, old, new, law = PLANTED[name]
    law()  # holds as it is
    edit(monkeypatch, function, old, new)
    if name == "ended connections are kept and not told apart":
        monkeypatch.setattr(transport, "silent", lambda sock: True)
    with pytest.raises((AssertionError, pytest.fail.Exception, FencepostError, OSError)):
        law()
