"""import: results that receivers have accepted and that this store, restored, does not know."""

from __future__ import annotations

from fencepost import canonical
from fencepost.clock import from_rfc3339
from fencepost.commands import Import, Request
from fencepost.issues import ISSUES
from fencepost.machine.batch import Batch, Verdict, accept, refuse
from fencepost.machine.claims import facts
from fencepost.machine.owing import Accepted, owe_state
from fencepost.machine.results import accept_result
from fencepost.model import Caller, TaskRow
from fencepost.rules import limits
from fencepost.rules.fence import unknown_lineage
from fencepost.rules.results import result_conflict, stale_revision


def import_result(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """Revision + 1 in any state: what stands at the receiver is a fact. `final` → done; else the
    state stays, but a running lease ends. A revision that is known stays as it is."""
    command, digest = request.command, request.result_sha256
    assert isinstance(command, Import) and task is not None and digest is not None
    known = command.revision <= task.revision
    if codes := _issues(batch, command, task, digest, known=known):
        alone = codes == ["unknown_fence"]
        return refuse(codes, command, _behind(batch, command) if alone else "", **facts(task))
    if known and request.key is None:
        return accept(None, (task.task_id,), known=True)
    before = task.state
    obligations = [] if known else _accept(batch, command, task, digest)
    note = canonical.dumps({
        "content": "result" in command.members, "epoch": command.epoch, "fence": command.fence,
        "revision": command.revision, "round": task.round,
    })  # fmt: skip
    return batch.conclude(
        caller, request, task, before, obligations, note=note.decode(), changed=not known
    )


def _issues(
    batch: Batch, command: Import, task: TaskRow, digest: bytes, *, known: bool
) -> list[str]:
    codes = batch.blocked()
    if known:
        recorded = batch.loaded.accepted.get((task.id, command.revision))
        found = [result_conflict(digest, recorded)]
    else:
        size = len(command.members.get("result", b""))
        found = [
            limits.result_too_large(size, batch.settings(task)),
            unknown_lineage(command.epoch, batch.epoch),
            stale_revision(command.revision - 1, task),
        ]
    return codes + [code for code in found if code is not None]


def _behind(batch: Batch, command: Import) -> str:
    """What to do where the store does not know that it was rolled back."""
    epochs = f"epoch {command.epoch} is not before this store's, {batch.epoch}"
    meaning = ISSUES["unknown_fence"].meaning
    return f"import: {meaning}; {epochs}: give the store a new epoch first"


def _accept(batch: Batch, command: Import, task: TaskRow, digest: bytes) -> list[str]:
    """The result, under the lease that it was accepted under elsewhere, and what it owes."""
    before = task.state
    batch.touch(task, None, command.revision - 1)
    if before == "leased" and not command.final:
        task.state = "ready"
        task.attempt -= 1  # as released: its worker is not to blame
        batch.offer(task)
    elif command.final:
        task.state = "done"
    if (task.id, task.round, digest) in batch.loaded.results:  # a round has a result but once
        batch.unremark(task)
        task.round += 1
        task.attempt = 0
    at = batch.now if command.at is None else from_rfc3339(str(command.at))
    by = Accepted(at, command.epoch, command.fence, command.final)
    obligations = accept_result(batch, task, command.members.get("result"), digest, by)
    return obligations + (owe_state(batch, task) if task.state != before else [])
