"""Situations in which exactly the chosen rules are violated, and every other dimension is right.

A `Draft` describes the world (state of the task, settings, clock) and the command; a fault
bends it in one dimension. `ask` builds the world on a fresh store in memory and sends the
command. The task has been claimed twice by `w` (fences 1 and 2) and has one accepted result
(`FIRST`, revision 1), so that an older fence, an older revision and a duplicate are real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from fencepost import commands as c
from fencepost.issues import ISSUES, in_order
from fencepost.model import Kind, Outcome
from helpers.stand import QUEUE, UNKNOWN, WORKER, Stand, binding

FIRST, SECOND_RESULT, LONG = {"row": 1}, {"row": 2}, "x" * 200
FENCE, EARLIER, FORGED = 2, 1, 3
LEASE_VERBS = ("submit", "complete", "fail", "renew", "release")
HANDING_IN = ("submit", "complete")
OUTSIDE = ("cancel", "requeue", "resolve")
PLAIN = ("queue.set", "scope.set_policy", "scope.revoke", "clock.reset", "sweep", "purge")
OWN_STATE = {"requeue": "done", "resolve": "blocked", "review": "done", "claim": "ready",
             "claim task": "ready"}  # fmt: skip
# How each state is reached from the live lease without touching worker, fence, end or revision.
HOW = {"done": ("complete", {}), "dead": ("fail", {"then": "give_up"}),
       "blocked": ("fail", {"then": "block"}), "ready": ("release", {})}  # fmt: skip


@dataclass
class Draft:
    """A command to be, and the world it will meet."""

    verb: str
    state: str = "leased"
    worker: str = WORKER
    kind: Kind = "operator"
    key: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    world: list[tuple[int, Callable[[Draft, Stand], None]]] = field(default_factory=list)

    @property
    def actor(self) -> str:
        """Whose key the command's key is."""
        return self.worker if self.verb.split()[0] in ("claim", *LEASE_VERBS) else "local"


def draft(verb: str) -> Draft:
    """The draft in which every dimension is right."""
    made = Draft(verb, OWN_STATE.get(verb, "leased"))
    if verb in LEASE_VERBS:
        made.kind = "worker"
        made.fields = {"fence": FENCE, "epoch": 0, "policy_version": 0, "log": "said"}
    if verb in ("renew", "fail", "release"):
        made.fields |= {"progress": [40]}
    if verb in HANDING_IN:
        made.fields |= {"result": SECOND_RESULT, "expected_revision": 1}
    if verb == "review":
        made.kind = "human"
        made.fields = {"revision": 1, "verdict": "rejected", "requeue": True}
    if verb == "import":
        made.fields = {
            "revision": 2, "epoch": 0, "fence": 9, "final": True, "result": SECOND_RESULT,
            "evidence": "a receiver's word",
        }  # fmt: skip
        made.world.append((6, lambda _, stand: stand.fp.clock_reset() and None))
    if verb == "resolve":
        made.fields = {"to": "done", "evidence": SECOND_RESULT}
    made.fields |= {
        "claim": {"queues": (QUEUE,)},
        "enqueue": {"queue": QUEUE, "tasks": ({"payload": 1, "key": "fresh"},)},
        "queue.set": {"queue": QUEUE, "settings": {"lease_seconds": 30}},
        "scope.set_policy": {"policy_version": 1},
    }.get(verb, {})
    return made


def bring(stand: Stand, state: str) -> str:
    """A task in that state, last claimed by `w` under fence 2, with revision 1."""
    task_id = stand.task("work")
    stand.claim().release()
    lease = stand.claim()
    lease.submit(FIRST)
    if state in HOW:
        verb, more = HOW[state]
        stand.fp.execute([c.COMMANDS[verb](**binding(lease), **more)])
    elif state == "cancelled":
        stand.fp.cancel(task_id)
    assert stand.fp.task(task_id).state == state
    return task_id


def command_of(made: Draft, task_id: str) -> c.Command:
    """The drafted command on the task."""
    fields = dict(made.fields)
    verb = made.verb.split()[0]
    if verb in ("claim", *LEASE_VERBS):
        fields["worker_id"] = made.worker
    if verb not in ("claim", "enqueue", *PLAIN) or made.verb == "claim task":
        fields.setdefault("task_id", task_id)
    return c.COMMANDS[verb](**fields)


def build(made: Draft, stand: Stand) -> c.Command:
    """Make the drafted world on the stand; the command that is to meet it."""
    task_id = bring(stand, made.state)
    for _, change in sorted(made.world, key=lambda step: step[0]):
        change(made, stand)
    return command_of(made, task_id)


def ask(made: Draft, stand: Stand, command: c.Command) -> Outcome:
    """Send the drafted command as the drafted caller."""
    return stand.ask(command, made.actor, made.kind, key=made.key)


# --- the faults: code → how to be guilty of it and of nothing else ----------------------------

Bend = Callable[[Draft], None]
FAULTS: dict[str, dict[str, Bend]] = {}


def fault(code: str, *verbs: str) -> Callable[[Bend], Bend]:
    """Registers a way to violate the rule of `code` with each of these verbs."""

    def register(bend: Bend) -> Bend:
        for verb in verbs:
            FAULTS.setdefault(verb, {})[code] = bend
        return bend

    return register


ON_TASK = (*LEASE_VERBS, "claim task", *OUTSIDE, "review", "import", "erase")
ALL = (*ON_TASK, "claim", "enqueue", *PLAIN)


@fault("forbidden", *ALL)
def _(made: Draft) -> None:
    made.kind = "auditor"


@fault("not_found", *ON_TASK)
def _(made: Draft) -> None:
    made.fields["task_id"] = UNKNOWN


@fault("scope_revoked", *(v for v in ALL if v not in
                          ("erase", "purge", "scope.revoke", "clock.reset")))
def _(made: Draft) -> None:
    made.world.append((8, lambda _, stand: stand.fp.revoke() and None))


@fault("entry_too_large", "complete")
def _(made: Draft) -> None:
    made.fields["followups"] = tuple({"queue": "n" * 64, "payload": 0} for _ in range(250))
    made.world.append((2, lambda _, stand: stand.fp.queue_set(QUEUE, max_followups=180) and None))


@fault("idempotency_key_reused", *ALL)
def _(made: Draft) -> None:
    made.key = "K"
    made.world.append((1, _use_key))


def _use_key(made: Draft, stand: Stand) -> None:
    new = c.Enqueue("elsewhere", ({"payload": 0},))
    assert stand.ask(new, made.actor, key="K").accepted


@fault("receipt_erased", *ALL)
def _(made: Draft) -> None:
    made.key = "K"
    made.world.append((1, _erase_key))


def _erase_key(made: Draft, stand: Stand) -> None:
    _use_key(made, stand)
    (task,) = stand.fp.tasks("elsewhere")
    stand.fp.erase(task.task_id)


@fault("store_read_only", *ALL)
def _(made: Draft) -> None:
    made.world.append((9, lambda _, stand: setattr(stand.store._main, "read_only", True)))


@fault("queue_paused", "claim", "claim task", "enqueue")
def _(made: Draft) -> None:
    made.world.append((2, lambda _, stand: stand.fp.queue_set(QUEUE, paused=True) and None))


@fault("payload_too_large", "enqueue", "resolve", "import", *HANDING_IN)
def _(made: Draft) -> None:
    if made.verb == "enqueue":
        made.fields["tasks"] = (*made.fields["tasks"], {"payload": LONG})
    else:
        made.fields["evidence" if made.verb == "resolve" else "result"] = LONG
    limits = {"max_payload_bytes": 100, "max_result_bytes": 100}
    made.world.append((2, lambda _, stand: stand.fp.queue_set(QUEUE, **limits) and None))


@fault("too_many_followups", "complete")
def _(made: Draft) -> None:
    more = tuple({"queue": "next", "payload": number} for number in range(3))
    made.fields["followups"] = (*made.fields.get("followups", ()), *more)


@fault("lease_too_long", "renew", "claim", "claim task")
def _(made: Draft) -> None:
    made.fields["lease_seconds"] = 901


@fault("key_conflict", "enqueue", "complete")
def _(made: Draft) -> None:
    member, queue = ("tasks", QUEUE) if made.verb == "enqueue" else ("followups", "next")
    named = {"payload": "other", "key": "taken"} | ({} if queue == QUEUE else {"queue": queue})
    made.fields[member] = (*made.fields.get(member, ()), named)
    made.world.append((1, lambda _, stand: stand.task("first", queue, key="taken") and None))


@fault("stale_epoch", *LEASE_VERBS)
def _(made: Draft) -> None:
    made.world.append((6, _raise_floor))


def _raise_floor(made: Draft, stand: Stand) -> None:
    """As an adopted copy has it. Its leases end by the floor, not by time."""
    stand.connection.execute("update fencepost_store set epoch = 1, floor = 1")


@fault("stale_policy", *LEASE_VERBS, "scope.set_policy")
def _(made: Draft) -> None:
    made.world.append((5, lambda _, stand: stand.fp.set_policy(3) and None))


def _state_fault(code: str, state: str, verbs: Iterable[str]) -> None:
    def bend(made: Draft) -> None:
        made.state = state

    fault(code, *verbs)(bend)


_state_fault("task_cancelled", "cancelled", (*LEASE_VERBS, "cancel", "resolve", "claim task"))
_state_fault("task_done", "done", (*LEASE_VERBS, "cancel", "resolve", "claim task"))
_state_fault("task_dead", "dead", (*LEASE_VERBS, "cancel", "resolve", "claim task"))
_state_fault("task_blocked", "blocked", (*LEASE_VERBS, "requeue", "review", "claim task"))
_state_fault("not_leased", "ready", LEASE_VERBS)
_state_fault("task_ready", "ready", ("requeue", "resolve", "review"))
_state_fault("task_leased", "leased", ("requeue", "resolve", "review"))


@fault("commitment_closed", "review")
def _(made: Draft) -> None:
    made.world.append((1, _review))


def _review(made: Draft, stand: Stand) -> None:
    (task,) = stand.fp.tasks(QUEUE)
    stand.fp.as_caller("anna", "human").review(task.task_id, 1, "accepted")


@fault("wrong_worker", *LEASE_VERBS)
def _(made: Draft) -> None:
    made.worker = "v"


@fault("unknown_fence", *LEASE_VERBS, *OUTSIDE, "erase")
def _(made: Draft) -> None:
    made.fields["fence"] = FORGED


@fault("stale_fence", *LEASE_VERBS, *OUTSIDE, "erase")
def _(made: Draft) -> None:
    made.fields["fence"] = EARLIER


@fault("lease_expired", *LEASE_VERBS)
def _(made: Draft) -> None:
    made.world.append((3, lambda _, stand: stand.clock.advance(60)))


@fault("unknown_fence", "import")
def _(made: Draft) -> None:
    made.fields["epoch"] = 1


@fault("result_conflict", "import")
def _(made: Draft) -> None:
    made.fields["revision"] = 1


@fault("stale_revision", "import")
def _(made: Draft) -> None:
    made.fields["revision"] = 3


@fault("duplicate_result", "submit")
def _(made: Draft) -> None:
    made.fields["result"] = FIRST


@fault("stale_revision", *HANDING_IN)
def _(made: Draft) -> None:
    made.fields["expected_revision"] = 0


@fault("stale_revision", "review")
def _(made: Draft) -> None:
    made.fields["revision"] = 2


@fault("invalid_request", "queue.set")
def _(made: Draft) -> None:
    made.fields["settings"] = {"lease_seconds": 901}


# --- which go together, and what is told ------------------------------------------------------

STATES = frozenset(
    ["task_cancelled", "task_done", "task_dead", "task_blocked", "not_leased", "task_ready",
     "task_leased"]
)  # fmt: skip
# One dimension has one value: a task has one state, a command one fence, one key, one result.
APART = (
    STATES,
    frozenset(["unknown_fence", "stale_fence"]),
    frozenset(["idempotency_key_reused", "receipt_erased"]),
    frozenset(["entry_too_large", "too_many_followups"]),  # 250 follow-ups are too many as well
    frozenset(["entry_too_large", "key_conflict"]),  # 250 are the most a command carries
    frozenset(["payload_too_large", "duplicate_result"]),  # too long now, and was accepted before
    frozenset(["commitment_closed", "stale_revision"]),  # closed, and does not exist
    frozenset(["result_conflict", "stale_revision"]),  # known, and not the next
    frozenset(["result_conflict", "unknown_fence"]),  # known, wherever it comes from
    frozenset(["result_conflict", "payload_too_large"]),  # known, and nothing is kept of it
    frozenset(["store_read_only", "invalid_request"]),  # queue.set looks at the store first
)
ENDING = {code for code, issue in ISSUES.items() if issue.rule in (1, 3)} | {"entry_too_large"}


def together(codes: Iterable[str]) -> bool:
    """Whether these faults can be built into one situation."""
    chosen = set(codes)
    return all(len(chosen & apart) < 2 for apart in APART)


def told(codes: Iterable[str]) -> tuple[str, ...]:
    """What must be answered: rules 1 to 3 end the list, from 4 on all are told in order.

    A revoked scope does not even tell whether a task exists, so it goes before `not_found`. The
    only `invalid_request` here contradicts settings of the store, which a replay does not meet.
    That a result is recorded is told to its own worker and fence alone.
    """
    chosen = set(codes)
    if {"scope_revoked", "not_found"} <= chosen:
        chosen.discard("not_found")
    if chosen & {"idempotency_key_reused", "receipt_erased"}:
        chosen.discard("invalid_request")
    if chosen & {"wrong_worker", "unknown_fence", "stale_fence"}:
        chosen.discard("duplicate_result")
    ordered = in_order(chosen)
    return ordered[:1] if ordered[0] in ENDING else ordered


def pairs(verb: str) -> list[tuple[str, str]]:
    """Every pair of faults of the verb that can hold together."""
    return [pair for pair in combinations(FAULTS[verb], 2) if together(pair)]


def guilty(verb: str, codes: Iterable[str]) -> Draft:
    """The draft with exactly these faults."""
    made = draft(verb)
    for code in in_order(codes):
        FAULTS[verb][code](made)
    return made
