"""Whether the run of the demo kept the promise. Each check is a sentence that must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from fencepost.handle import Handle
from fencepost.operate.demo.director import Seen
from fencepost.operate.demo.files import to_path
from fencepost.operate.demo.tally import Tally
from fencepost.operate.demo.view import counted
from fencepost.operate.demo.worker import DESTINATION


@dataclass(frozen=True, slots=True)
class Check:
    """A sentence, what it was held against, and what speaks against it."""

    sentence: str
    extent: str
    complaints: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.complaints


@dataclass(frozen=True, slots=True)
class Run:
    """All that the checks look at. `names` is task id → name of the file (see files.py)."""

    fp: Handle
    folder: Path
    names: Mapping[str, str]
    seen: Seen
    tally: Tally


def direct(path: Path) -> dict[str, Any]:
    """The result that a file must have: not computed by the workers' code."""
    with path.open("rb") as file:
        lines = sum(1 for _ in file)
    return {"lines": lines, "sha256": sha256(path.read_bytes()).hexdigest()}


def results(run: Run) -> Iterator[str]:
    for task_id, name in run.names.items():
        found = [(result.revision, result.value) for result in run.fp.results(task_id)]
        try:
            expected = direct(run.folder / to_path(name))
        except OSError as error:
            yield f"{name}: {error.strerror}"
            continue
        if found != [(1, expected)]:
            yield f"{name}: expected {expected}, the store has {found}"


def receipts(run: Run) -> Iterator[str]:
    for task_id, name in run.names.items():
        number = len(run.tally.completions.get(task_id, ()))
        if number != 1:
            yield f"{name}: {number} completing receipts"
    for task_id in run.tally.completions.keys() - run.names.keys():
        yield f"a receipt completes {task_id}, which nobody enqueued"


def answers(run: Run) -> Iterator[str]:
    for answer in run.seen.answers:
        entries = run.tally.completions.get(answer["task_id"], ())
        if [receipt.to_json() for receipt in entries] != [answer["receipt"]]:
            yield f"task {answer['task_id']}: the answer is not the entry of the journal"


def replays(run: Run) -> Iterator[str]:
    again = {answer["task_id"]: answer for answer in run.seen.replays}
    for task_id, first in run.seen.lost.items():
        if first["issues"]:
            continue
        second = again.get(task_id)
        if second is None or second["receipt"] != first["receipt"]:
            yield f"task {task_id}: the second answer is not the first"
    for task_id in again.keys() - run.seen.lost.keys():
        yield f"task {task_id}: replayed, though no answer was lost"


def obligations(run: Run) -> Iterator[str]:
    owed = {task.task_id for task in run.fp.tasks(DESTINATION)}
    for task_id, name in run.names.items():
        messages = run.tally.obligations.get(task_id, [])
        if len(messages) != 1 or messages[0] not in owed:
            yield f"{name}: {len(messages)} obligations"
            continue
        owed.discard(messages[0])
        payload = run.fp.task(messages[0]).payload
        said = payload["task_id"], payload["revision"], payload["result"]
        accepted = [(task_id, r.revision, r.value) for r in run.fp.results(task_id)]
        if accepted != [said]:
            yield f"{name}: its obligation says something else"
    for message in owed:
        yield f"obligation {message} belongs to no accepted result"


def refusals(run: Run) -> Iterator[str]:
    if run.seen.late_accepted:
        yield f"{run.seen.late_accepted} late results were accepted"


def misfortunes(run: Run) -> Iterator[str]:
    seen = run.seen
    for number, what in (
        (len(seen.killed), "killed"),
        (len(seen.stopped), "stopped"),
        (seen.losers, "without an answer"),
        (sum(seen.refusals.values()), "refused"),
        (len(seen.replays), "answered twice"),
        (run.tally.reclaims, "relieved by another"),
    ):
        if number == 0:
            yield f"no worker was {what}"


def verified(run: Run) -> Iterator[str]:
    run.fp.seal()
    found = run.fp.verify()
    for problem in found.problems:
        yield f"{problem.code}: {problem.place}: {problem.message}"
    if not found.entries == found.sealed == run.tally.entries:
        yield f"{run.tally.entries} entries read, {found.entries} verified, {found.sealed} sealed"


def all_checks(run: Run) -> Iterator[Check]:
    """One after the other, since the last ones take a moment."""
    seen, files = run.seen, len(run.names)
    held: list[tuple[Callable[[Run], Iterator[str]], str, str]] = [
        (results, "every accepted result equals a direct computation", counted(files, "file")),
        (receipts, "exactly one completing receipt for each task", counted(files, "task")),
        (answers, "every answer is the journal's entry, byte for byte",
         counted(len(seen.answers), "answer")),
        (replays, "who asked again got the same receipt, byte for byte",
         counted(len(seen.replays), "replay")),
        (obligations, "one obligation for each accepted result, with its content",
         counted(files, "message")),
        (refusals, "nothing that a late worker handed in was accepted",
         counted(sum(seen.stopped), "lease")),
        (misfortunes, "every kind of misfortune really happened",
         f"{len(seen.killed) + len(seen.stopped) + seen.losers} of them"),
        (verified, "the store is what its journal says (verify)",
         f"{run.tally.entries:,} sealed entries"),
    ]  # fmt: skip
    for check, sentence, extent in held:
        yield Check(sentence, extent, tuple(check(run)))
