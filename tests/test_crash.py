"""A client that is killed after its commit and before the answer gets its receipt by asking again.

That a process killed at any statement leaves all or nothing is held in test_faults_kill.py.
"""

from __future__ import annotations

import signal

import pytest
from helpers.children import ended, start
from helpers.dying import commit_and_die
from helpers.lab import QUEUE, ask, completion, submission

from fencepost import commands as c

VERBS = ("enqueue", "claim", "submit", "complete", "fail", "release", "cancel", "resolve")
ROUNDS = 3  # of each verb: 24 kills


def prepared(lab, verb, number):
    """A command that will be accepted; every other one comes without a key where that may be."""
    key = f"{verb}-{number}"
    if verb == "enqueue":
        new = c.NewTask({"n": number}, key=key)
        return c.Request.of(c.Enqueue(QUEUE, (new,)), key)
    if verb == "claim":
        lab.offer(number)
        return c.Request.of(c.Claim("w1", (QUEUE,)), key)
    lease = lab.lease(payload=number)
    if verb == "resolve":
        lease.fail("stuck", then="block")
    command = {
        "submit": lambda: submission(lease, {"n": number}),
        "complete": lambda: completion(lease, {"n": number}, followups=({"queue": "next",
                                                                         "payload": number},)),
        "fail": lambda: c.Fail(lease.task_id, "w1", lease.fence, reason="broken"),
        "release": lambda: c.Release(lease.task_id, "w1", lease.fence),
        "cancel": lambda: c.Cancel(lease.task_id),
        "resolve": lambda: c.Resolve(lease.task_id, to="done", evidence={"n": number}),
    }[verb]()  # fmt: skip
    return c.Request.of(command, None if command.self_keyed and number % 2 else key)


def last_entry(lab):
    with lab.sql() as own:
        return own.execute(
            "select number, body from fencepost_entry order by number desc limit 1"
        ).fetchone()


@pytest.mark.parametrize("verb", VERBS)
def test_the_same_bytes_get_the_receipt_of_a_commit_whose_answer_was_never_given(lab, verb):
    for number in range(ROUNDS):
        request = prepared(lab, verb, number)
        before, _ = last_entry(lab)
        child = start(
            commit_and_die, str(lab.path), lab.clock.wall(), request.body.decode(), request.key
        )
        code, out, err = ended(child)
        assert (code, out) == (-signal.SIGKILL, ""), err
        committed = last_entry(lab)
        assert committed[0] == before + 1, "the child died before its commit"
        once = lab.dump()
        first, second = ask(lab.fp, request), ask(lab.open(), request)
        for outcome in (first, second):
            assert outcome.replayed and outcome.receipt is not None
            assert (outcome.receipt.number, outcome.receipt.body) == committed
        assert lab.dump() == once, "asking again changed something"
        if verb == "claim":
            assert [grant.worker_id for grant in first.grants] == ["w1"]
    assert lab.fp.verify().clean
