"""What becomes of a task when its work has ended: the verdict, its command, and the table of exit
codes that `docs/work.md` shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from fencepost.commands import Complete, Fail, Followup, LeaseCommand, Release
from fencepost.handle.lease import tidy_log, tidy_reason
from fencepost.parts import NOTHING
from fencepost.worker.held import Held

What = Literal["complete", "retry", "give_up", "block", "release", "cut"]
"""`cut`: ended by the worker as it stops, so the work has not told what it came to."""


class ExitCode(NamedTuple):
    """What an exit code of a command means for its task."""

    verdict: What
    name: str
    meaning: str


OTHER = ExitCode("retry", "any other", "it failed: tried again after the queue's back-off")
EXIT_CODES: dict[int, ExitCode] = {
    0: ExitCode("complete", "EX_OK", "done, with what it has written as the result"),
    65: ExitCode("give_up", "EX_DATAERR", "the payload can never be worked on: the task is dead"),
    69: ExitCode("release", "EX_UNAVAILABLE", "nothing was tried: the attempt is given back"),
    75: ExitCode("retry", "EX_TEMPFAIL", "it failed for now: tried again after the back-off"),
    77: ExitCode("block", "EX_NOPERM", "a person has to look at it: the task is blocked"),
}


def of_exit_code(code: int) -> ExitCode:
    """The row of the table."""
    return EXIT_CODES.get(code, OTHER)


class Verdict(NamedTuple):
    """How one task is to be settled."""

    what: What
    result: Any = NOTHING
    reason: str | None = None
    retry_seconds: int | None = None
    followups: tuple[Followup | dict[str, Any], ...] = ()
    log: str | None = None

    def command(self, held: Held) -> LeaseCommand:
        """The command that settles it, with the progress that no renewal has told yet. Raises
        InvalidRequest for what cannot be sent."""
        log = tidy_log(self.log)
        mark = None if held.pending is None else held.pending[0]
        if self.what == "complete":
            followups: Any = self.followups
            return Complete(*held.binding, result=self.result, followups=followups, log=log)
        if self.what == "release":
            return Release(*held.binding, progress=mark, log=log)
        assert self.what != "cut", "the runtime decides what is cut short"
        reason = None if self.reason is None else tidy_reason(self.reason)
        return Fail(
            *held.binding, then=self.what, reason=reason, retry_seconds=self.retry_seconds,
            progress=mark, log=log,
        )  # fmt: skip


class Settle(Exception):
    """Raised by a handler: how its task is to be settled, in place of a result."""

    what: What = "retry"

    def __init__(self, reason: object = "", *, retry_seconds: int | None = None) -> None:
        super().__init__(reason)
        self.reason = str(reason)  # `raise Retry(error)` too
        self.retry_seconds = retry_seconds


class Retry(Settle):
    """It failed for now. `retry_seconds` replaces the queue's back-off."""


class GiveUp(Settle):
    """It can never succeed: the task is dead."""

    what = "give_up"


class Block(Settle):
    """A person has to look at it."""

    what = "block"


class HandBack(Settle):
    """Nothing was tried: others may take it at once, and the attempt is not counted."""

    what = "release"


def of_exception(error: BaseException, log: str | None = None) -> Verdict:
    """What an exception of a handler means."""
    if isinstance(error, Settle):
        return Verdict(error.what, reason=error.reason or None, retry_seconds=error.retry_seconds)
    return Verdict("retry", reason=f"{type(error).__name__}: {error}", log=log)


def as_result(value: Any, followups: Iterable[Followup | dict[str, Any]] = ()) -> Verdict:
    """What a handler has returned: a result, or none."""
    return Verdict("complete", NOTHING if value is None else value, followups=tuple(followups))
