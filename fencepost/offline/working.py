"""What a worker notes in an outbox: on what it begins, the marks of its work, and verdicts that are
no results. A verdict ends the task here; a sync tells it to the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fencepost import canonical
from fencepost.commands import Command, Fail, Release, Request
from fencepost.issues import Refused
from fencepost.offline import chain
from fencepost.offline.notes import Notes
from fencepost.offline.recording import closed
from fencepost.offline.values import Kept, Recorded

What = Literal["retry", "give_up", "block", "release"]

BEGUN = "it was begun on a laptop and has not come to an end there"


class Working:
    """The notes of a worker. Only one worker at a time works from an outbox (`alone.py`)."""

    def __init__(self, notes: Notes) -> None:
        self.notes, self.file = notes, notes.file

    # -- what there is to do

    def next(self, after: int, queues: Sequence[str] = ()) -> Kept | None:
        """The first task behind this taking that a worker may begin on, of these queues or any."""
        while (row := self.file.one("to_work", after=after)) is not None:
            kept = self.notes.kept(row[0])
            if not queues or kept.queue in queues:
                return kept
            after = kept.id
        return None

    def begin(self, kept: Kept) -> bool:
        """Before any work is begun. A failure of an earlier run that no sync has told gives way.
        False where the task has ended since."""
        with self.file.transaction():
            kept = self.notes.kept(kept.id)
            if kept.state == "closed":
                kept = kept._replace(state="open" if self.notes.drop_verdict(kept) else "closed")
            if kept.state == "open":
                self.file.rows("set_tries", id=kept.id, tries=kept.tries + 1)
        return kept.state == "open"

    def queues(self) -> list[str]:
        """The queues of all tasks."""
        return [queue for (queue,) in self.file.rows("queues")]

    def on_lapse(self, queue: str) -> str:
        """What the queue did with lapsed tasks when the last of its tasks was taken."""
        found = self.file.one("on_lapse", queue=queue)
        return "retry" if found is None else str(found[0])

    # -- what became of it

    def mark(self, task_id: str, progress: Any) -> None:
        """Keep how far the work has come."""
        content = canonical.dumps(progress)
        with self.file.transaction():
            kept = self.notes.find(task_id)
            self.file.rows("set_progress", id=kept.id, progress=content)

    def verdict(
        self, task_id: str, what: What, *, reason: str | None = None,
        retry_seconds: int | None = None, progress: Any = None, log: str | None = None,
    ) -> Recorded:  # fmt: skip
        """See Outbox.verdict."""
        with self.file.transaction():
            kept = self.notes.find(task_id)
            if progress is not None:
                kept = kept._replace(progress=canonical.dumps(progress))
                self.file.rows("set_progress", id=kept.id, progress=kept.progress)
            command = self._command(kept, what, reason, retry_seconds, log)
            done = self._ended(kept, what, command)
        if isinstance(done, Refused):
            raise done
        return done

    def give_back(self, kept: Kept) -> Recorded:
        """A task that nobody works on any more. What was begun and may have had effects waits for
        a person, as where a lease lapses."""
        if kept.tries and kept.on_lapse == "reconcile":
            return self.verdict(kept.task_id, "block", reason=BEGUN)
        return self.verdict(kept.task_id, "release")

    def _command(
        self, kept: Kept, what: What, reason: str | None, retry_seconds: int | None,
        log: str | None,
    ) -> Command:  # fmt: skip
        lease: dict[str, Any] = {
            "task_id": kept.task_id, "worker_id": self.file.worker_id, "fence": kept.fence,
            "progress": kept.mark, "log": log,
        }  # fmt: skip
        if what == "release":
            return Release(**lease)
        return Fail(**lease, then=what, reason=reason, retry_seconds=retry_seconds)

    def _ended(self, kept: Kept, what: What, command: Command) -> Recorded | Refused:
        request, told = Request.of(command), (what, content_of(command))
        there = self.file.one("verdict_of", taking=kept.id)
        if there is not None and there[2] == request.body:
            self.notes.step("again", kept.label, what)
            return Recorded(kept.task_id, None, False)
        if kept.state not in ("open", "closed") or self.file.one("closing", taking=kept.id):
            self.notes.step("refused", kept.label, what, "task_done")
            return closed(kept)
        self.notes.drop_verdict(kept)
        self.notes.insert(kept, None, request, verdict=what)
        self.file.rows("set_state", id=kept.id, state="closed", waits=kept.waits)
        if what == "release" and kept.tries:  # as the store counts no attempt that is given back
            self.file.rows("set_tries", id=kept.id, tries=kept.tries - 1)
        self.notes.step("verdict", kept.label, *told)
        return Recorded(kept.task_id, None, True)


def content_of(command: Command) -> str:
    """The chain's digest of what a verdict says beside its name."""
    said = ("reason", "retry_seconds", "progress", "log")
    return chain.short(b"\0".join(command.members.get(name, b"") for name in said))
