"""One recording: the store is made, the processes live and die, what is unknown is asked again."""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from pathlib import Path
from typing import Any

from fencepost import commands as c
from fencepost.issues import FencepostError
from helpers import linear_record as record
from helpers.killing import forked
from helpers.linear_history import Call, calls_of, judged, outcome_of, with_what_happened
from helpers.linear_model import ON_LEASE


def recorded(*fields: Any) -> dict[str, Any]:
    """Record, settle what is unknown, judge every task. Counts, and what was wrong."""
    plan = record.Plan(*fields)
    zero = time.monotonic_ns()
    clock = record.Fast(zero)
    folder = Path(plan.folder)
    assert forked(lambda: _prepare(plan, clock)) == 0, "the store could not be made"
    tasks: dict[str, dict[str, Any]] = json.loads((folder / "tasks.json").read_text())
    deaths, codes = _lives(plan, clock, list(tasks))
    took = time.monotonic_ns() - zero
    calls = list(calls_of(folder.glob("*.log"), deaths))
    unanswered = [call for call in calls if call.told is None]
    assert forked(lambda: _settle(plan, clock, calls, list(tasks))) == 0, "it could not be settled"
    calls += calls_of([folder / "clerk.settled"], {})
    answered = sum(bool(call.told) for call in calls)
    wrong = [f"a life ended with {code}" for code in codes if code not in (0, -signal.SIGKILL)]
    wrong += json.loads((folder / "clerk.json").read_text())
    asked_again = {call.again: call for call in calls if call.again}
    calls = list(with_what_happened(calls, asked_again))
    began = time.monotonic_ns()
    found = judged(calls, tasks, clock, plan.most_steps)
    return {
        "operations": len(calls), "histories": len(tasks), "lives": len(codes),
        "killed": codes.count(-signal.SIGKILL), "unknown": len(unanswered),
        "unknown_settled": len(asked_again),
        "settled_as_happened": sum(bool(call.told) for call in calls) - answered,
        "record_ms": took // 1_000_000, "check_ms": (time.monotonic_ns() - began) // 1_000_000,
        **found, "wrong": wrong + found["wrong"],
    }  # fmt: skip


def _prepare(plan: record.Plan, clock: record.Fast) -> None:
    tasks = {}
    with record.opened(plan, clock, "first", create=True) as fp:
        for queue, number in record.QUEUES.items():
            fp.queue_set(queue, **record.SETTINGS[queue])
            for _ in range(number):
                task = fp.task(fp.enqueue(queue, "work").task_id)
                tasks[task.task_id] = {"queue": queue, "created_at": task.created_at}
    (Path(plan.folder) / "tasks.json").write_text(json.dumps(tasks))


def _lives(
    plan: record.Plan, clock: record.Fast, tasks: list[str]
) -> tuple[dict[str, int], list[int]]:
    """All processes, one life after the other; when each was seen to be dead, and how it ended."""
    end = clock.zero + int(plan.seconds * 1e9)
    deaths: dict[str, int] = {}
    codes: list[int] = []
    running: dict[int, tuple[int, int]] = {}

    def begin(process: int, life: int) -> None:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(int(plan.seconds) + record.LONGEST)
                record.live(plan, clock, f"{process}x{life}", tasks, end)
                code = 0
            except BaseException:  # noqa: BLE001  a fork must not return into its parent's work
                traceback.print_exc()
            finally:
                os._exit(code)
        running[child] = process, life

    for process in range(plan.processes):
        begin(process, 0)
    while running:
        child, status = os.wait()
        process, life = running.pop(child)
        deaths[f"{process}x{life}"] = time.monotonic_ns()
        codes.append(os.waitstatus_to_exitcode(status))
        ended = time.monotonic_ns() > end or life + 1 >= plan.lives
        if codes[-1] == -signal.SIGKILL and not ended:
            begin(process, life + 1)
    return deaths, codes


def _settle(plan: record.Plan, clock: record.Fast, calls: list[Call], tasks: list[str]) -> None:
    """Ask again what was not answered; look at every task; see that each receipt is there."""
    folder, wrong = Path(plan.folder), []
    with record.opened(plan, clock, "clerk") as fp:
        clerk = record.Asker(fp, record.Log(folder / "clerk.settled"), "clerk")
        for call in calls:
            if call.told is None and "body" in call.asked:
                request = c.Request.read(call.asked["body"].encode(), call.asked["key"])
                if request.command.verb != "renew":  # it leaves no receipt that could tell
                    clerk.send(request, again=call.name)
        for task_id in tasks:
            clerk.look(task_id)
            clerk.look_at_results(task_id)
        for call in calls:
            receipt = outcome_of(call)["receipt"]
            if receipt is not None:
                wrong += _lost(fp, call, receipt)
        wrong += [f"verify: {p.code} at {p.place}" for p in fp.verify().problems[:3]]
    (folder / "clerk.json").write_text(json.dumps(wrong))


def _lost(fp: Any, call: Call, receipt: dict[str, Any]) -> list[str]:
    """What is wrong with the receipt as it is found now; of a command by whose key it is found."""
    command = json.loads(call.asked["body"])
    if call.asked["key"] is None and command["verb"] not in ON_LEASE:
        return []
    key = call.asked["key"] or call.asked["sha"]
    try:
        found = fp.receipt(key, actor=command.get("worker_id")).to_json()
    except FencepostError as error:
        return [f"lost: the receipt of {call.name} ({command['verb']}): {error}"[:200]]
    return [] if found == receipt else [f"another receipt than was told to {call.name}"]
