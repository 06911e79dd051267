"""destination.set, destination.secret, destination.advance: where obligations go and how far they
have come. An entry names the class and the kind of place; to the whole row it is committed."""

from __future__ import annotations

from typing import Any

from fencepost import canonical, destinations
from fencepost.commands import (
    DestinationAdvance,
    DestinationSecret,
    DestinationSet,
    Request,
)
from fencepost.machine.batch import Batch, Verdict, accept, refuse
from fencepost.machine.rows import QueueRow
from fencepost.model import Caller, TaskRow
from fencepost.outward import Destination, Secret
from fencepost.parts import NOTHING
from fencepost.record import replace
from fencepost.rules.destinations import ATTEMPTS, DEFAULT_ATTEMPTS, stale_sequence
from fencepost.rules.retry import SECOND


def change(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """The first one makes the queue a destination, which it then stays, and gives what is owed from
    then on the attempts of one. An unfenced one is never tried again by itself: its lapsed leases
    wait for a person."""
    command = request.command
    assert isinstance(command, DestinationSet)
    if codes := batch.blocked():
        return refuse(codes, command)
    before = batch.loaded.destinations.get((caller.scope, command.queue))
    known = batch.loaded.queues.get((caller.scope, command.queue))
    if before is None and command.class_ is None:
        wrong: str | None = "a new destination has an address and a class"
    elif known is not None and known.settings.destinations:
        wrong = f"{command.queue} cannot be a destination: it has destinations"
    else:
        after = _changed(before, command)
        wrong = destinations.contradiction(after.address, after.class_, after.options)
        wrong = wrong or _unsigned(after.address, after.secrets)
    if wrong:
        return refuse(("invalid_request",), command, f"{command.verb}: {wrong}")
    queue = batch.need_queue(caller.scope, command.queue)
    _becomes_destination(batch, queue, after, first=before is None)
    return _concluded(batch, caller, request, after)


def _changed(before: Destination | None, command: DestinationSet) -> Destination:
    if before is None:
        assert command.address is not None and command.class_ is not None
        before = Destination(command.queue, command.address, command.class_, {})
    options = {**before.options, **(command.options or {})}
    return replace(
        before,
        address=command.address or before.address,
        class_=command.class_ or before.class_,
        options=destinations.complete(options),
        stopped=before.stopped if command.stopped is NOTHING else command.stopped,
    )


def _becomes_destination(batch: Batch, queue: QueueRow, after: Destination, *, first: bool) -> None:
    settings = queue.settings
    if first and settings.max_attempts == DEFAULT_ATTEMPTS:
        settings = replace(settings, max_attempts=ATTEMPTS)
    if after.class_ == "unfenced":
        settings = replace(settings, on_lapse="reconcile")
    if not queue.is_destination or settings != queue.settings:
        queue.is_destination, queue.settings = True, settings
        batch.changes.queues[queue.scope, queue.queue] = queue


def sign(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """A new secret is signed with at once; those before it go on to be for a while."""
    command = request.command
    assert isinstance(command, DestinationSecret)
    if codes := batch.blocked():
        return refuse(codes, command)
    before = batch.loaded.destinations[caller.scope, command.queue]
    now, until = batch.now, batch.now + command.keep_seconds * SECOND
    ends = ((s.secret, until if s.until is None else min(s.until, until)) for s in before.secrets)
    kept = [Secret(secret, end) for secret, end in ends if end > now]
    secrets = (Secret(command.secret), *kept)
    if command.secret in {known.secret for known in before.secrets}:
        told = f"{command.verb}: this secret is known already; make a new one"
        return refuse(("key_conflict",), command, told)
    wrong = _unsigned(before.address, secrets)
    if len(secrets) > destinations.MAX_SECRETS:
        wrong = f"{len(kept)} others still count: wait, or give keep_seconds 0"
    if wrong:
        return refuse(("invalid_request",), command, f"{command.verb}: {wrong}")
    return _concluded(batch, caller, request, replace(before, secrets=secrets))


def _unsigned(address: str, secrets: tuple[Secret, ...]) -> str | None:
    """A secret where nothing is ever signed."""
    kind = destinations.kind_of(address)
    if not secrets or kind in destinations.SIGNED:
        return None
    return f"nothing is signed at {kind}:, so it has no secret"


def advance(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """Compare and set: whoever has seen another position has to look again."""
    command = request.command
    assert isinstance(command, DestinationAdvance)
    before = batch.loaded.destinations[caller.scope, command.queue]
    codes = batch.blocked()
    if code := stale_sequence(command, before):
        codes.append(code)
    if codes:
        facts: dict[str, Any] = {"sequence": before.sequence}
        return refuse(codes, command, **(facts if code else {}))
    same = command.sequence == before.sequence
    if not same and (command.sequence > 0) != (command.head is not None):
        wrong = f"{command.verb}: a new sequence has a head, and 0 has none"
        return refuse(("invalid_request",), command, wrong)
    after = replace(
        before,
        sequence=command.sequence,
        head=before.head if same else command.head,
        heard=before.heard if command.heard is None else command.heard,
        announced=command.announced or before.announced,
    )
    return _concluded(batch, caller, request, after, command.expected_sequence)


def _concluded(
    batch: Batch, caller: Caller, request: Request, after: Destination,
    presented: int | None = None,
) -> Verdict:  # fmt: skip
    """The row is written, guarded by the position that the first command presented, or by the one
    that was loaded; and the entry is left."""
    place = caller.scope, after.queue
    loaded, changes = batch.loaded.destinations, batch.changes.destinations
    if place not in changes:
        before = loaded.get(place)
        found = None if before is None else before.sequence
        changes[place] = found if presented is None else presented, after
    loaded[place] = after
    changes[place] = changes[place][0], after
    note = {"class": after.class_, "kind": after.kind}
    receipt = batch.record(
        caller, request, (), queue=after.queue, note=canonical.dumps(note).decode(),
        destination=destinations.committed(destinations.columns(after)),
    )  # fmt: skip
    return accept(receipt)
