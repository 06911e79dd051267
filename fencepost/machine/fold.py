"""Folds a batch: rules 1 to 3 for every command, then the verb's own part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fencepost.commands import (
    Claim,
    Command,
    Complete,
    DestinationAdvance,
    DestinationSecret,
    DestinationSet,
    Enqueue,
    Request,
    TokenRevoke,
)
from fencepost.fields import MAX_ENTRY_BYTES, MAX_OBLIGATIONS
from fencepost.journal.entry import longest
from fencepost.machine import (
    claims,
    destinations,
    importing,
    operators,
    results,
    retention,
    settings,
    tasks,
    tokens,
)
from fencepost.machine.batch import Batch, Verdict, lookup_of, refuse
from fencepost.machine.needs import Sent
from fencepost.machine.rows import Changes, Loaded
from fencepost.model import Caller, Grant, Outcome, TaskRow
from fencepost.rules import authority
from fencepost.rules.fence import lapsed

Decide = Callable[[Batch, Caller, Request, TaskRow | None], Verdict]
OF_A_DESTINATION = (DestinationSet, DestinationSecret, DestinationAdvance)

VERBS: dict[str, Decide] = {
    "enqueue": tasks.enqueue,
    "claim": claims.claim,
    "renew": claims.renew,
    "release": claims.release,
    "submit": results.submit,
    "complete": results.complete,
    "fail": results.fail,
    "cancel": operators.cancel,
    "requeue": operators.requeue,
    "resolve": operators.resolve,
    "review": operators.review,
    "import": importing.import_result,
    "sweep": claims.sweep,
    "erase": retention.erase,
    "purge": retention.purge,
    "queue.set": settings.queue_set,
    "scope.set_policy": settings.set_policy,
    "scope.revoke": settings.revoke,
    "clock.reset": settings.clock_reset,
    "token.create": tokens.create,
    "token.revoke": tokens.revoke,
    "destination.set": destinations.change,
    "destination.secret": destinations.sign,
    "destination.advance": destinations.advance,
}


def fold(sent: Sequence[Sent], loaded: Loaded) -> tuple[list[Verdict], Changes]:
    """Decide each command in turn over the loaded rows, which change as it goes."""
    batch = Batch(loaded)
    verdicts = [decide(batch, caller, request) for caller, request in sent]
    batch.changes.store = batch.closing_store()
    return verdicts, batch.changes


def decide(batch: Batch, caller: Caller, request: Request) -> Verdict:
    """One command. Rules 1 to 3 end the list of issues; the rest is the verb's."""
    command = request.command
    task_id = getattr(command, "task_id", None)
    task = None if task_id is None else batch.loaded.tasks.get(task_id)
    code = _no_authority(batch, caller, command, task_id, task) or _too_large(command)
    if code is not None:
        return refuse((code,), command)
    known = replay(batch, caller, request, task)
    if task is not None and task.erased and (known is None or known.outcome.accepted):
        return refuse(("receipt_erased",), command)
    if known is not None:
        return known
    return VERBS[command.verb](batch, caller, request, task)


def _no_authority(
    batch: Batch, caller: Caller, command: Command, task_id: str | None, task: TaskRow | None
) -> str | None:
    """Rule 1. In a revoked scope nobody learns whether a task exists, so that comes before."""
    loaded = batch.loaded
    code = (
        authority.unauthenticated(caller, loaded.tokens.get(caller.token or ""), batch.now)
        or authority.forbidden(caller, command)
        or authority.beyond_scope(caller, command)
        or authority.beyond_queues(caller, command)
        or authority.scope_revoked(caller, command, loaded.scopes.get(caller.scope))
    )
    if code is None and task_id is not None:
        code = authority.hidden_task(caller, task)
    elif code is None and isinstance(command, TokenRevoke):
        code = authority.hidden_token(caller, loaded.tokens.get(command.token_id))
    elif code is None and isinstance(command, OF_A_DESTINATION):
        known = loaded.destinations.get((caller.scope, command.queue))
        code = authority.hidden_destination(command, known)
    if code is not None or authority.on_any_queue(caller):
        return code
    for queue in _queues_of(command, task):
        row = loaded.queues.get((caller.scope, queue))
        code = authority.forbidden_queue(caller, row is not None and row.is_destination)
        if code is not None:
            return code
    return None


def _queues_of(command: Command, task: TaskRow | None) -> Iterable[str]:
    if isinstance(command, (Enqueue, *OF_A_DESTINATION)):
        return (command.queue,)
    if isinstance(command, Claim) and command.queues is not None:
        return command.queues
    followed = (new.queue for new in command.followups) if isinstance(command, Complete) else ()
    return () if task is None else (task.queue, *followed)


def _too_large(command: Command) -> str | None:
    """Rule 2: an entry that could not hold all the tasks. Constants only, never a setting. What
    an enqueue can name always fits."""
    if not isinstance(command, Complete):
        return None
    size = longest(1, len(command.followups), MAX_OBLIGATIONS)
    return "entry_too_large" if size > MAX_ENTRY_BYTES else None


def replay(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict | None:
    """Rule 3: the stored receipt for the same bytes under a known key, whatever happened since."""
    command = request.command
    loaded = batch.loaded
    if request.key is not None:
        lookup = lookup_of(caller.scope, authority.actor_of(caller, command), request.key)
        if lookup in loaded.tombstones:
            return refuse(("receipt_erased",), command)
        stored = loaded.receipts.get(lookup)
    elif command.self_keyed and task is not None:
        stored = loaded.digests.get((task.id, request.sha256))
    else:
        return None
    if stored is None:
        return None
    receipt = stored.receipt()
    if receipt is None:
        return refuse(("receipt_erased",), command)
    if receipt.request_sha256 != request.sha256:
        return refuse(("idempotency_key_reused",), command)
    claimed: tuple[tuple[str, int], ...] = ()
    if command.verb == "claim":
        claimed = tuple((item["task_id"], item["fence"]) for item in receipt.entry["tasks"])
    facts = tokens.facts(receipt) if command.verb in ("token.create", "token.revoke") else {}
    if command.verb == "erase" and task is not None:  # it is there still: it had to be left
        facts = {"remaining": max(len(retention.still_owed(batch, task)), 1)}
    outcome = Outcome(
        "accepted", receipt=receipt, task_ids=receipt.about, replayed=True, facts=facts
    )
    return Verdict(outcome, claimed)


def live_leases(verdict: Verdict, loaded: Loaded, batch: Batch) -> list[TaskRow]:
    """The rows of a claim's answer that are still leased under the fence it gave."""
    return [
        row
        for task_id, fence in verdict.claimed
        if (row := loaded.tasks.get(task_id)) is not None
        and row.state == "leased"
        and row.fence == fence
        and not lapsed(row, batch.moment(row.scope))
    ]


def grant(row: TaskRow, payload: bytes | None, progress: bytes | None) -> Grant:
    """What the worker is told of one lease."""
    return Grant(
        row.task_id, row.queue, row.key, row.worker_id or "", row.fence, row.revision,
        row.attempt, row.max_attempts, row.epoch, row.policy_version, row.granted_at,
        row.lease_expires_at, payload, progress,
    )  # fmt: skip
