"""One worker of the demo: a process that claims tasks, computes and completes, as it is told.

Orders come in on stdin and reports go out on stdout, one JSON object a line. An order may ask
for a misfortune: to be killed or stopped while holding leases, or to lose an answer. When
stdin closes the worker ends; nobody has to be there to end it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencepost.commands import Complete, Fail, Request
from fencepost.handle import Handle, Lease, open_handle
from fencepost.handle.lease import tidy_reason
from fencepost.model import Outcome
from fencepost.operate.demo.files import measure, to_path

PR_SET_PDEATHSIG = 1  # of linux/prctl.h
SCOPE, QUEUE, DESTINATION = "demo", "demo-files", "demo-outbox"


class Worker:
    """A worker on the store, for the files of one folder. It holds no right but its own."""

    def __init__(self, store: str, folder: Path, worker_id: str) -> None:
        self.store = store
        self.folder = folder
        self.worker_id = worker_id
        self.fp = self.open()

    def open(self) -> Handle:
        return open_handle(self.store, scope=SCOPE, actor=self.worker_id, kind="worker")

    def run(self) -> None:
        """Follow orders until there are no more."""
        tell("ready")
        for line in sys.stdin:
            order = json.loads(line)
            leases = self.fp.claim(
                QUEUE, worker_id=self.worker_id, limit=order["limit"],
                lease_seconds=order["lease_seconds"],
            )  # fmt: skip
            if leases:
                getattr(self, order["do"])(leases)
            else:
                tell("idle")
        self.fp.close()

    def work(self, leases: list[Lease]) -> None:
        """What a worker does where nothing goes wrong."""
        self.hand_in(self.completions(leases))

    def kill(self, leases: list[Lease]) -> None:
        """Work, and be killed before anything is handed in."""
        tell("holding", tasks=[lease.task_id for lease in leases])
        self.completions(leases)
        sys.stdin.readline()  # the kill comes instead of a line

    def stop(self, leases: list[Lease]) -> None:
        """Be stopped while holding the leases, and go on later as if no time had passed.

        The store is given back before: a process that is stopped in the midst of its turn to
        write would hold up everybody, and this is not what is to be shown.
        """
        requests = self.completions(leases)
        until = max(lease.lease_expires_at for lease in leases)
        self.fp.close()
        tell("stopping", tasks=[lease.task_id for lease in leases], until=until)
        os.kill(os.getpid(), signal.SIGSTOP)
        self.fp = self.open()
        self.hand_in(requests)

    def lose(self, leases: list[Lease]) -> None:
        """Lose the answer to completions that were committed, and send the same bytes again.

        The lost answers are reported as by somebody who listens on the line; the worker goes
        on with nothing but the bytes that it had sent.
        """
        requests = self.completions(leases)
        kept = [request.body for request in requests]
        tell("lost", answers=[answer(each) for each in self.fp.execute(requests)])
        self.hand_in([Request.read(body) for body in kept])

    def completions(self, leases: list[Lease]) -> list[Request]:
        """The work itself, and the commands that hand it in."""
        return [Request.of(self.completion(lease)) for lease in leases]

    def completion(self, lease: Lease) -> Complete | Fail:
        """The result of one task; where its file cannot be read any more, giving it up."""
        binding = (lease.task_id, lease.worker_id, lease.fence)
        try:
            result = measure(self.folder / to_path(lease.payload["path"]))
        except OSError as error:
            return Fail(*binding, then="give_up", reason=tidy_reason(str(error)))
        return Complete(*binding, result=result, expected_revision=lease.revision)

    def hand_in(self, requests: Sequence[Request]) -> None:
        tell("answered", answers=[answer(each) for each in self.fp.execute(requests)])


def answer(outcome: Outcome) -> dict[str, Any]:
    """What the store said to one completion, as the report carries it."""
    receipt = None if outcome.receipt is None else outcome.receipt.to_json()
    return {
        "task_id": outcome.task_ids[0] if outcome.task_ids else "",
        "issues": list(outcome.issues),
        "replayed": outcome.replayed,
        "receipt": receipt,
    }


def tell(what: str, **facts: Any) -> None:
    """One report. Raises BrokenPipeError where nobody listens any more, which ends the worker."""
    sys.stdout.write(json.dumps({"what": what, **facts}) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """On Linux, be killed when the demo ends, even while stopped. Elsewhere the system sends
    SIGHUP to a stopped process whose parent has gone."""
    if sys.platform == "linux":
        try:
            import ctypes
        except ImportError:  # a Python built without it: the closed pipe is the sign left
            return
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(argv: Sequence[str]) -> None:
    """`worker FOLDER WORKER_ID`, with FENCEPOST_STORE; started by crew.py."""
    folder, worker_id = argv
    store = os.environ["FENCEPOST_STORE"]
    end_with_parent()
    try:
        Worker(store, Path(folder), worker_id).run()
    except BrokenPipeError:
        os._exit(1)  # the demo has ended; there is nobody to tell
