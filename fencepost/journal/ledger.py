"""Folds the entries of a journal, one after another, and checks every move that they tell.

Each task moves by the table of `rules/lifecycle.py`, from the state in which the entry before
left it; fences rise by one over the whole journal, as the rule draws them; a revision steps by
one exactly where a result was accepted. What is left at the end is what the rows must say.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from fencepost.clock import from_rfc3339
from fencepost.journal import imported
from fencepost.journal.destinations import Destinations
from fencepost.journal.problems import Findings
from fencepost.journal.reading import SHAPES, EntryRow
from fencepost.journal.roster import Roster
from fencepost.journal.seen import UNKNOWN, Seen, task_name, task_number
from fencepost.journal.standing import Standing
from fencepost.lineage import STARTED, Writer
from fencepost.model import STATES
from fencepost.rules.fence import needs_new_epoch, next_fence
from fencepost.rules.lifecycle import ENDED, OBLIGING, allowed

RESULTS = frozenset({"submit", "complete", "resolve", "import"})
ROLES: dict[str, tuple[str | None, ...]] = {
    "enqueue": (None,),
    "submit": ("obligation",),
    "complete": ("followup", "obligation"),
    "fail": ("obligation",),
    "cancel": ("obligation",),
    "resolve": ("obligation",),
    "import": ("obligation",),
    "sweep": (None, "obligation"),
}
"""The roles in which a verb brings tasks about."""
_NUMBER = {state: place for place, state in enumerate(STATES)}


class Ledger:
    """The state of everything after the entries taken so far.

    `beside`: transactions have run side by side. Then only what one task's entries, and those of
    who was alone, say of each other has an order: fences rise for each task, with gaps, times of
    different tasks interleave, and a new epoch begins wherever a new writer was recognised.
    Where not, it begins with a writer of the `lineage` before the first entry of that epoch."""

    def __init__(
        self, findings: Findings, beside: bool = False, lineage: Sequence[Writer] = ()
    ) -> None:
        self.findings = findings
        self.beside = beside
        self._coming = [writer for writer in reversed(lineage) if writer.epoch]
        self.tasks: dict[int, bytes] = {}
        self.standing = Standing()
        self.roster = Roster()
        self.addressed = Destinations()
        self.purged: array[int] = array("q")
        self.reviews: dict[int, dict[int, str]] = {}
        self.rounds: dict[int, list[int]] = {}
        self.parents: dict[int, int] = {}
        self.writers: set[str] = set()
        self.writer = ""
        self.epoch = self.floor = self.last_fence = self.at = self.created = 0
        self._doubts: dict[int, list[tuple[str, str, str]]] = {}
        self._closed: dict[int, list[int]] = {}
        self._unexcused: set[int] = set()

    def lose(self, number: int) -> None:
        """An entry whose bytes are gone: what it said of other tasks is not known any more."""
        self.purged.append(number)

    def take(self, row: EntryRow, entry: dict[str, Any]) -> None:
        """Fold one entry whose form has been checked."""
        where = f"entry {row.number}"
        self._heading(where, entry)
        try:
            self.standing.take(row.number, entry)
            self.roster.take(row, entry)
            self.addressed.take(row, entry)
        except (ValueError, TypeError, AttributeError) as error:
            self.findings.tell("entry_form", where, f"its note: {error}")
        moves = Moves(self, row, entry)
        for item in entry["tasks"]:
            moves.take(item)
        moves.finish()
        if entry["verb"] == "claim" and self.epoch != entry["epoch"] and not self.beside:
            self.findings.tell("epoch", where, f"no fence has led to epoch {entry['epoch']}")
        self.epoch = entry["epoch"]

    def come_to(self, epoch: int) -> None:
        """Writers that were recognised up to this epoch: what is after them begins as they left
        it, and leases of before a copy do not count."""
        while self._coming and self._coming[-1].epoch <= epoch:
            writer = self._coming.pop()
            if writer.epoch > self.epoch and not self.beside:
                self.floor = self.floor if writer.why == STARTED else writer.epoch
                self.epoch = writer.epoch
                self.last_fence = max(self.last_fence, writer.epoch << 32)

    def _heading(self, where: str, entry: dict[str, Any]) -> None:
        tell, verb, at = self.findings.tell, entry["verb"], from_rfc3339(entry["at"])
        self.come_to(entry["epoch"] - (verb == "clock.reset"))
        if self.beside and entry["epoch"] >= self.epoch + (verb == "clock.reset"):
            self.floor = entry["epoch"] if verb == "clock.reset" else self.floor
        elif verb == "clock.reset":
            self.floor = entry["epoch"]
            if entry["epoch"] != self.epoch + 1:
                tell("epoch", where, f"clock.reset goes from {self.epoch} to {entry['epoch']}")
        elif at < self.at and not self.beside:
            tell("time", where, "its time is before that of the entry before it")
        elif not (self.epoch <= entry["epoch"] <= self.epoch + (verb == "claim")):
            tell("epoch", where, f"the epoch goes from {self.epoch} to {entry['epoch']}")
        if self.writer not in ("", entry["writer"]) and entry["epoch"] == self.epoch:
            tell("writer", where, "the writer changes and the epoch stays")
        self.at, self.writer = at, entry["writer"]
        self.writers.add(self.writer)

    def next_fence(self) -> int:
        """The fence that a claim must have drawn."""
        fence = next_fence(self.last_fence, self.epoch)
        if needs_new_epoch(fence, self.epoch):
            self.epoch += 1
        return fence

    # -- what can only be judged later

    def doubt(self, task: int, last: int, number: int, code: str, message: str) -> None:
        """A move that does not fit the one before. Where bytes between the two are gone, it may
        be that the task's own entries went with it; that shows when it is purged."""
        between = bisect_left(self.purged, last + 1) < bisect_left(self.purged, number)
        problem = code, f"entry {number}", f"task {task_name(task)}: {message}"
        if between:
            self._doubts.setdefault(task, []).append(problem)
        else:
            self.findings.tell(*problem)

    def close(self, number: int, tasks: list[int]) -> None:
        """The opening of an entry is gone: one of these tasks must have been erased or purged."""
        self._unexcused.add(number)
        for task in tasks:
            self._closed.setdefault(task, []).append(number)

    def gone(self, task: int) -> None:
        """The task was erased or purged: openings of what it brought about are rightly gone."""
        self._unexcused.difference_update(self._closed.pop(task, ()))

    def forget(self, task: int) -> None:
        """The task was purged, and what was doubtful about it with it."""
        self.gone(task)
        for kept in (self._doubts, self.reviews, self.rounds, self.parents):
            kept.pop(task, None)

    def settle(self) -> None:
        """Called after the rows have been seen: what was left open is a problem now."""
        for problems in self._doubts.values():
            for problem in problems:
                self.findings.tell(*problem)
        for number in sorted(self._unexcused):
            self.findings.tell(
                "opening_missing", f"entry {number}", "its opening is gone and nothing was erased"
            )


class Moves:
    """The tasks of one entry."""

    def __init__(self, ledger: Ledger, row: EntryRow, entry: dict[str, Any]) -> None:
        self.ledger = ledger
        self.row = row
        self.number = row.number
        self.entry = entry
        self.verb: str = entry["verb"]
        self.stepped = False
        self.due: tuple[int, int, list[str]] = 0, 0, []
        self.owed: list[str] = []
        self.fresh: list[int] = []
        self.known: list[int] = []
        self.named = 0

    def tell(self, code: str, message: str) -> None:
        self.ledger.findings.tell(code, f"entry {self.number}", message)

    def take(self, item: dict[str, Any]) -> None:
        """One task that the entry names."""
        task = task_number(item["task_id"])
        raw = self.ledger.tasks.get(task)
        if "before" not in item:
            self._create(task, item, raw)
            return
        seen = self._start(task, item) if raw is None else Seen.unpack(raw)
        self.named = self.named or task
        last = seen.last
        self._move(task, item, seen)
        self._owe(task, item, last)
        seen.last = self.number
        if self.verb == "purge":
            self.ledger.tasks.pop(task, None)
            self.ledger.forget(task)
            return
        self.ledger.tasks[task] = seen.pack()
        if self.verb == "erase":
            self.ledger.gone(task)

    def _create(self, task: int, item: dict[str, Any], raw: bytes | None) -> None:
        if raw is not None:
            self.tell("transition", f"task {item['task_id']} is there already and comes into being")
        role, verb = item.get("role"), self.verb
        fits = role in ROLES.get(verb, ()) and allowed(verb, None, item.get("state"))
        if not fits or item["fence"] or item["revision"]:
            self.tell("transition", f"task {item['task_id']}: {verb} does not bring it about so")
        if role == "obligation":
            self.owed.append(item.get("queue", ""))
        self.fresh.append(task)
        self.ledger.created += 1
        parent = 0 if role is None else self._parent(task)
        self.ledger.tasks[task] = Seen(
            bytes.fromhex(item["after"]), _NUMBER[item["state"]], 0, 0, self.number, self.number,
            self.number, UNKNOWN, parent, self.ledger.at, 0,
        ).pack()  # fmt: skip

    def _parent(self, task: int) -> int:
        """The row id of the task that has brought this one about. Of what a sweep owes it is known
        by the task's own row alone, which comes before."""
        if self.row.task is None:
            self.ledger.parents[task] = self.due[0]
        return self.row.task or UNKNOWN

    def _owe(self, task: int, item: dict[str, Any], last: int) -> None:
        """What must follow in this entry for what has come of the task. `last` named it before."""
        if item.get("role") is not None or self.verb not in OBLIGING:
            return
        self._settle_owed()
        place = self.entry["scope"], item.get("queue", self.entry.get("queue", ""))
        moved = item["state"] if item["state"] != item["before"] else ""
        accepted = self.stepped and self.verb in RESULTS and imported.has_content(self.entry)
        found = [name for outcome in ("result" if accepted else "", moved)
                 for name in self.ledger.standing.owed(place, outcome)]  # fmt: skip
        self.due = task, last, found

    def _settle_owed(self) -> None:
        """What the task named last owes, against what the entry says."""
        task, last, expected = self.due
        if self.owed != expected:
            # where bytes are gone, the step may have been theirs
            message = f"it owes messages to {self.owed}, not to {expected}"
            self.ledger.doubt(task, last, self.number, "obligation", message)
        self.owed = []

    def _start(self, task: int, item: dict[str, Any]) -> Seen:
        """A task whose first entries are gone, or one that never came into being."""
        missing = "no entry has brought it about"
        self.ledger.doubt(task, 0, self.number, "task_unknown", missing)
        fence = item["fence"] - (self.verb == "claim")  # which one it had before nobody knows
        return Seen(
            b"", _NUMBER[item["before"]], fence, item["revision"], 0, UNKNOWN, UNKNOWN,
            UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
        )  # fmt: skip

    def _move(self, task: int, item: dict[str, Any], seen: Seen) -> None:
        before, state = item["before"], item.get("state")
        if before != seen.state_name:
            self._doubt(task, seen, "transition", f"it was {seen.state_name}, not {before}")
            seen.state = _NUMBER[before]
        if self._only_named(item):
            self.known.append(task)
            if state != before:
                self.tell("transition", f"task {item['task_id']}: naming it does not change it")
            self._same(task, item, seen)
            return
        if not allowed(self.verb, before, state):
            self.tell("transition", f"{self.verb} does not lead from {before} to {state or 'gone'}")
        self._fence(task, item, seen)
        self._revision(task, item, seen)
        if self._leaves_it(before, state):
            self._same(task, item, seen)
        elif state is not None:
            seen.after, seen.state = bytes.fromhex(item["after"]), _NUMBER[state]
            seen.entry, seen.changed_at = self.number, self.ledger.at
            if self._new_round(before, state):
                self.ledger.rounds.setdefault(task, []).append(self.number)
        if self.verb == "review":
            self._review(task, item)
        elif self.verb == "import":
            self._import(task, item)

    def _only_named(self, item: dict[str, Any]) -> bool:
        """A known key gave the known task: the entry names it as it is."""
        return self.verb == "enqueue" or item.get("role") == "followup"

    def _leaves_it(self, before: str, state: str | None) -> bool:
        """The task stays as it is: a review that begins no round, an import of what is known."""
        if self.verb == "review":
            return not self._new_round(before, state)
        return self.verb == "import" and not self.stepped

    def _import(self, task: int, item: dict[str, Any]) -> None:
        rounds = self.ledger.rounds.get(task, [])
        problem = imported.problem(self.entry, item, 1 + len(rounds), accepts=self.stepped)
        if problem:
            self.tell("imported", problem)
        elif self.stepped and self.entry["note"]["round"] > 1 + len(rounds):
            # it begins just before this very result
            self.ledger.rounds.setdefault(task, rounds).append(self.number - 1)

    def _new_round(self, before: str, state: str | None) -> bool:
        return self.verb in ("requeue", "review") and before in ENDED and state == "ready"

    def _same(self, task: int, item: dict[str, Any], seen: Seen) -> None:
        known = (seen.after.hex(), seen.fence, seen.revision)
        if seen.after and known != (item["after"], item["fence"], item["revision"]):
            self._doubt(task, seen, "transition", f"{self.verb} leaves it as it is, and it differs")
        seen.after, seen.fence = bytes.fromhex(item["after"]), item["fence"]
        seen.revision = item["revision"]

    def _fence(self, task: int, item: dict[str, Any], seen: Seen) -> None:
        fence = item["fence"]
        if self.verb == "claim" and self.ledger.beside:
            if fence <= seen.fence or fence >> 32 > self.entry["epoch"]:
                self.tell("fence", f"the claim has fence {fence}; its task had {seen.fence}")
            self.ledger.last_fence = max(fence, self.ledger.last_fence)
            seen.granted_at = self.ledger.at
        elif self.verb == "claim":
            if fence != (expected := self.ledger.next_fence()):
                self.tell("fence", f"the claim has fence {fence}; the next one was {expected}")
            self.ledger.last_fence = max(fence, expected)
            seen.granted_at = self.ledger.at
        elif fence != seen.fence:
            self._doubt(task, seen, "fence", f"its fence was {seen.fence}, not {fence}")
        seen.fence = fence

    def _revision(self, task: int, item: dict[str, Any], seen: Seen) -> None:
        step = item["revision"] - seen.revision
        may: tuple[int, ...] = (0,)
        if self.verb == "submit":
            may = (1,)
        elif "result" in self.entry and item.get("role") is None:
            may = (0, 1)
        if step not in may:
            message = f"its revision goes from {seen.revision} to {item['revision']}"
            self._doubt(task, seen, "revision", message)
        self.stepped = step > 0
        seen.revision = item["revision"]

    def _review(self, task: int, item: dict[str, Any]) -> None:
        note = self.entry["note"]
        revision, verdict = note.get("revision"), note.get("verdict")
        known = self.ledger.reviews.setdefault(task, {})
        fits = type(revision) is int and 1 <= revision <= item["revision"]
        if not fits or verdict not in ("accepted", "rejected") or revision in known:
            self.tell("commitment", f"it reviews revision {revision!a} as {verdict!a}")
            return
        known[revision] = verdict

    def _doubt(self, task: int, seen: Seen, code: str, message: str) -> None:
        self.ledger.doubt(task, seen.last, self.number, code, message)

    def finish(self) -> None:
        """What the entry as a whole must be: its target, its obligations, its opening."""
        targeted = SHAPES[self.verb].targeted
        if targeted != (self.row.task is not None):
            self.tell("target", f"{self.verb} {'has lost' if targeted else 'has'} a target's row")
        if self.verb in OBLIGING:
            self._settle_owed()
        if targeted and self.verb != "erase" and self.row.task is not None:
            self._bind(self.row.task)
        if self.row.closed and self.verb != "erase":  # an erase closes its own
            named = [self.named] if targeted and self.named else []
            self.ledger.close(self.number, [*self.fresh, *self.known, *named])

    def _bind(self, row: int) -> None:
        raw = self.ledger.tasks.get(self.named)
        if raw is None:
            return
        seen = Seen.unpack(raw)
        if seen.row not in (UNKNOWN, row):
            self.tell("target", "its target's row is not that of the task it names")
        seen.row = row
        self.ledger.tasks[self.named] = seen.pack()
