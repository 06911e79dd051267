"""Rule 1: who may send what, where. It comes first, for replays too."""

from __future__ import annotations

from fencepost.commands import (
    COMMANDS,
    Claim,
    Command,
    Complete,
    DestinationAdvance,
    DestinationSecret,
    DestinationSet,
    Enqueue,
    QueueSet,
    Sweep,
    TokenCreate,
)
from fencepost.model import EVERY_SCOPE, Caller, Kind, Scope, TaskRow, Token
from fencepost.outward import Destination

WORKING = frozenset({"claim", "renew", "submit", "complete", "fail", "release"})
MAY: dict[Kind, frozenset[str]] = {
    "operator": frozenset(COMMANDS) - {"review"},
    "producer": frozenset({"enqueue", "cancel"}),
    "worker": WORKING,
    "dispatcher": WORKING | {"destination.set", "destination.advance", "resolve"},
    "human": frozenset({"review", "resolve", "cancel", "requeue"}),
    "auditor": frozenset(),
}
# What the store's operator can still do in a revoked scope: lift it, or see that content and
# tokens go.
IN_REVOKED_SCOPE = frozenset({"scope.revoke", "erase", "purge", "clock.reset", "token.revoke"})
NAMES_A_QUEUE = (Enqueue, Sweep, DestinationSet, DestinationSecret, DestinationAdvance)
SEES_ALL: tuple[Kind, ...] = ("operator", "auditor")
# Who may know the lineage of writers: a dispatcher shows it to receivers.
SEES_WRITERS: tuple[Kind, ...] = ("operator", "dispatcher", "auditor")
OF_THE_SCOPE = frozenset(
    {"scope.set_policy", "scope.revoke", "clock.reset", "token.create", "token.revoke"}
)


def actor_of(caller: Caller, command: Command) -> str:
    """Whose keys and entries a command counts under: the worker's, where a worker is named."""
    return getattr(command, "worker_id", None) or caller.actor


def unauthenticated(caller: Caller, token: Token | None, now: int) -> str | None:
    """The token that the caller has shown is not there, revoked, over at this very instant, or
    makes somebody else of him. Whoever has opened the file himself needs none."""
    if caller.token is None:
        return None
    if token is None or token.revoked_at is not None:
        return "unauthenticated"
    over = token.expires_at is not None and now >= token.expires_at
    return "unauthenticated" if over or token.caller(caller.scope) != caller else None


def forbidden(caller: Caller, command: Command) -> str | None:
    """The caller's kind may not send this verb, or it acts for another worker than its own."""
    if command.verb not in MAY[caller.kind] or _above_a_dispatcher(caller, command):
        return "forbidden"
    bound = caller.kind in ("worker", "dispatcher")
    return "forbidden" if bound and actor_of(caller, command) != caller.actor else None


def _above_a_dispatcher(caller: Caller, command: Command) -> bool:
    """A dispatcher stops a destination that nothing may be sent to any more, and moves on where it
    has delivered. To say where one is, to have it go on or begin anew is the operator's."""
    if caller.kind != "dispatcher":
        return False
    if isinstance(command, DestinationSet):
        only = command.members.keys() == {"verb", "queue", "stopped"}
        return not only or command.stopped is None
    return isinstance(command, DestinationAdvance) and command.sequence < command.expected_sequence


def beyond_scope(caller: Caller, command: Command) -> str | None:
    """What concerns the whole store is for callers of every scope: its clock, and their like."""
    if caller.every_scope:
        return None
    everywhere = isinstance(command, TokenCreate) and command.every_scope
    return "forbidden" if everywhere or command.verb == "clock.reset" else None


def beyond_queues(caller: Caller, command: Command) -> str | None:
    """A caller of some queues names another one, or sends what concerns the whole scope."""
    if caller.queues is None:
        return None
    whole = isinstance(command, Sweep) and command.queue is None  # a purge is one too
    if whole or command.verb in OF_THE_SCOPE:
        return "forbidden"
    return None if caller.queues.issuperset(_named(command)) else "forbidden"


def _named(command: Command) -> tuple[str, ...]:
    """Every queue that the command itself names."""
    if isinstance(command, Claim):
        return command.queues or ()
    if isinstance(command, Complete):
        return tuple(new.queue for new in command.followups)
    if isinstance(command, QueueSet):
        given = command.settings
        return (command.queue, *given.get("destinations", ()), *given.get("outcomes", ()))
    if isinstance(command, NAMES_A_QUEUE) and command.queue is not None:
        return (command.queue,)
    return ()


def hidden_task(caller: Caller, task: TaskRow | None) -> str | None:
    """No such task in the caller's scope, on a queue of his."""
    if task is None or task.scope != caller.scope:
        return "not_found"
    return "not_found" if hidden_queue(caller, task.queue) else None


def hidden_queue(caller: Caller, queue: str) -> str | None:
    """No such queue among those of the caller."""
    return "not_found" if caller.queues is not None and queue not in caller.queues else None


def queues_seen(caller: Caller, queue: str | None) -> list[str] | None:
    """What a list of tasks on `queue` (None: on any) is made of for him; None: of all queues."""
    if caller.queues is None:
        return None if queue is None else [queue]
    return sorted(caller.queues if queue is None else caller.queues & {queue})


def hidden_token(caller: Caller, token: Token | None) -> str | None:
    """No such token of the caller's scope; those of every scope show to their like."""
    if token is None:
        return "not_found"
    shown = token.scope == caller.scope or (token.scope == EVERY_SCOPE and caller.every_scope)
    return None if shown else "not_found"


def hidden_destination(command: Command, known: Destination | None) -> str | None:
    """No such destination; the command that brings one about says where it is."""
    made = isinstance(command, DestinationSet) and command.address is not None
    return None if known is not None or made else "not_found"


def sees_secrets(caller: Caller) -> bool:
    """Who is told all of a destination that he sees: who set it, and who delivers there."""
    return caller.kind in ("operator", "dispatcher")


def on_any_queue(caller: Caller) -> bool:
    """Whom `forbidden_queue` never stops: the operator and a human."""
    return caller.kind in ("operator", "human")


def forbidden_queue(caller: Caller, is_destination: bool) -> str | None:
    """Only a dispatcher (or the operator) may claim, enqueue or settle on a destination."""
    if on_any_queue(caller):
        return None
    return "forbidden" if is_destination != (caller.kind == "dispatcher") else None


def sees_every_scope(caller: Caller) -> bool:
    """Who reads what is of no scope of his own, and what is of none at all: the whole store."""
    return caller.kind in SEES_ALL and caller.every_scope and caller.queues is None


def scope_revoked(caller: Caller, command: Command, scope: Scope | None) -> str | None:
    """A revoked scope learns and changes nothing, whoever asks and whatever it knew before. Nobody
    of its own lifts it, be he its operator: that is for the store's."""
    if scope is None or not scope.revoked:
        return None
    above = caller.kind == "operator" and sees_every_scope(caller)
    spared = above and command.verb in IN_REVOKED_SCOPE
    return None if spared else "scope_revoked"
