"""The nets of the worker are nets: each planted fault makes the law fail that is named for it."""

from __future__ import annotations

import logging

import pytest
import test_worker as laws
import test_worker_beat as beats
import test_worker_claims as asking
import test_worker_ending as endings
import test_worker_memory as memories
import test_worker_settle as settling
from helpers.faults import edit
from helpers.stand import Stand
from helpers.whole_worker import store
from helpers.working import down

import fencepost
from fencepost import alone as lock
from fencepost.machine import claims as machine_claims
from fencepost.worker import beat, claims, held, memory, runtime, settle


def with_store(law, *more):
    """A law of a whole worker, with a store of its own."""

    def run(folder):
        with store(folder) as fp, pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(folder / "state"))
            given = {"fp": fp, "monkeypatch": patch}
            names = law.__code__.co_varnames[: law.__code__.co_argcount]
            law(*[given[name] for name in names if name in given], *more)

    return run


def with_settler(law, *more):
    """A law of `test_worker_settle.py`, with a settler of its own."""

    def run(folder):
        with Stand() as stand:
            own = settling.Settling(stand, folder)
            try:
                law(own, *more)
            finally:
                own.memory.close()

    return run


def alone(law, *more):
    return lambda folder: law(*more)


def with_patch(law):
    def run(folder):
        with pytest.MonkeyPatch.context() as patch:
            law(patch)

    return run


def in_folder(law):
    def run(folder):
        with pytest.MonkeyPatch.context() as patch:
            law(*(folder, patch)[: law.__code__.co_argcount])

    return run


FOUND = (AssertionError, LookupError, fencepost.FencepostError, pytest.fail.Exception)

# what is planted: (function, piece of its source, in its place); the law that must fail then
PLANTED = {
    "the beat never renews": (
        beat.Beat.due, "h.beat_at <= now", "False",
        alone(beats.test_a_lease_lives_as_long_as_its_work)),
    "one failed beat is the last": (
        beat.Beat.beat, "error)\n        self._again(leases)",
        "error)\n        [h.lose('failed') for h in leases]",
        alone(beats.test_a_beat_that_fails_is_made_again_and_the_lease_stays, down)),
    "the deadline counts from the answer": (
        beat.Beat.beat, "held.renewed(sent,", "held.renewed(self._fp.steady(),",
        alone(beats.test_the_deadline_counts_from_the_sending_and_not_from_the_answer)),
    "who sleeps past his lease is told nothing": (
        beat.Beat.judge, "now >= held.tell_at", "False",
        alone(beats.test_a_worker_that_slept_past_its_lease_is_told_before_it_renews_anything)),
    "it is told as the lease ends": (
        held.Held.tell_at.fget, "- self.pace.margin - self.pace.grace", "",
        alone(beats.test_without_an_answer_the_work_is_told_before_the_lease_can_end)),
    "a refusal is one more failed beat": (
        beat.Beat._refused, "if ends_a_lease(code):", "if False:",
        alone(beats.test_a_refusal_ends_the_lease_at_once_and_says_why)),
    "the end of the hold is a lost lease": (
        beat.Beat._refused, "if ends_a_lease(code):", "if True:",
        alone(beats.test_the_end_of_the_hold_is_no_lost_lease_and_is_told_in_time)),
    "a mark is the object itself": (
        beat.Beat.mark, "(kept,)", "(progress,)",
        alone(beats.test_a_mark_is_told_as_it_was_when_it_was_made_and_spoils_no_other_lease,
              {"pages": {1}})),
    "the thread that keeps leases dies of an error": (
        beat.Beat._run, "pause = 0.1", "return",
        with_patch(beats.test_the_thread_that_keeps_leases_goes_on_after_an_error)),
    "work that cannot be told is an error": (
        held.Held._tell, "except Exception:", "except ZeroDivisionError:",
        alone(beats.test_work_that_cannot_be_told_keeps_it_from_no_other, "renewed")),
    "a mark that was not heard is forgotten": (
        beat.Beat._again, "held.beat_at =", "held.pending, held.beat_at = None,",
        alone(beats.test_a_mark_whose_renewal_fails_is_told_with_the_next)),
    "a second try has a key of its own": (
        settle.Settler._back, "(each, True) for",
        "(each._replace(request=Request.of(each.request.command, 'new')), True) for",
        with_settler(settling.test_the_same_bytes_are_sent_until_they_are_answered,
                     settling.lost, "after")),
    "a completion is not remembered": (
        settle.Settler._remember, "self._memory.settle(fresh)", "pass",
        with_settler(settling.test_bytes_and_key_are_remembered_before_they_are_sent_at_all)),
    "an answer that does not come is an answer": (
        settle.Settler.round, "return self._back(requests, error.code, str(error))", "return True",
        with_settler(settling.test_the_same_bytes_are_sent_until_they_are_answered, down,
                     "before")),
    "nothing is synced": (
        memory.Memory._write, "os.fsync(self._file)", "pass",
        in_folder(memories.test_the_line_is_on_the_disk_before_the_call_returns)),
    "nobody is locked out": (
        lock._locked, "fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass",
        in_folder(memories.test_two_workers_of_one_name_are_refused_with_the_process_that_runs)),
    "a claim is not remembered": (
        claims.Claims._remembered, "self._memory.claiming(request)", "pass",
        with_store(laws.test_each_claim_is_remembered_before_it_is_sent)),
    "leases are not judged before a claim": (
        claims.Claims._answer, "self._desk.judge()", "pass",
        with_store(laws.test_leases_are_judged_before_each_claim)),
    "a lease counts from the claim that was answered": (
        claims.Claims._answer, "if outcome.replayed:", "if False:",
        with_store(laws.test_a_lease_that_comes_again_counts_from_the_first_sending_of_its_claim)),
    "each waiting has a key of its own": (
        claims.Claims._taken, "self._open = Open(request, moment.first)", "self._open = None",
        with_store(asking.test_no_copy_of_a_claim_takes_a_task_that_nobody_works_on, True)),
    "a key is left as it is at the end": (
        claims.Claims._close, "self._open is not None and", "False and",
        with_store(asking.test_no_copy_of_a_claim_takes_a_task_that_nobody_works_on, False)),
    "a claim that waits in vain leaves an entry": (
        machine_claims.claim, "or request.waits", "",
        with_store(asking.test_an_idle_worker_leaves_nothing_in_the_journal)),
    "a claim asks for all slots": (
        runtime.Runtime.room, "jobs - len(self._running)", "jobs",
        with_store(laws.test_no_claim_asks_for_more_than_there_are_free_slots)),
    "an attempt that killed its worker is given back": (
        runtime.Runtime.left_over, "if fresh else", "if True else",
        with_store(endings.test_a_new_life_ends_the_attempts_of_the_one_that_died, False, "ready")),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_by_the_law_named_for_it(name, tmp_path, monkeypatch):
    function, old, new, law = PLANTED[name]
    logging.disable(logging.CRITICAL)
    try:
        (tmp_path / "right").mkdir()
        law(tmp_path / "right")
        edit(monkeypatch, function, old, new)
        (tmp_path / "planted").mkdir()
        with pytest.raises(FOUND):
            law(tmp_path / "planted")
    finally:
        logging.disable(logging.NOTSET)
