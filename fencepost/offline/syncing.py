"""Bringing recorded work to the store: in order, the bytes as they were recorded, and what each
answer means. It may be broken off anywhere and begun again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fencepost.commands import Claim, Release, Request
from fencepost.handle.verbs import random_key
from fencepost.issues import ISSUES, InvalidRequest, NotFound, QueuePaused, error_for
from fencepost.model import Outcome, Result, Task
from fencepost.offline.file import File
from fencepost.offline.judge import Ours, Sent, Theirs, Verdict, judge
from fencepost.offline.notes import Notes
from fencepost.offline.taking import StoreHandle, Taking, is_verdict
from fencepost.offline.values import Kept, Report, Sending

MOST_TRIES = 4  # of one command in one sync: sent, claimed, written anew, sent
LONGEST_SHOWN = 64 * 1024  # bytes of others' results that are kept in a conflict
MOVED_ON = "the task has moved on while it was being claimed again"


class Sync:
    """One run. `report` counts what it has come to, also where it is broken off."""

    def __init__(self, file: File, notes: Notes, fp: StoreHandle, now: int) -> None:
        self.file, self.notes, self.fp = file, notes, fp
        self.now = now
        self.report = Report()
        self._stuck: set[int] = set()

    def run(self, show: Callable[[int], None]) -> Report:
        """Send all that is ready. Raises what keeps everything from being sent: scope or token
        refused, store unavailable. What was noted until then stands."""
        scope = self.fp.scope()
        if scope.scope != self.file.scope:
            raise InvalidRequest(
                f"the outbox is of scope {self.file.scope}, the store was opened for {scope.scope}"
            )
        Taking(self.file, self.notes, self.fp).hear_again()
        after = turns = 0
        while (row := self.file.one("next_command", after=after)) is not None:
            command = Sending(*row)
            after = command.place
            if command.taking not in self._stuck:
                self._bring(command)
            turns += 1
            show(turns)
        return self.report

    def _bring(self, command: Sending) -> None:
        """One place of the order, until the store has it or nothing more can be done now."""
        code = ""
        for _ in range(MOST_TRIES):
            outcome = self._send(command)
            if outcome.accepted:
                self._accepted(command, outcome)
                return
            code = outcome.issues[0]
            verdict, theirs, told = self._judge(command, outcome)
            if self._over(command, verdict, outcome, told):
                return
            if verdict.means == "claim":
                stop = self._claim_again(command)
                verdict, theirs, told = self._judge(command, outcome)
                if verdict.means == "conflict":  # it has moved on between looking and claiming
                    if not stop:
                        self._release(command)
                    self._conflict(command, verdict.code, MOVED_ON, told)
                    return
                if stop:
                    self._wait(command, stop)
                    return
                self._anew(command, theirs)
            elif verdict.means == "wait":
                self._wait(command, verdict.code or code)
                return
            else:
                self._anew(command, theirs)
            current = self._current(command)
            if current is None:
                return  # another sync has brought it meanwhile
            if verdict.means == "rewrite" and current.key == command.key:
                break  # there are no other bytes
            command = current
        self._wait(command, code)

    def _send(self, command: Sending) -> Outcome:
        request = Request.read(command.body, command.key)
        (outcome,) = self.fp.execute([request])
        if not outcome.accepted:
            if is_answer(outcome):
                self.notes.refused(command, outcome)
            if stops(outcome):
                raise error_for(outcome)
        return outcome

    def _current(self, command: Sending) -> Sending | None:
        """The bytes that stand ready in the same place now."""
        row = self.file.one("next_command", after=command.place - 1)
        found = None if row is None else Sending(*row)
        return found if found is not None and found.place == command.place else None

    def _over(
        self, command: Sending, verdict: Verdict, outcome: Outcome, told: dict[str, Any]
    ) -> bool:
        """Whether it needs not be sent again, by what was read of the task."""
        match verdict.means:
            case "recognised":
                self._recognised(command, verdict, told)
            case "moot":
                self.notes.moot(command)
                self.report.moot += 1
            case "conflict":
                self._conflict(command, verdict.code, outcome.message, told)
            case _:
                return False
        return True

    # -- what the store says

    def _accepted(self, command: Sending, outcome: Outcome) -> None:
        receipt = outcome.receipt
        assert receipt is not None
        answer = {"replayed": outcome.replayed, "receipt": receipt.to_json()}
        if self.notes.accepted(command, receipt.revision, answer):
            self.report.accepted += 1

    def _recognised(self, command: Sending, verdict: Verdict, told: dict[str, Any]) -> None:
        answer = {"recognised": True, "revision": verdict.revision, "entry": told.get("entry")}
        if self.notes.accepted(command, verdict.revision, answer, "recognised"):
            self.report.recognised += 1

    def _judge(self, command: Sending, outcome: Outcome) -> tuple[Verdict, Theirs, dict[str, Any]]:
        """Read what the store has of the task, and what that means."""
        kept = self.notes.kept(command.taking)
        ours = self._ours(kept)
        sha256 = self.notes.sha256_of(command)
        sent = Sent(command.verb, sha256, command.fence, outcome.issues, command.verdict)
        theirs, told = self.look(kept, ours, sha256)
        verdict = judge(sent, ours, theirs)
        known = [code for code in outcome.issues if code in ISSUES]
        if len(known) < len(outcome.issues) and verdict.means in ("claim", "moot"):
            verdict = Verdict("wait", outcome.issues[0])  # of a later version: not ours to mend
        return verdict, theirs, told

    def _ours(self, kept: Kept) -> Ours:
        rows = self.file.rows("digests_of", taking=kept.id)
        known = frozenset(sha256.hex() for sha256, _ in rows)
        accepted = max((revision or 0 for _, revision in rows), default=0)
        return Ours(kept.base_revision, kept.policy_version, kept.fence, known, accepted)

    def look(
        self, kept: Kept, ours: Ours, sha256: str | None = None
    ) -> tuple[Theirs, dict[str, Any]]:
        """What the store has of a task, to judge by and to be shown. The policy is read after each
        refusal: it may have been raised in the middle of a sync."""
        policy = self.fp.scope().policy_version
        told: dict[str, Any] = {"policy_version": policy, "task": None, "results": []}
        try:
            task = self.fp.task(kept.task_id)
        except NotFound:
            return Theirs(None, (), policy, 0), told
        told["task"] = _plain(task)
        results: list[tuple[int, str | None]] = []
        room = LONGEST_SHOWN
        for result in self.fp.results(kept.task_id) if not task.erased else ():
            results.append((result.revision, result.result_sha256))
            if result.revision > kept.base_revision:
                shown, room = _shown(result, room)
                told["results"].append(shown)
                if sha256 is not None and result.result_sha256 == sha256:
                    told["entry"] = result.entry
        return Theirs(task, results, policy, self.fp.now()), told

    # -- what is done about it

    def _claim_again(self, command: Sending) -> str:
        """Take the one task again; the empty text, or the code for which it could not be."""
        kept = self.notes.kept(command.taking)
        request = Request.of(Claim(self.file.worker_id, None, kept.task_id), random_key())
        assert request.key is not None
        number = self.notes.claim_written(request.key, request.body, kept.id)
        return self._claimed(number, request)

    def _claimed(self, number: int, request: Request) -> str:
        (outcome,) = self.fp.execute([request])
        if not outcome.accepted:
            if is_verdict(outcome) or outcome.issues[0] == QueuePaused.code:
                self.notes.claim_ended(number, "void")
            if stops(outcome) and outcome.issues[0] != QueuePaused.code:
                raise error_for(outcome)
            return outcome.issues[0]
        self.notes.claim_answered(number, outcome, "claim")
        if not outcome.grants:
            return "task_leased"
        self.report.claimed += 1
        return ""

    def _anew(self, command: Sending, theirs: Theirs) -> None:
        """New bytes where the old ones do not fit the lease that is held now."""
        if theirs.task is not None:
            there = {sha256 for _, sha256 in theirs.results if sha256 is not None}
            self.notes.rewrite(command, theirs.task.revision, there)

    def _release(self, command: Sending) -> None:
        """What was claimed for nothing is given back. If this is lost, the lease ends by itself."""
        kept = self.notes.kept(command.taking)
        self.fp.execute([Request.of(Release(kept.task_id, self.file.worker_id, kept.fence))])

    def _wait(self, command: Sending, code: str) -> None:
        self._stuck.add(command.taking)
        self.report.waiting[self.notes.kept(command.taking).task_id] = code
        self.notes.waits(command.taking, code)

    def _conflict(self, command: Sending, code: str, message: str, told: dict[str, Any]) -> None:
        self._stuck.add(command.taking)
        if self.notes.conflict(command.taking, code, message, told, self.now):
            self.report.conflicts += 1

    # -- a human's word

    def again(self, kept: Kept) -> None:
        """Let recorded work stand on what the store has now, and be sent."""
        theirs, _ = self.look(kept, self._ours(kept))
        if theirs.task is None:
            self.fp.task(kept.task_id)  # raises
            return
        there = {sha256: number for number, sha256 in theirs.results if sha256 is not None}
        self.notes.stand_on(kept, theirs.task.revision, theirs.policy_version, there)


def is_answer(outcome: Outcome) -> bool:
    """Whether a rule has spoken (or one that this version does not know); not merely an error."""
    issue = ISSUES.get(outcome.issues[0])
    return issue is None or issue.rule > 0


def stops(outcome: Outcome) -> bool:
    """Whether the same would be told of everything else: who sends may not, the scope is revoked,
    or the store could not answer."""
    issue = ISSUES.get(outcome.issues[0])
    if issue is None or outcome.issues[0] == NotFound.code:
        return False
    return issue.rule <= 1 or outcome.status == "blocked"


def _plain(task: Task) -> dict[str, Any]:
    shown = task.to_json()
    del shown["payload"]
    return shown


def _shown(result: Result, room: int) -> tuple[dict[str, Any], int]:
    """A result as it is shown, and how many bytes of others may be shown beside it."""
    shown = result.to_json()
    left = room - len(json.dumps(shown["value"]))
    if left >= 0:
        return shown, left
    shown["value"], shown["kept"] = None, False
    return shown, room
