"""Fencepost: a work queue for workers that cannot be trusted to be alive, alone or online.

    import fencepost
    with fencepost.open("work.db", create=True) as fp:
        fp.enqueue("pages", {"page": 17}, key="page-17")
        for lease in fp.claim("pages", worker_id="laptop-3", limit=10):
            receipt = lease.complete({"text": "..."})

For each task and revision at most one result is accepted; a worker that has lost its lease can
change nothing; a command that is sent again with the same bytes gets the same receipt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.version import VERSION as _VERSION

if TYPE_CHECKING:
    from fencepost import commands
    from fencepost.commands import Followup, NewTask, Request
    from fencepost.handle import Handle, Lease, Transaction
    from fencepost.issues import (
        ISSUES,
        ClockSkew,
        CommitmentClosed,
        DuplicateResult,
        EntryTooLarge,
        FencepostError,
        Forbidden,
        GuardTripped,
        InvalidRequest,
        JournalBroken,
        KeyConflict,
        KeyReused,
        LeaseExpired,
        LeaseLost,
        LeaseTooLong,
        NotFound,
        NotLeased,
        OutcomeUnknown,
        PayloadTooLarge,
        QueuePaused,
        RateLimited,
        ReceiptErased,
        Refused,
        ResultConflict,
        SchemaMismatch,
        ScopeRevoked,
        StaleEpoch,
        StaleFence,
        StalePolicy,
        StaleRevision,
        StaleSequence,
        StoreReadOnly,
        TaskBlocked,
        TaskCancelled,
        TaskDead,
        TaskDone,
        TaskLeased,
        TaskReady,
        TooManyFollowups,
        Unauthenticated,
        Unavailable,
        UnknownFence,
        WrongWorker,
    )
    from fencepost.model import Outcome, QueueSettings, Receipt, Result, Scope, Task, Token, Writer
    from fencepost.opening import open_any as open  # fencepost.open() is the face
    from fencepost.outward import Destination
    from fencepost.parts import NOTHING
    from fencepost.remote import RemoteHandle
    from fencepost.worker import Worker

__version__ = _VERSION

__all__ = [
    "ClockSkew",
    "CommitmentClosed",
    "Destination",
    "DuplicateResult",
    "EntryTooLarge",
    "FencepostError",
    "Followup",
    "Forbidden",
    "GuardTripped",
    "Handle",
    "ISSUES",
    "InvalidRequest",
    "JournalBroken",
    "KeyConflict",
    "KeyReused",
    "Lease",
    "LeaseExpired",
    "LeaseLost",
    "LeaseTooLong",
    "NOTHING",
    "NewTask",
    "NotFound",
    "NotLeased",
    "Outcome",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "QueuePaused",
    "QueueSettings",
    "RateLimited",
    "Receipt",
    "ReceiptErased",
    "Refused",
    "RemoteHandle",
    "Request",
    "Result",
    "ResultConflict",
    "SchemaMismatch",
    "Scope",
    "ScopeRevoked",
    "StaleEpoch",
    "StaleFence",
    "StalePolicy",
    "StaleRevision",
    "StaleSequence",
    "StoreReadOnly",
    "Task",
    "TaskBlocked",
    "TaskCancelled",
    "TaskDead",
    "TaskDone",
    "TaskLeased",
    "TaskReady",
    "Token",
    "TooManyFollowups",
    "Transaction",
    "Unauthenticated",
    "Unavailable",
    "UnknownFence",
    "Worker",
    "Writer",
    "WrongWorker",
    "commands",
    "open",
]

# Each name is loaded when it is first asked for, so that the command line starts quickly.
_HOMES = {
    "commands": ("NewTask", "Followup", "Request"),
    "handle": ("Handle", "Lease", "Transaction"),
    "model": ("Outcome", "QueueSettings", "Receipt", "Result", "Scope", "Task", "Token", "Writer"),
    "outward": ("Destination",),
    "parts": ("NOTHING",),
    "remote": ("RemoteHandle",),
    "worker": ("Worker",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name from its home; those that are not in `_HOMES` are exceptions or modules."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "commands":
        value: Any = import_module("fencepost.commands")
    elif name == "open":
        value = import_module("fencepost.opening").open_any
    else:
        value = getattr(import_module(f"fencepost.{_HOME.get(name, 'issues')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
