"""What state may follow which, and rule 7. The table is DESIGN's; verify reads it too."""

from __future__ import annotations

from fencepost.commands import LeaseCommand
from fencepost.model import STATES, State, TaskRow
from fencepost.rules.moment import Moment

ENDED: frozenset[str] = frozenset({"done", "dead", "cancelled"})
OPEN: frozenset[str] = frozenset({"ready", "leased", "blocked"})

# verb -> state before (None: the task did not exist) -> states after (None: it is gone)
TRANSITIONS: dict[str, dict[str | None, frozenset[str | None]]] = {
    "enqueue": {None: frozenset({"ready"})},
    "claim": {"ready": frozenset({"leased"}), "leased": frozenset({"leased"})},
    "submit": {"leased": frozenset({"leased"})},
    "complete": {"leased": frozenset({"done"})},
    "fail": {"leased": frozenset({"ready", "dead", "blocked"})},
    "release": {"leased": frozenset({"ready"})},
    "sweep": {"leased": frozenset({"ready", "dead", "blocked"})},
    "cancel": {state: frozenset({"cancelled"}) for state in ("ready", "leased", "blocked")},
    "resolve": {"blocked": frozenset({"done", "ready", "dead"})},
    "requeue": {state: frozenset({"ready"}) for state in ("dead", "done", "cancelled")},
    "review": {
        "ready": frozenset({"ready"}),
        "leased": frozenset({"leased"}),
        "blocked": frozenset({"blocked"}),
        "done": frozenset({"done", "ready"}),
        "dead": frozenset({"dead", "ready"}),
        "cancelled": frozenset({"cancelled", "ready"}),
    },
    # a receiver's effect is a fact in whatever state the task is here; a running lease ends with it
    "import": {
        "leased": frozenset({"leased", "ready", "done"}),
        **{state: frozenset({state, "done"}) for state in STATES if state != "leased"},
    },
    "erase": {
        **{state: frozenset({"cancelled"}) for state in ("ready", "leased", "blocked")},
        **{state: frozenset({state}) for state in ("done", "dead", "cancelled")},
    },
    "purge": {state: frozenset({None}) for state in ("done", "dead", "cancelled")},
}


OBLIGING = frozenset({"submit", "complete", "fail", "cancel", "resolve", "import", "sweep"})
"""Verbs of which a result or a state comes that others may have to be told. What is erased is told
to nobody."""


def allowed(verb: str, before: str | None, after: str | None) -> bool:
    """Whether the table has this move. Tasks that another verb brings about begin as enqueue's."""
    if before is None:
        return after == "ready" and (verb == "enqueue" or verb in OBLIGING)
    return after in TRANSITIONS.get(verb, {}).get(before, frozenset())


def lease_state(command: LeaseCommand, task: TaskRow, moment: Moment) -> str | None:
    """7, for a worker's commands: only a leased task can be worked on."""
    if task.state == "leased":
        return None
    return "not_leased" if task.state == "ready" else f"task_{task.state}"


def state_issue(verb: str, state: State) -> str | None:
    """7, for commands from outside a lease: the state from which the verb cannot start."""
    return None if state in TRANSITIONS[verb] else f"task_{state}"
