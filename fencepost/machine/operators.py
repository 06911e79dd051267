"""cancel, requeue, resolve, review: what people and operators do to a task from outside."""

from __future__ import annotations

from fencepost import canonical
from fencepost.commands import Cancel, Request, Requeue, Resolve, Review, TaskCommand
from fencepost.machine.batch import Batch, Verdict, refuse
from fencepost.machine.claims import facts
from fencepost.machine.owing import owe_state
from fencepost.machine.results import accept_once
from fencepost.model import Caller, TaskRow
from fencepost.rules import limits
from fencepost.rules.fence import moved_on
from fencepost.rules.lifecycle import state_issue
from fencepost.rules.results import commitment_closed


def outside_issues(batch: Batch, command: TaskCommand, task: TaskRow) -> list[str]:
    """Rules 4, 7 and 9 for commands from outside a lease."""
    found = (state_issue(command.verb, task.state), moved_on(command.fence, task))
    return batch.blocked() + [code for code in found if code is not None]


def cancel(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """ready, leased, blocked → cancelled. A worker learns it at its next renew."""
    command = request.command
    assert isinstance(command, Cancel) and task is not None
    if codes := outside_issues(batch, command, task):
        return refuse(codes, command, **facts(task))
    before = task.state
    batch.touch(task, command.fence)
    task.state = "cancelled"
    task.reason = command.encoded("reason")
    return batch.conclude(caller, request, task, before, owe_state(batch, task, task.reason))


def requeue(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """dead, done, cancelled → ready: a new round. Earlier results stay, dedupe starts afresh."""
    command = request.command
    assert isinstance(command, Requeue) and task is not None
    if codes := outside_issues(batch, command, task):
        return refuse(codes, command, **facts(task))
    before = task.state
    batch.touch(task, command.fence)
    _new_round(batch, task)
    task.reason = command.encoded("reason")
    return batch.conclude(caller, request, task, before)


def _new_round(batch: Batch, task: TaskRow) -> None:
    batch.unremark(task)
    task.state = "ready"
    task.round += 1
    task.attempt = 0
    task.due_at = task.created_at  # at once, whatever a clock says (rules/retry.py)
    task.reason = None
    batch.offer(task)


def resolve(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """blocked → done with evidence (which is a result), ready, or dead."""
    command = request.command
    assert isinstance(command, Resolve) and task is not None
    evidence = command.members.get("evidence")
    codes = outside_issues(batch, command, task)
    if evidence is not None and limits.result_too_large(len(evidence), batch.settings(task)):
        codes.append("payload_too_large")
    if codes:
        return refuse(codes, command, **facts(task))
    batch.touch(task, command.fence)
    obligations = accept_once(batch, task, evidence, request.result_sha256)
    if command.to == "done":
        task.state = "done"
    elif command.to == "retry":
        task.state = "ready"
        task.due_at = task.created_at
        batch.offer(task)
    else:
        task.state = "dead"
    task.reason = command.encoded("reason")
    obligations += owe_state(batch, task, task.reason)
    return batch.conclude(caller, request, task, "blocked", obligations)


def review(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """A human closes the commitment of one revision. The state stays, unless he requeues."""
    command = request.command
    assert isinstance(command, Review) and task is not None
    commitment = batch.loaded.commitments.get((task.id, command.revision))
    codes = batch.blocked()
    if commitment is None:
        codes.append("stale_revision")
    elif code := commitment_closed(commitment):
        codes.append(code)
    if command.requeue and (code := state_issue("requeue", task.state)):
        codes.append(code)
    if codes:
        return refuse(codes, command, **facts(task))
    before = task.state
    batch.loaded.commitments[task.id, command.revision] = command.verdict
    batch.changes.reviews.append((command.verdict, task.id, command.revision))
    if command.requeue:
        batch.touch(task)
        _new_round(batch, task)
    note = canonical.dumps({"revision": command.revision, "verdict": command.verdict})
    return batch.conclude(
        caller, request, task, before, note=note.decode(), changed=command.requeue
    )
