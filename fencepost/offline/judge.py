"""What a refusal means for recorded work: the store has it, send it again, wait, or ask a human.

Pure. `Ours` is what the outbox knows of a task, `Theirs` what was read of it after the refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from fencepost.issues import ISSUES
from fencepost.model import Task

Means = Literal["recognised", "moot", "claim", "rewrite", "wait", "conflict"]

ENDS = {"give_up": "dead", "block": "blocked"}  # what becomes of a task by a verdict


class Ours(NamedTuple):
    """`known`: the digests (hex) of all results recorded in this taking. `accepted`: the highest
    revision of which a receipt was seen."""

    base_revision: int
    policy_version: int
    fence: int
    known: frozenset[str]
    accepted: int


class Theirs(NamedTuple):
    """`results`: (revision, digest) in order. `task` is None where there is none in the scope."""

    task: Task | None
    results: Sequence[tuple[int, str | None]]
    policy_version: int
    now: int


class Sent(NamedTuple):
    """The command that was refused."""

    verb: str
    sha256: str | None
    fence: int
    issues: Sequence[str]
    verdict: str | None = None


class Verdict(NamedTuple):
    """`revision`: where the result stands, of what was recognised."""

    means: Means
    code: str = ""
    revision: int = 0


def judge(sent: Sent, ours: Ours, theirs: Theirs) -> Verdict:
    """The first that applies, from what ends the question to what is only a matter of time."""
    task = theirs.task
    if task is None:
        return Verdict("wait", "not_found")
    if sent.verdict in ("retry", "release"):
        return _of_try(sent, ours, task, theirs.now)
    if task.erased:
        return Verdict("conflict", "receipt_erased")
    since = [(number, sha256) for number, sha256 in theirs.results if number > ours.base_revision]
    foreign = [number for number, sha256 in since if sha256 not in ours.known]
    same = [number for number, sha256 in theirs.results if sha256 == sent.sha256 is not None]
    here = [number for number in same if number > ours.base_revision]
    if sent.verb == "submit" and (here or (same and "duplicate_result" in sent.issues)):
        return Verdict("recognised", revision=max(same))
    if task.state == "done":
        return _ended(sent, task, foreign, here)
    if task.revision < max(ours.base_revision, ours.accepted):
        return Verdict("conflict", "stale_revision")  # the store has been rolled back
    if task.state == ENDS.get(sent.verdict or ""):
        return Verdict("moot")
    if task.state in ("cancelled", "dead", "blocked"):
        return Verdict("conflict", f"task_{task.state}")
    if foreign:
        return Verdict("conflict", "stale_revision")
    if theirs.policy_version != ours.policy_version:
        return Verdict("conflict", "stale_policy")
    return _open(sent, ours, task, theirs.now)


def _of_try(sent: Sent, ours: Ours, task: Task, now: int) -> Verdict:
    """It only ends a lease. Where that has ended, others may try, as they were to: to claim the
    task for it would cost another attempt."""
    ours_still = task.state == "leased" and now < task.lease_expires_at and task.fence == ours.fence
    return Verdict("rewrite" if ours_still and sent.fence != ours.fence else "moot")


def _ended(sent: Sent, task: Task, foreign: list[int], here: list[int]) -> Verdict:
    """Done. A closing is recognised where its result is the last word, or nobody said another."""
    if sent.verb == "complete":
        if here and max(here) > max(foreign, default=0):
            return Verdict("recognised", revision=max(here))
        if sent.sha256 is None and not foreign:
            return Verdict("recognised", revision=task.revision)
    return Verdict("conflict", "task_done")


def _open(sent: Sent, ours: Ours, task: Task, now: int) -> Verdict:
    """Open at a revision that is explained: whose lease is it?"""
    for code in sent.issues:
        if code in ISSUES and 2 <= ISSUES[code].rule <= 4:
            return Verdict("conflict", code)  # what is sent is not allowed, by whatever lease
    held = task.state == "leased" and now < task.lease_expires_at
    if held:
        if task.fence != ours.fence:
            return Verdict("wait", "task_leased")
        if sent.fence != ours.fence or "stale_revision" in sent.issues:
            return Verdict("rewrite")
    if task.state == "ready" and task.due_at > now:
        return Verdict("wait", "task_ready")
    return Verdict("claim")
