"""What is noted in an outbox: each change one transaction, with its link in the chain."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fencepost.commands import Command, Request
from fencepost.issues import NotFound
from fencepost.model import Grant, Outcome, QueueSettings
from fencepost.offline import chain
from fencepost.offline.file import File
from fencepost.offline.values import Kept, Sending


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
        self.steps(words)

    def steps(self, *steps: Iterable[object]) -> None:
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
        self, number: int, outcome: Outcome, word: str, settings: QueueSettings | None = None
    ) -> list[str]:
        """Note the leases of a claim; `word` is `take`, or `claim` for one that is claimed again.
        `settings` are the queue's. Returns the tasks that are new here or held anew."""
        receipt = None if outcome.receipt is None else json.dumps(outcome.receipt.to_json())
        with self.file.transaction():
            self.file.rows("end_claim", id=number, state="answered", receipt=receipt)
            return [
                grant.task_id for grant in outcome.grants if self._granted(grant, word, settings)
            ]

    def _granted(self, grant: Grant, word: str, settings: QueueSettings | None) -> bool:
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
                key=grant.key, payload=grant.payload, progress=grant.progress,
                max_result_bytes=None if settings is None else settings.max_result_bytes,
                on_lapse="retry" if settings is None else settings.on_lapse, **lease, **base,
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

    # -- commands

    def insert(
        self, kept: Kept, result: int | None, request: Request, *,
        place: int | None = None, verdict: str | None = None,
    ) -> None:  # fmt: skip
        """A command that is to be sent: the last, or in this place. Its key is the digest of its
        own bytes."""
        if place is None:
            ((last,),) = self.file.rows("last_place")
            place = int(last) + 1
        command, key = request.command, request.sha256.hex()
        if not self.file.rows("stand_again", key=key, place=place):
            self.file.rows(
                "insert_command", place=place, taking=kept.id, result=result, verb=command.verb,
                verdict=verdict, fence=getattr(command, "fence", 0), key=key, body=request.body,
            )  # fmt: skip

    def drop_verdict(self, kept: Kept) -> bool:
        """What was recorded here of a try that failed or was given back gives way to what is done,
        as long as the store has not taken it."""
        row = self.file.one("verdict_of", taking=kept.id)
        if row is None:
            return False
        self.file.rows("end_command", id=row[0], state="replaced", answer=None)
        self.file.rows("set_state", id=kept.id, state="open", waits=None)
        self.step("reopen", kept.label)
        return True

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
            state = kept.state if sent.verb == "submit" else "settled"
            self.file.rows("set_state", id=kept.id, state=state, waits=None)
            if sent.verdict is not None:
                self.step("told", kept.label, sent.verdict)
                return True
            digest = self._digest(sent)
            new = sent.result is not None and self.file.rows(
                "set_revision", id=sent.result, revision=revision
            )
            self.step(word if new else "ended", kept.label, digest)
        return True

    def moot(self, sent: Sending) -> None:
        """The store needs this verdict no more: the lease it would end has ended by itself."""
        with self.file.transaction():
            values = {"state": "moot", "answer": sent.answer}
            if self.file.rows("end_command", id=sent.id, **values):
                kept = self.kept(sent.taking)
                self.file.rows("set_state", id=kept.id, state="settled", waits=None)
                self.step("moot", kept.label, sent.verdict)

    def refused(self, sent: Sending, outcome: Outcome) -> None:
        """A refusal is a link of its own, once for each that says something new."""
        answer = json.dumps({"status": outcome.status, "issues": list(outcome.issues)})
        with self.file.transaction():
            if self.file.rows("set_answer", id=sent.id, answer=answer):
                label = self.kept(sent.taking).label
                self.step("refused", label, self._digest(sent), outcome.issues[0])

    def waits(self, taking: int, code: str) -> None:
        """Nothing can be done about it now."""
        if self.kept(taking).waits != code:
            with self.file.transaction():
                self.file.rows("set_waits", id=taking, waits=code)

    def rewrite(self, sent: Sending, revision: int, there: Iterable[str]) -> None:
        """New bytes for all that is still to be sent of the task, under the fence it has now,
        before any of it is sent. `there` are the results that the store has of it already."""
        with self.file.transaction():
            kept = self.kept(sent.taking)
            every = self.commands(kept.id)
            known = {command.key for command in every}
            have, coming = set(there), 0
            for old in (command for command in every if command.state == "ready"):
                changes = {"fence": kept.fence}
                if old.verb == "complete":
                    changes["expected_revision"] = revision + coming
                request = Request.of(changed(Request.read(old.body).command, changes))
                coming += old.verb == "submit" and self.sha256_of(old) not in have
                if request.sha256.hex() not in known:
                    self.file.rows("end_command", id=old.id, state="replaced", answer=None)
                    self.insert(kept, old.result, request, place=old.place, verdict=old.verdict)

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
            closing = any(c.verb != "submit" and c.state != "replaced" for c in every)
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


def changed(command: Command, changes: dict[str, Any]) -> Command:
    """The same command with other values of these members."""
    values = {spec.attribute: getattr(command, spec.attribute) for spec in command.SPECS}
    return type(command)(**{**values, **changes})


def _later(grant: Grant, known: Kept) -> bool:
    """A claim's answer names only leases that are live. One of a lower fence than is known here is
    of a store that was rolled back; one of an earlier time is of a clock that was reset."""
    return grant.fence > known.fence or grant.granted_at > known.granted_at
