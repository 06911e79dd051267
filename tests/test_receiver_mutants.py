"""The receiver's nets are nets: each planted fault makes the law fail that is named for it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import test_receiver_forgetting as forgetting_laws
import test_receiver_program as program_laws
import test_receiver_reading as reading_laws
import test_receiver_rules as rule_laws
import test_receiver_signing as signing_laws
import test_receiver_stores as store_laws
from helpers.faults import edit, must_find
from helpers.receiving import DAY, Place, Sender

from fencepost.receiver import chain, forgetting, keeping, reading, receiver, rules, signing
from fencepost.receiver import sqlite as sqlite_store

pytestmark = pytest.mark.usefixtures("quiet")

LATE = rule_laws.test_results_are_compared_by_epoch_fence_and_revision_in_that_order
HELLOS = rule_laws.test_a_hello_is_judged_by_epoch_incarnation_and_lineage
ORDERED = rule_laws.test_in_every_contact_order_one_lineage_alone_has_effects
CLONES = rule_laws.test_of_two_clones_that_cannot_be_told_apart_the_order_lets_one_go_on
FIRST = rule_laws.test_where_several_apply_the_first_is_told
NEXT = rule_laws.test_a_stream_that_was_ordered_once_takes_what_comes_next_and_nothing_beside
SECOND_TRY = store_laws.test_a_failing_effect_leaves_nothing_and_can_be_tried_again


def on_store(law, **options):
    """A law of the stores, on a SQLite file of its own, with a writer that has announced itself."""

    def run():
        with TemporaryDirectory() as folder:
            place = Place("sqlite", str(Path(folder) / "effects.db"), **options)
            try:
                sender = Sender()
                place.send(sender.hello())
                law(place, sender)
            finally:
                place.close()

    return run


def kept(law):
    return on_store(law, keep_receipts_seconds=90 * DAY)


def in_folder(law):
    """A law that wants a folder of its own."""
    with TemporaryDirectory() as folder:
        law(Path(folder))


def parameters(law):
    """What pytest would call a law with."""
    (mark,) = [mark for mark in law.pytestmark if mark.name == "parametrize"]
    return mark.args[1]


def all_of(law):
    """A law for each of its parameters."""
    return lambda: [law(*values) for values in parameters(law)]


REPLAY = on_store(
    store_laws.test_an_effect_and_its_receipt_are_told_once_and_then_the_same_bytes_again
)
PAGES = on_store(store_laws.test_a_hello_tells_what_was_accepted_with_the_events_in_pages)
ASKS = on_store(store_laws.test_who_only_asks_changes_nothing_and_hears_what_a_hello_would_meet)
MANY = on_store(store_laws.test_what_fails_takes_nothing_else_of_its_transaction_with_it)
COMMITS = on_store(
    lambda place, sender: (
        store_laws.test_an_effect_cannot_end_the_transaction_that_holds_its_receipt(
            place, sender, None
        )
    )
)
KNOWN = rule_laws.test_a_known_effect_is_told_to_whoever_asks_with_the_same_data

# what is planted: (function, piece of its source, in its place, the law that must fail)
PLANTED = {
    "other data are no matter": (
        rules.judge_event, "known.data_sha256 != event.data_sha256", "False", FIRST),
    "a known effect is judged again": (
        rules.judge_event, "    if known is not None:\n        return None\n", "", KNOWN),
    "no hello is needed": (
        rules.judge_event, 'Refusal("hello_needed", holder(None))', "None",
        rule_laws.test_the_first_contact_of_a_stream_needs_a_hello),
    "an old epoch may": (
        rules.judge_event, "event.writer_epoch < stream.writer.epoch", "False", FIRST),
    "incarnations are not compared": (
        rules.judge_event, "event.incarnation != stream.writer.incarnation", "False",
        lambda: ORDERED(ordered=False)),
    "a higher epoch comes in by an event": (
        rules.judge_event, "event.writer_epoch > stream.writer.epoch", "False",
        lambda: ORDERED(ordered=True)),
    "gaps are no matter": (
        rules.judge_event, "not follows(event, stream)", "False", all_of(NEXT)),
    "an equal order is not stale": (
        rules.judge_event, "event.order <= newest.order", "event.order < newest.order",
        all_of(LATE)),
    "nothing is stale": (
        rules.judge_event, "event.order <= newest.order", "False", all_of(LATE)),
    "nothing is forgotten": (
        rules.judge_event, "event.time <= stream.floor", "False",
        kept(forgetting_laws.test_what_was_dropped_is_not_done_again_and_what_is_new_is)),
    "what is as late as the floor is not forgotten": (
        rules.judge_event, "event.time <= stream.floor", "event.time < stream.floor",
        kept(forgetting_laws.test_what_was_dropped_is_not_done_again_and_what_is_new_is)),
    "a known task is forgotten too": (
        rules.judge_event, "newest is None and event.time", "event.time",
        kept(forgetting_laws.test_a_task_of_which_something_is_left_is_judged_by_that)),
    "an ordered stream takes what has no number": (
        rules.follows, "return stream.sequence == 0", "return True", all_of(NEXT)),
    "the head is not compared": (
        rules.follows, "and event.previous == stream.head", "", all_of(NEXT)),
    "the number is not compared": (
        rules.follows, "event.sequence == stream.sequence + 1 and", "", all_of(NEXT)),
    "the head stays": (
        rules.after_event, "head=next_head(", "head=stream.head if True else next_head(", CLONES),
    "an old writer says hello": (
        rules.judge_hello, "hello.writer.epoch < stream.writer.epoch", "False", all_of(HELLOS)),
    "the lineage is not looked at": (
        rules.judge_hello, "stream.writer not in hello.lineage or ", "", all_of(HELLOS)),
    "adopting asks not over whom": (
        rules.judge_hello, "hello.adopt == stream.writer", "True", all_of(HELLOS)),
    "anybody may adopt": (
        rules.judge_hello, "not may_adopt", "False",
        rule_laws.test_adopting_has_to_be_allowed),
    "there is something to adopt where nobody is": (
        rules.judge_hello, "None if hello.adopt is None else Refusal", "None and Refusal",
        rule_laws.test_the_first_hello_holds_the_stream_and_there_is_nothing_to_adopt),
    "heads in a hello are not compared": (
        rules._parted, "hello.head != stream.head", "False", CLONES),
    "what the old writer knew still counts": (
        rules.after_hello, "heard=min(hello.after, stream.position)", "heard=stream.heard",
        rule_laws.test_what_the_new_writer_knows_counts_not_what_the_old_one_knew),
    "a hello is believed whatever it knows": (
        rules.after_hello, "min(hello.after, stream.position)", "hello.after",
        rule_laws.test_what_the_new_writer_knows_counts_not_what_the_old_one_knew),
    "the length of an operation is left out of a head": (
        chain.next_head, 'len(name).to_bytes(2, "big")', 'b""',
        rule_laws.test_a_head_stands_for_its_whole_history_and_for_nothing_else),
    "any signature is good": (
        signing.verify, "if not good:", "if False:",
        signing_laws.test_every_changed_byte_of_what_is_signed_is_seen),
    "a signature holds for ever": (
        signing.verify, "abs(now - timestamp) > tolerance", "False",
        lambda: signing_laws.test_a_signature_holds_for_five_minutes_before_and_after(301, 0)),
    "a signature from the future holds": (
        signing.verify, "abs(now - timestamp) > tolerance", "now - timestamp > tolerance",
        lambda: signing_laws.test_a_signature_holds_for_five_minutes_before_and_after(-301, 0)),
    "the last signature alone counts": (
        signing.verify, "good |= hmac", "good = hmac",
        signing_laws.test_one_good_signature_among_others_is_enough),
    "one secret alone signs": (
        signing.sign, "for key in keys)", "for key in keys[:1])",
        signing_laws.test_a_secret_is_rotated_by_signing_with_both_for_a_while),
    "an id may have a full stop": (
        signing.well_formed_id, "_ID.fullmatch(text) is not None", "bool(text)",
        signing_laws.test_an_id_with_a_full_stop_cannot_be_signed),
    "a member may stand twice": (
        reading._json, "_DECODER.decode(text)", "json.loads(text)",
        lambda: reading_laws.test_bytes_that_two_could_read_in_two_ways_are_malformed(
            "a member twice")),
    "an effect that fails is kept": (
        sqlite_store.SqliteStore.undo, "self.connection.execute(_UNDO)", "pass",
        on_store(SECOND_TRY)),
    "the receipt is made anew each time": (
        receiver.Receiver._deliver, "answers.accepted(known.receipt, replayed=True)",
        "answers.accepted(answers.receipt(self.name, event, stream, self.now()), replayed=True)",
        REPLAY),
    "the receipt is not written": (
        keeping.Session.record, '"add_receipt",', '"list_ages", after=0, limit=1) or dict(',
        REPLAY),
    "the stream is not written": (
        keeping.Session.save, "sorted(self._changed)", "()", PAGES),
    "a hello tells all from the beginning": (
        receiver.Receiver._greet, "hello.after, hello.limit", "0, hello.limit", PAGES),
    "a hello tells no more than one page": (
        keeping.Session.accepted, "len(rows) < at_once or", "True or",
        on_store(store_laws.test_more_receipts_than_one_page_of_the_store_come_whole)),
    "who asks takes the stream": (
        receiver.Receiver._greet,
        "if not hello.ask_only:\n        stream", "if True:\n        stream", ASKS),
    "an effect may commit": (
        sqlite_store.SqliteStore._authorize, "self._effect and", "False and",
        COMMITS),
    "a commit may be lost": (
        sqlite_store.SqliteStore._settle, "PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL",
        lambda: in_folder(program_laws.test_a_commit_is_on_the_disk_and_that_is_read_back)),
    "the log grows for ever": (
        sqlite_store.SqliteStore.commit, "> _LONG_LOG", "> 1 << 60",
        lambda: in_folder(program_laws.test_a_long_log_is_copied_back_while_it_runs)),
    "one that fails takes another with it": (
        receiver.Receiver._failure, 'answers.problem("effect_failed")',
        'answers.problem("unavailable", wait=1)', MANY),
    "old receipts go though nobody has heard": (
        forgetting.tidy_stream, "if age[0] <= stream.heard", "if True",
        kept(forgetting_laws.
             test_a_receipt_goes_when_it_is_old_and_the_writer_knows_of_it_and_not_before)),
    "receipts go a moment too early": (
        forgetting._older, "age[1] >= than", "age[1] > than",
        kept(forgetting_laws.
             test_a_receipt_goes_when_it_is_old_and_the_writer_knows_of_it_and_not_before)),
    "a young receipt hides no old one": (
        forgetting._older, "break", "continue",
        kept(forgetting_laws.test_a_clock_that_was_set_back_drops_nothing_too_early)),
    "no floor is left behind": (
        forgetting.tidy_stream, "floor=max(", 'floor="" and max(',
        kept(forgetting_laws.test_what_was_dropped_is_not_done_again_and_what_is_new_is)),
}  # fmt: skip


# statement, piece of it, in its place, the law that must fail
STREAMS = on_store(store_laws.test_streams_are_independent_of_one_another)
NAMES = on_store(
    store_laws.test_two_receivers_of_other_names_in_one_store_know_nothing_of_each_other
)
LATER = on_store(
    store_laws.test_a_late_first_result_is_stale_and_a_second_one_of_the_same_lease_is_not
)
OUTCOMES = on_store(store_laws.test_a_result_is_not_stale_because_of_another_outcome_of_its_task)
OTHERS = kept(forgetting_laws.test_what_is_dropped_of_one_stream_leaves_the_others)
STATEMENTS = [
    ("hold_stream", "receiver = :receiver and ", "", NAMES),
    ("hold_stream", " and stream = :stream", "", STREAMS),
    ("find_effect", "r.stream_id = :stream_id and ", "", STREAMS),
    ("find_effect", " and r.operation = :operation", "", LATER),
    ("find_effect", "s.stream_id = :stream_id and ", "", STREAMS),
    ("find_effect", "s.subject = :subject and ", "", LATER),
    ("find_effect", " and s.kind = :kind", "", OUTCOMES),
    ("put_stream", "where id = :stream_id", "", STREAMS),
    ("put_stream", "sequence = :sequence, ", "",
     on_store(store_laws.test_ordered_deliveries_follow_one_another_by_number_and_head)),
    ("put_subject", "revision = excluded.revision,", "", LATER),
    ("list_accepted", "stream_id = :stream_id and ", "", OTHERS),
    ("list_accepted", "position > :after", "true", PAGES),
    ("drop_receipts", "stream_id = :stream_id and ", "", OTHERS),
    ("drop_subjects", "stream_id = :stream_id and ", "", OTHERS),
    ("drop_events", "stream_id = :stream_id and ", "", OTHERS),
    ("drop_events", " and position <= :position", "", kept(forgetting_laws.
     test_the_data_of_events_are_kept_as_long_as_is_asked_and_the_receipts_longer)),
]  # fmt: skip


LAWS = {id(law): law for *_, law in [*PLANTED.values(), *STATEMENTS]}


@pytest.mark.parametrize("law", LAWS.values(), ids=range(len(LAWS)))
def test_each_law_holds(law):
    law()


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_by_the_law_named_for_it(name, monkeypatch):
    function, old, new, law = PLANTED[name]
    edit(monkeypatch, function, old, new)
    must_find(name, law)


@pytest.mark.parametrize(
    ("statement", "old", "new", "law"), STATEMENTS, ids=[f"{s}-{n}" for n, (s, *_) in
                                                         enumerate(STATEMENTS)]
)  # fmt: skip
def test_each_condition_of_a_statement_is_missed_where_it_is_dropped(
    statement, old, new, law, monkeypatch
):
    text = sqlite_store._STATEMENTS[statement]
    assert text.count(old) == 1, statement
    monkeypatch.setitem(sqlite_store._STATEMENTS, statement, text.replace(old, new))
    must_find(f"{statement} has no {old.strip()!r}", law)
