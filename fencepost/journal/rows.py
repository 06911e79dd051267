"""Holds the rows of tasks, results, queues and the store against what the journal has told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Protocol

from fencepost.canonical import sha256
from fencepost.journal.destinations import DestinationLine
from fencepost.journal.entry import commit, content_commitment, projection
from fencepost.journal.imported import has_content
from fencepost.journal.ledger import RESULTS, Ledger
from fencepost.journal.roster import TokenLine
from fencepost.journal.seen import UNKNOWN, Seen, task_name, task_number
from fencepost.journal.standing import QueueLine
from fencepost.model import Scope, StoreState, TaskRow
from fencepost.record import dataclass


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A task's row and its content. `placed` is whether it stands in the index where its state
    says that it is looked for."""

    row: TaskRow
    placed: bool
    salt: bytes | None
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class ResultLine:
    """A result's row, with the bytes and opening of the entry that it names."""

    task: int
    revision: int
    round: int
    sha256: bytes | None
    entry: int
    commitment: str
    body: bytes | None
    task_id: str | None
    entry_body: bytes | None
    entry_salt: bytes | None


class RowSource(Protocol):
    """Where rows come from, all of one snapshot; tasks and results in the order of row ids."""

    def tasks(self) -> Iterable[TaskLine]: ...

    def results(self) -> Iterable[ResultLine]: ...

    def queues(self) -> Iterable[QueueLine]: ...

    def scopes(self) -> Iterable[Scope]: ...

    def tokens(self) -> Iterable[TokenLine]: ...

    def destinations(self) -> Iterable[DestinationLine]: ...

    def strays(self) -> Iterable[tuple[str, int]]:
        """(what, how many): rows that belong to no task, entries that no purge explains."""


class Rows:
    """Checks rows one by one; `run` yields the number of tasks seen so far now and then."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.findings = ledger.findings
        self.tasks = self.results = 0
        self.highest = 0
        self._parents = dict.fromkeys(ledger.parents.values(), UNKNOWN)

    def run(self, source: RowSource, epoch: int, every: int) -> Iterator[int]:
        """All rows, `epoch` being the store's. Results are merged in, since both come in the order
        of row ids."""
        results = Merged(source.results())
        for line in source.tasks():
            self.tasks += 1
            for stray in results.before(line.row.id):
                self._stray(stray)
            self._task(line, results.of(line.row.id))
            if self.tasks % every == 0:
                yield self.tasks
        for stray in results.before(None):
            self._stray(stray)
        for number in self.ledger.tasks:
            self.findings.tell("row_missing", f"task {task_name(number)}", "its row is missing")
        for queue in source.queues():
            self.ledger.standing.check_queue(queue, self.findings)
        for scope in source.scopes():
            self.ledger.standing.check_scope(scope, self.findings)
        self.ledger.standing.check_rest(self.findings)
        for token in source.tokens():
            self.ledger.roster.check(token, self.findings)
        self.ledger.roster.check_rest(self.findings)
        for destination in source.destinations():
            self.ledger.addressed.check(destination, epoch, self.findings)
        self.ledger.addressed.check_rest(self.findings)
        for what, number in source.strays():
            if number:
                self.findings.tell("stray", what, f"{number} of them belong to nothing")

    def _stray(self, line: ResultLine) -> None:
        self.results += 1
        place = f"result {line.task}/{line.revision}"
        self.findings.tell("result_added", place, "it belongs to no task")

    # -- tasks

    def _task(self, line: TaskLine, results: list[ResultLine]) -> None:
        row = line.row
        self.highest = max(self.highest, row.id)
        place = f"task {row.task_id}"
        task = _number(row.task_id)
        if task in self._parents:
            self._parents[task] = row.id
        raw = self.ledger.tasks.pop(task, None)
        if raw is None:
            self.findings.tell("row_added", place, "no entry has brought it about")
        else:
            seen = Seen.unpack(raw)
            if task in self.ledger.parents:
                seen.parent = self._parents[self.ledger.parents[task]]
            self._seen(place, row, seen)
        if row.erased:
            self.ledger.gone(task)
        if not line.placed:
            self.findings.tell("row_edited", place, "it is not where its state is looked for")
        self._content(place, line)
        self._results(place, row, task, results)

    def _seen(self, place: str, row: TaskRow, seen: Seen) -> None:
        told = {
            "created_entry": (row.created_entry, seen.created),
            "entry": (row.entry, seen.entry),
            "changed_at": (row.changed_at, seen.changed_at),
            "row id": (row.id, seen.row),
            "parent": (row.parent or 0, seen.parent),
            "granted_at": (row.granted_at, seen.granted_at),
        }
        if seen.after.hex() != projection(row):
            known = (seen.state_name, seen.fence, seen.revision)
            plain = "" if known == (row.state, row.fence, row.revision) else (
                f": state, fence and revision are {row.state}, {row.fence}, {row.revision}"
                f" and were {', '.join(map(str, known))}"
            )
            message = f"it is not as entry {seen.last} left it{plain}"
            self.findings.tell("row_edited", place, message)
        wrong = [name for name, (is_, was) in told.items() if was != UNKNOWN and is_ != was]
        if wrong:
            message = f"not as the journal has it: {', '.join(wrong)}"
            self.findings.tell("row_edited", place, message)

    def _content(self, place: str, line: TaskLine) -> None:
        row = line.row
        if row.erased:
            if line.payload is not None or row.key is not None or row.reason is not None:
                self.findings.tell("payload", place, "it is erased and content is left")
        elif line.salt is None or line.payload is None:
            self.findings.tell("payload", place, "its payload is missing")
        elif content_commitment(line.salt, row.key, line.payload) != row.content:
            message = "its payload, key or salt is not what was committed to"
            self.findings.tell("payload", place, message)

    # -- results

    def _results(self, place: str, row: TaskRow, task: int, lines: list[ResultLine]) -> None:
        self.results += len(lines)
        have = [line.revision for line in lines]
        if have != list(range(1, row.revision + 1)):
            message = f"it has results of the revisions {have}; its revision is {row.revision}"
            self.findings.tell("result_missing", place, message[:200])
        reviews = self.ledger.reviews.pop(task, {})
        for line in lines:
            where = f"{place} revision {line.revision}"
            verdict = reviews.pop(line.revision, "open")
            if line.commitment != verdict:
                message = f"its commitment is {line.commitment} and the journal says {verdict}"
                self.findings.tell("commitment", where, message)
            rounds = self.ledger.rounds.get(task, ())
            if line.round != 1 + sum(number < line.entry for number in rounds):
                self.findings.tell("result_edited", where, f"it was not of round {line.round}")
            self._result(where, row, line)
        for revision in reviews:
            self.findings.tell("commitment", f"{place} revision {revision}", "its row is missing")

    def _result(self, where: str, row: TaskRow, line: ResultLine) -> None:
        tell = self.findings.tell
        if not _accepted_by(row, line):
            tell("result_edited", where, f"entry {line.entry} has not accepted it")
        if row.erased:
            if line.sha256 is not None or line.body is not None:
                tell("result_edited", where, "its task is erased and content is left")
            return
        if line.sha256 is None:
            tell("result_edited", where, "its digest is missing")
            return
        if line.body is not None and sha256(line.body) != line.sha256:
            tell("result_edited", where, "its bytes are not those of its digest")
        keeps = self.ledger.standing.keeps_content((row.scope, row.queue), line.entry)
        kept = keeps and _handed_in(line)
        if kept != (line.body is not None):
            tell("result_edited", where, f"its bytes are {'gone' if kept else 'there'} against "
                 "the queue's result_storage")  # fmt: skip

    # -- the store's own row

    def store(self, store: StoreState, last_entry: int) -> None:
        """The counters against what was seen."""
        ledger = self.ledger
        lost = len(ledger.purged) > 0  # and with it tasks that they brought about
        wrong = {
            "last_entry": store.last_entry != last_entry,
            "last_fence": store.last_fence != ledger.last_fence,
            "last_task": store.last_task < max(self.highest, ledger.created)
            or (not lost and store.last_task != ledger.created),
            "epoch": store.epoch != ledger.epoch,
            "floor": store.floor != ledger.floor,
            "mark": store.mark < ledger.at,
            "writer_id": ledger.writer not in ("", store.writer_id),
        }
        if ledger.beside:  # numbers have gaps, and a writer may be recognised before it writes
            wrong.update(
                last_entry=store.last_entry < last_entry,
                last_fence=store.last_fence < ledger.last_fence,
                last_task=store.last_task < max(self.highest, ledger.created),
                epoch=store.epoch < ledger.epoch, floor=store.floor < ledger.floor, mark=False,
            )  # fmt: skip
        for name, is_wrong in wrong.items():
            if is_wrong:
                message = f"{name} is {getattr(store, name)}, which is not what the journal says"
                self.findings.tell("counter", "store", message)


def _number(task_id: str) -> int:
    try:
        return task_number(task_id)
    except ValueError:
        return -1


def _accepted_by(row: TaskRow, line: ResultLine) -> bool:
    """Whether the entry that a result names has accepted this very result for this revision."""
    try:
        entry = json.loads(line.entry_body or b"")
        item = entry["tasks"][0]
        names = (item["task_id"], item["revision"])
        verb, told = entry["verb"], entry["result"]
    except (ValueError, LookupError, TypeError):
        return False
    if names != (row.task_id, line.revision) or verb not in RESULTS:
        return False
    if line.entry_salt is None or line.sha256 is None:
        return True  # the opening may be gone with a follow-up that was erased
    return bool(told == commit(b"result", line.entry_salt, line.sha256).hex())


def _handed_in(line: ResultLine) -> bool:
    """Whether the content of a result was handed in. Of an import there may be the digest alone."""
    try:
        return has_content(json.loads(line.entry_body or b"{}"))
    except (ValueError, LookupError, TypeError, AttributeError):
        return True


class Merged:
    """Results in the order of row ids, taken apart by task as the tasks go by."""

    def __init__(self, lines: Iterable[ResultLine]) -> None:
        self._lines = iter(lines)
        self._next = next(self._lines, None)

    def before(self, row_id: int | None) -> Iterator[ResultLine]:
        """Those of tasks below this row id (None: all that are left)."""
        while self._next is not None and (row_id is None or self._next.task < row_id):
            yield self._next
            self._next = next(self._lines, None)

    def of(self, row_id: int) -> list[ResultLine]:
        """Those of this task."""
        found = []
        while self._next is not None and self._next.task == row_id:
            found.append(self._next)
            self._next = next(self._lines, None)
        return found
