"""Which rows a batch of commands has to be judged with. The store loads them after the locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.commands import (
    Claim,
    Command,
    Complete,
    DestinationAdvance,
    DestinationSecret,
    DestinationSet,
    Enqueue,
    Erase,
    Import,
    Purge,
    QueueSet,
    Request,
    Review,
    Sweep,
    TokenCreate,
    TokenRevoke,
)
from fencepost.fields import MAX_SWEEP
from fencepost.machine.batch import lookup_of
from fencepost.machine.rows import QueueRow
from fencepost.model import Caller, TaskRow
from fencepost.record import dataclass, field
from fencepost.rules.authority import actor_of
from fencepost.rules.lifecycle import OBLIGING
from fencepost.rules.owing import most_owed

Sent = tuple[Caller, Request]

ALONE = frozenset(
    [
        *("queue.set", "scope.set_policy", "scope.revoke", "clock.reset"),
        *("token.create", "token.revoke", "destination.set", "destination.secret"),
    ]
)
"""Verbs that change what others are judged by: no other transaction may go on beside them."""

LOOKING = frozenset(["claim", "sweep", "purge"])
"""Verbs that look for tasks which nobody has: beside its own copy one would find too few."""


@dataclass(slots=True)
class Needs:
    """What to load. Everything is within the scopes of the callers."""

    scopes: set[str] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    digests_of_tokens: set[bytes] = field(default_factory=set)
    queues: set[tuple[str, str]] = field(default_factory=set)
    all_queues: set[str] = field(default_factory=set)
    destinations: set[tuple[str, str]] = field(default_factory=set)
    claimed: set[str] = field(default_factory=set)
    tasks: set[tuple[str, str]] = field(default_factory=set)
    lookups: set[str] = field(default_factory=set)
    looking: set[str] = field(default_factory=set)
    digests: set[tuple[str, bytes]] = field(default_factory=set)
    keys: set[tuple[str, str, str]] = field(default_factory=set)
    results: set[tuple[str, bytes]] = field(default_factory=set)
    revisions: set[tuple[str, int]] = field(default_factory=set)
    claims: dict[tuple[str, str], int] = field(default_factory=dict)
    sweeps: dict[tuple[str, str], int] = field(default_factory=dict)
    purges: dict[tuple[str, str], int] = field(default_factory=dict)
    children: set[str] = field(default_factory=set)

    def names_tasks(self) -> bool:
        """A command names a task, a task's key, or a destination: rows that others may hold."""
        return bool(self.tasks or self.keys or self.destinations)

    def names_all(self) -> bool:
        """Nothing is to be looked for beyond what the commands name."""
        return not (self.claims or self.sweeps or self.purges or self.children)


def needs(sent: Sequence[Sent]) -> Needs:
    """What the machine has to be given to fold these commands."""
    wanted = Needs()
    for caller, request in sent:
        command = request.command
        wanted.scopes.add(caller.scope)
        if caller.token is not None:
            wanted.tokens.add(caller.token)
        if request.key is not None:
            lookup = lookup_of(caller.scope, actor_of(caller, command), request.key)
            wanted.lookups.add(lookup)
            if command.verb in LOOKING:
                wanted.looking.add(lookup)
        task_id = getattr(command, "task_id", None)
        if task_id is not None:
            wanted.tasks.add((caller.scope, task_id))
            if command.self_keyed and request.key is None:
                wanted.digests.add((task_id, request.sha256))
            if request.result_sha256 is not None:
                wanted.results.add((task_id, request.result_sha256))
        _of_verb(wanted, caller.scope, command)
    return wanted


def numbers_needed(
    sent: Sequence[Sent], queues: Mapping[tuple[str, str], QueueRow],
    loaded: Mapping[str, TaskRow], more: int = 0,
) -> tuple[int, int, int]:
    """At most how many fences, tasks and entries folding these commands can use up, and one
    entry's number beyond: the next one is looked at before it is taken. Besides the `loaded` tasks
    so many `more` may be found."""
    limits = tasks = claims = sweeps = 0
    for _, request in sent:
        command = request.command
        if isinstance(command, Claim):
            limits, claims = limits + command.limit, claims + 1
        elif isinstance(command, Enqueue):
            tasks += len(command.tasks)
        elif command.verb in OBLIGING:
            tasks += _most_owed(request, queues, loaded)
        sweeps += command.verb in ("claim", "sweep")
        if isinstance(command, Complete):
            tasks += len(command.followups)
    if sweeps and any(queue.settings.outcomes for queue in queues.values()):
        most = max(most_owed(queue.settings, result=False) for queue in queues.values())
        tasks += sweeps * min(MAX_SWEEP, most * (len(loaded) + more + tasks))
    # what is named may be given back, and even be claimed twice
    free = len(loaded) + more + tasks + claims
    return min(limits, free), tasks, len(sent) + claims + 1


def _most_owed(
    request: Request, queues: Mapping[tuple[str, str], QueueRow], loaded: Mapping[str, TaskRow]
) -> int:
    """At most so many obligations come of this command on one task."""
    task = loaded.get(getattr(request.command, "task_id", ""))
    queue = None if task is None else queues.get((task.scope, task.queue))
    result = request.result_sha256 is not None
    found = queues.values() if queue is None else (queue,)
    return sum(most_owed(each.settings, result=result) for each in found)


def _of_verb(wanted: Needs, scope: str, command: Command) -> None:
    if isinstance(command, Complete):
        _new_tasks(wanted, scope, [(task.queue, task.key) for task in command.followups])
    elif isinstance(command, Enqueue):
        _new_tasks(wanted, scope, [(command.queue, task.key) for task in command.tasks])
    elif isinstance(command, Claim):
        for queue in command.queues or ():
            wanted.queues.add((scope, queue))
            _add(wanted.claims, (scope, queue), command.limit)
        if command.task_id is not None:
            wanted.claimed.add(command.task_id)
    elif isinstance(command, Review | Import):
        wanted.revisions.add((command.task_id, command.revision))
    elif isinstance(command, Purge):
        _add(wanted.purges, (scope, command.queue or ""), command.limit)
    elif isinstance(command, Sweep):
        if command.queue is not None:  # and with it those that it owes to
            wanted.queues.add((scope, command.queue))
        _add(wanted.sweeps, (scope, command.queue or ""), command.limit)
    elif isinstance(command, Erase):
        wanted.children.add(command.task_id)
    elif isinstance(command, QueueSet):
        wanted.all_queues.add(scope)
    elif isinstance(command, DestinationSet | DestinationSecret | DestinationAdvance):
        wanted.queues.add((scope, command.queue))
        wanted.destinations.add((scope, command.queue))
    elif isinstance(command, TokenCreate):
        wanted.digests_of_tokens.add(bytes.fromhex(command.token_sha256))
    elif isinstance(command, TokenRevoke):
        wanted.tokens.add(command.token_id)


def _new_tasks(wanted: Needs, scope: str, tasks: list[tuple[str, str | None]]) -> None:
    for queue, key in tasks:
        wanted.queues.add((scope, queue))
        if key is not None:
            wanted.keys.add((scope, queue, key))


def _add(wanted: dict[tuple[str, str], int], place: tuple[str, str], limit: int) -> None:
    wanted[place] = wanted.get(place, 0) + limit
