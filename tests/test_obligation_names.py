"""Every walk of a task through its states, up to a length: no two of the outcomes that it comes by
have an operation in common, and those of a kind come in the order in which receivers compare them.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from helpers.stand import QUEUE, Stand

from fencepost import commands as c
from fencepost.deliveries import event
from fencepost.fields import OUTCOMES
from fencepost.model import Outcome

LENGTH = 8
STATES = OUTCOMES[1:]
MOVES = {
    "ready": {"claim": "leased", "cancel": "cancelled", "import": "done"},
    "leased": {"block": "blocked", "give_up": "dead", "complete": "done", "lapse": "blocked",
               "cancel": "cancelled"},
    "blocked": {"retry": "ready", "done": "done", "give_up": "dead", "cancel": "cancelled",
                "import": "done"},
    "dead": {"requeue": "ready", "import": "done"}, "done": {"requeue": "ready"},
    "cancelled": {"requeue": "ready", "import": "done"},
}  # fmt: skip


def walks(length: int, state: str = "ready") -> list[list[str]]:
    """All of this length."""
    if not length:
        return [[]]
    return [
        [move, *rest] for move, after in MOVES[state].items() for rest in walks(length - 1, after)
    ]


class Crowd:
    """A task a walk, all of them a step on at a time."""

    def __init__(self, stand: Stand) -> None:
        self.stand, self.fp = stand, stand.fp
        self.fp.clock_reset()  # there is an epoch before, of which results may be imported
        told = {"out": list(OUTCOMES)}
        self.fp.queue_set(
            QUEUE, destinations=["out"], outcomes=told, on_lapse="reconcile", max_attempts=99
        )
        self.walks = walks(LENGTH)
        self.tasks = [stand.task() for _ in self.walks]
        self.fences: dict[str, int] = {}
        self.revisions: Counter[str] = Counter()

    def step(self, number: int) -> None:
        """What lapses does so when nothing else is leased."""
        at = list(zip(self.tasks, [walk[number] for walk in self.walks], strict=True))
        self.send([self.command(task, move) for task, move in at if move not in ("claim", "lapse")])
        self.stand.clock.advance(61)
        while self.fp.sweep(limit=200).task_ids:
            pass
        for outcome in self.send([c.Claim("w", None, t) for t, move in at if move == "claim"]):
            (grant,) = outcome.grants
            self.fences[grant.task_id] = grant.fence

    def command(self, task: str, move: str) -> c.Command:
        if move in ("complete", "done", "import"):
            self.revisions[task] += 1
        number = self.revisions[task]
        lease = (task, "w", self.fences.get(task, 0))
        match move:
            case "cancel":
                return c.Cancel(task)
            case "requeue":
                return c.Requeue(task)
            case "complete":
                return c.Complete(*lease, result=number)
            case "block":
                return c.Fail(*lease, then="block")
            case "retry":
                return c.Resolve(task, to="retry")
            case "done":
                return c.Resolve(task, to="done", evidence=number)
            case "import":
                return c.Import(task, number, 0, 1, final=True, evidence="there", result=number)
        leased = self.fp.task(task).state == "leased"
        return c.Fail(*lease, then="give_up") if leased else c.Resolve(task, to="give_up")

    def send(self, commands: list[c.Command]) -> list[Outcome]:
        found = [
            outcome
            for start in range(0, len(commands), 100)
            for outcome in self.fp.execute(commands[start : start + 100])
        ]
        assert [outcome.message for outcome in found if not outcome.accepted] == []
        return found

    def said(self) -> list[dict[str, Any]]:
        """All obligations, in the order in which they were brought about."""
        query = (
            "select p.body from fencepost_task t join fencepost_payload p on p.task = t.id "
            "where t.parent is not null order by t.id"
        )
        return [json.loads(bytes(body)) for (body,) in self.stand.connection.execute(query)]


@pytest.fixture(scope="module")
def said():
    with Stand() as stand:
        crowd = Crowd(stand)
        for number in range(LENGTH):
            crowd.step(number)
        yield crowd.said()


def shared(said: list[dict[str, Any]]) -> dict[str, int]:
    """The operations that more than one obligation has."""
    counts = Counter(map(event.operation_of, said))
    return {operation: count for operation, count in counts.items() if count > 1}


def test_every_obligation_of_every_walk_has_an_operation_of_its_own(said):
    kinds = Counter(each["outcome"] for each in said)
    print(kinds)
    assert min(kinds[outcome] for outcome in OUTCOMES) > 500
    assert shared(said) == {}


def test_outcomes_of_a_kind_come_in_the_order_in_which_receivers_compare_them(said):
    """Those of states; a result that is imported may be older than one that is here."""
    last: dict[tuple[str, str], tuple[int, ...]] = {}
    for each in said:
        if each["outcome"] != "result":
            order = tuple(each[name] for name in ("epoch", "fencing_token", "revision", "round"))
            assert last.get((each["task_id"], each["outcome"]), ()) < order
            last[each["task_id"], each["outcome"]] = order


@pytest.mark.parametrize("part", ["round", "fencing_token", "outcome", "revision"])
def test_a_name_that_leaves_a_part_out_is_shared(said, part):
    same = {"outcome": "dead"} if part == "outcome" else {part: 1}
    left_out = [
        each if part == "outcome" and each["outcome"] == "result" else {**each, **same}
        for each in said
    ]
    assert shared(left_out) != {}
