"""Rule 1: who may send what, where. It comes first, for replays too."""

from __future__ import annotations

from fencepost.commands import COMMANDS, Command
from fencepost.model import Caller, Kind, Scope

WORKING = frozenset({"claim", "renew", "submit", "complete", "fail", "release"})
MAY: dict[Kind, frozenset[str]] = {
    "operator": frozenset(COMMANDS) - {"review"},
    "producer": frozenset({"enqueue", "cancel"}),
    "worker": WORKING,
    "dispatcher": WORKING,
    "human": frozenset({"review", "resolve", "cancel", "requeue"}),
    "auditor": frozenset(),
}
# What an operator can still do in a revoked scope: lift it, or see that content goes.
IN_REVOKED_SCOPE = frozenset({"scope.revoke", "erase", "purge", "clock.reset"})


def actor_of(caller: Caller, command: Command) -> str:
    """Whose keys and entries a command counts under: the worker's, where a worker is named."""
    return getattr(command, "worker_id", None) or caller.actor


def forbidden(caller: Caller, command: Command) -> str | None:
    """The caller's kind may not send this verb, or it acts for another worker than its own."""
    if command.verb not in MAY[caller.kind]:
        return "forbidden"
    bound = caller.kind in ("worker", "dispatcher")
    return "forbidden" if bound and actor_of(caller, command) != caller.actor else None


def on_any_queue(caller: Caller) -> bool:
    """Whom `forbidden_queue` never stops: the operator and a human."""
    return caller.kind in ("operator", "human")


def forbidden_queue(caller: Caller, is_destination: bool) -> str | None:
    """Only a dispatcher (or the operator) may claim, enqueue or settle on a destination."""
    if on_any_queue(caller):
        return None
    return "forbidden" if is_destination != (caller.kind == "dispatcher") else None


def scope_revoked(caller: Caller, command: Command, scope: Scope | None) -> str | None:
    """A revoked scope learns and changes nothing, whoever asks and whatever it knew before."""
    if scope is None or not scope.revoked:
        return None
    spared = caller.kind == "operator" and command.verb in IN_REVOKED_SCOPE
    return None if spared else "scope_revoked"
