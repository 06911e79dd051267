"""Kills a process at every step of a command, and at random moments of its work.

This runs in a child that has no thread of its own and forks for each try: quick, and the one
that is killed begins like a program that has just been started.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fencepost import commands as c
from fencepost.storage.sqlite import driver
from fencepost.storage.sqlite.transaction import SqliteTransaction
from helpers.lab import QUEUE
from helpers.same_file import the_same_disk
from helpers.work import opened

Tell = Callable[[dict[str, Any]], None]


def forked(work: Callable[[], None]) -> int:
    """Run the work in a fork. Its exit code, or -signal."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a fork must not return into its parent's work
            traceback.print_exc(file=sys.stderr)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def told_in_fork(
    work: Callable[[Tell], None], seconds: int = 30
) -> tuple[int, list[dict[str, Any]]]:
    """The exit code (or -signal) and all that was told, up to the end or death."""
    reads, writes = os.pipe()

    def inside() -> None:
        os.close(reads)
        signal.alarm(seconds)  # who takes longer hangs, and tells where
        faulthandler.dump_traceback_later(max(1, seconds - 5), file=2)
        try:
            work(lambda told: os.write(writes, json.dumps(told).encode() + b"\n") and None)
        except BaseException as error:  # noqa: BLE001  told to whoever judges
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            told = {"wrong": [f"{where} {type(error).__name__}: {error}"[:300]]}
            os.write(writes, json.dumps(told).encode() + b"\n")

    try:
        code = forked(inside)  # what is told is short enough for the pipe to hold: 64 KiB
    finally:
        os.close(writes)
    with os.fdopen(reads, "rb") as file:
        return code, [json.loads(line) for line in file]


def die_at(point: int) -> None:
    """Be killed at the given step from now on: before each statement, before the commit, and
    right after it."""
    steps = 0
    answer, commit = driver._answer, SqliteTransaction.commit

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(*arguments: Any) -> Any:
        step()
        return answer(*arguments)

    def committed(transaction: SqliteTransaction) -> None:
        step()
        commit(transaction)
        step()

    driver._answer, SqliteTransaction.commit = counted, committed  # type: ignore[method-assign]


def die_after_commit(which: int = 1) -> None:
    """Be killed between the commit and the answer: the first from now on, or the given one."""
    commit, commits = SqliteTransaction.commit, 0

    def committed(transaction: SqliteTransaction) -> None:
        nonlocal commits
        commit(transaction)
        commits += 1
        if commits == which:
            os.kill(os.getpid(), signal.SIGKILL)

    SqliteTransaction.commit = committed  # type: ignore[method-assign]


def sweep(template: str, folder: str, now: int, body: str, key: str) -> int:
    """Carry the command out once for each of its steps, killed at that step, each time on a
    copy `folder/<step>.db` of the template. Returns the number of steps; the copy after the
    last one is of a command that was carried out."""
    for point in range(1, 1_000):
        copy = f"{folder}/{point}.db"
        shutil.copy(template, copy)

        def carry_out(copy: str = copy, point: int = point) -> None:
            with the_same_disk():
                fp = opened(copy, now)
            die_at(point)
            (outcome,) = fp.execute([c.Request.read(body.encode(), key)])
            assert outcome.accepted, outcome

        code = forked(carry_out)
        if code == 0:
            return point - 1
        assert code == -signal.SIGKILL, f"step {point} ended with {code}"
    raise AssertionError("the command never came to its end")


def work_under_fire(path: str, now: int, seed: int, most: int) -> int:
    """Rounds of a worker that claims and completes until nothing is left, killed at a random step
    in each; every round begins past the leases of the one before. Returns the rounds."""
    moments = random.Random(seed)
    for number in range(most):
        start = now + number * 100_000_000

        def churn(start: int = start, step: int = moments.randrange(20, 600)) -> None:
            fp = opened(path, start)
            die_at(step)
            while leases := fp.claim(QUEUE, worker_id="w1", limit=3):
                for lease in leases:
                    lease.complete(lease.payload)

        code = forked(churn)
        if code == 0:
            return number
        assert code == -signal.SIGKILL, f"round {number} ended with {code}"
    raise AssertionError(f"there is work left after {most} rounds")
