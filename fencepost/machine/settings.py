"""queue.set, scope.set_policy, scope.revoke, clock.reset: what operators decide."""

from __future__ import annotations

from fencepost import canonical
from fencepost.clock import to_rfc3339
from fencepost.commands import ClockReset, QueueSet, Request, Revoke, SetPolicy
from fencepost.machine.batch import Batch, Verdict, accept, refuse
from fencepost.model import Caller, QueueSettings, Scope, TaskRow
from fencepost.parts import NOTHING
from fencepost.record import replace


def queue_set(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """Change settings of a queue. A queue is a destination as long as another one names it."""
    command = request.command
    assert isinstance(command, QueueSet)
    if codes := batch.blocked():
        return refuse(codes, command)
    known = batch.loaded.queues.get((caller.scope, command.queue))
    before = QueueSettings() if known is None else known.settings
    after = replace(before, **command.settings)
    if wrong := _contradiction(batch, caller.scope, command.queue, after):
        return refuse(("invalid_request",), command, f"queue.set: {wrong}")
    row = batch.need_queue(caller.scope, command.queue)
    row.settings = after
    batch.changes.queues[row.scope, row.queue] = row
    for name in after.destinations:
        batch.need_queue(caller.scope, name)
    _mark_destinations(batch, caller.scope)
    note = canonical.dumps(
        {name: after.to_json()[name] for name in command.settings}
    ).decode()
    receipt = batch.record(caller, request, (), queue=command.queue, note=note)
    return accept(receipt)


def _mark_destinations(batch: Batch, scope: str) -> None:
    """All queues of the scope are loaded, and its destinations: whether each is one, or is named by
    any of the others."""
    rows = [row for row in batch.loaded.queues.values() if row.scope == scope]
    named = {name for row in rows for name in row.settings.destinations}
    named.update(queue for place, queue in batch.loaded.destinations if place == scope)
    for row in rows:
        if row.is_destination != (row.queue in named):
            row.is_destination = row.queue in named
            batch.changes.queues[scope, row.queue] = row


def _contradiction(batch: Batch, scope: str, queue: str, after: QueueSettings) -> str | None:
    """Settings that cannot hold together."""
    if after.lease_seconds > after.max_lease_seconds:
        return "lease_seconds is above max_lease_seconds"
    if after.lease_seconds > after.max_hold_seconds:
        return "lease_seconds is above max_hold_seconds"
    row = batch.loaded.destinations.get((scope, queue))
    if row is not None and row.class_ == "unfenced" and after.on_lapse != "reconcile":
        return "an unfenced destination has on_lapse = reconcile"
    own = batch.loaded.queues.get((scope, queue))
    if after.destinations and own is not None and own.is_destination:
        return "a destination has no destinations of its own"
    for name in after.destinations:
        other = batch.loaded.queues.get((scope, name))
        if name == queue or (other is not None and other.settings.destinations):
            return f"{name} cannot be a destination: it has destinations, or is the queue itself"
    for name in after.outcomes:
        if name not in after.destinations:
            return f"outcomes: {name} is none of the queue's destinations"
    return None


def _change_scope(batch: Batch, scope: Scope) -> None:
    batch.loaded.scopes[scope.scope] = batch.changes.scopes[scope.scope] = scope
    batch.forget_moments()


def set_policy(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """Raise the policy version: completions claimed under the older one are refused from now."""
    command = request.command
    assert isinstance(command, SetPolicy)
    scope = batch.scope(caller.scope)
    codes = batch.blocked()
    version = command.policy_version
    if version is not None and version <= scope.policy_version:
        codes.append("stale_policy")
    if codes:
        low = f"{command.verb}: give a policy_version above {scope.policy_version}"
        return refuse(
            codes, command, "" if codes != ["stale_policy"] else low,
            policy_version=scope.policy_version,
        )  # fmt: skip
    _change_scope(
        batch,
        replace(
            scope,
            policy_version=scope.policy_version if version is None else version,
            retain_seconds=(
                scope.retain_seconds
                if command.retain_seconds is NOTHING
                else command.retain_seconds
            ),
        ),
    )
    note = canonical.join({k: v for k, v in command.members.items() if k != "verb"}).decode()
    return accept(batch.record(caller, request, (), note=note))


def revoke(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """Revoke the scope, or lift it. It holds from this very commit, for replays too."""
    command = request.command
    assert isinstance(command, Revoke)
    if codes := batch.blocked():
        return refuse(codes, command)
    _change_scope(batch, replace(batch.scope(caller.scope), revoked=command.revoked))
    note = canonical.dumps({"revoked": command.revoked}).decode()
    return accept(batch.record(caller, request, (), note=note))


def clock_reset(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """Lower the mark to the wall clock. A new epoch, which is also the floor, ends all leases."""
    command = request.command
    assert isinstance(command, ClockReset)
    if codes := batch.blocked():
        return refuse(codes, command)
    times = {"from": to_rfc3339(batch.now), "to": to_rfc3339(batch.loaded.wall)}
    batch.epoch += 1
    batch.floor = batch.epoch
    batch.now = batch.mark = batch.loaded.wall
    batch.changes.end_leases = True
    for row in batch.loaded.tasks.values():  # as the store will do it to all
        if row.state == "leased" and row.epoch < batch.floor:
            row.lease_expires_at = min(row.lease_expires_at, batch.now)
    batch.forget_moments()
    return accept(batch.record(caller, request, (), note=canonical.dumps(times).decode()))
