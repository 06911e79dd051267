"""The receivers' conformance cases, where they can be read. From `tests/`:

    python -m helpers.receiver_cases > ../fencepost/conformance/receiver_cases.jsonl

A case is a law, the code that it is about, and steps: a request with what has to be answered.
`$WRITER` in a body stands for a name that the runner draws afresh for each case.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.receiver import wire
from helpers.receiving import Sender, Sent, incarnation, task

Json = dict[str, Any]
Steps = list[Json]
STREAM = "$WRITER/default/out"
CASES: dict[str, tuple[str, str, Callable[[], Steps]]] = {}


def writer(epoch: int = 1, number: int | None = None, **members: Any) -> Sender:
    return Sender(epoch, incarnation(number or epoch), stream=STREAM, **members)


def post(sent: Sent, status: int = 200, **expect: Any) -> Json:
    """A step. `expect` may name the code, members of the body, the step whose bytes it repeats."""
    kind = "hello" if sent.content_type == wire.HELLO_TYPE else "event"
    return {
        "post": kind, "id": sent.id, "body": sent.body.decode(),
        "expect": {"status": status, **expect},
    }  # fmt: skip


def refused(sent: Sent, code: str, **members: Any) -> Json:
    return post(sent, wire.CODES[code][0], code=code, **({"json": members} if members else {}))


def accepted(sent: Sent, **members: Any) -> Json:
    return post(sent, replayed=False, json={"status": "accepted", **members})


def greeted(sent: Sent, **members: Any) -> Json:
    return post(sent, json={"status": "ok", **members})


def with_(step: Json, **more: Any) -> Json:
    return {**step, **more}


def case(code: str = "") -> Callable[[Callable[[], Steps]], Callable[[], Steps]]:
    def made(steps: Callable[[], Steps]) -> Callable[[], Steps]:
        CASES[steps.__name__] = (" ".join((steps.__doc__ or "").split()), code, steps)
        return steps

    return made


@case("hello_needed")
def the_first_contact_of_a_stream_is_a_hello() -> Steps:
    """An event of a stream that has not been announced is refused, and has no effect."""
    w = writer()
    return [
        refused(w.event(), "hello_needed", epoch=None, incarnation=None),
        greeted(w.hello(), position=0, accepted=[], was=None, epoch=1, incarnation=w.incarnation),
        accepted(w.event(), position=1),
    ]


@case()
def a_receipt_says_what_was_accepted() -> Steps:
    """Every member of a receipt, the epoch of the writer beside that of the result."""
    w = writer(3, lineage=((1, incarnation(1)),))
    sent = w.event(7, revision=2, fence=9, epoch=1, value={"text": "é"})
    return [
        greeted(w.hello()),
        accepted(
            sent, stream=STREAM, operation=f"{task(7)}:2", data_sha256=sent.data_sha256.hex(),
            result_sha256="0" * 64, final=True, at="2027-01-01T00:00:00.000000Z",
            epoch=3, incarnation=incarnation(3), result_epoch=1, fence=9, revision=2,
            sequence=None, position=1, id=sent.id, type="result", subject=f"pages/{task(7)}",
        ),
    ]  # fmt: skip


@case()
def the_same_event_again_gets_the_same_receipt() -> Steps:
    """Byte for byte, marked in a header and nowhere else; there is one effect."""
    w = writer()
    return [
        greeted(w.hello()), accepted(w.event()),
        post(w.event(), replayed=True, same_as=1), post(w.event(), replayed=True, same_as=1),
        greeted(w.hello(), position=1),
    ]  # fmt: skip


@case()
def many_at_once_have_one_effect() -> Steps:
    """Sixteen copies of one event at the same time: one effect, and one receipt for all."""
    w = writer()
    return [
        greeted(w.hello()),
        with_(post(w.event(), json={"position": 1}), times=16),
        greeted(w.hello(), position=1, accepted=[{"operation": f"{task(1)}:1"}]),
    ]


@case("effect_conflict")
def an_operation_with_other_data_is_a_conflict() -> Steps:
    """A known operation whose data differ has another effect: it is refused."""
    w = writer()
    first, other = w.event(value=1), w.event(value=2)
    return [
        greeted(w.hello()), accepted(first),
        refused(other, "effect_conflict", known_data_sha256=first.data_sha256.hex()),
        post(first, replayed=True, same_as=1),
    ]  # fmt: skip


@case("old_epoch")
def a_writer_that_was_replaced_has_no_effect_any_more() -> Steps:
    """After a take-over the old writer is refused, its hello too."""
    old, heir = writer(), writer().copied(2, incarnation(2))
    before = {"epoch": 1, "incarnation": incarnation(1)}
    return [
        greeted(old.hello()), greeted(heir.hello(), was=before),
        refused(old.event(), "old_epoch", epoch=2, incarnation=incarnation(2)),
        refused(old.hello(), "old_epoch", epoch=2, incarnation=incarnation(2)),
        accepted(heir.event(), position=1),
    ]  # fmt: skip


@case()
def a_known_effect_is_told_to_a_writer_that_was_replaced() -> Steps:
    """What is there cannot be undone by refusing it: rule 1 comes before all others."""
    old, heir = writer(), writer().copied(2, incarnation(2))
    return [
        greeted(old.hello()), accepted(old.event()), greeted(heir.hello()),
        post(old.event(), replayed=True, same_as=1),
    ]  # fmt: skip


@case("fork")
def of_two_copies_with_one_epoch_the_second_is_refused() -> Steps:
    """Same epoch, another incarnation: neither its events nor its hello."""
    first, second = writer(1, 1), writer(1, 2)
    return [
        greeted(first.hello()),
        refused(second.event(), "fork", epoch=1, incarnation=incarnation(1)),
        refused(second.hello(), "fork", epoch=1, incarnation=incarnation(1)),
        accepted(first.event()),
    ]


@case("fork")
def a_later_writer_without_the_lineage_is_refused() -> Steps:
    """A higher epoch alone is not enough: its lineage has to hold the writer that is here."""
    return [
        greeted(writer(1, 1).hello()),
        refused(writer(5, 5, lineage=((1, incarnation(9)),)).hello(), "fork", epoch=1),
        refused(writer(5, 5).hello(), "fork"),
        accepted(writer(1, 1).event()),
    ]


@case("hello_needed")
def a_later_writer_announces_itself_first() -> Steps:
    """An event of a higher epoch is refused until the hello with its lineage has come."""
    old, heir = writer(), writer().copied(2, incarnation(2))
    return [
        greeted(old.hello()), refused(heir.event(), "hello_needed", epoch=1),
        accepted(old.event(2)), greeted(heir.hello()), accepted(heir.event()),
    ]  # fmt: skip


@case("fork")
def siblings_in_either_order_leave_one() -> Steps:
    """Two copies that began the same epoch from one parent: the first to come holds the stream."""
    parent = writer()
    left, right = parent.copied(2, incarnation(12)), parent.copied(2, incarnation(13))
    later = left.copied(3, incarnation(14))
    return [
        greeted(parent.hello()), accepted(parent.event(1)), greeted(left.hello()),
        refused(right.hello(), "fork"), accepted(left.event(2)), refused(right.event(3), "fork"),
        greeted(later.hello()), accepted(later.event(4)), refused(right.event(3), "old_epoch"),
    ]  # fmt: skip


@case()
def a_take_over_is_told_what_was_accepted() -> Steps:
    """After the position that the writer knows, with each event's data, in order, in pages."""
    old, heir = writer(), writer().copied(2, incarnation(2))
    told = [{"operation": f"{task(n)}:1", "position": n, "epoch": 1,
             "event": {"result": n, "revision": 1}} for n in range(1, 4)]  # fmt: skip
    return [
        greeted(old.hello()), *(accepted(old.event(n, value=n)) for n in range(1, 4)),
        greeted(heir.hello(after=1, limit=1), accepted=told[1:2], more=True, position=3),
        greeted(heir.hello(after=2), accepted=told[2:], more=False),
        greeted(heir.hello(), accepted=told, more=False),
    ]  # fmt: skip


@case()
def who_only_asks_changes_nothing() -> Steps:
    """`ask_only` is answered to anybody with the secret, and holds no stream."""
    first, other = writer(1, 1), writer(4, 4)
    return [
        greeted(other.hello(ask_only=True), epoch=None, incarnation=None, accepted=[]),
        refused(other.event(), "hello_needed"),
        greeted(first.hello()), accepted(first.event()),
        greeted(other.hello(ask_only=True), epoch=1, incarnation=incarnation(1),
                accepted=[{"operation": f"{task(1)}:1"}], would="fork"),
        accepted(first.event(2)),
    ]  # fmt: skip


@case("moved")
def adopting_names_the_writer_that_is_there() -> Steps:
    """A human's word in place of the lineage, and only over the writer that he has seen."""
    first, stranger, late = writer(1, 1), writer(3, 3), writer(4, 4)
    seen = {"adopt": {"epoch": 1, "incarnation": incarnation(1)}}
    return [
        greeted(first.hello()), accepted(first.event()),
        refused(stranger.hello(adopt={**seen["adopt"], "epoch": 0}), "moved", epoch=1),
        greeted(stranger.hello(**seen), accepted=[{"operation": f"{task(1)}:1"}]),
        greeted(stranger.hello(**seen)),
        refused(late.hello(**seen), "moved", epoch=3, incarnation=incarnation(3)),
        refused(first.event(2), "old_epoch"), accepted(stranger.event(2)),
    ]  # fmt: skip


def _ordered(sender: Sender, number: int) -> tuple[Sent, Json]:
    sent = sender.event(number, ordered=True)
    step = accepted(sent, sequence=sender.sequence + 1)
    sender.delivered(sent)
    return sent, step


@case("gap")
def an_ordered_stream_has_no_gap() -> Steps:
    """The sequence rises by one, the head before it is the one that is here. Else nothing is done,
    and it is told how far the receiver is."""
    w = writer()
    hello = greeted(w.hello(), sequence=0, head="0" * 64)
    skipped = w.event(1, ordered=True, sequence=wire.sequence_text(2))
    forged = w.event(1, ordered=True, fpprevious="ab" * 32)
    _, first = _ordered(w, 1)
    here = {"sequence": 1, "head": w.head.hex()}
    again = w.event(2, ordered=True, sequence=wire.sequence_text(1), fpprevious="0" * 64)
    _, second = _ordered(w, 2)
    return [
        hello, refused(skipped, "gap", sequence=0, head="0" * 64), refused(forged, "gap"), first,
        refused(again, "gap", **here), second,
        greeted(w.hello(), sequence=2, head=w.head.hex()),
    ]  # fmt: skip


@case("gap")
def beside_the_order_nothing_is_taken() -> Steps:
    """A stream that was ordered once takes no event without sequence."""
    w = writer()
    return [greeted(w.hello()), _ordered(w, 1)[1], refused(w.event(2), "gap", sequence=1)]


@case("fork")
def of_clones_that_cannot_be_told_apart_one_goes_on() -> Steps:
    """Same epoch and incarnation, as after a memory snapshot: the chain tells them apart."""
    clone, other = writer(), writer()
    steps = [greeted(clone.hello()), _ordered(clone, 1)[1]]
    theirs, _ = _ordered(other, 2)
    return [*steps, refused(theirs, "gap"), refused(other.hello(), "fork"), _ordered(clone, 3)[1]]


@case("gap")
def a_writer_that_takes_over_continues_the_chain() -> Steps:
    """The head does not depend on who sends: the heir goes on from where the receiver is."""
    old = writer()
    steps = [greeted(old.hello()), _ordered(old, 1)[1], _ordered(old, 2)[1]]
    heir = old.copied(2, incarnation(2))
    return [*steps, greeted(heir.hello(sequence=0, head=None), sequence=2, head=old.head.hex()),
            _ordered(heir, 3)[1]]  # fmt: skip


@case("stale_result")
def a_late_first_result_is_stale() -> Steps:
    """A result that comes after a later one of its task has no effect; the later one is named."""
    w = writer()
    return [
        greeted(w.hello()), accepted(w.event(1, revision=2, fence=9)),
        refused(w.event(1, revision=1, fence=5), "stale_result",
                newest={"epoch": 1, "fence": 9, "revision": 2, "operation": f"{task(1)}:2"}),
    ]  # fmt: skip


@case("stale_result")
def epoch_goes_before_fence_and_fence_before_revision() -> Steps:
    """Results of a task are compared member by member."""
    w = writer(3)
    return [
        greeted(w.hello()), accepted(w.event(1, revision=3, epoch=1, fence=9)),
        accepted(w.event(1, revision=4, epoch=2, fence=1)),
        refused(w.event(1, revision=9, epoch=1, fence=99), "stale_result"),
        accepted(w.event(1, revision=5, epoch=2, fence=2)),
        refused(w.event(1, revision=6, epoch=2, fence=1), "stale_result"),
    ]  # fmt: skip


@case()
def a_second_result_of_one_lease_is_not_stale() -> Steps:
    """Same epoch, same fence, next revision: both have their effect, each once."""
    w = writer()
    return [
        greeted(w.hello()), accepted(w.event(1, revision=1, fence=9)),
        accepted(w.event(1, revision=2, fence=9)),
        post(w.event(1, revision=1, fence=9), replayed=True, same_as=1),
    ]  # fmt: skip


@case()
def a_lower_fence_of_another_task_is_not_stale() -> Steps:
    """Fences are compared within a task: deliveries of different tasks may overtake one another."""
    w = writer()
    return [
        greeted(w.hello()), accepted(w.event(1, fence=9)), accepted(w.event(2, fence=3)),
    ]  # fmt: skip


@case()
def outcomes_do_not_make_results_stale() -> Steps:
    """Each kind is compared with its own kind, by round where nothing else differs."""
    w = writer()
    never = {"fence": 0, "revision": 0, "kind": "cancelled"}
    return [
        greeted(w.hello()), accepted(w.event(1, kind="done", fence=9, revision=1), type="done"),
        accepted(w.event(1, revision=1, fence=9)),
        accepted(w.event(2, round=1, **never), operation=f"{task(2)}:1:0:cancelled"),
        accepted(w.event(2, round=2, **never)),
        accepted(w.event(3, round=2, kind="dead", fence=1, revision=0)),
        refused(w.event(3, round=1, kind="dead", fence=1, revision=0), "stale_result"),
    ]  # fmt: skip


@case()
def an_outcome_may_come_again_in_its_round_under_a_later_lease() -> Steps:
    """A task that was blocked and sent back may be blocked again. The two effects have names of
    their own, by the fence in them, and it has to be the event's."""
    w = writer()
    blocked = {"kind": "blocked", "revision": 0}
    return [
        greeted(w.hello()),
        accepted(w.event(1, fence=3, **blocked), operation=f"{task(1)}:1:3:blocked"),
        accepted(w.event(1, fence=9, **blocked), operation=f"{task(1)}:1:9:blocked"),
        refused(w.event(1, fence=4, **blocked), "stale_result"),
        refused(w.event(1, fence=10, fpoperation=f"{task(1)}:1:9:blocked", **blocked), "malformed"),
        refused(w.event(1, fence=10, fpoperation=f"{task(1)}:1:blocked", **blocked), "malformed"),
    ]  # fmt: skip


@case()
def streams_know_nothing_of_one_another() -> Steps:
    """Another destination of the same store has its own writer, positions and effects."""
    w = writer()
    other = writer(5, 5)
    other.stream = "$WRITER/default/other"
    return [
        greeted(w.hello()), accepted(w.event()), refused(other.event(), "hello_needed"),
        greeted(other.hello()), accepted(other.event(), position=1),
        post(w.event(), replayed=True, same_as=1),
    ]  # fmt: skip


@case("bad_signature")
def only_a_signature_by_the_secret_counts() -> Steps:
    """By another secret, over another body, under another id, of another version, or none."""
    w = writer()
    step = refused(w.event(), "bad_signature")
    return [
        greeted(w.hello()),
        with_(step, sign={"secret": "another"}),
        with_(step, sign={"body": w.event(value="other").body.decode()}),
        with_(step, sign={"id": "msg_other"}),
        with_(step, sign={"version": "v1a"}),
        with_(step, sign={"drop": "webhook-signature"}),
        with_(step, sign={"drop": "webhook-id"}),
        with_(step, sign={"drop": "webhook-timestamp"}),
        greeted(w.hello(), position=0),
        accepted(w.event()),
    ]  # fmt: skip


@case("bad_signature")
def a_signature_is_good_for_five_minutes() -> Steps:
    """Before and after: an old request that was overheard has no effect."""
    w = writer()
    step = refused(w.event(), "bad_signature")
    return [
        greeted(w.hello()), with_(step, sign={"age_seconds": 360}),
        with_(step, sign={"age_seconds": -360}),
        with_(accepted(w.event()), sign={"age_seconds": 240}),
    ]  # fmt: skip


@case()
def one_good_signature_among_others_is_enough() -> Steps:
    """While a secret is rotated there are several; what is not understood is passed over."""
    w = writer()
    return [
        greeted(w.hello()),
        with_(accepted(w.event()), sign={"before": "v1a,AAAA nonsense v1,AAAA "}),
        with_(post(w.event(), replayed=True, same_as=1), sign={"after": " v2,x v1,"}),
    ]  # fmt: skip


@case("malformed")
def what_is_not_to_the_letter_is_malformed() -> Steps:
    """And has no effect: each wrong in one member."""
    w = writer()
    steps = [refused(sent, "malformed") for sent in _wrong(w)]
    return [greeted(w.hello()), *steps, greeted(w.hello(), position=0)]


def _wrong(w: Sender) -> Iterator[Sent]:
    good = w.event()
    for members in (
        {"specversion": "0.3"}, {"source": "/elsewhere"}, {"type": "dev.fencepost.unknown"},
        {"fpoperation": f"{task(1)}:2"}, {"fpfence": "01"}, {"fpwriterepoch": None},
        {"fpincarnation": "x"}, {"time": "2027-01-01T00:00:00Z"},
        {"sequence": "000000000000001"}, {"subject": "pages"},
    ):  # fmt: skip
        yield w.event(**members)
    body = good.body
    yield Sent("msg_other", body)
    yield Sent(good.id, body[:-1])
    yield Sent(good.id, b'{"data":[]' + body[body.rindex(b',"datacontenttype"') :])
    yield Sent(good.id, body.replace(b'"fpepoch":"1"', b'"fpepoch":"1","fpepoch":"2"'))
    yield Sent(good.id, body.replace(b'"result":null', b'"result":NaN'))
    for members in (
        {"lineage": []}, {"lineage": [[1, incarnation(9)]]}, {"hello": 2}, {"limit": 0},
        {"after": -1}, {"unknown": 1}, {"stream": "a/b"},
    ):  # fmt: skip
        yield w.hello(**members)


@case("unsupported_media_type")
def neither_an_event_nor_a_hello_is_refused() -> Steps:
    """The content type says which of the two it is."""
    w = writer()
    return [
        greeted(w.hello()),
        with_(refused(w.event(), "unsupported_media_type"), content_type="application/json"),
        with_(accepted(w.event()), content_type=f"{wire.EVENT_TYPE}; charset=utf-8"),
    ]


def lines() -> Iterator[str]:
    for name, (law, code, steps) in CASES.items():
        made = {"name": name, "law": law, "code": code or None, "steps": steps()}
        yield json.dumps(made, ensure_ascii=True, separators=(",", ":"))


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in lines()))
