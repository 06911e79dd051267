"""One task in the hand of a worker that has no threads: its runtime, beat and settler are those of
`fencepost.Worker`, moved by whoever lets time pass."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from fencepost.clock import SECOND
from fencepost.commands import Command, Complete, Fail, Release, Request
from fencepost.handle import Handle
from fencepost.handle.lease import Lease, Moment
from fencepost.issues import Unavailable
from fencepost.model import Grant, Outcome, Receipt, Task
from fencepost.parts import NOTHING
from fencepost.testing.runs import Run, Verdict
from fencepost.worker.beat import Beat
from fencepost.worker.handlers import Handler, Threads, Work, checked
from fencepost.worker.hands import Hands
from fencepost.worker.held import STOPPING, Held
from fencepost.worker.memory import Memory
from fencepost.worker.options import Options
from fencepost.worker.runtime import Runtime
from fencepost.worker.worker import identity_of

Pass = Callable[[float, Callable[[], bool]], None]
"""Let so many seconds pass, or fewer if this comes true."""

EVER = 10.0 * 366 * 86_400  # seconds: longer than any lease is held
SettlingCommand: TypeAlias = Complete | Fail | Release


class Line(Handle):
    """The worker's own way to the store. It can be cut; what it was to settle is noted."""

    def __init__(self, fp: Handle) -> None:
        self.__dict__.update(fp.__dict__)
        self.is_cut = False
        self.settled: tuple[SettlingCommand, Outcome] | None = None

    def execute(self, commands: Sequence[Command | Request]) -> list[Outcome]:
        if self.is_cut:
            self._note(commands, [Outcome("failed", (Unavailable.code,))] * len(commands))
            raise Unavailable("this worker is cut off by its test")
        outcomes = super().execute(commands)
        self._note(commands, outcomes)
        return outcomes

    def _note(self, commands: Sequence[Command | Request], outcomes: list[Outcome]) -> None:
        for sent, outcome in zip(commands, outcomes, strict=True):
            command = sent.command if isinstance(sent, Request) else sent
            if isinstance(command, SettlingCommand):
                self.settled = command, outcome


class Here(Hands):
    """The hands of whoever gives the task: it is worked on at once, in his thread."""

    def give(self, held: Held) -> None:
        self._work(held)


class Looked(threading.Event):
    """`work.lost` by a clock that moves when it is told to: waiting lets time pass, and so may a
    look."""

    def __init__(self, lost: threading.Event, look: Callable[[], None], let: Pass) -> None:
        super().__init__()
        self._lost, self._look, self._let = lost, look, let

    def is_set(self) -> bool:
        self._look()
        return self._lost.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        if not self._lost.is_set():
            self._let(EVER if timeout is None else max(0.0, timeout), self._lost.is_set)
        return self._lost.is_set()


class Noted(Work):
    """The same work; what the handler tells by it is noted."""

    def __init__(self, held: Held, mark: Callable[[Any], None], inline: Inline) -> None:
        super().__init__(held, mark)
        self._inline = inline
        self.lost = Looked(held.lost, inline.look, inline.let)

    def progress(self, mark: Any) -> None:
        super().progress(mark)
        self._inline.marks.append(mark)
        self._inline.look()

    def submit(self, result: Any, *, expected_revision: int | None = None) -> Receipt:
        receipt = super().submit(result, expected_revision=expected_revision)
        self._inline.submitted.append(result)
        return receipt


class Inline(Threads):
    """One attempt: `perform` the lease, `turn` as time passes, `run` for what came of it."""

    def __init__(self, line: Line, handler: Handler, options: Options, tick: float, let: Pass):
        super().__init__(self._noted)
        self.line, self.let = line, let
        self.marks: list[Any] = []
        self.submitted: list[Any] = []
        self.error: BaseException | None = None
        self._own, self._tick = checked(handler), tick
        memory = Memory(None, identity_of(line, options.worker_id))
        self._runtime = Runtime(line, self, options, memory, jitter=lambda: 0.0, hands=Here)

    def work_of(self, held: Held, beat: Beat) -> Work:
        return Noted(held, lambda mark: beat.mark(held, mark), self)

    def _noted(self, work: Work) -> Any:
        try:
            return self._own(work)
        except BaseException as error:
            self.error = error
            raise

    def look(self) -> None:
        """The handler has looked at `lost`, or told how far it has come."""
        if self._tick:
            self.let(self._tick, lambda: False)

    def turn(self) -> float:
        """What the thread of the beat does. Seconds until it has to be done again."""
        beat = self._runtime.beat
        beat.judge()
        if leases := beat.due():
            beat.beat(leases)
        return max(1, beat.pause()) / SECOND

    def stop(self) -> None:
        """The worker ends what it has in hand."""
        for held in self._runtime.beat.all():
            held.lose(STOPPING)

    def run(self, grant: Grant, moment: Moment) -> Run:
        """Work on it and settle it."""
        held = Held(Lease(self.line, grant, moment), moment, self.line.steady)
        self._runtime.take([held])
        settler = self._runtime.settler
        while settler.open and settler.round():
            pass
        command, outcome = self.line.settled or (None, Outcome("failed"))
        verdict = self._verdict(command)
        return Run(
            task=self.line.task(grant.task_id), payload=held.lease.payload, attempt=grant.attempt,
            fence=grant.fence, verdict=verdict,
            result=_result(command) if verdict == "complete" else NOTHING,
            reason=command.reason if isinstance(command, Fail) else None,
            marks=tuple(self.marks), submitted=tuple(self.submitted),
            followups=self._followups(outcome), why_lost=held.why, issues=outcome.issues,
            error=self.error,
        )  # fmt: skip

    def _verdict(self, command: SettlingCommand | None) -> Verdict:
        """What the runtime has counted, or what was sent where that was accepted."""
        counts = self._runtime.counts
        if counts["lost"]:
            return "lost"
        if counts["refused"]:
            return "refused"
        if not counts or command is None:
            return "unsettled"
        if isinstance(command, Fail):
            return command.then
        return "complete" if isinstance(command, Complete) else "release"

    def _followups(self, outcome: Outcome) -> tuple[Task, ...]:
        items = [] if outcome.receipt is None else outcome.receipt.entry["tasks"]
        return tuple(self.line.task(i["task_id"]) for i in items if i.get("role") == "followup")


def _result(command: SettlingCommand | None) -> Any:
    """What it was completed with, as the store has read it."""
    encoded = None if command is None else command.encoded("result")
    return NOTHING if encoded is None else json.loads(encoded)
