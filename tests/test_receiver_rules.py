"""The rules of a receiver: each alone, their order, and all contact orders of small scopes."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import replace

import pytest
from helpers.receiving import STREAM, Sender, incarnation, task

from fencepost.receiver import chain, rules, wire
from fencepost.receiver.chain import START, next_head
from fencepost.receiver.reading import read_event, read_hello
from fencepost.receiver.rules import Known, Newest, Stream
from fencepost.receiver.wire import Writer

HEAD = next_head(START, 1, "earlier", bytes(32))
HERE = Stream(Writer(2, incarnation(2)), sequence=1, head=HEAD, position=5, heard=3)
SENDER = Sender(2, incarnation(2), sequence=1, head=HEAD)


def event(sent):
    return read_event(sent.body, sent.id)


def hello(sent):
    return read_hello(sent.body)


RIGHT = event(SENDER.event(4, revision=2, fence=8, ordered=True, value="right"))
KNOWN = Known(RIGHT.data_sha256, b"receipt")
# code → what makes it apply: changes of the event, of the stream, and what else is known
WRONG = {
    "effect_conflict": ({}, {}, {"known": Known(bytes(32), b"receipt")}),
    "old_epoch": ({"writer_epoch": 1}, {}, {}),
    "fork": ({"incarnation": incarnation(3)}, {}, {}),
    "hello_needed": ({"writer_epoch": 3}, {}, {}),
    "gap": ({"sequence": 3}, {}, {}),
    "stale_result": ({}, {}, {"newest": Newest((2, 8, 3, 0), f"{task(4)}:3")}),
    "forgotten": ({}, {"floor": RIGHT.time}, {}),
}


def judged(*codes, event=RIGHT):
    """What is said of the right event, made wrong in these ways."""
    changes, of_stream, more = {}, {}, {"known": None, "newest": None}
    for code in codes:
        for target, wanted in zip((changes, of_stream, more), WRONG[code], strict=True):
            target.update(wanted)
    refusal = rules.judge_event(
        replace(event, **changes), more["known"], replace(HERE, **of_stream), more["newest"]
    )
    return refusal and refusal.code


def test_what_is_right_in_every_way_may_be():
    assert judged() is None


@pytest.mark.parametrize("code", WRONG)
def test_each_rule_refuses_alone(code):
    assert judged(code) == code


def test_where_several_apply_the_first_is_told():
    """Every set of wrongs. Two that speak of the writer's epoch exclude one another, and a task of
    which something is known cannot have been forgotten."""
    epochs = {"old_epoch", "hello_needed"}
    for number in range(1, len(WRONG) + 1):
        for codes in itertools.combinations(WRONG, number):
            if epochs <= {*codes}:
                continue
            told = {*codes} - ({"fork"} if epochs & {*codes} else set())
            assert judged(*codes) == next(code for code in WRONG if code in told), codes


def test_a_known_effect_is_told_to_whoever_asks_with_the_same_data():
    """Whatever else is wrong: rule 1."""
    for codes in itertools.chain.from_iterable(
        itertools.combinations([code for code in WRONG if code != "effect_conflict"], number)
        for number in range(4)
    ):
        changes, of_stream = {}, {}
        for code in codes:
            changes.update(WRONG[code][0])
            of_stream.update(WRONG[code][1])
        refusal = rules.judge_event(
            replace(RIGHT, **changes), KNOWN, replace(HERE, **of_stream), None
        )
        assert refusal is None, codes


def test_the_first_contact_of_a_stream_needs_a_hello():
    refusal = rules.judge_event(RIGHT, None, None, None)
    assert refusal is not None and refusal.code == "hello_needed"


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ((2, 8, 2, 0), "stale_result"),  # equal: its receipt is gone
        ((2, 8, 1, 0), None), ((2, 7, 9, 9), None), ((1, 9, 9, 9), None),
        ((2, 8, 3, 0), "stale_result"), ((2, 9, 1, 0), "stale_result"),
        ((3, 1, 1, 0), "stale_result"), ((2, 8, 2, 1), "stale_result"),
    ],
)  # fmt: skip
def test_results_are_compared_by_epoch_fence_and_revision_in_that_order(order, code):
    refusal = rules.judge_event(RIGHT, None, HERE, Newest(order, "x"))
    assert (refusal and refusal.code) == code


def test_rounds_of_a_task_that_was_never_claimed_are_told_apart():
    """Cancelled, requeued, cancelled: same epoch, same fence, same revision."""
    first, second = (
        event(Sender().event(kind="cancelled", fence=0, revision=0, round=round))
        for round in (1, 2)
    )
    assert first.order < second.order


def test_what_is_not_later_than_what_was_dropped_is_forgotten_unless_its_task_is_known():
    floor = replace(HERE, floor=RIGHT.time)
    later = replace(RIGHT, time=RIGHT.time.replace(".000000Z", ".000001Z"))
    assert rules.judge_event(later, None, floor, None) is None
    assert rules.judge_event(RIGHT, None, floor, Newest((2, 7, 1, 0), "x")) is None


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sequence": 2, "previous": HEAD}, None),
        ({"sequence": 1, "previous": HEAD}, "gap"), ({"sequence": 3, "previous": HEAD}, "gap"),
        ({"sequence": 2, "previous": START}, "gap"), ({"sequence": None, "previous": None}, "gap"),
    ],
)  # fmt: skip
def test_a_stream_that_was_ordered_once_takes_what_comes_next_and_nothing_beside(changes, code):
    refusal = rules.judge_event(replace(RIGHT, **changes), None, HERE, None)
    assert (refusal and refusal.code) == code


def test_a_stream_without_order_begins_one_with_number_one_and_the_empty_head():
    stream = Stream(Writer(2, incarnation(2)), position=7)
    first = replace(RIGHT, sequence=1, previous=START)
    assert rules.judge_event(first, None, stream, None) is None
    after = rules.after_event(first, stream)
    head = next_head(START, 1, RIGHT.operation, RIGHT.data_sha256)
    assert (after.sequence, after.head, after.position) == (1, head, 8)
    unordered = replace(RIGHT, sequence=None, previous=None)
    assert rules.judge_event(unordered, None, stream, None) is None
    assert rules.after_event(unordered, stream) == replace(stream, position=8)


def greeted(writer, stream=HERE, may_adopt=True, **members):
    refusal = rules.judge_hello(hello(writer.hello(**members)), stream, may_adopt)
    return refusal and refusal.code


HEIR = replace(SENDER.copied(3, incarnation(4)))
STRANGER = Sender(3, incarnation(5))


def adopt(epoch, number):
    return {"adopt": {"epoch": epoch, "incarnation": incarnation(number)}}


@pytest.mark.parametrize(
    ("writer", "more", "code"),
    [
        (SENDER, {}, None),
        (HEIR, {}, None),
        (Sender(1, incarnation(1)), {}, "old_epoch"),
        (Sender(2, incarnation(5)), {}, "fork"),
        (STRANGER, {}, "fork"),
        (Sender(4, incarnation(6), lineage=((2, incarnation(7)),)), {}, "fork"),
        (STRANGER, adopt(2, 2), None),
        (STRANGER, adopt(2, 9), "moved"), (STRANGER, adopt(1, 2), "moved"),
        (Sender(2, incarnation(5)), adopt(2, 2), None),  # a sibling, by a human's word
        (Sender(1, incarnation(1)), adopt(2, 2), "old_epoch"),
        (SENDER, adopt(9, 9), None),  # it has been adopted: the answer was lost
    ],
)  # fmt: skip
def test_a_hello_is_judged_by_epoch_incarnation_and_lineage(writer, more, code):
    assert greeted(writer, sequence=0, head=None, **more) == code


def test_the_first_hello_holds_the_stream_and_there_is_nothing_to_adopt():
    assert greeted(STRANGER, None) is None
    assert greeted(STRANGER, None, **adopt(2, 2)) == "moved"


def test_adopting_has_to_be_allowed():
    assert greeted(STRANGER, may_adopt=False, **adopt(2, 2)) == "adopt_forbidden"
    assert greeted(HEIR, may_adopt=False) is None


@pytest.mark.parametrize("writer", [SENDER, HEIR])
def test_as_many_ordered_deliveries_that_are_not_the_same_ones_are_a_fork(writer):
    assert greeted(writer, head="ab" * 32) == "fork"
    assert greeted(writer, sequence=2, head="ab" * 32) is None  # the receiver has lost some
    assert greeted(writer, sequence=0, head=None) is None
    adopted = greeted(writer.copied(5, incarnation(8)), head="ab" * 32, **adopt(2, 2))
    assert adopted is None


def test_what_the_new_writer_knows_counts_not_what_the_old_one_knew():
    told = rules.after_hello(hello(HEIR.hello(after=1)), HERE)
    assert (told.writer, told.heard) == (Writer(3, incarnation(4)), 1)
    assert rules.after_hello(hello(HEIR.hello(after=99)), HERE).heard == HERE.position
    fresh = rules.after_hello(hello(HEIR.hello(after=99)), None)
    assert fresh == Stream(Writer(3, incarnation(4)))


# -- all contact orders

PARENT = Sender()
LEFT, RIGHT_COPY = PARENT.copied(2, incarnation(12)), PARENT.copied(2, incarnation(13))
LATER = LEFT.copied(3, incarnation(14))  # has all that LEFT had
WRITERS = {"parent": PARENT, "left": LEFT, "right": RIGHT_COPY, "later": LATER}


def contacts(ordered):
    """Everything that each writer may say: hello, a task of its own, a task that all have (with
    another result in the right copy), a second result of that one under a later lease."""
    for name, writer in WRITERS.items():
        number = list(WRITERS).index(name)
        yield name, "hello", hello(writer.hello())
        shared = "other" if name == "right" else "same"
        for what, sent in (
            ("own", writer.event(10 + number, fence=writer.epoch << 32)),
            ("shared", writer.event(1, fence=1, epoch=1, value=shared)),
            ("second", writer.event(1, revision=2, fence=(writer.epoch << 32) + 1)),
        ):
            read = event(sent)
            if ordered:
                read = replace(read, sequence=0, previous=b"")
            yield name, what, read


def step(state, said, ordered):
    """The receiver in values: (stream, receipts, newest) and what was accepted by whom."""
    stream, receipts, newest, history = state
    name, what, value = said
    if what == "hello":
        value = replace(value, sequence=None, head=None)
        if rules.judge_hello(value, stream, True):
            return state, "refused"
        return (rules.after_hello(value, stream), receipts, newest, history), "ok"
    if ordered:  # it sends what comes next, as after a hello
        place = stream or Stream(Writer(0, ""))
        value = replace(value, sequence=place.sequence + 1, previous=place.head)
    known = dict(receipts).get(value.operation)
    latest = dict(newest).get(value.subject)
    refusal = rules.judge_event(
        value, known and Known(known, b""), stream, latest and Newest(latest, "")
    )
    if refusal or known:
        return state, "refused" if refusal else "replayed"
    assert stream is not None and value.operation not in dict(receipts)
    return (
        rules.after_event(value, stream),
        receipts | {(value.operation, value.data_sha256)},
        frozenset({**dict(newest), value.subject: value.order}.items()),
        (*history, name) if name not in history else history,
    ), "accepted"


@pytest.mark.parametrize("ordered", [False, True])
def test_in_every_contact_order_one_lineage_alone_has_effects(ordered):
    """All states that can be reached: whatever the writers say, in whatever order, again and again.

    Of two copies that began at one place never both have effects. A writer that has been left
    behind never has one again. Each operation has one effect, and a task's only rise.
    """
    said = list(contacts(ordered))
    start = (None, frozenset(), frozenset(), ())
    seen, todo, left_or_right = {start}, deque([start]), set()
    while todo:
        state = todo.popleft()
        stream, receipts, newest, _ = state
        for one in said:
            after, verdict = step(state, one, ordered)
            if verdict == "accepted":
                assert after[0].writer == Writer(WRITERS[one[0]].epoch, WRITERS[one[0]].incarnation)
                assert len(after[1]) == len(receipts) + 1
                assert dict(after[2])[one[2].subject] > dict(newest).get(one[2].subject, ())
            else:
                assert after[1:] == state[1:]
            if stream is not None:
                assert after[0].writer.epoch >= stream.writer.epoch
            holders = after[3]
            assert not {"left", "right"} <= {*holders}, holders
            assert not {"right", "later"} <= {*holders}, holders
            left_or_right |= {*holders}
            if after not in seen:
                seen.add(after)
                todo.append(after)
    assert left_or_right == {"parent", "left", "right", "later"}  # each is let in in some order
    assert len(seen) > 100


def test_of_two_clones_that_cannot_be_told_apart_the_order_lets_one_go_on():
    """Same epoch, same incarnation, as after a memory snapshot: only the chain tells them apart."""
    for first, second in itertools.permutations([10, 11]):
        clone, other = replace(SENDER), replace(SENDER)
        sent = clone.event(first, ordered=True)
        assert rules.judge_event(event(sent), None, HERE, None) is None
        stream = rules.after_event(event(sent), HERE)
        clone.delivered(sent)
        refusal = rules.judge_event(event(other.event(second, ordered=True)), None, stream, None)
        assert refusal is not None and refusal.code == "gap"
        going_on = event(clone.event(12, ordered=True))
        assert rules.judge_event(going_on, None, stream, None) is None
        # It has delivered as many, but elsewhere or before a rollback: told by the head.
        apart = replace(other)
        apart.delivered(other.event(second, ordered=True))
        assert greeted(apart, stream) == "fork"


def test_a_head_stands_for_its_whole_history_and_for_nothing_else():
    seen = set()
    digests = [bytes(32), b"\1" * 32]
    for operation, digest, sequence, previous in itertools.product(
        ["a:1", "a:11", "1a:1", ""], digests, [1, 2, 256], [START, b"\1" * 32]
    ):
        seen.add(chain.next_head(previous, sequence, operation, digest))
    assert len(seen) == 48
    assert chain.next_head(START, 1, "a:1", bytes(32)).hex() == (
        "0d51bb5bbff836e032f219818b1b1e8a19fac2ed3299b4bb3f32454f7dfb2832"
    )
    for wrong in (
        (b"", 1, "a", bytes(32)), (START, 0, "a", bytes(32)), (START, 1, "a", b""),
        (START, 1, "a" * 65_536, bytes(32)), (START, 1 << 64, "a", bytes(32)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"bytes|sequence"):
            chain.next_head(*wrong)


def test_every_code_of_the_rules_is_one_of_the_protocol():
    assert {*WRONG, "moved", "adopt_forbidden"} <= set(wire.CODES)
    assert wire.stream_name(*STREAM.split("/")) == STREAM
