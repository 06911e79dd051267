"""One example of each command, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

TASK_ID = "01a22a71-5a07-717a-9af3-614358177f40"
_LEASE = {"task_id": TASK_ID, "worker_id": "laptop-3", "fencing_token": 7}
_ON_A_TASK = {"task_id": TASK_ID, "reason": "sent twice"}
_GIVEN: dict[str, dict[str, Any]] = {
    "enqueue": {"queue": "pages", "tasks": [{"payload": {"page": 17}, "key": "page-17"}]},
    "claim": {"queues": ["pages"], "worker_id": "laptop-3", "limit": 10},
    "renew": {**_LEASE, "lease_seconds": 300, "progress": {"line": 40}},
    "submit": {**_LEASE, "result": {"row": 1}, "expected_revision": 0},
    "complete": {**_LEASE, "result": {"text": "..."}},
    "fail": {**_LEASE, "then": "retry", "reason": "blank page", "log": "line 41: no text"},
    "release": _LEASE,
    "cancel": _ON_A_TASK,
    "requeue": _ON_A_TASK,
    "resolve": {"task_id": TASK_ID, "to": "done", "evidence": {"seen": True}},
    "review": {"task_id": TASK_ID, "revision": 1, "verdict": "accepted"},
    "import": {
        "task_id": TASK_ID, "revision": 1, "epoch": 0, "fencing_token": 7, "final": True,
        "result": {"text": "..."}, "evidence": {"receiver": "archive", "position": 17},
    },
    "sweep": {"queue": "pages", "limit": 100},
    "erase": {"task_id": TASK_ID, "reason": "asked for by its owner"},
    "purge": {"queue": "pages", "limit": 100},
    "queue.set": {"queue": "pages", "settings": {"lease_seconds": 300}},
    "scope.set_policy": {"policy_version": 3},
    "scope.revoke": {"revoked": True},
    "clock.reset": {},
    "token.create": {"token_sha256": "c5" * 32, "kind": "worker", "actor": "laptop-3"},
    "token.revoke": {"token_id": "tok_01a22a715a07717a9af3614358177f40"},
    "destination.set": {
        "queue": "archive", "address": "https://archive.example/hook", "class": "fenced",
        "options": {"ordered": True},
    },
    "destination.secret": {
        "queue": "archive", "secret": f"whsec_{'c2VjcmV0' * 5}", "keep_seconds": 86400,
    },
    "destination.advance": {
        "queue": "archive", "expected_sequence": 16, "sequence": 17, "head": "9f" * 32,
    },
}
EXAMPLES: dict[str, dict[str, Any]] = {
    verb: {"verb": verb, **members} for verb, members in _GIVEN.items()
}
