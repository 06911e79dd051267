"""The outbox: what a worker without a network holds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any

from fencepost import fields
from fencepost.alone import Taken, alone
from fencepost.clock import Clock, SystemClock, to_rfc3339
from fencepost.commands import Followup, Request
from fencepost.handle.closing import Closing
from fencepost.handle.lease import tidy_log, tidy_reason
from fencepost.issues import InvalidRequest, Unavailable
from fencepost.offline import checking, recording
from fencepost.offline.file import File
from fencepost.offline.notes import Notes
from fencepost.offline.syncing import Sync
from fencepost.offline.taking import StoreHandle, Taking
from fencepost.offline.values import Conflict, Kept, Recorded, Report, Sending, Verified
from fencepost.offline.working import What, Working
from fencepost.parts import NOTHING

MOST_TAKEN = 10_000
COUNTS = (
    "tasks", "without_result", "going_on", "closed", "settled", "conflicts", "waiting", "results",
    "accepted", "to_send", "verdicts", "open_claims",
)  # fmt: skip


class Outbox(Closing):
    """Tasks that were taken under long leases, and their results until the store has them.

    One file, one scope, one worker. Threads and processes may share it. Close it when done, or use
    it in a `with` block.
    """

    def __init__(self, file: File, clock: Clock) -> None:
        self._file = file
        self._notes = Notes(file)
        self.working = Working(self._notes)
        self._clock = clock
        self.report = Report()

    def close(self) -> None:
        """Give the file back. A second call does nothing."""
        self._file.close()

    @property
    def scope(self) -> str:
        return self._file.scope

    @property
    def path(self) -> str:
        return str(self._file.path)

    @property
    def worker_id(self) -> str:
        return self._file.worker_id

    # -- with a network

    def take(
        self, fp: StoreHandle, queue: str, *, lease_seconds: int, limit: int = 50
    ) -> list[str]:
        """Claim up to `limit` tasks for `lease_seconds` and keep them here; their ids.

        Each claim is on the disk before it is sent: where its answer is lost, the next take asks
        again under its key. Raises LeaseTooLong, which names the setting that is in the way.
        """
        fields.name(queue, "queue")
        fields.seconds(lease_seconds, "lease_seconds")
        fields.integer(1, MOST_TAKEN)(limit, "limit")
        self._same_scope(fp)
        return Taking(self._file, self._notes, fp).take(queue, limit, lease_seconds)

    def sync(self, fp: StoreHandle, show: Callable[[int], None] = lambda done: None) -> Report:
        """Send what is recorded, in its order. May be broken off anywhere and called again.

        Returns what it came to; `outbox.report` counts it while it runs, and `show` is told after
        each command how many have had their turn. Raises Unavailable,
        OutcomeUnknown, Unauthenticated, Forbidden, ScopeRevoked: what keeps all from being sent.
        """
        sync = Sync(self._file, self._notes, fp, self._clock.wall())
        self.report = sync.report
        sync.run(show)
        self.report.conflicts = self.counts()["conflicts"]
        return self.report

    def again(self, fp: StoreHandle, task_id: str) -> None:
        """A human's word on a conflict: ours shall stand on what the store has now, and be sent by
        the next sync. Raises NotFound."""
        self._same_scope(fp)
        sync = Sync(self._file, self._notes, fp, self._clock.wall())
        sync.again(self._in_conflict(task_id))

    def _same_scope(self, fp: StoreHandle) -> None:
        scope = fp.scope().scope
        if scope != self.scope:
            raise InvalidRequest(
                f"the outbox is of scope {self.scope}, the store was opened for {scope}"
            )

    # -- without one

    def next(self, after: Kept | None = None) -> Kept | None:
        """The next task without a result, in the order of taking; None when all have one."""
        found = self._file.one("next_open", after=0 if after is None else after.id, limit=1)
        return None if found is None else self._notes.kept(found[0])

    def task(self, name: str) -> Kept:
        """A task as it is kept here, by its id or by its key (QUEUE/KEY where two queues have it),
        in its newest taking. Raises NotFound."""
        found = self._file.one("by_label", label=name)
        return self._notes.find(name) if found is None else self._notes.find(found[1])

    def record(
        self, task_id: str, result: Any = NOTHING, *, close: bool = True,
        followups: Iterable[Followup | dict[str, Any]] = (), log: str | None = None,
    ) -> Recorded:  # fmt: skip
        """Keep a result, and close the task; with `close` False it is a row, and the task goes on.

        Without a result the task is closed as it is. `followups` are enqueued with the closing, by
        the store; `log` is for people. What was recorded already is recognised. Raises TaskDone
        for another result (or other follow-ups) where the task is closed, PayloadTooLarge,
        NotFound.
        """
        fields.task_id(task_id, "task_id")
        if not close and (result is NOTHING or (followups := tuple(followups))):
            raise InvalidRequest("record: give a result, or close the task; follow-ups close it")
        return recording.record(
            self._notes, task_id, result, close=close, now=self._clock.wall(),
            followups=followups, log=tidy_log(log),
        )  # fmt: skip

    def verdict(
        self, task_id: str, what: What, *, reason: str | None = None,
        retry_seconds: int | None = None, progress: Any = None, log: str | None = None,
    ) -> Recorded:  # fmt: skip
        """End a task here without a result: it failed (`retry`, `give_up`), a person has to look at
        it (`block`), or nothing was tried (`release`). The next sync tells the store.

        Until then `retry` and `release` give way to a result, and to another verdict. Raises
        TaskDone where the task has ended here, NotFound.
        """
        fields.task_id(task_id, "task_id")
        return self.working.verdict(
            task_id, what, reason=None if reason is None else tidy_reason(reason),
            retry_seconds=retry_seconds, progress=progress, log=tidy_log(log),
        )  # fmt: skip

    def give_back(self, task_ids: Iterable[str] = ()) -> list[str]:
        """Give these tasks back, or all that have no result: the next sync releases them, so that
        others take them at once. Their ids. Raises InvalidRequest while a worker works from this
        outbox, TaskDone where one has ended, NotFound."""
        with self.alone():
            kept = [self._notes.find(task_id) for task_id in task_ids] or list(self._without())
            return [self.working.give_back(each).task_id for each in kept]

    def _without(self) -> Iterator[Kept]:
        kept = None
        while (kept := self.next(kept)) is not None:
            yield kept

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Only one at a time works from an outbox. Raises InvalidRequest while another does."""
        try:
            guard = alone(self._file.path.with_name(f"{self._file.path.name}-worker"))
        except Taken as taken:
            raise InvalidRequest(
                f"a worker works from {self._file.path} already (process {taken.holder}): end that "
                "one, or wait for it"
            ) from None
        except OSError as error:
            raise Unavailable(f"{self._file.path}: its lock cannot be made: {error}") from None
        try:
            yield
        finally:
            os.close(guard)

    def theirs(self, task_id: str) -> None:
        """A human's word on a conflict: what the store has stands. Nothing is removed."""
        self._notes.theirs(self._in_conflict(task_id))

    def _in_conflict(self, task_id: str) -> Kept:
        fields.task_id(task_id, "task_id")
        for number in self._conflicts(every=False):
            kept = self._notes.kept(number[1])
            if kept.task_id == task_id:
                return kept
        return self._notes.find(task_id)

    # -- looking

    def counts(self) -> dict[str, int]:
        """How many tasks, results and commands are in which state."""
        row = self._file.one("counts")
        assert row is not None
        return dict(zip(COUNTS, row, strict=False))

    def status(self) -> dict[str, Any]:
        """What is here: counts, the first lease to end (the store's time), the chain's head."""
        row = self._file.one("counts")
        assert row is not None
        number, head = self._notes.head()
        waiting = [
            {"task_id": task_id, "key": label, "code": code}
            for task_id, label, code in self._file.rows("waiting")
        ]
        return {
            "scope": self.scope,
            "worker_id": self.worker_id,
            "outbox_id": self._file.outbox_id,
            **self.counts(),
            "waits": waiting,
            "first_lease_ends": None if row[-1] is None else to_rfc3339(row[-1]),
            "links": number,
            "head": head,
        }

    def conflicts(self, *, every: bool = False) -> Iterator[Conflict]:
        """Tasks that have moved on, with both sides; with `every` those decided too."""
        for row in self._conflicts(every=every):
            _, taking, code, message, theirs, noted_at, decided = row
            kept = self._notes.kept(taking)
            ours = [
                {
                    "result_sha256": sha256.hex(), "value": json.loads(content),
                    "recorded_at": to_rfc3339(recorded_at), "revision": revision,
                }
                for _, sha256, _, content, recorded_at, revision in self._file.rows(
                    "results_of", taking=taking
                )
            ]  # fmt: skip
            ours += [
                {"verdict": each.verdict, "reason": reason_of(each)}
                for each in self._notes.commands(taking) if each.verdict and each.stands
            ]  # fmt: skip
            yield Conflict(
                kept.task_id, kept.label, code, message, ours, json.loads(theirs), noted_at, decided
            )

    def _conflicts(self, *, every: bool) -> Iterator[tuple[Any, ...]]:
        after = 0
        while (row := self._file.one("conflicts", every=every, after=after)) is not None:
            yield row
            after = row[0]

    def state(self) -> str:
        """The state as the chain hashes it: rows that stand in the store, and last fences."""
        return self._notes.state()

    def links(self) -> Iterator[tuple[int, str, str]]:
        """The chain: number, step, hash."""
        yield from checking._links(self._file)

    def verify(self, head: str | None = None) -> Verified:
        """Play the chain again from its first step and hold every row against it.

        `head` is a hash that was noted earlier: it must be in the chain. Raises JournalBroken,
        which names the first broken link or row.
        """
        return checking.verify(self._file, self._notes, head)


def reason_of(sending: Sending) -> str | None:
    """What a verdict says for people."""
    return getattr(Request.read(sending.body).command, "reason", None)


def open_outbox(
    path: str | PathLike[str],
    *,
    create: bool = False,
    scope: str | None = None,
    worker_id: str | None = None,
    allow_filesystem: str | None = None,
    clock: Clock | None = None,
) -> Outbox:
    """Open the outbox at `path`. With `create` a missing one is made, for `worker_id` in `scope`
    ("default" unless given); of one that is there both are checked where given.

    Raises Unavailable, SchemaMismatch and InvalidRequest.
    """
    clock = clock or SystemClock()
    file = File(
        fspath(path), clock.wall(), create=create, scope=scope, worker_id=worker_id,
        allow_filesystem=allow_filesystem,
    )  # fmt: skip
    return Outbox(file, clock)
