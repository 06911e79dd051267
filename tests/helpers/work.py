"""What child processes of the tests do. No pytest here, so that they begin quickly."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import fencepost
from fencepost import commands as c
from fencepost.clock import FakeClock
from fencepost.handle import Handle
from helpers.lab import QUEUE, SCOPE, START, counts, raw


def opened(path: str, now: int = START) -> Handle:
    """A handle on the lab's store in this process, at a time that stands still."""
    return fencepost.open(path, scope=SCOPE, clock=FakeClock(now))


def claim_one_each(path: str, worker: str) -> list[tuple[str, int]]:
    """Claim one task at a time until there is none; (task id, fence) of each."""
    taken = []
    with opened(path) as fp:
        while leases := fp.claim(QUEUE, worker_id=worker):
            taken += [(lease.task_id, lease.fence) for lease in leases]
    return taken


def claim_and_die(path: str, now: int) -> None:
    """Claim one task and be killed with it in hand."""
    fp = opened(path, now)
    (_,) = fp.claim(QUEUE, worker_id="w1")
    os.kill(os.getpid(), signal.SIGKILL)


def churn(path: str, worker: str) -> list[str]:
    """Claim, renew and complete until there is nothing left; the ids of what was completed."""
    done = []
    with opened(path) as fp:
        while leases := fp.claim(QUEUE, worker_id=worker, limit=3):
            for lease in leases:
                lease.renew()
                lease.complete({"by": worker, "task": lease.task_id})
                done.append(lease.task_id)
    return done


def init(path: str, gate: str, key: str) -> str:
    """Once the file `gate` is there: create or open a store and put a task in it; its id."""
    Path(f"{gate}.{key}").touch()
    while not os.path.exists(gate):
        time.sleep(0.001)
    with fencepost.open(path, scope=SCOPE, create=True) as fp:
        return fp.enqueue(QUEUE, key, key=key).task_id


def verified_again(path: str, now: int) -> dict[str, Any]:
    """What `verify` says in a process that has only just opened the store."""
    time.tzset()
    with opened(path, now) as fp:
        return fp.verify().to_json()


def acknowledge_one(path: str, how: str) -> str:
    """Claim and complete one task, with a mark for whoever traces the system calls on both
    sides of the completion."""
    with opened(path) as fp:
        (lease,) = fp.claim(QUEUE, worker_id="w1")
        os.write(2, b"ABOUT-TO-COMPLETE")
        if how == "handle":
            lease.complete("answer")
        else:
            with raw(Path(path)) as application, fp.within(application) as tx:
                tx.lease(lease.task_id, worker_id="w1", fence=lease.fence).complete("answer")
        os.write(2, b"ANSWERED")
    return "done"


def fill_up(path: str) -> dict[str, Any]:
    """Write results on a small file system until it is full and beyond, then make as much room
    as the log needs."""
    ballast = Path(path).with_name("ballast")
    ballast.write_bytes(bytes(2_000_000))
    errors, acknowledged = [], 0
    with fencepost.open(path, scope=SCOPE, create=True, clock=FakeClock(START)) as fp:
        list(fp.enqueue_many(QUEUE, [{"payload": n} for n in range(100)]))
        leases = fp.claim(QUEUE, worker_id="w1", limit=100)
        for lease in leases:
            try:
                lease.complete("r" * 40_000)
                acknowledged += 1
            except fencepost.FencepostError as error:
                errors.append(type(error).__name__)
        reads = sum(task.state == "done" for task in fp.tasks(QUEUE))
        ballast.unlink()
        last = fp.execute([c.Release(leases[-1].task_id, "w1", leases[-1].fence)])[0]
        with raw(Path(path)) as own:
            results, receipts, _ = counts(own)
        return {
            "errors": errors, "acknowledged": acknowledged, "reads_while_full": reads,
            "kept": sum(task.state == "done" for task in fp.tasks(QUEUE)), "results": results,
            "receipts": receipts, "after_room_was_made": last.status, "clean": fp.verify().clean,
        }  # fmt: skip


def as_nobody(path: str, body: str, key: str) -> dict[str, Any]:
    """Replay, be refused and read, as a user who may not write the file."""
    with fencepost.open(":memory:") as warm:  # loads what nobody might not be able to read
        warm.enqueue(QUEUE, 1)
    os.setgid(65_534)
    os.setuid(65_534)
    with opened(path) as fp:
        (known,) = fp.execute([c.Request.read(body.encode(), key)])
        (refused,) = fp.execute([c.Enqueue(QUEUE, (c.NewTask("more"),))])
        assert known.receipt is not None
        return {
            "replayed": known.receipt.body.decode(), "refused": list(refused.issues),
            "payload": fp.task(known.receipt.task_id).payload,
        }  # fmt: skip
