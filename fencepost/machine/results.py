"""submit, complete, fail: what a worker hands in."""

from __future__ import annotations

from fencepost.commands import Complete, Fail, Request, Submit
from fencepost.issues import ISSUES, LeaseLost, in_order
from fencepost.machine import tasks
from fencepost.machine.batch import Batch, Verdict, refuse
from fencepost.machine.claims import settled
from fencepost.machine.owing import Accepted, owe_result, owe_state
from fencepost.machine.rows import Kept, NewResult
from fencepost.model import Caller, TaskRow
from fencepost.rules import limits, retry
from fencepost.rules.fence import lease_issues
from fencepost.rules.results import duplicate_result, stale_revision


def submit(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """leased → leased, revision + 1: a result is accepted and the lease is kept."""
    command = request.command
    assert isinstance(command, Submit) and task is not None
    result, digest = command.members["result"], request.result_sha256
    assert digest is not None
    recorded = batch.loaded.results.get((task.id, task.round, digest))
    codes = _result_issues(batch, command, task, result)
    if code := duplicate_result(command, task, recorded):
        codes.append(code)
    if codes:
        return _refused(batch, command, task, codes, result, digest, recorded)
    batch.touch(task, command.fence, command.expected_revision)
    batch.remark(task, command)
    obligations = accept_result(batch, task, result, digest, _own(batch, task, final=False))
    return batch.conclude(caller, request, task, "leased", obligations)


def complete(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """leased → done, with a result or none. A result recorded in this round is not added again."""
    command = request.command
    assert isinstance(command, Complete) and task is not None
    result, digest = command.members.get("result"), request.result_sha256
    codes = _result_issues(batch, command, task, result)
    if command.followups:
        codes += _followup_issues(batch, task, command)
    if codes:
        return _refused(batch, command, task, codes, result, digest, None)
    batch.touch(task, command.fence, command.expected_revision)
    batch.remark(task, command)
    task.state = "done"
    obligations = accept_once(batch, task, result, digest) + owe_state(batch, task)
    followups = [tasks.add_followup(batch, task, new.queue, new) for new in command.followups]
    return batch.conclude(caller, request, task, "leased", (*followups, *obligations))


def fail(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """leased → ready after a back-off, dead, or blocked."""
    command = request.command
    assert isinstance(command, Fail) and task is not None
    codes = batch.blocked() + lease_issues(command, task, batch.moment(task.scope))
    if codes:
        return refuse(codes, command, **settled(task, command))
    batch.touch(task, command.fence)
    batch.remark(task, command)
    task.state = retry.after_failure(command.then, task)
    if task.state == "ready":
        wait = command.retry_seconds
        task.due_at = batch.now + (
            retry.backoff(task.attempt, batch.settings(task), batch.loaded.draw.jitter())
            if wait is None
            else wait * retry.SECOND
        )
        batch.offer(task)
    task.reason = command.encoded("reason")
    return batch.conclude(caller, request, task, "leased", owe_state(batch, task, task.reason))


def accept_result(
    batch: Batch, task: TaskRow, result: bytes | None, digest: bytes, by: Accepted
) -> list[str]:
    """Revision + 1, the result and what is owed for it; the commitment to a human opens.

    Returns the entry's items for the obligations. The caller stamps and records. Of an imported
    `result` that nobody knows any more there is the digest alone, and nothing can be owed.
    """
    task.revision += 1
    number = batch.next_entry
    kept = batch.settings(task).result_storage == "content"
    batch.loaded.results[task.id, task.round, digest] = number
    batch.loaded.commitments[task.id, task.revision] = "open"
    batch.loaded.accepted[task.id, task.revision] = digest
    batch.changes.results.append(
        NewResult(task.id, task.revision, task.round, digest, number, result if kept else None)
    )
    return [] if result is None else owe_result(batch, task, result, digest, by)


def accept_once(
    batch: Batch, task: TaskRow, result: bytes | None, digest: bytes | None
) -> list[str]:
    """The same for a result that ends the task, if it brings one that this round has not yet."""
    if result is None or digest is None or (task.id, task.round, digest) in batch.loaded.results:
        return []
    return accept_result(batch, task, result, digest, _own(batch, task, final=True))


def _own(batch: Batch, task: TaskRow, *, final: bool) -> Accepted:
    """Accepted here and now, under the task's lease."""
    return Accepted(batch.now, batch.epoch, task.fence, final)


def _result_issues(
    batch: Batch, command: Submit | Complete, task: TaskRow, result: bytes | None
) -> list[str]:
    """Rules 4 to 10 and 12 for a command that hands in a result."""
    codes = batch.blocked()
    if result is not None and limits.result_too_large(len(result), batch.settings(task)):
        codes.append("payload_too_large")
    codes += lease_issues(command, task, batch.moment(task.scope))
    if stale_revision(command.expected_revision, task):
        codes.append("stale_revision")
    return codes


def _followup_issues(batch: Batch, task: TaskRow, command: Complete) -> list[str]:
    codes = []
    if limits.too_many_followups(len(command.followups), batch.settings(task)):
        codes.append("too_many_followups")
    for queue in {new.queue for new in command.followups}:
        there = [new for new in command.followups if new.queue == queue]
        codes += tasks.new_task_issues(batch, task.scope, queue, there)
    return codes


def _refused(
    batch: Batch,
    command: Submit | Complete,
    task: TaskRow,
    codes: list[str],
    result: bytes | None,
    digest: bytes | None,
    recorded: int | None,
) -> Verdict:
    told = settled(task, command)
    if "duplicate_result" in codes:
        told["receipt"] = recorded
    verdict = refuse(codes, command, **told)
    limit = batch.settings(task).keep_refused if recorded is None else 0
    if limit and result is not None and digest is not None and _late(codes):
        issues = ",".join(in_order(codes))
        batch.changes.kept.append(
            Kept(
                task.id, command.worker_id, command.fence, batch.now, issues, digest, result, limit
            )
        )
    return verdict


def _late(codes: list[str]) -> bool:
    """Worth keeping aside: handed in by somebody who may once have held the lease."""
    lost = all(issubclass(ISSUES[code].raises, LeaseLost) for code in codes)
    never = "wrong_worker" in codes and "stale_fence" not in codes  # this fence was another's
    return lost and "unknown_fence" not in codes and not never


