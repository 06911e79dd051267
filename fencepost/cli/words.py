"""What people are told of an accepted command: what happened, and the next useful thing."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from fencepost.cli.output import again, preview
from fencepost.clock import to_rfc3339
from fencepost.commands import (
    Claim,
    Command,
    Complete,
    DestinationAdvance,
    DestinationSecret,
    DestinationSet,
    Enqueue,
    Fail,
    Import,
    Purge,
    QueueSet,
    Renew,
    Resolve,
    Review,
    Revoke,
    SetPolicy,
    Submit,
    Sweep,
    TokenCreate,
    TokenRevoke,
)
from fencepost.model import Grant, Outcome

DONE = {
    "release": "given back",
    "cancel": "cancelled",
    "requeue": "ready again, in a new round",
    "erase": "erased: content, key and openings are gone, a tombstone stays",
}
THEN = {"retry": "to be tried again", "give_up": "given up", "block": "blocked until resolved"}
RESOLVED = {"done": "done by evidence", "retry": "ready again", "give_up": "given up"}


def told(args: Namespace, command: Command, outcome: Outcome) -> Iterator[str]:
    """The lines for people."""
    yield from _happened(args, command, outcome)
    if outcome.replayed:
        yield "replayed: this was carried out before; nothing was done now"
    if outcome.receipt is not None:
        yield f"receipt: entry {outcome.receipt.number}"


def _happened(args: Namespace, command: Command, outcome: Outcome) -> Iterator[str]:
    if isinstance(command, Claim):
        yield from _claimed(args, command, outcome)
    elif isinstance(command, Enqueue):
        yield from (f"on {command.queue}: {task_id}" for task_id in outcome.task_ids)
        yield f"claim: {again(args, 'claim', command.queue, '--worker', 'W')}"
    elif isinstance(command, Sweep):  # purge is one too
        what = "removed" if isinstance(command, Purge) else "lapsed leases settled"
        yield f"{len(outcome.task_ids)} {what}"
    else:
        task_id = getattr(command, "task_id", None)
        yield f"{task_id or command.verb}: {_ended(command, outcome)}"


def _ended(command: Command, outcome: Outcome) -> str:
    revision = outcome.receipt.revision if outcome.receipt else 0
    match command:
        case Renew():
            return f"lease ends {to_rfc3339(outcome.facts['lease_expires_at'])}"
        case Submit():
            return f"result accepted as revision {revision}; the lease goes on"
        case Complete():
            return f"done at revision {revision}"
        case Fail():
            state = outcome.receipt.entry["tasks"][0]["state"] if outcome.receipt else ""
            return f"failed, {THEN[command.then]}; it is {state}"
        case Resolve():
            return RESOLVED[command.to]
        case Review():
            return f"revision {command.revision} {command.verdict}"
        case Import():
            known = outcome.receipt is None
            return f"revision {command.revision} {'was known' if known else 'is recorded'}"
        case QueueSet():
            return f"{command.queue} has new settings"
        case SetPolicy():
            return "the scope's policy is set"
        case Revoke():
            return "the scope is revoked" if command.revoked else "the revocation is lifted"
        case TokenCreate():
            return f"{outcome.facts['token_id']} lets in {command.kind} {command.actor}"
        case DestinationSet():
            return f"{command.queue} is set"
        case DestinationSecret():
            return f"what goes to {command.queue} is signed with the new secret"
        case DestinationAdvance():
            return f"{command.queue} is at {command.sequence}"
        case TokenRevoke():
            return f"{command.token_id} does not count any more"
        case _:
            return DONE.get(command.verb, "done")


def _claimed(args: Namespace, command: Claim, outcome: Outcome) -> Iterator[str]:
    where = command.task_id or ", ".join(command.queues or ())
    if not outcome.grants:
        yield f"nothing to claim: {where}"
        return
    for grant in outcome.grants:
        yield from _granted(args, grant)


def _granted(args: Namespace, grant: Grant) -> Iterator[str]:
    key = f" ({grant.key})" if grant.key else ""
    yield f"{grant.task_id}{key} from {grant.queue}"
    yield (
        f"  fence {grant.fence}, attempt {grant.attempt} of {grant.max_attempts}, "
        f"until {to_rfc3339(grant.lease_expires_at)}"
    )
    told = grant.to_json()
    yield f"  payload {preview(told['payload'])}"
    if grant.progress is not None:
        yield f"  progress {preview(told['progress'])}"
    lease = (grant.task_id, "--worker", grant.worker_id, "--fence", str(grant.fence))
    yield f"  then    {again(args, 'complete', *lease)} RESULT"
