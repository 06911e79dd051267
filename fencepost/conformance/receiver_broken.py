"""Receivers that are each wrong in one rule; the cases have to fail every one.

`found_by` is the case that was written for it; others may find it too.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .receiver_reference import Json, No, Reference, Stream

BROKEN: dict[str, type[Broken]] = {}


class Broken(Reference):
    """A reference that breaks one rule; its docstring says which."""

    name: ClassVar[str] = ""
    found_by: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        BROKEN[cls.name] = cls


class Forgetful(Broken):
    """It does everything that comes: a delivery that is sent again has its effect again."""

    name, found_by = "no-dedupe", "the_same_event_again_gets_the_same_receipt"

    def known(self, stream: Stream, event: Json) -> Json | None:
        return None

    def check_order(self, stream: Stream, event: Json) -> None:
        pass


class FreshReceipts(Broken):
    """It knows the effect, and writes another receipt each time."""

    name, found_by = "fresh-receipts", "the_same_event_again_gets_the_same_receipt"

    def deliver(self, event: Json) -> tuple[bytes, bool]:
        receipt, replayed = super().deliver(event)
        return (receipt + b" ", True) if replayed else (receipt, False)


class IdAlone(Broken):
    """The operation's name is enough: what the data are, nobody looks at."""

    name, found_by = "operation-alone", "an_operation_with_other_data_is_a_conflict"

    def check_data(self, known: Json, digest: str) -> None:
        pass


class RulesFirst(Broken):
    """It judges the writer first, and does not tell a replaced one what is there."""

    name, found_by = "writer-before-effect", "a_known_effect_is_told_to_a_writer_that_was_replaced"

    def known(self, stream: Stream, event: Json) -> Json | None:
        self.check_writer(stream, event)
        return super().known(stream, event)


class NoHello(Broken):
    """Whoever comes first holds the stream, hello or not."""

    name, found_by = "no-hello", "the_first_contact_of_a_stream_is_a_hello"

    def check_writer(self, stream: Stream, event: Json) -> None:
        if stream.epoch is None:
            stream.epoch, stream.incarnation = int(event["fpwriterepoch"]), event["fpincarnation"]
        super().check_writer(stream, event)


class HigherEpochWins(Broken):
    """A higher epoch takes the stream by an event, with no word of its lineage."""

    name, found_by = "epoch-by-event", "a_later_writer_announces_itself_first"

    def check_writer(self, stream: Stream, event: Json) -> None:
        if stream.epoch is not None and int(event["fpwriterepoch"]) > stream.epoch:
            stream.epoch, stream.incarnation = int(event["fpwriterepoch"]), event["fpincarnation"]
        super().check_writer(stream, event)


class NoEpochs(Broken):
    """A writer that was replaced goes on."""

    name = "old-epochs"
    found_by = "a_writer_that_was_replaced_has_no_effect_any_more"

    def check_epoch(self, stream: Stream, epoch: int) -> None:
        pass


class NoIncarnations(Broken):
    """Two copies with one epoch are one writer to it."""

    name, found_by = "no-incarnations", "of_two_copies_with_one_epoch_the_second_is_refused"

    def check_fork(self, stream: Stream, epoch: int, incarnation: str) -> None:
        pass


class NoLineage(Broken):
    """Any higher epoch may take over."""

    name, found_by = "no-lineage", "a_later_writer_without_the_lineage_is_refused"

    def check_lineage(self, stream: Stream, hello: Json) -> None:
        pass


class BlindAdoption(Broken):
    """Adopting asks not over whom."""

    name, found_by = "blind-adoption", "adopting_names_the_writer_that_is_there"

    def check_adopt(self, stream: Stream, adopt: Json) -> None:
        pass


class NoOrder(Broken):
    """It takes what comes, whatever its number."""

    name, found_by = "no-order", "an_ordered_stream_has_no_gap"

    def check_place(self, stream: Stream, event: Json) -> None:
        pass


class NumbersAlone(Broken):
    """The number has to fit, the head before it need not."""

    name, found_by = "no-heads", "an_ordered_stream_has_no_gap"

    def check_place(self, stream: Stream, event: Json) -> None:
        super().check_place(stream, {**event, "fpprevious": stream.head})


class BesideTheOrder(Broken):
    """An ordered stream takes what has no number too."""

    name, found_by = "beside-the-order", "beside_the_order_nothing_is_taken"

    def check_place(self, stream: Stream, event: Json) -> None:
        if "sequence" in event:
            super().check_place(stream, event)


class NoHeadInHello(Broken):
    """A hello's own head says nothing to it."""

    name, found_by = "no-head-in-hello", "of_clones_that_cannot_be_told_apart_one_goes_on"

    def check_head(self, stream: Stream, hello: Json) -> None:
        pass


class LastComeWins(Broken):
    """A late first result overwrites the second."""

    name, found_by = "no-fence", "a_late_first_result_is_stale"

    def check_order(self, stream: Stream, event: Json) -> None:
        pass


class FenceAlone(Broken):
    """It compares fences alone: a lease's second result is stale to it."""

    name, found_by = "fence-alone", "a_second_result_of_one_lease_is_not_stale"

    def check_order(self, stream: Stream, event: Json) -> None:
        epoch, fence, *_ = event["order"]
        super().check_order(stream, {**event, "order": (epoch, fence, 0, 0)})


class RevisionsAlone(Broken):
    """It compares revisions alone."""

    name, found_by = "revision-alone", "epoch_goes_before_fence_and_fence_before_revision"

    def check_order(self, stream: Stream, event: Json) -> None:
        newest = stream.newest.get((event["subject"], event["kind"]))
        if newest is not None and event["order"][2:] <= newest["order"][2:]:
            super().check_order(stream, event)


class FenceOfTheStream(Broken):
    """It keeps one fence for all tasks: deliveries that overtake one another are stale."""

    name, found_by = "one-fence-for-all", "a_lower_fence_of_another_task_is_not_stale"

    def check_order(self, stream: Stream, event: Json) -> None:
        if stream.newest:
            latest = max(stream.newest.values(), key=lambda one: one["order"])
            stream.newest[event["subject"], event["kind"]] = latest
        super().check_order(stream, event)


class KindsTogether(Broken):
    """It compares a task's results with its other outcomes."""

    name, found_by = "kinds-together", "outcomes_do_not_make_results_stale"

    def check_order(self, stream: Stream, event: Json) -> None:
        for (subject, _), newest in list(stream.newest.items()):
            if subject == event["subject"]:
                super().check_order(stream, {**event, "kind": newest["kind"]})


class NamesByRound(Broken):
    """Of a task's outcome it keeps the round alone: that it came again is another effect's data."""

    name, found_by = "names-by-round", "an_outcome_may_come_again_in_its_round_under_a_later_lease"

    def deliver(self, event: Json) -> tuple[bytes, bool]:
        task, number, *rest = event["fpoperation"].split(":")
        return super().deliver({**event, "fpoperation": ":".join([task, number, *rest[-1:]])})


class OneStream(Broken):
    """It has one state for all who send."""

    name, found_by = "one-stream", "streams_know_nothing_of_one_another"

    def stream(self, name: str) -> Stream:
        return super().stream(name.rpartition("/")[0])


class NoSignatures(Broken):
    """It has the secret and does not look."""

    name, found_by = "no-signatures", "only_a_signature_by_the_secret_counts"

    def check_signature(self, headers: dict[str, str], body: bytes) -> None:
        headers.setdefault("webhook-id", "none")


class NoTime(Broken):
    """A signature is good for ever."""

    name, found_by = "no-tolerance", "a_signature_is_good_for_five_minutes"
    tolerance = 1 << 40


class FirstSignature(Broken):
    """It reads the first signature of the list alone."""

    name, found_by = "first-signature-alone", "one_good_signature_among_others_is_enough"

    def check_signature(self, headers: dict[str, str], body: bytes) -> None:
        first = headers.get("webhook-signature", "").split(" ")[0]
        super().check_signature({**headers, "webhook-signature": first}, body)


class Unsigned(Broken):
    """It does not sign its answers: whoever is in between can say that an effect is there."""

    name, found_by = "unsigned-answers", "the_first_contact_of_a_stream_is_a_hello"

    def sign(self, message_id: str, body: bytes) -> dict[str, str]:
        return {}


class TellsNothing(Broken):
    """A hello is answered, but what was accepted is not told."""

    name, found_by = "tells-nothing", "a_take_over_is_told_what_was_accepted"

    def hello(self, hello: Json) -> Json:
        return {**super().hello(hello), "accepted": [], "more": False}


class AskingTakesOver(Broken):
    """Who only asks has taken the stream."""

    name, found_by = "asking-takes-over", "who_only_asks_changes_nothing"

    def hello(self, hello: Json) -> Json:
        return super().hello({**hello, "ask_only": False})


class Lenient(Broken):
    """It takes what it can make something of."""

    name, found_by = "lenient", "what_is_not_to_the_letter_is_malformed"

    def read_hello(self, body: bytes) -> Json:
        try:
            return super().read_hello(body)
        except No:
            found: Any = {"stream": "a/b/c", "epoch": 1, "incarnation": "x", "lineage": []}
            return {**found, "after": 0, "limit": 1, "sequence": None, "head": None}
