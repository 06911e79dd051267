"""The process that has the store open: the engine's own writer, turned by hand in virtual time.

It dies before a commit, or between the commit and the answer, or at rest, as a process does that
is killed: the files stay as they are, without a last word of SQLite. It meets errors from COMMIT,
after which the commit is there or not. It sleeps with its machine. Its file is copied.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fencepost
from fencepost.commands import Request
from fencepost.conformance.product_pin import pin
from fencepost.engine import Call, SystemDraw
from fencepost.handle import Handle
from fencepost.issues import OutcomeUnknown
from fencepost.model import Outcome
from fencepost.storage.sqlite import scrub
from helpers.sim import audit
from helpers.sim.ghost import Ghost
from helpers.sim.laws import Judge, Sent, told
from helpers.sim.messages import Ask
from helpers.sim.outside import VERBS
from helpers.sim.verbs import settled
from helpers.sim.world import Violation, World

WRITER = "01900000-0000-7000-8000-000000000000"
FAULTS = ("die before the commit", "die after the commit", "error, undone", "error, done")
DEATHS, ERRORS = 0.006, 0.006
NEW = "select number, body from fencepost_entry where number > ? order by number"


class Died(BaseException):
    """The process was killed."""


class Server:
    """One store file and the process on it."""

    def __init__(self, world: World, folder: Path, template: bytes) -> None:
        self.world = world
        self.path = folder / "work.db"
        self.path.write_bytes(template)
        pin(self.path)
        self.ghost = Ghost(world.clock.wall())
        self.judge = Judge(self.ghost, VERBS, settled)
        self.inbox: list[Ask] = []
        self.asleep_until = 0
        self.fault: str | None = None
        self._due = self.up = False
        self._pending: tuple[Sent, Sequence[Outcome]] | None = None
        self.boot()

    # -- its life

    def open(self, path: Path) -> Handle:
        """A handle on a file, with the world's clock and chance."""
        draw = SystemDraw(random.Random(self.world.chance.random()).randbytes)
        return fencepost.open(path, scope="alpha", clock=self.world.clock, draw=draw)

    def boot(self) -> None:
        """A new process opens the file."""
        self.fp = self.open(self.path)
        self.ghost.time.restart()
        self.up = True
        self.world.note("the store is open")
        transactor = self.fp._writer.transactor
        fold = transactor.fold

        def watched(transaction: Any, sent: Sent) -> Any:
            self.ghost.time.tick(self.world.clock)
            done, changed = fold(transaction, sent)
            if changed:
                self._pending = sent, done.outcomes
            else:
                self._judge(sent, done.outcomes, {})
            return done, changed

        transactor.fold = watched  # type: ignore[method-assign]
        audit.rows(self.connection, self.ghost)

    @property
    def connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = self.fp._store._write  # type: ignore[attr-defined]
        return connection

    @property
    def _log(self) -> Path:
        return self.path.with_name("work.db-wal")

    def die(self, why: str) -> None:
        """SIGKILL: what the kernel holds of the files stays, nothing is tidied up."""
        self.world.count("crashes", f"the store's process dies: {why}")
        store: Any = self.fp._store
        kept = self.path.read_bytes()
        log = self.path.with_name("kept-wal")
        if self._log.exists():
            os.link(self._log, log)  # the closing below unlinks the log, and changes nothing in it
        store._close_connections()
        store.closed = True
        store._turn.close()
        self.path.write_bytes(kept)
        if log.exists():
            log.rename(self._log)
        self._down()

    def restart(self) -> None:
        """An ordinary end, and a new start."""
        self.world.count("restarts", "the store is closed")
        self.fp.close()
        self._down()

    def _down(self) -> None:
        self.up, self._pending, self.fault = False, None, None
        self.inbox.clear()
        self.world.at(self.world.between(0.2, 20), self.boot)

    def sleep(self, microseconds: int) -> None:
        """The machine sleeps; its clocks go on."""
        self.world.count("suspends", f"the machine sleeps for {microseconds / 1e6:.0f} s")
        self.asleep_until = self.world.t + microseconds
        self.world.at(microseconds, self.serve)

    def close(self) -> None:
        """The end of the run: nothing stays open."""
        self.fp.close()
        for place, file in list(scrub._files.items()):
            os.close(file)
            del scrub._files[place]

    # -- its work

    def receive(self, ask: Ask, *, at_once: bool = False) -> None:
        """A message has come in. Several that come while the store is busy are one batch."""
        world = self.world
        asleep = world.t < self.asleep_until
        if not self.up or (asleep and len(self.inbox) > 20):
            world.counts["unheard"] += 1
            return
        self.inbox.append(ask)
        if at_once and not asleep:
            self.serve()
        elif not self._due and not asleep:
            self._due = True
            world.at(0 if world.likely(0.5) else world.between(0, 2), self.serve)

    def moment(self, instant: int) -> int:
        """When, in the world's time, it will be `instant` by the store's."""
        return self.world.t + instant - self.ghost.time.expected(self.world.clock)

    def serve(self) -> None:
        """One turn of the writer: all that waits, as one batch."""
        self._due = False
        if not self.up or self.world.t < self.asleep_until or not self.inbox:
            return
        asks, self.inbox = self.inbox, []
        requests = [Request.read(ask.body, ask.key) for ask in asks]
        calls = [Call([(ask.caller, request)]) for ask, request in zip(asks, requests, strict=True)]
        try:
            self._turns(calls)
        except Died as death:
            self._tell(asks, None)
            self.die(str(death))
            return
        outcomes = [call.wait()[0] for call in calls]
        for ask, request, outcome in zip(asks, requests, outcomes, strict=True):
            self._sure(self.judge.answered, ask.caller, request, outcome)
        self._tell(asks, outcomes)
        for ask, outcome in zip(asks, outcomes, strict=True):
            ask.reply(outcome)

    def _turns(self, calls: list[Call]) -> None:
        writer = self.fp._writer
        for call in calls[1:]:
            writer._queue.put(call)
        self._hook()
        if not self.world.calm and self.fault is None:
            chance = self.world.chance.random()
            if chance < DEATHS + ERRORS:
                self.fault = self.world.chance.choice(FAULTS[:2] if chance < DEATHS else FAULTS[2:])
        writer._serve(calls[0])
        while not writer._queue.empty():
            call = writer._queue.get()
            assert call is not None
            self._hook()
            writer._serve(call)

    def _hook(self) -> None:
        """The commit is ours: what it decided is judged when it stands, and it can fail."""
        main: Any = self.fp._store._main  # type: ignore[attr-defined]
        real = type(main).commit

        def commit() -> None:
            if self._pending is None:  # sealing
                real(main)
                return
            (sent, outcomes), self._pending = self._pending, None
            fault, self.fault = self.fault, None
            if fault == "die before the commit":
                raise Died(fault)
            if fault == "error, undone":
                main.rollback()
            else:
                real(main)
                new = self.connection.execute(NEW, (self.ghost.last,)).fetchall()
                self._judge(sent, outcomes, dict(new))
                self.ghost.time.mark = self.ghost.time.now
            if fault == "die after the commit":
                raise Died(fault)
            if fault is not None:
                self.world.count("commit_errors", f"COMMIT fails: {fault}")
                raise OutcomeUnknown("the disk failed")

        main.commit = commit

    def _judge(self, sent: Sent, outcomes: Sequence[Outcome], bodies: dict[int, bytes]) -> None:
        self._sure(self.judge.batch, sent, outcomes, bodies)

    @staticmethod
    def _sure(law: Any, *given: Any) -> None:
        """A slip of the judge's own must not be taken for a refusal by the engine."""
        try:
            law(*given)
        except Exception as error:
            raise Violation(f"the judge is at a loss: {error!r}") from error

    def _tell(self, asks: list[Ask], outcomes: Sequence[Outcome] | None) -> None:
        counts = self.world.counts
        counts["batches"] += 1
        counts["calls"] += len(asks)
        for place, ask in enumerate(asks):
            said = "(no answer)"
            if outcomes is not None:
                outcome = outcomes[place]
                kind = "replayed" if outcome.replayed else told(outcome)
                number = outcome.receipt.number if outcome.receipt else "-"
                salt = outcome.receipt.salt.hex()[:8] if outcome.receipt else "-"
                said = f"{kind} {number} {salt}"
                counts["replays"] += outcome.replayed
                counts["refusals"] += not outcome.accepted
            self.world.note(
                f"{ask.caller.actor}@{ask.caller.scope} #{ask.number} {ask.verb}: {said}"
                + (f" [{len(asks)} in one batch]" if len(asks) > 1 else "")
            )

    # -- looking at it

    def audit(self, *, whole: bool) -> None:
        """What was acknowledged is there; `whole`: the journal too."""
        if self.up:
            audit.rows(self.connection, self.ghost)
            self.world.count("audits")
            if whole:
                audit.journal(self.fp, self.ghost)
                self.world.count("verified")

    def seal(self) -> None:
        """What the writer does when it is idle."""
        if self.up and self.world.t >= self.asleep_until:
            self.fp._writer._seal()
