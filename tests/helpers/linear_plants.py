"""Faults planted in the product, each to be seen in a recorded history and nowhere else."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from fencepost.engine import transact, writer
from fencepost.handle import Handle
from fencepost.machine import claims, fold
from fencepost.rules import fence, lifecycle
from fencepost.rules import results as result_rules
from fencepost.storage.sqlite import driver
from helpers.faults import Patch, dropped, edit, replace_function
from helpers.killing import Tell, told_in_fork
from helpers.linear_record import Plan
from helpers.linear_run import recorded
from helpers.scratch import scratch

STALE_FOR = 0.02  # seconds that a planted memory of reads goes back


def _fence_not_compared(patch: Patch) -> None:
    replace_function(patch, fence.stale_fence, lambda *_: None)
    _without(patch, "fence = ?")


def _without(patch: Patch, condition: str) -> None:
    """The second lock, in the statement, is open as well."""
    statements = cast(dict[str, str], driver.STATEMENTS)
    patch.setitem(statements, "update_task", dropped("update_task", condition))


def _expiry_ignored(patch: Patch) -> None:
    replace_function(patch, fence.lease_expired, lambda *_: None)


def _completed_twice(patch: Patch) -> None:
    replace_function(patch, lifecycle.lease_state, lambda *_: None)


def _revision_not_compared(patch: Patch) -> None:
    replace_function(patch, result_rules.stale_revision, lambda *_: None)
    _without(patch, "? in (-1, revision)")


def _receipt_lost(patch: Patch) -> None:
    edit(patch, fold.replay, "loaded.digests.get((task.id, request.sha256))", "None")


def _living_lease_claimed(patch: Patch) -> None:
    edit(patch, claims.Candidates._free, "lapsed(row, self.batch.moment(row.scope))", "True")


def _fence_reused(patch: Patch) -> None:
    drawn = "row.fence = batch.draw_fence()"
    edit(patch, claims._lease, drawn, "row.fence = row.fence or batch.draw_fence()")


def _commit_lost(patch: Patch) -> None:
    """Each tenth commit is told and not made."""
    commits = iter(range(1_000_000))
    run = transact.Transactor.run

    def losing(self: transact.Transactor, transaction: Any, sent: Any) -> transact.Done:
        if next(commits) % 10 < 9:
            return run(self, transaction, sent)
        transaction.begin()
        done, _ = self.fold(transaction, sent)
        transaction.rollback()
        return done

    patch.setattr(transact.Transactor, "run", losing)


def _read_of_a_moment_ago(patch: Patch) -> None:
    """A process remembers for a while what it has read of a task."""
    memory: dict[str, tuple[float, Any]] = {}
    read = Handle.task

    def remembering(self: Handle, task_id: str) -> Any:
        at, task = memory.get(task_id, (0.0, None))
        if time.monotonic() - at > STALE_FOR:
            at, task = time.monotonic(), read(self, task_id)
            memory[task_id] = at, task
        return task

    patch.setattr(Handle, "task", remembering)


def _answers_mixed_up(patch: Patch) -> None:
    """Of the calls that share a commit each is told what another should have been told."""
    answer = writer._answer

    def mixing(batch: Any, done: transact.Done) -> None:
        answer([*batch[1:], *batch[:1]], done)

    patch.setattr(writer, "_answer", mixing)


PLANTS: dict[str, tuple[Callable[[Patch], None], int]] = {  # and the threads that it takes
    "the fence is not compared": (_fence_not_compared, 1),
    "an expired lease is honoured": (_expiry_ignored, 1),
    "a task is completed twice": (_completed_twice, 1),
    "the expected revision is not compared": (_revision_not_compared, 1),
    "a receipt is not found again": (_receipt_lost, 1),
    "a living lease is claimed": (_living_lease_claimed, 1),
    "a fence is given twice": (_fence_reused, 1),
    "what was acknowledged is lost": (_commit_lost, 1),
    "a read goes back": (_read_of_a_moment_ago, 1),
    "the answers of a commit are mixed up": (_answers_mixed_up, 3),
}


MOST_ROUNDS = 30
A_ROUND = 90  # operations of each thread


def with_faults(seed: int) -> dict[str, dict[str, Any]]:
    """Recording after recording of each fault until its answers stand in no line: what the last
    one has found, and how many operations it took in all."""
    logging.disable()
    found = {}
    for name, (plant, threads) in PLANTS.items():

        def work(
            tell: Tell, plant: Callable[[Patch], None] = plant, threads: int = threads
        ) -> None:
            plant(pytest.MonkeyPatch())
            operations = 0
            for number in range(MOST_ROUNDS):
                with scratch() as folder:
                    plan = Plan(str(folder), seed + number, 30, 3, threads, (), A_ROUND, 1, 20_000)
                    told = recorded(*plan)
                operations += told["operations"]
                if told["not_linearizable"]:
                    break
            wrong = [line[:3_000] for line in told["wrong"][:5]]
            tell({**told, "operations": operations, "rounds": number + 1, "wrong": wrong})

        code, told = told_in_fork(work)
        found[name] = told[-1] if told else {"wrong": [f"it ended with {code}"]}
    return found
