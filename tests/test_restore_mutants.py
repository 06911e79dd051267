"""The nets of restores are nets: each planted fault makes the law fail that is named for it."""

from __future__ import annotations

from contextlib import ExitStack
from inspect import signature

import pytest
import test_adopt as adopt_laws
import test_restore as laws
import test_restore_wrong as wrong_laws
from helpers.faults import asked_for, edit, must_find
from helpers.receivers import Kit, Web
from helpers.restoring import world

from fencepost.operate import restore
from fencepost.operate.restoring import copying, progress, receivers, steps

pytestmark = pytest.mark.usefixtures("quiet")


def on(law, *more):
    """A law with a world of its own."""

    def run(folder, patch):
        named = asked_for(law, tmp_path=folder, monkeypatch=patch)
        if "it" not in signature(law).parameters:
            law(*more, **named)
            return
        with world(folder) as it:
            law(it, *more, **named)

    return run


def wrong(what):
    return on(wrong_laws.test_a_wrong_backup_is_refused_and_nothing_is_left, what)


def adopted(law):
    """A law of a copy, on a file."""

    def run(folder, patch):
        kit = Kit(folder / "receiver.db")
        with ExitStack() as stack:
            stack.callback(kit.close)
            it = adopt_laws.OnFile(folder, kit, stack.enter_context(Web(kit.answer)), stack)
            it.start()
            law(it)

    return run


TWO = on(laws.test_one_of_two_that_does_not_answer_is_passed_over_by_name_with_who_and_why)
AGAIN = on(laws.test_where_a_receiver_does_not_answer_nothing_serves_and_the_same_call_goes_on)
KNOWN = on(laws.test_what_a_receiver_has_accepted_is_recorded_and_nobody_works_on_it_again)
RECEIPT = on(laws.test_the_receipt_is_canonical_and_names_both_writers_and_what_is_enforced)
IMPORTED = on(laws.test_what_an_interrupted_run_has_imported_stands_in_the_receipt)

# function, piece of it, in its place, the law that must fail
PLANTED = {
    "a receiver that answers late is outwaited": (
        steps.begin, "or writer.epoch <= heard", "or False",
        on(laws.test_a_receiver_that_answers_late_and_knows_a_later_writer_gets_one_above_it)),
    "each run begins a writer": (steps.begin, "if not begun or", "if True or", AGAIN),
    "a writer that was begun is forgotten": (
        steps.begin, "begun = any(", "begun = progress.get('writer') and any(",
        on(laws.test_a_writer_that_an_interrupted_run_has_begun_is_its_own)),
    "the copy that was seen is the old writer": (
        steps._before, "lineage[-1].why in (COPIED, *SERVERS)", "False", RECEIPT),
    "the lost store's epoch is not heard of": (
        restore.restore, "max(wishes.heard, copying.heard_of(store))", "wishes.heard",
        on(laws.
           test_the_sidecar_of_a_store_that_was_lost_tells_its_epoch_where_nobody_else_does)),
    "the number that was given is not": (
        steps.begin, "max(wishes.min_epoch, wishes.heard, heard)", "max(wishes.heard, heard)",
        on(laws.test_its_epoch_is_above_all_that_anybody_has_heard_of)),
    "our own writer is taken for another": (
        receivers.epochs, 'said.get("incarnation") not in ours', "True", TWO),
    "it serves though somebody was not heard": (steps.run, "if open_ones:", "if False:", AGAIN),
    "one name passes all over": (
        steps._told, "talk.peer.name in wishes.overrides", "bool(wishes.overrides)", TWO),
    "no reason is asked for": (steps.Wishes.checked, "not self.reason", "False", TWO),
    "any name will do": (steps.run, "if unknown:", "if False:", TWO),
    "it takes streams over unasked": (
        receivers._told, "if not take_over:", "if False:",
        on(laws.test_of_two_restores_of_one_backup_the_second_asks_a_person)),
    "a receiver that was put back passes": (
        receivers._told, "position < heard", "False",
        on(laws.test_a_receiver_that_was_put_back_itself_is_told_and_waits_for_a_person)),
    "the taking over is not noted": (
        receivers._told, 'notes["taken_over"] = True\n        keep()',
        'notes["taken_over"] = True',
        on(laws.test_what_an_interrupted_run_has_taken_over_stands_in_the_receipt)),
    "imports are not noted before": (
        receivers.imports, "keep()  # once", "None  # once", IMPORTED),
    "who held it is looked up again": (
        receivers._told, '"held_by" not in notes or', "True or", IMPORTED),
    "refused imports are told as done": (
        receivers.imports, "if not outcome.accepted:", "if False:",
        adopted(adopt_laws.test_what_contradicts_the_receiver_is_told_and_nothing_is_delivered)),
    "effects of unknown tasks are not named": (
        receivers._knows, "task is not None and", "task is None or",
        on(laws.test_effects_of_tasks_that_the_backup_does_not_know_are_named)),
    "how far the receiver is heard is not kept": (
        receivers.Talk.moved_on, "self.peer.fp.receipt_of(command, None)", "None", KNOWN),
    "a place of no use ends it all": (
        receivers.Talk.__init__, "except (FencepostError, ValueError)", "except ZeroDivisionError",
        on(laws.test_a_place_that_nothing_can_be_sent_to_keeps_nobody_from_the_rest)),
    "a revoked scope's receivers are asked": (
        receivers.peers, "if not own.scope().revoked:", "if True:",
        on(laws.test_a_scope_that_is_revoked_is_erased_in_and_nothing_else)),
    "what a person had stopped goes on": (
        steps.go_on, "if now.stopped in STOPS:", "if True:",
        on(laws.test_a_destination_that_a_person_had_stopped_stays_stopped)),
    "tokens of another scope go on": (
        steps.revoke, "{fp.scope_name, *fp.scope_names()}", "{fp.scope_name}",
        on(laws.test_every_token_ends)),
    "tokens are counted by the last run alone": (
        steps.revoke, '{*(progress.get("tokens") or ()), *ending}', "ending",
        on(laws.test_tokens_that_an_interrupted_run_has_ended_stand_in_the_receipt)),
    "secrets are drawn again": (
        steps.renew_secrets, "_kept(wishes.secrets_out)", "{}",
        on(laws.test_an_interrupted_run_goes_on_with_the_secrets_that_it_has_made)),
    "a file of secrets is used as it is": (
        steps.check_secrets_out, "path.exists()", "False",
        on(laws.test_a_file_of_secrets_that_is_there_is_neither_used_nor_written_over)),
    "an erasure that fails is passed over": (
        steps.erase, "except NotFound:", "except Exception:",
        on(laws.test_where_an_erasure_fails_nothing_is_served_and_the_same_call_goes_on)),
    "a log that lies there is taken along": (
        copying.check_free, "for ending in LOGS:", "for ending in ():",
        on(wrong_laws.test_what_lies_where_the_store_is_to_be_is_not_touched, "-wal")),
    "what is there is written over": (
        copying.check_free, "if target.exists() or target.is_symlink():", "if False:",
        on(wrong_laws.test_what_lies_where_the_store_is_to_be_is_not_touched, "")),
    "what came meanwhile is written over": (
        copying.serve, "if target.exists():", "if False:",
        on(wrong_laws.test_what_somebody_else_has_put_there_meanwhile_is_not_written_over)),
    "the digest is not looked at": (
        copying._same, 'digest.hexdigest() != facts["sha256"]', "False", wrong("another digest")),
    "the journal is not looked at": (
        copying.copy, "checked(partial, tell)", "None", wrong("no store")),
    "a half copy is left": (
        copying.copy, "except BaseException:\n            partial.unlink(missing_ok=True)",
        "except BaseException:", wrong("shorter by a byte")),
    "any schema will do": (
        copying.manifest, "if version != LATEST:", "if False:", wrong("an older schema")),
    "everybody may read it": (
        copying._for_us, "0o600", "0o644",
        on(laws.test_the_restored_file_is_for_its_owner_alone_as_the_backup_is)),
    "everybody may read the secrets": (
        progress.write, "os.chmod(partial, mode)", "os.chmod(partial, 0o644)",
        on(laws.test_secrets_are_new_and_lie_where_their_owner_alone_reads_them)),
    "a run goes on with another backup": (
        progress.Progress.__init__, 'found.get("of") != of', "False",
        on(wrong_laws.test_another_backup_does_not_go_on_with_a_run_that_was_interrupted)),
    "two go on at once": (
        restore._alone, "alone(path)", "os.open(path, os.O_RDWR | os.O_CREAT)",
        on(wrong_laws.test_two_restores_at_once_do_not_meet)),
}  # fmt: skip


LAWS = {id(law): (name, law) for name, (*_, law) in PLANTED.items()}


@pytest.mark.parametrize(("name", "law"), LAWS.values(), ids=[name for name, _ in LAWS.values()])
def test_each_law_holds_where_nothing_is_planted(name, law, tmp_path, monkeypatch):
    law(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_by_the_law_named_for_it(name, tmp_path, monkeypatch):
    function, old, new, law = PLANTED[name]
    edit(monkeypatch, function, old, new)
    must_find(name, law, tmp_path, monkeypatch)
