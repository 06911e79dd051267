"""Recording a result: its bytes, and the bytes of the command that will bring it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fencepost import canonical
from fencepost.commands import Command, Complete, Request, Submit
from fencepost.issues import PayloadTooLarge, Refused, TaskDone
from fencepost.model import Outcome
from fencepost.offline import chain
from fencepost.offline.notes import Notes
from fencepost.offline.values import Kept, Recorded
from fencepost.parts import NOTHING


class New(NamedTuple):
    """What is to be recorded."""

    result: Any
    close: bool
    followups: tuple[Any, ...]
    log: str | None
    now: int


def record(
    notes: Notes, task_id: str, result: Any, *, close: bool, now: int,
    followups: Iterable[Any] = (), log: str | None = None,
) -> Recorded:  # fmt: skip
    """See Outbox.record."""
    recording = Recording(notes, New(result, close, tuple(followups), log, now))
    with notes.file.transaction():
        kept = notes.find(task_id)
        done = recording.into(kept)
        if isinstance(done, Refused):  # a step too: noted, and raised once it is kept
            notes.step("refused", kept.label, recording.digest, done.code)
    if isinstance(done, Refused):
        raise done
    return done


class Recording:
    """One recording, inside a transaction."""

    def __init__(self, notes: Notes, new: New) -> None:
        self.notes, self.file, self.new = notes, notes.file, new
        self.content = self.sha256 = None
        self.digest = chain.NO_RESULT
        if new.result is not NOTHING:
            self.content = canonical.dumps(new.result)
            self.sha256 = canonical.sha256(self.content)
            self.digest = chain.digest_of(new.result)

    def into(self, kept: Kept) -> Recorded | Refused:
        """Keep it with this task."""
        told = None if self.sha256 is None else self.sha256.hex()
        there = self._there(kept)
        closing = self.file.one("closing", taking=kept.id)
        ended = closing is not None or kept.state == "settled"
        if ended or (there is not None and not self.new.close):
            same = there is not None
            if self.new.close or self.content is None:
                same = closing == (there,) and self._same_followups(kept)
            if not same:
                return closed(kept)
            self.notes.step("again", kept.label, self.digest)
            return Recorded(kept.task_id, told, False)
        steps: list[tuple[str, str]] = []
        if self.content is not None and there is None:
            if (refusal := _too_long(kept, self.content)) is not None:
                return refusal
            ((there,),) = self.file.rows(
                "insert_result", taking=kept.id, sha256=self.sha256, digest=self.digest,
                content=self.content, now=self.new.now,
            )  # fmt: skip
            steps.append(("record", self.digest))
        self.notes.drop_verdict(kept)
        steps += self._write(kept, there)
        self.notes.steps(*((word, kept.label, digest) for word, digest in steps))
        return Recorded(kept.task_id, told, True)

    def _there(self, kept: Kept) -> int | None:
        if self.sha256 is None:
            return None
        found = self.file.one("result_by_sha256", taking=kept.id, sha256=self.sha256)
        return None if found is None else int(found[0])

    def _write(self, kept: Kept, result: int | None) -> list[tuple[str, str]]:
        """The command under the fence that is held here, and what is to be told of it."""
        lease: dict[str, Any] = {
            "task_id": kept.task_id, "worker_id": self.file.worker_id, "fence": kept.fence,
            "log": self.new.log,
        }  # fmt: skip
        if not self.new.close:
            self.notes.insert(kept, result, Request.of(Submit(**lease, result=self.new.result)))
            return []
        # A closing builds on what was taken and on the rows recorded before it.
        rows = [c for c in self.notes.commands(kept.id) if c.verb == "submit" and c.stands]
        command = Complete(
            **lease, result=self.new.result, followups=self.new.followups,
            expected_revision=kept.base_revision + len(rows),
        )  # fmt: skip
        self.notes.insert(kept, result, Request.of(command))
        if kept.state in ("open", "closed"):
            self.file.rows("set_state", id=kept.id, state="closed", waits=kept.waits)
        told = [("close", self.digest)]
        if (followups := followups_of(command)) is not None:
            told.insert(0, ("followups", followups))
        return told

    def _same_followups(self, kept: Kept) -> bool:
        ((body,),) = self.file.rows("closing_body", taking=kept.id)
        again = Complete(
            kept.task_id, self.file.worker_id, kept.fence, followups=self.new.followups
        )
        return followups_of(Request.read(body).command) == followups_of(again)


def followups_of(command: Command) -> str | None:
    """The chain's digest of a closing's follow-ups; None without any."""
    members = command.members.get("followups")
    return None if members is None else chain.short(members)


def _too_long(kept: Kept, content: bytes) -> Refused | None:
    limit = kept.max_result_bytes
    if limit is None or len(content) <= limit:
        return None
    message = (
        f"the result has {len(content)} bytes; queue {kept.queue} allowed {limit} when the task "
        "was taken (max_result_bytes): record a reference instead"
    )
    return PayloadTooLarge(Outcome("failed", ("payload_too_large",), message))


def closed(kept: Kept) -> Refused:
    message = (
        f"{kept.task_id} has ended here otherwise, and that stands; nothing was recorded. A task "
        "that takes several results is given them as rows, before its end"
    )
    return TaskDone(Outcome("failed", ("task_done",), message))
