"""Faults of input (17, 19, 20, 98, 100, 102): what must be refused, the same on every way in.

A command comes in as a Python value or as raw bytes; both ways must say the same and leave
nothing behind, not even the key.
"""

from __future__ import annotations

import json
import time

import pytest
from helpers.lab import QUEUE, ask, completion, submission

from fencepost import FencepostError, InvalidRequest, PayloadTooLarge
from fencepost import commands as c

NUL = "\0"


def wire(lease, verb="complete", **members):
    """A command of this lease as raw JSON, with members as they stand or as raw text."""
    bound = {"verb": verb, "task_id": lease.task_id, "worker_id": "w1",
             "fencing_token": lease.fence}  # fmt: skip
    return json.dumps({**bound, **members}).encode()


def refused_untouched(lab, call, match="."):
    """The call raises the product's own error and nothing at all has changed."""
    before = lab.dump()
    with pytest.raises(InvalidRequest, match=match) as error:
        call()
    assert isinstance(error.value, FencepostError)
    assert lab.dump() == before


# 17: a NUL byte in a result or error text


@pytest.mark.parametrize(
    "value", [NUL, f"a{NUL}b", {"k": NUL}, {f"k{NUL}": 1}, [[{"x": [NUL]}]], "\\u0000"]
)
def test_a_nul_in_payload_or_result_is_stored_without_loss(lab, value):
    lease = lab.lease(payload=value)
    assert lease.payload == value == lab.fp.task(lease.task_id).payload
    lease.submit(value)
    assert [result.value for result in lab.fp.results(lease.task_id)] == [value]
    raw = json.dumps({"verb": "submit", "task_id": lease.task_id, "worker_id": "w1",
                      "fencing_token": lease.fence, "result": [value]}).encode()  # fmt: skip
    assert ask(lab.fp, c.Request.read(raw)).accepted
    assert list(lab.fp.results(lease.task_id))[-1].value == [value]


@pytest.mark.parametrize("where", ["key", "idempotency key", "worker", "queue", "scope"])
def test_a_nul_in_a_name_or_key_is_refused(lab, where):
    name = f"a{NUL}b"
    calls = {
        "key": lambda: lab.offer(key=name),
        "idempotency key": lambda: lab.offer(idempotency_key=name),
        "worker": lambda: lab.claim(name),
        "queue": lambda: lab.fp.enqueue(name, 1),
        "scope": lambda: lab.open(scope=name),
    }
    refused_untouched(lab, calls[where], where.split()[-1])


@pytest.mark.parametrize("reason", [f"boom{NUL}", NUL * 5_000, "\ud800", "é" * 5_000])
def test_whatever_stands_in_a_reason_the_failure_itself_is_recorded(lab, reason):
    lease = lab.lease()
    lease.fail(reason, then="give_up")
    task = lab.fp.task(lease.task_id)
    assert task.state == "dead" and task.reason
    if reason.isascii() and len(reason) < 4_096:
        assert task.reason == reason


# 19: NaN, Infinity and -Infinity pass json.loads


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_json_does_not_have_is_refused_and_leaves_task_and_key_free(lab, text):
    lease = lab.lease()
    raw = wire(lease, result="@").replace(b'"@"', b'{"score": %s}' % text.encode())
    refused_untouched(lab, lambda: ask(lab.fp, c.Request.read(raw, "K")))
    refused_untouched(lab, lambda: lease.complete({"score": float(text)}, key="K"))
    assert lab.fp.task(lease.task_id).state == "leased"
    lease.complete({"score": 1}, key="K")
    assert lab.counts() == (1, 1, 1)


# 20: true, 1.0 and "1" are taken for the integer 1

NOT_ONE = ["true", "1.0", "1.9", '"1"', '" 1"', "1e0", "null", "[]", "{}", "-1", "0x1", "01"]


@pytest.mark.parametrize("spelling", NOT_ONE)
@pytest.mark.parametrize(
    "member", ["fencing_token", "expected_revision", "epoch", "policy_version"]
)
def test_only_the_json_integer_is_an_integer(lab, member, spelling):
    lease = lab.lease()
    raw = wire(lease, **{member: "@"}).replace(b'"@"', spelling.encode())
    refused_untouched(lab, lambda: ask(lab.fp, c.Request.read(raw)))


def test_a_missing_fence_is_refused_and_named(lab):
    lease = lab.lease()
    raw = wire(lease).replace(b', "fencing_token": 1', b"")
    assert b"fencing" not in raw
    refused_untouched(lab, lambda: c.Request.read(raw), "fencing_token is missing")


@pytest.mark.parametrize("value", [True, 1.0, 1.9, "1", None, [], 10**15, -1, 0])
def test_only_a_python_int_is_a_fence(lab, value):
    lease = lab.lease()
    refused_untouched(
        lab, lambda: lab.fp.lease(lease.task_id, worker_id="w1", fence=value).complete(1)
    )


# 98: duplicate members in one JSON object


@pytest.mark.parametrize(
    "text",
    [
        '"fencing_token":1,"fencing_token":2', '"fencing_token":1,"fencing_token":1',
        '"fencing_token":1,"fencing_\\u0074oken":2', '"fencing_token":1,"result":{"a":1,"a":2}',
        '"fencing_token":1,"result":[{"x":[{"a":1,"\\u0061":1}]}]', '"fencing_token":1,"verb":"x"',
    ],
)  # fmt: skip
def test_an_object_with_a_member_twice_is_refused(lab, text):
    lease = lab.lease()
    raw = f'{{"verb":"complete","task_id":"{lease.task_id}","worker_id":"w1",{text}}}'.encode()
    refused_untouched(lab, lambda: c.Request.read(raw), "stands more than once")


def test_an_unknown_member_is_refused_and_named(lab):
    lease = lab.lease()
    refused_untouched(lab, lambda: c.Request.read(wire(lease, fence=1)), "unknown member 'fence'")


# 100: deep nesting or giant numbers give 500

MONSTERS = {
    "20,000 brackets": b"[" * 20_000,
    "100,000 brackets, closed": b"[" * 100_000 + b"]" * 100_000,
    "20,000 objects": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "5,000 digits": b"7" * 5_000,
    "a float of a megabyte": b"0." + b"1" * 1_000_000,
    "an exponent of 5,000 digits": b"1e" + b"9" * 5_000,
    "an integer beyond 2^53 - 1": b"9007199254740992",
}


@pytest.mark.parametrize("place", ["result", "fencing_token"])
@pytest.mark.parametrize("name", MONSTERS)
def test_a_monstrous_value_gets_the_products_own_answer_and_quickly(lab, name, place):
    lease = lab.lease()
    raw = wire(lease, **{place: "@"}).replace(b'"@"', MONSTERS[name])
    began = time.perf_counter()
    refused_untouched(lab, lambda: ask(lab.fp, c.Request.read(raw)))
    assert time.perf_counter() - began < 5
    lease.complete("the store lives on")


def test_deep_python_values_get_the_products_own_answer(lab):
    deep = 1
    for _ in range(50_000):
        deep = [deep]
    lease = lab.lease()
    refused_untouched(lab, lambda: lease.complete(deep))
    refused_untouched(lab, lambda: lab.offer(deep))
    while isinstance(deep, list):  # taken apart by hand: freeing it whole would recurse
        deep = deep.pop()


def test_large_content_is_refused_by_the_queues_own_limit(lab):
    lease = lab.lease()
    before = lab.dump()
    for value in ("x" * 10_000_000, {str(n): n for n in range(200_000)}):
        with pytest.raises(PayloadTooLarge):
            lease.complete(value)
        with pytest.raises(PayloadTooLarge):
            lab.offer(value)
    assert lab.dump() == before


# 102: ids with slashes, dots, percent signs

UNUSABLE = [
    "a/b", "..", ".", "a%2Fb", "?x", "#", "é", "e\u0301", " ", ";", "-x", "", "x" * 65, "a b",
    "a\n", "a\x1b[31m", "\u0663", "a\u200b", "\uff41",
]  # fmt: skip
USABLE = ["a.b", "a..b", "a:b", "a@b", "a-b", "A_", "_a", "0", "x" * 64]


@pytest.mark.parametrize("name", UNUSABLE, ids=ascii)
def test_a_name_that_some_surface_cannot_carry_is_refused_where_it_would_be_made(lab, name):
    lab.offer()
    for call in (
        lambda: lab.fp.enqueue(name, 1),
        lambda: lab.claim(name),
        lambda: lab.fp.queue_set(name, paused=True),
        lambda: lab.fp.queue_set(QUEUE, destinations=[name]),
        lambda: lab.fp.as_caller(name),
        lambda: lab.fp.as_caller("a", scope=name) if name else lab.open(scope=name),
    ):
        refused_untouched(lab, call, "is not a name")


@pytest.mark.parametrize("name", USABLE)
def test_a_name_that_is_allowed_can_be_used_for_everything(lab, name):
    handle = lab.open(scope=name)
    task_id = handle.enqueue(name, 1, key=name).task_id
    (lease,) = handle.claim(name, worker_id=name)
    lease.complete(1, key=name)
    assert handle.task_by_key(name, name).task_id == task_id
    assert handle.receipt(name, actor=name).task_id == task_id


@pytest.mark.parametrize("task_id", ["../x", "%2e", "T1", "0" * 36, "ABCDEF01-0000-7000", ""])
def test_what_is_no_task_id_is_refused_before_anything_is_looked_up(lab, task_id):
    for call in (
        lambda: lab.fp.task(task_id),
        lambda: lab.fp.cancel(task_id),
        lambda: lab.fp.claim(worker_id="w1", task_id=task_id),
        lambda: lab.fp.lease(task_id, worker_id="w1", fence=1).complete(1),
    ):
        refused_untouched(lab, call, "task_id")


def test_the_same_verdict_comes_from_python_and_from_raw_bytes(lab):
    lease = lab.lease()
    built = c.Request.of(submission(lease, {"n": 1}, expected_revision=0))
    read = c.Request.read(built.body)
    assert (read.command, read.sha256) == (built.command, built.sha256)
    for bad in (completion(lease, 1, epoch=1), completion(lease, 1, expected_revision=3)):
        assert ask(lab.fp, c.Request.of(bad)) == ask(lab.fp, c.Request.read(c.Request.of(bad).body))
