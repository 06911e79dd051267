"""A child process whose disk fails at a chosen call (iofault.c), and what it was answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fencepost
from fencepost import commands as c
from fencepost.handle import Handle
from helpers.lab import QUEUE
from helpers.tools import built
from helpers.work import opened

SOURCE = Path(__file__).with_name("iofault.c")
SENT = ("enqueue", "claim", "complete")


def compiled(folder: Path) -> Path | None:
    """The shim, compiled; None where there is no C compiler."""
    return built(SOURCE, folder)


def requests(task_id: str, fence: int) -> dict[str, c.Request]:
    """A command with a key, a claim without one, and a lease command without one."""
    return {
        "enqueue": c.Request.of(c.Enqueue(QUEUE, (c.NewTask("new"),)), "the-key"),
        "claim": c.Request.of(c.Claim("w2", (QUEUE,))),
        "complete": c.Request.of(c.Complete(task_id, "w1", fence, result={"a": 1})),
    }


def work(path: str, now: int, armed: str, task_id: str, fence: int) -> list[dict[str, Any]]:
    """Send the three from when the disk begins to fail; then the same bytes once it is well."""
    fp = opened(path, now)
    list(fp.tasks(QUEUE))
    Path(armed).touch()
    told = [asked(fp, request) for request in requests(task_id, fence).values()]
    Path(armed).unlink()
    again = [asked(fp, request) for request in requests(task_id, fence).values()]
    fp.close()
    return [{"bad": bad, "well": well} for bad, well in zip(told, again, strict=True)]


def erase(path: str, now: int, armed: str, task_id: str) -> dict[str, Any]:
    """Erase a task while the disk fails, then go on when it is well."""
    fp = opened(path, now)
    list(fp.tasks(QUEUE))
    Path(armed).touch()
    told = asked(fp, c.Request.of(c.Erase(task_id), "erase"))
    pending = fp._store.about()["scrub_pending"]
    Path(armed).unlink()
    for number in range(2):
        fp.enqueue(QUEUE, number)
    after = fp._store.about()["scrub_pending"]
    fp.close()
    return {"told": told, "pending": pending, "after": after}


def asked(fp: Handle, request: c.Request) -> dict[str, Any]:
    """What the command was answered, as JSON."""
    try:
        (outcome,) = fp.execute([request])
    except fencepost.FencepostError as error:
        return {"status": "failed", "issue": error.code, "message": str(error), "entry": None}
    receipt = outcome.receipt
    return {
        "status": outcome.status, "issue": outcome.issues[0] if outcome.issues else None,
        "message": outcome.message, "entry": None if receipt is None else receipt.body.decode(),
        "replayed": outcome.replayed,
    }  # fmt: skip
