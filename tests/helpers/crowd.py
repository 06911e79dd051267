"""Processes that work on one store at the same time, as tests of turns start them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import fencepost
from helpers.lab import QUEUE, SCOPE


def work_for(path: str, gate: str, worker: str, seconds: float) -> dict[str, Any]:
    """Once the gate is there: enqueue, claim and complete in small commands for some seconds."""
    done: list[str] = []
    errors: list[str] = []
    with fencepost.open(path, scope=SCOPE) as fp:
        Path(f"{gate}.{worker}").touch()
        while not os.path.exists(gate):
            time.sleep(0.001)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                fp.enqueue(QUEUE, worker)
                for lease in fp.claim(QUEUE, worker_id=worker):
                    lease.complete({"by": worker})
                    done.append(lease.task_id)
            except fencepost.FencepostError as error:
                errors.append(repr(error))
    return {"done": done, "errors": errors}


def stop_inside_the_turn(path: str, ready: str) -> str:
    """Take the turn, say so, and be stopped with it until somebody sends SIGCONT."""
    with fencepost.open(path, scope=SCOPE) as fp:
        with fp._store.turn():
            Path(ready).touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        return fp.enqueue(QUEUE, "after the stop").task_id
