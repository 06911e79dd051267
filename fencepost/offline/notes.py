"""What is noted in an outbox: each change one transaction, with its link in the chain."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fencepost import canonical
from fencepost.commands import Complete, Request, Submit
from fencepost.issues import NotFound, PayloadTooLarge, Refused, TaskDone
from fencepost.model import Grant, Outcome
from fencepost.offline import chain
from fencepost.offline.file import File
from fencepost.offline.values import Kept, Recorded, Sending
from fencepost.parts import NOTHING


class Notes:
    """The changes of one outbox. `wall` times here are this machine's, and decide nothing."""

    def __init__(self, file: File) -> None:
        self.file = file

    # -- reading

    def kept(self, taking: int) -> Kept:
        row = self.file.one("task", id=taking)
        assert row is not None, f"taking {taking} is gone"
        return Kept(*row)

    def latest(self, task_id: str) -> Kept | None:
        """The newest taking of a task."""
        row = self.file.one("latest", task_id=task_id)
        return None if row is None else self.kept(row[0])

    def find(self, task_id: str) -> Kept:
        """The same. Raises NotFound."""
        found = self.latest(task_id)
        if found is None:
            message = f"the outbox has no task {task_id}; `fencepost offline status` tells what is"
            raise NotFound(Outcome("failed", ("not_found",), message))
        return found

    def commands(self, taking: int) -> list[Sending]:
        """All that was ever to be sent of a taking, in the order of sending."""
        return [Sending(*row) for row in self.file.rows("commands_of", taking=taking)]

    def state(self) -> str:
        """The state as the chain hashes it."""
        leases = {label: fence for label, fence, _ in self.file.rows("leases")}
        return chain.state_text(((r[0], r[1]) for r in self.file.rows("rows")), leases)

    def head(self) -> tuple[int, str]:
        """The number and hash of the last link; 0 and GENESIS before the first."""
        number, found = self.file.one("last_link") or (0, chain.GENESIS)
        return number, found

    # -- the chain

    def step(self, *words: object) -> None:
        """The link of what this transaction has done so far."""
        self._steps(words)

    def _steps(self, *steps: Iterable[object]) -> None:
        """The links of several steps, the state being the same after each."""
        number, before = self.head()
        state = self.state()
        for place, words in enumerate(steps, number + 1):
            step = " ".join(map(str, words))
            before = chain.link(before, step, state)
            self.file.rows("insert_link", number=place, step=step, hash=before)

    # -- claims and leases

    def claim_written(self, key: str, body: bytes, taking: int | None) -> int:
        """Before it is sent."""
        with self.file.transaction():
            ((number,),) = self.file.rows("write_claim", key=key, body=body, taking=taking)
        return int(number)

    def claim_ended(self, number: int, state: str) -> None:
        """It brought nothing, or is given up."""
        with self.file.transaction():
            self.file.rows("end_claim", id=number, state=state, receipt=None)

    def claim_answered(
        self, number: int, outcome: Outcome, again: bool, max_result_bytes: int | None
    ) -> list[str]:
        """Note the leases of a claim. Returns the tasks that are new here or held anew."""
        receipt = None if outcome.receipt is None else json.dumps(outcome.receipt.to_json())
        with self.file.transaction():
            self.file.rows("end_claim", id=number, state="answered", receipt=receipt)
            word = "claim" if again else "take"
            return [
                grant.task_id
                for grant in outcome.grants
                if self._granted(grant, word, max_result_bytes)
            ]

    def _granted(self, grant: Grant, word: str, max_result_bytes: int | None) -> bool:
        known = self.latest(grant.task_id)
        if known is not None and not _later(grant, known):
            return False  # noted before: the claim was answered twice
        lease = {
            "fence": grant.fence, "epoch": grant.epoch, "attempt": grant.attempt,
            "max_attempts": grant.max_attempts, "granted_at": grant.granted_at,
            "lease_expires_at": grant.lease_expires_at,
        }  # fmt: skip
        base = {"base_revision": grant.revision, "policy_version": grant.policy_version}
        if known is not None and known.state in ("open", "closed"):
            self.file.rows("set_lease", id=known.id, **lease)
            if not self.file.rows("command_keys", taking=known.id):  # nothing builds on it yet
                self.file.rows("set_base", id=known.id, **base)
            label = known.label
        else:
            label = self._label(grant)
            self.file.rows(
                "insert_task", task_id=grant.task_id, label=label, queue=grant.queue,
                key=grant.key, payload=grant.payload, max_result_bytes=max_result_bytes,
                **lease, **base,
            )  # fmt: skip
        self.step(word, label, "fence", grant.fence)
        return True

    def _label(self, grant: Grant) -> str:
        """What the chain calls a task: its key, unless another one here has it too."""
        wished = [grant.key, f"{grant.queue}/{grant.key}"] if grant.key else []
        for label in wished:
            there = self.file.one("by_label", label=label)
            if there is None or there[1] == grant.task_id:
                return label
        return grant.task_id

    # -- recording

    def record(self, task_id: str, result: Any, *, close: bool, now: int) -> Recorded:
        """Keep a result and fix the bytes that will be sent. See Outbox.record."""
        content = None if result is NOTHING else canonical.dumps(result)
        digest = chain.NO_RESULT if content is None else chain.digest_of(result)
        with self.file.transaction():
            kept = self.find(task_id)
            done = self._record(kept, result, content, close, now, digest)
            if isinstance(done, Refused):  # a step too: noted, and raised once it is kept
                self.step("refused", kept.label, digest, done.code)
        if isinstance(done, Refused):
            raise done
        return done

    def _record(
        self, kept: Kept, result: Any, content: bytes | None, close: bool, now: int, digest: str
    ) -> Recorded | Refused:  # fmt: skip
        sha256 = None if content is None else canonical.sha256(content)
        told = None if sha256 is None else sha256.hex()
        there = self._result(kept, sha256)
        closing = self.file.one("closing", taking=kept.id)
        ended = closing is not None or kept.state == "settled"
        if ended or (there is not None and not close):
            same = closing == (there,) if close or content is None else there is not None
            if not same:
                return _closed(kept)
            self.step("again", kept.label, digest)
            return Recorded(kept.task_id, told, False)
        steps = []
        if content is not None and there is None:
            if (refusal := _too_long(kept, content)) is not None:
                return refusal
            values = {"sha256": sha256, "digest": digest, "content": content, "now": now}
            ((there,),) = self.file.rows("insert_result", taking=kept.id, **values)
            steps.append("record")
        self._write_command(kept, there, result, close)
        if close:
            steps.append("close")
        self._steps(*((word, kept.label, digest) for word in steps))
        return Recorded(kept.task_id, told, True)

    def _result(self, kept: Kept, sha256: bytes | None) -> int | None:
        if sha256 is None:
            return None
        found = self.file.one("result_by_sha256", taking=kept.id, sha256=sha256)
        return None if found is None else int(found[0])

    def _write_command(self, kept: Kept, result: int | None, value: Any, close: bool) -> None:
        ((last,),) = self.file.rows("last_place")
        verb = "complete" if close else "submit"
        # A closing builds on what was taken and on the rows recorded before it.
        rows = [c for c in self.commands(kept.id) if c.verb == "submit" and c.state != "replaced"]
        request = self.request(kept, verb, value, kept.base_revision + len(rows))
        self._insert(kept, last + 1, result, verb, request)
        if close and kept.state == "open":
            self.file.rows("set_state", id=kept.id, state="closed", waits=kept.waits)

    def request(self, kept: Kept, verb: str, value: Any, revision: int) -> Request:
        """The command under the fence that is held here. A submit names no revision. The key is
        the digest of the command's own bytes."""
        lease: dict[str, Any] = {
            "task_id": kept.task_id, "worker_id": self.file.worker_id, "fence": kept.fence
        }  # fmt: skip
        if verb == "submit":
            return Request.of(Submit(**lease, result=value))
        return Request.of(Complete(**lease, result=value, expected_revision=revision))

    def _insert(
        self, kept: Kept, place: int, result: int | None, verb: str, request: Request
    ) -> None:
        self.file.rows(
            "insert_command", place=place, taking=kept.id, result=result, verb=verb,
            fence=kept.fence, key=request.sha256.hex(), body=request.body,
        )  # fmt: skip

    # -- what a sync has heard

    def accepted(
        self, sent: Sending, revision: int, answer: dict[str, Any], word: str = "accepted"
    ) -> bool:
        """The store has it, by this command or (`recognised`) by another. False if that was noted
        before."""
        with self.file.transaction():
            values = {"state": "accepted", "answer": json.dumps(answer)}
            if not self.file.rows("end_command", id=sent.id, **values):
                return False
            kept = self.kept(sent.taking)
            state = "settled" if sent.verb == "complete" else kept.state
            self.file.rows("set_state", id=kept.id, state=state, waits=None)
            digest = self._digest(sent)
            new = sent.result is not None and self.file.rows(
                "set_revision", id=sent.result, revision=revision
            )
            self.step(word if new else "ended", kept.label, digest)
        return True

    def refused(self, sent: Sending, outcome: Outcome) -> None:
        """A refusal is a link of its own, once for each that says something new."""
        answer = json.dumps({"status": outcome.status, "issues": list(outcome.issues)})
        with self.file.transaction():
            if self.file.rows("set_answer", id=sent.id, answer=answer):
                label = self.kept(sent.taking).label
                self.step("refused", label, self._digest(sent), outcome.issues[0])

    def waits(self, taking: int, code: str) -> None:
        """Nothing can be done about it now."""
        kept = self.kept(taking)
        if kept.waits != code:
            with self.file.transaction():
                self.file.rows("set_state", id=taking, state=kept.state, waits=code)

    def rewrite(self, sent: Sending, revision: int, there: Iterable[str]) -> bool:
        """New bytes for all that is still to be sent of the task, under the fence it has now,
        before any of it is sent. `there` are the results that the store has of it already. False
        where the bytes would be the same."""
        with self.file.transaction():
            kept = self.kept(sent.taking)
            every = self.commands(kept.id)
            known = {command.key for command in every}
            have, coming, new = set(there), 0, False
            for old in (command for command in every if command.state == "ready"):
                sha256, value = self._value(old)
                request = self.request(kept, old.verb, value, revision + coming)
                coming += old.verb == "submit" and sha256 not in have
                if request.sha256.hex() not in known:
                    self.file.rows("end_command", id=old.id, state="replaced", answer=None)
                    self._insert(kept, old.place, old.result, old.verb, request)
                    new = True
        return new

    def _value(self, sent: Sending) -> tuple[str | None, Any]:
        if sent.result is None:
            return None, NOTHING
        row = self.file.one("result", id=sent.result)
        assert row is not None
        return row[0].hex(), json.loads(row[2])

    def sha256_of(self, sent: Sending) -> str | None:
        """The digest (hex) of the result that a command brings."""
        row = None if sent.result is None else self.file.one("result", id=sent.result)
        return None if row is None else row[0].hex()

    def _digest(self, sent: Sending) -> str:
        row = None if sent.result is None else self.file.one("result", id=sent.result)
        return chain.NO_RESULT if row is None else str(row[1])

    def conflict(self, taking: int, code: str, message: str, theirs: Any, now: int) -> bool:
        """The task has moved on: kept for a human. False if that was noted before."""
        with self.file.transaction():
            kept = self.kept(taking)
            if kept.state == "conflict":
                return False
            self.file.rows("set_state", id=taking, state="conflict", waits=code)
            told = {"code": code, "message": message, "theirs": json.dumps(theirs), "now": now}
            self.file.rows("insert_conflict", taking=taking, **told)
            self.step("conflict", kept.label, code)
        return True

    # -- a human's word

    def stand_on(
        self, kept: Kept, revision: int, policy_version: int, there: dict[str, int]
    ) -> None:
        """A conflict is to be sent all the same, on top of what the store has now. `there`: the
        results that it has; what it had told to have and has no more is sent again too."""
        with self.file.transaction():
            self._decided(kept, "again")
            base = {"base_revision": revision, "policy_version": policy_version}
            self.file.rows("set_base", id=kept.id, **base)
            every = self.commands(kept.id)
            closing = any(c.verb == "complete" and c.state != "replaced" for c in every)
            state = "closed" if closing else "open"
            self.file.rows("set_state", id=kept.id, state=state, waits=None)
            for number, sha256, digest, _, _, known in self.file.rows("results_of", taking=kept.id):
                if known is None:
                    continue
                self.file.rows("forget_revision", id=number)
                if sha256.hex() in there:
                    self.file.rows("set_revision", id=number, revision=there[sha256.hex()])
                    continue
                self.step("lost", kept.label, digest)
                for command in every:
                    if command.result == number and command.state == "accepted":
                        self.file.rows("ready_again", id=command.id)

    def theirs(self, kept: Kept) -> None:
        """A conflict is over: what the store has stands. Nothing recorded here is removed."""
        with self.file.transaction():
            self._decided(kept, "theirs")
            self.file.rows("set_state", id=kept.id, state="settled", waits=None)

    def _decided(self, kept: Kept, word: str) -> None:
        if not self.file.rows("decide", taking=kept.id, decided=word):
            message = f"{kept.task_id} is no conflict that waits for a word"
            raise NotFound(Outcome("failed", ("not_found",), message))
        self.step("human", kept.label, word)


def _later(grant: Grant, known: Kept) -> bool:
    """A claim's answer names only leases that are live. One of a lower fence than is known here is
    of a store that was rolled back; one of an earlier time is of a clock that was reset."""
    return grant.fence > known.fence or grant.granted_at > known.granted_at


def _too_long(kept: Kept, content: bytes) -> Refused | None:
    limit = kept.max_result_bytes
    if limit is None or len(content) <= limit:
        return None
    message = (
        f"the result has {len(content)} bytes; queue {kept.queue} allowed {limit} when the task "
        "was taken (max_result_bytes): record a reference instead"
    )
    return PayloadTooLarge(Outcome("failed", ("payload_too_large",), message))


def _closed(kept: Kept) -> Refused:
    message = (
        f"{kept.task_id} has been closed here with another result, which stands; nothing was "
        "recorded. A task that takes several results is given them as rows, before its end"
    )
    return TaskDone(Outcome("failed", ("task_done",), message))
