"""Work done by a Python function: a thread a task, or a process (`child.py`)."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

from fencepost.commands import Followup
from fencepost.handle.lease import Lease
from fencepost.issues import InvalidRequest, LeaseLost
from fencepost.model import Receipt
from fencepost.worker.beat import Beat
from fencepost.worker.held import Held
from fencepost.worker.verdicts import Settle, Verdict, as_result, of_exception


class Work:
    """One task in a handler's hand.

    `lost` is set before the lease can end, and when the worker stops: return then, soon. What is
    returned after that is still sent, and the store judges it.
    """

    def __init__(self, held: Held, mark: Callable[[Any], None]) -> None:
        self._held = held
        self._mark = mark
        self._followups: list[Followup | dict[str, Any]] = []
        self.lost: threading.Event = held.lost

    def __repr__(self) -> str:
        return f"Work(task_id={self.task_id!r}, fence={self.fence})"

    @property
    def lease(self) -> Lease:
        """The lease itself, with what the claim said of it. The worker renews and settles it."""
        return self._held.lease

    @property
    def payload(self) -> Any:
        """The task's payload."""
        return self.lease.payload

    @property
    def task_id(self) -> str:
        return self.lease.task_id

    @property
    def key(self) -> str | None:
        """The task's own key on its queue."""
        return self.lease.key

    @property
    def queue(self) -> str:
        return self.lease.queue

    @property
    def fence(self) -> int:
        """The number to hand on to whatever else has to refuse a worker that is late."""
        return self.lease.fence

    @property
    def attempt(self) -> int:
        return self.lease.attempt

    @property
    def max_attempts(self) -> int:
        return self.lease.grant.max_attempts

    @property
    def revision(self) -> int:
        return self.lease.revision

    @property
    def saved(self) -> Any:
        """The progress mark that an earlier attempt has left; None where there is none."""
        return self.lease.progress

    @property
    def why_lost(self) -> str:
        """Why `lost` is set: an issue code, or `stopping`; empty while it is not."""
        return self._held.why

    def remaining(self) -> float:
        """Seconds by which the work must have ended, as far as the lease is known now. It grows
        with each renewal; 0.0 once the lease is lost."""
        return self._held.remaining()

    def progress(self, mark: Any) -> None:
        """Keep how far the work has come (JSON, at most 64 KiB): the next attempt finds it as
        `saved`. Told with the next renewal, within a second or so. Raises InvalidRequest."""
        self._mark(mark)

    def submit(self, result: Any, *, expected_revision: int | None = None) -> Receipt:
        """Hand in a part of the result, and keep the lease. Raises as `Lease.submit` does."""
        return self.lease.submit(result, expected_revision=expected_revision)

    def enqueue(self, queue: str, payload: Any, **task: Any) -> None:
        """Enqueue a follow-up with the completion of this task, in its own transaction. `task` may
        have key, priority, due_at, max_attempts. Raises InvalidRequest."""
        self._followups.append(Followup(payload, queue=queue, **task))


Handler = Callable[[Work], Any]


def checked(handler: Handler) -> Handler:
    """The same. Raises InvalidRequest for what is called and has not worked when it returns, else
    every task would use up its attempts on it."""
    import inspect

    for each in (handler, getattr(handler, "__call__", None)):  # noqa: B004  # whatever is called
        told = ""
        if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each):
            told = "an async function (call asyncio.run in a plain one)"
        elif inspect.isgeneratorfunction(each):
            told = "a generator function"
        if told:
            raise InvalidRequest(f"handler: {told} returns nothing that could be a result")
    return handler


class Threads:
    """Calls a handler, in the thread of its task. One that does not look at `lost` cannot be ended:
    its slot stays taken until it returns."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def work_of(self, held: Held, beat: Beat) -> Work:
        """What the handler is given."""
        return Work(held, lambda mark: beat.mark(held, mark))

    def perform(self, held: Held, beat: Beat) -> Verdict | None:
        work = self.work_of(held, beat)
        try:
            value = self._handler(work)
        except LeaseLost:
            if not held.over:
                raise  # of another task than this one
            return None
        except BaseException as error:  # noqa: BLE001  # SystemExit too ends the task, not the worker
            if held.lost.is_set() and not isinstance(error, Settle):
                return Verdict("cut", log=_told(error))
            return of_exception(error, _told(error))
        return as_result(value, work._followups)

    def abort(self) -> None:
        """Threads cannot be ended: they are told, and end with the process."""


def _told(error: BaseException) -> str:
    """The traceback, as the task's log."""
    return "".join(traceback.format_exception(error))
