"""The JSON object of every verb: the least that it can be, and what may be added."""

from __future__ import annotations

import pytest

from fencepost import canonical
from fencepost.commands import Request
from fencepost.issues import InvalidRequest
from helpers.stand import UNKNOWN

LEASE = {"task_id": UNKNOWN, "worker_id": "w", "fencing_token": 1}
NAMED = {"task_id": UNKNOWN}
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
# The least that each verb can be: every member here is needed.
LEAST = {
    "enqueue": {"queue": "q", "tasks": [{"payload": 1}]},
    "claim": {"worker_id": "w", "queues": ["q"]},
    "renew": LEASE,
    "submit": {**LEASE, "result": 1},
    "complete": LEASE,
    "fail": LEASE,
    "release": LEASE,
    "cancel": NAMED,
    "requeue": NAMED,
    "resolve": NAMED,
    "review": {**NAMED, "revision": 1, "verdict": "accepted"},
    "import": {**NAMED, "revision": 1, "epoch": 0, "fencing_token": 1, "final": True,
               "evidence": {"receiver": "r"}, "result": 1},
    "sweep": {},
    "erase": NAMED,
    "purge": {},
    "queue.set": {"queue": "q", "settings": {"paused": True}},
    "scope.set_policy": {"policy_version": 1},
    "scope.revoke": {},
    "clock.reset": {},
    "token.create": {"token_sha256": "0f" * 32, "kind": "worker", "actor": "w"},
    "token.revoke": {"token_id": "tok_" + "0f" * 16},
    "destination.set": {"queue": "q", "stopped": "it moves"},
    "destination.secret": {"queue": "q", "secret": SECRET},
    "destination.advance": {"queue": "q", "expected_sequence": 0, "sequence": 1},
}
# Members that may be left out, with a right value.
MORE = {
    "claim": {"limit": 5, "lease_seconds": 30},
    "renew": {"lease_seconds": 30},
    "submit": {"expected_revision": 0},
    "complete": {"result": None, "expected_revision": 3,
                 "followups": [{"queue": "n", "payload": 0, "key": "k", "priority": -1,
                                "due_at": "2026-01-01T00:00:00.000000Z", "max_attempts": 2}]},
    "fail": {"then": "block", "reason": "no luck", "retry_seconds": 0},
    "resolve": {"to": "done", "evidence": None},
    "review": {"verdict": "rejected", "requeue": True},
    "import": {"at": "2026-01-01T00:00:00.000000Z", "final": False},
    "sweep": {"queue": "q", "limit": 200},
    "purge": {"queue": "q", "limit": 1},
    "scope.set_policy": {"retain_seconds": 0},
    "scope.revoke": {"revoked": False},
    "token.create": {"queues": ["q"], "expires_at": "2030-01-01T00:00:00.000000Z"},
    "destination.set": {"address": "https://h.example/in?a=1", "class": "fenced",
                        "options": {"ordered": True, "rate": None, "headers": {"x-a": "b c"}}},
    "destination.secret": {"keep_seconds": 0},
    "destination.advance": {"head": "0f" * 32, "heard": 5, "announced": UNKNOWN},
    **{verb: {"fencing_token": 0, "reason": "é"} for verb in ("cancel", "requeue", "erase")},
}  # fmt: skip
for _verb in ("renew", "submit", "complete", "fail", "release"):
    MORE[_verb] = {**MORE.get(_verb, {}), "epoch": 0, "policy_version": 7, "log": "é\n"}
for _verb in ("renew", "fail", "release"):
    MORE[_verb]["progress"] = {"line": [40, None]}


def body(verb, members):
    """Canonical bytes of a command."""
    return canonical.dumps({"verb": verb, **members})


def refusal(raw, key=None):
    """What is said of bytes that must be refused."""
    with pytest.raises(InvalidRequest) as caught:
        Request.read(raw, key)
    return str(caught.value)
