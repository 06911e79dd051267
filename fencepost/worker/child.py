"""A Python handler in a process of its own: `python -m fencepost.worker.child module:function`.

It is a command like any other, save that it tells its verdict in the file for the result.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from fencepost import canonical
from fencepost.clock import from_rfc3339
from fencepost.commands import Followup
from fencepost.handle.lease import Lease
from fencepost.issues import FencepostError, InvalidRequest
from fencepost.model import Grant, Receipt
from fencepost.parts import NOTHING
from fencepost.worker.command import Command, Commands, Run, of_run
from fencepost.worker.handlers import Handler, Work
from fencepost.worker.held import Held
from fencepost.worker.verdicts import Verdict, as_result, of_exception

MARKS = 3


class ChildWork(Work):
    """The same work without the store: renewals are made in the worker, and not told here."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._followups: list[Followup | dict[str, Any]] = []
        self.lost = threading.Event()

    @property
    def lease(self) -> Lease:
        return self._lease

    @property
    def why_lost(self) -> str:
        return "told to end" if self.lost.is_set() else ""

    def remaining(self) -> float:
        """Without end until `lost` is set."""
        return 0.0 if self.lost.is_set() else math.inf

    def progress(self, mark: Any) -> None:
        os.write(MARKS, canonical.dumps(mark) + b"\n")

    def submit(self, result: Any, *, expected_revision: int | None = None) -> Receipt:
        raise InvalidRequest("submit: a handler in a process of its own has no way to the store")


def main(name: str) -> int:
    """Run the handler of this name on the task in the environment."""
    work = ChildWork(Lease(None, _grant()))  # type: ignore[arg-type]  # nothing is sent by it
    signal.signal(signal.SIGTERM, lambda *_: work.lost.set())
    try:
        verdict = as_result(_named(name)(work), work._followups)
    except BaseException as error:  # noqa: BLE001  # it is told, and the process ends
        told = "".join(traceback.format_exception(error))
        sys.stderr.write(told)
        verdict = of_exception(error)
    Path(os.environ["FENCEPOST_RESULT"]).write_bytes(_bytes(verdict))
    return 0


def _grant() -> Grant:
    told = os.environ
    return Grant(
        told["FENCEPOST_TASK"], told["FENCEPOST_QUEUE"], told["FENCEPOST_KEY"] or None,
        told["FENCEPOST_WORKER"], int(told["FENCEPOST_FENCE"]), int(told["FENCEPOST_REVISION"]),
        int(told["FENCEPOST_ATTEMPT"]), int(told["FENCEPOST_MAX_ATTEMPTS"]), 0, 0, 0,
        from_rfc3339(told["FENCEPOST_LEASE_EXPIRES_AT"]), sys.stdin.buffer.read(),
        told["FENCEPOST_PROGRESS"].encode(),
    )  # fmt: skip


def _named(name: str) -> Handler:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    handler: Handler = found
    return handler


def _bytes(verdict: Verdict) -> bytes:
    told: dict[str, Any] = {"what": verdict.what, "reason": verdict.reason,
                            "retry_seconds": verdict.retry_seconds}  # fmt: skip
    if verdict.result is not NOTHING:
        told["result"] = verdict.result
    told["followups"] = [
        json.loads(each.encoded_object()) if isinstance(each, Followup) else each
        for each in verdict.followups
    ]
    try:
        return canonical.dumps(told)
    except FencepostError as error:
        return _bytes(Verdict("retry", reason=f"what it came to cannot be sent: {error}"))


class Processes(Commands):
    """Runs a handler once a task, each in a process of its own."""

    def __init__(self, handler: Handler, command: Command, scope: str, cookie: str) -> None:
        name = f"{handler.__module__}:{handler.__qualname__}"
        if handler.__module__ == "__main__" or "<" in handler.__qualname__:
            raise InvalidRequest(f"{name}: a handler for processes stands in a module, by name")
        argv = (sys.executable, "-m", "fencepost.worker.child", name)
        path = ("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        super().__init__(
            Command(argv, command.limits, command.isolate, command.task_seconds,
                    command.output_bytes, (path,)),
            scope, cookie,
        )  # fmt: skip

    def judge(self, held: Held, run: Run) -> Verdict | None:
        verdict = of_run(held, run)
        if verdict is None or verdict.what != "complete":
            return verdict
        if not isinstance(verdict.result, dict):
            return Verdict("retry", reason="the handler's process told nothing", log=run.log)
        told = verdict.result
        return Verdict(
            told["what"], told.get("result", NOTHING), told.get("reason"),
            told.get("retry_seconds"), tuple(told.get("followups", ())), run.log,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
