"""What has become of one task that a handler was run on, and how it is told."""

from __future__ import annotations

from typing import Any, Literal

from fencepost.model import Task
from fencepost.parts import NOTHING
from fencepost.record import dataclass

Verdict = Literal[
    "complete", "retry", "give_up", "block", "release", "lost", "refused", "unsettled"
]  # fmt: skip


class _Any:
    """Equal to everything, at any depth of what is expected."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "ANY"


ANY: Any = _Any()


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One attempt at one task.

    `verdict` is how it was settled: `complete`, `retry`, `give_up`, `block`, `release`. `lost`: the
    lease was, and the store has taken nothing. `refused`: the store did not take how it was to be
    settled. `unsettled`: the store was not reached, or did not know the worker; a worker would ask
    again. `issues` are the codes with which the store refused the last command that was to settle
    it. `result` is what it was completed with (NOTHING: with none), `marks` what was given to
    `work.progress` and `submitted` to `work.submit`, `followups` the tasks that came with the
    completion, `why_lost` what the handler could read in `work.why_lost`, `error` what it raised.
    `task` is the task afterwards.
    """

    task: Task
    payload: Any
    attempt: int
    fence: int
    verdict: Verdict
    result: Any
    reason: str | None
    marks: tuple[Any, ...]
    submitted: tuple[Any, ...]
    followups: tuple[Task, ...]
    why_lost: str
    issues: tuple[str, ...]
    error: BaseException | None

    def __str__(self) -> str:
        return f"{named(self.task)} of {self.task.queue}, attempt {self.attempt}: {self._found()}"

    def _found(self) -> str:
        told: list[str] = [self.verdict]
        if self.verdict == "complete":
            told.append("without a result" if self.result is NOTHING else f"with {self.result!r}")
        if self.reason is not None:
            told.append(f"because {self.reason!r}")
        if self.why_lost:
            told.append(f"told {self.why_lost}")
        if self.issues:
            told.append(f"refused with {', '.join(self.issues)}")
        return ", ".join(told)

    def assert_verdict(
        self, verdict: Verdict, *, result: Any = ANY, reason: str = "", why_lost: str = ANY
    ) -> None:
        """This is how it ended: with this result (NOTHING: none), a reason in which this text
        stands, and the handler told this. AssertionError that says what was found; what the handler
        raised is its cause."""
        reasons = reason in (self.reason or "")
        if (self.verdict == verdict and self.result == result and reasons
                and self.why_lost == why_lost):  # fmt: skip
            return
        wanted: list[str] = [verdict]
        if result is not ANY:
            wanted.append("without a result" if result is NOTHING else f"with {result!r}")
        if reason:
            wanted.append(f"because {reason!r}")
        if why_lost is not ANY:
            wanted.append(f"told {why_lost or 'nothing'}")
        raise AssertionError(f"{self}\n  expected {', '.join(wanted)}") from self.error


def named(task: Task) -> str:
    """The task as a person would call it."""
    return f"task {task.key or task.task_id}"


def listed(tasks: list[Task], now: int) -> str:
    """These tasks, a line each."""
    lines = []
    for task in tasks:
        later = (task.due_at - now) / 1_000_000
        due = f", due in {later:g} s" if task.state == "ready" and later > 0 else ""
        key = f" with key {task.key!r}" if task.key is not None else ""
        lines.append(f"\n  {task.queue}: {task.payload!r}{key}, {task.state}{due}")
    return "".join(lines) or " nothing"
