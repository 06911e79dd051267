"""One task, as the design tells it (DESIGN, "States" and "Commands and rules"): what each command
may answer in each state, and what it leaves. Written apart from the product; it imports none of it.

Time. The store's time is asked once in each transaction and stands in the entry, so of a command
that left one the instant is known. Of the others (refusals, renewals, what found nothing) it is
known only to lie between call and answer, and not before what has been committed already: the model
goes on with both sides of each boundary that lies between, and remembers which side it was. So a
lease may be taken over, or refused as expired, only if its end can have come by then; and a holder
may be honoured only if it can still have been to come. An end that a killed renewal may have moved,
and a back-off drawn at random, are known as a span until somebody has read them.

The leases beside a claim's receipt are read when all is done that shares its commit, and so they
are an operation of their own ("shown"), of the same instant. A claim or a sweep that was told of
less than it would have taken says of every other task that it was not to be had.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SECOND = 1_000_000
ON_LEASE = frozenset({"renew", "submit", "complete", "fail", "release"})
ENDED = ("done", "dead", "cancelled")
STARTS = {"cancel": ("ready", "leased", "blocked"), "requeue": ENDED, "resolve": ("blocked",),
          "claim": ("ready", "leased")}  # fmt: skip
# the order in which issues are told
CODES = (
    "task_cancelled", "task_done", "task_dead", "task_blocked", "not_leased", "task_ready",
    "task_leased", "wrong_worker", "unknown_fence", "stale_fence", "lease_expired",
    "duplicate_result", "stale_revision",
)  # fmt: skip

Span = tuple[int, int]  # the first and the last instant that it can be, in microseconds


class Was(NamedTuple):
    """The task at one moment. `known` has of each accepted command its key, its key with the
    digest of its bytes, and both with its receipt. `now` is the latest instant that is sure."""

    state: str = "ready"
    fence: int = 0
    worker: str | None = None
    end: Span = (0, 0)
    attempt: int = 0
    round: int = 1
    due: Span = (0, 0)
    results: tuple[tuple[int, str, int], ...] = ()  # round, digest, entry; the place: revision
    known: frozenset[object] = frozenset()
    ended: int = 0
    now: int = 0
    entry: int = 0


class Receipt(NamedTuple):
    """An entry as it was told: its number, its time, the digest of its bytes."""

    number: int
    at: int
    body: str


class Op(NamedTuple):
    """One command or read, and what was told of this task. `first` and `last` are the store's
    times at call and answer. `item` is what the entry says of the task: (before, after, fence,
    revision). `after` is the number of the entry that was told of this task before this one."""

    verb: str
    first: int
    last: int
    status: str = "accepted"  # or refused, or unknown
    key: str = ""
    sha: str = ""
    worker: str = ""
    fence: int | None = None
    digest: str | None = None
    expected: int | None = None
    seconds: int = 0
    retry_seconds: int | None = None
    to: str = ""
    one: bool = False  # a claim of this very task
    room: bool = False  # a claim or sweep that would have taken more
    issues: tuple[str, ...] = ()
    facts: tuple[str, int, int] | None = None  # state, fence, revision, of a refusal
    names: int | None = None  # the receipt that a refusal names
    replayed: bool = False
    receipt: Receipt | None = None
    after: int = 0
    item: tuple[str, str, int, int] | None = None
    grant: tuple[int, int, int, int] | None = None  # fence, revision, attempt, lease end
    told_end: int = 0  # of a renewal
    row: tuple[object, ...] = ()  # of a read


class OneTask:
    """The rules for a task on a queue with these settings; `created_at` is when it was made."""

    def __init__(self, created_at: int, max_attempts: int, on_lapse: str, backoff: int) -> None:
        self.created_at = created_at
        self.max_attempts = max_attempts
        self.on_lapse = on_lapse
        self.backoff = backoff

    def first(self) -> Was:
        """As it was enqueued."""
        return Was(due=(self.created_at, self.created_at), now=self.created_at)

    def step(self, was: Was, op: Op) -> Iterator[Was]:
        """The states that may follow; none where the answer could not have been given."""
        if op.verb == "task":
            return _read(was, op.row)
        if op.verb == "results":
            return iter([was] if op.row == tuple(r[:2] for r in was.results) else [])
        return self._command(was, op)

    def _command(self, was: Was, op: Op) -> Iterator[Was]:
        first, last = max(was.now, op.first), op.last
        if op.receipt is not None and not op.replayed:
            at = op.receipt.at
            if at < first or at > last or was.entry != op.after:
                return
            first = last = at
        if first > last:
            return
        for moment, late, due, end in _moments(was, op.verb, first, last):
            yield from self._at(moment, op, late, due, end)

    def _at(self, was: Was, op: Op, late: bool, due: bool, last: int) -> Iterator[Was]:
        known = op.key in was.known
        if op.verb == "shown":
            if _shows(was, op, late):
                yield was
        elif op.status == "unknown":
            yield was
            if op.verb == "renew" and not known and not self._refusal(was, op, late):
                low, high = was.end
                span = op.seconds * SECOND
                yield was._replace(end=(max(low, was.now + span), max(high, last + span)))
        elif op.status == "refused":
            if known:
                issues = () if (op.key, op.sha) in was.known else ("idempotency_key_reused",)
                right = op.issues == issues
            else:
                right = op.issues == self._refusal(was, op, late) != () and _facts(was, op)
            if right:
                yield was
        elif op.replayed:
            if (op.key, op.sha, op.receipt) in was.known:
                yield was
        elif not known:
            for new in self._accepted(was, op, late, due, last):
                if op.item is None or op.item == (was.state, *_shown(new)):
                    yield _kept(new, op)

    def _refusal(self, was: Was, op: Op, late: bool) -> tuple[str, ...]:
        """All codes that apply, in order; none where the command must be accepted."""
        codes: set[str] = set()
        if op.verb in ON_LEASE:
            if was.state != "leased":
                codes.add("not_leased" if was.state == "ready" else f"task_{was.state}")
            if op.worker != was.worker:
                codes.add("wrong_worker")
            if late:
                codes.add("lease_expired")
            if op.verb == "submit" and _holder(was, op) and self._has(was, op.digest):
                codes.add("duplicate_result")
            if op.expected is not None and op.expected != len(was.results):
                codes.add("stale_revision")
        elif (
            op.verb in STARTS
            and (op.verb != "claim" or op.one)
            and (was.state not in STARTS[op.verb])
        ):
            codes.add(f"task_{was.state}")
        if op.fence is not None and op.fence != was.fence:
            codes.add("unknown_fence" if op.fence > was.fence else "stale_fence")
        return tuple(code for code in CODES if code in codes)

    def _has(self, was: Was, digest: str | None) -> bool:
        return any((was.round, digest) == result[:2] for result in was.results)

    def _accepted(self, was: Was, op: Op, late: bool, due: bool, last: int) -> Iterator[Was]:
        if op.verb in ("claim", "sweep"):
            taking = self._claimed if op.verb == "claim" else self._swept
            yield from taking(was, op, late, due)
        elif not self._refusal(was, op, late):
            if op.verb == "renew":
                yield from _renewed(was, op, last)
            elif op.receipt is not None:
                yield self._moved(was, op, op.receipt)

    def _lapse(self, was: Was) -> str:
        if self.on_lapse == "reconcile":
            return "blocked"
        return "dead" if was.attempt >= self.max_attempts else "ready"

    def _claimed(self, was: Was, op: Op, late: bool, due: bool) -> Iterator[Was]:
        lapsed = was.state == "leased" and late
        free = (was.state == "ready" and due) or (lapsed and self._lapse(was) == "ready")
        if op.item is None:
            if self._refusal(was, op, late) or (op.room and free):
                return
            yield was
            if lapsed and not free:  # what cannot be claimed again is settled on the way
                yield was._replace(state=self._lapse(was))
        elif free and op.item[2] > was.fence and op.receipt is not None:
            end = op.receipt.at + op.seconds * SECOND
            yield was._replace(
                state="leased", fence=op.item[2], worker=op.worker, end=(end, end),
                attempt=was.attempt + 1,
            )  # fmt: skip

    def _swept(self, was: Was, op: Op, late: bool, due: bool) -> Iterator[Was]:
        lapsed = was.state == "leased" and late
        if op.item is None:
            if not (op.room and lapsed):
                yield was
        elif lapsed:
            new = was._replace(state=self._lapse(was))
            if new.state != "ready":
                yield new
            elif op.receipt is not None:
                yield self._later(new, op, op.receipt.at)

    def _later(self, was: Was, op: Op, at: int) -> Was:
        """Ready again after a back-off: as told, or the queue's, up to half of it taken off."""
        if op.retry_seconds is not None:
            wait = (op.retry_seconds * SECOND,) * 2
        else:
            longest = self.backoff * 2 ** (was.attempt - 1) * SECOND
            wait = (longest // 2, longest)
        return was._replace(due=(at + wait[0], at + wait[1]))

    def _moved(self, was: Was, op: Op, receipt: Receipt) -> Was:
        number = receipt.number
        if op.digest is not None and not self._has(was, op.digest):
            was = was._replace(results=(*was.results, (was.round, op.digest, number)))
        if op.verb == "complete" or (op.verb, op.to) == ("resolve", "done"):
            return was._replace(state="done", ended=number)
        if op.verb == "fail":
            if op.to == "block":
                return was._replace(state="blocked")
            if op.to == "give_up" or was.attempt >= self.max_attempts:
                return was._replace(state="dead")
            return self._later(was._replace(state="ready"), op, receipt.at)
        at_once = (self.created_at, self.created_at)
        if op.verb == "requeue":
            return was._replace(state="ready", round=was.round + 1, attempt=0, due=at_once)
        if op.verb == "resolve":
            if op.to == "give_up":
                return was._replace(state="dead")
            return was._replace(state="ready", due=at_once)
        if op.verb == "release":
            return was._replace(state="ready", attempt=was.attempt - 1)
        return was._replace(state="cancelled") if op.verb == "cancel" else was


def _split(first: int, last: int, span: Span) -> Iterator[tuple[bool, int, int, Span]]:
    """(whether it has come, the instants at which that is so, what is known of it then)."""
    low, high = span
    if first < high:
        yield False, first, min(last, high - 1), (max(low, first + 1), high)
    if last >= low:
        yield True, max(first, low), last, (low, min(high, last))


def _moments(was: Was, verb: str, first: int, last: int) -> Iterator[tuple[Was, bool, bool, int]]:
    """The task at each side of its boundaries: whether its lease has ended and whether it is due,
    and the last instant at which it is so. Of a boundary that nobody asks for only one side."""
    if verb == "claim" and was.state == "ready":
        for due, a, b, span in _split(first, last, was.due):
            yield was._replace(now=a, due=span), True, due, b
    elif was.fence and (verb in ON_LEASE or verb in ("claim", "sweep", "shown")):
        for late, a, b, span in _split(first, last, was.end):
            yield was._replace(now=a, end=span), late, False, b
    else:
        yield was._replace(now=first), False, False, last


def _renewed(was: Was, op: Op, last: int) -> Iterator[Was]:
    """The new end is the instant plus what was asked for, unless the old one is later."""
    (low, high), end = was.end, op.told_end
    instant = end - op.seconds * SECOND
    if was.now <= instant <= last and low <= end:
        yield was._replace(end=(end, end), now=instant)
    if low <= end <= high and was.now <= instant:
        yield was._replace(end=(end, end))


def _kept(was: Was, op: Op) -> Was:
    if op.receipt is None:
        return was
    if not op.key:
        return was._replace(entry=op.receipt.number, now=op.receipt.at)
    told = {(op.key, op.sha, op.receipt), (op.key, op.sha), op.key}
    if op.verb in ON_LEASE:  # found again by its bytes as well, whatever key it had
        told |= {(op.sha, op.sha, op.receipt), (op.sha, op.sha), op.sha}
    return was._replace(known=was.known | told, entry=op.receipt.number, now=op.receipt.at)


def _shown(was: Was) -> tuple[str, int, int]:
    return was.state, was.fence, len(was.results)


def _facts(was: Was, op: Op) -> bool:
    """What a refusal tells of the task: as it is, and the receipt that counts instead."""
    if op.facts is not None and op.facts != _shown(was):
        return False
    if op.verb not in ON_LEASE:
        return True
    named = was.ended if was.state == "done" and _holder(was, op) else None
    for round_, digest, number in was.results:
        if "duplicate_result" in op.issues and (round_, digest) == (was.round, op.digest):
            named = number
    return op.names == named


def _holder(was: Was, op: Op) -> bool:
    """Who holds the lease or held the last one, and so may be told of results."""
    return (op.worker, op.fence) == (was.worker, was.fence)


def _shows(was: Was, op: Op, late: bool) -> bool:
    """After a claim its lease is shown if it still lives, and only then."""
    assert op.fence is not None
    if was.state != "leased" or was.fence != op.fence or late:
        return op.grant is None and was.fence >= op.fence
    if op.grant is None:
        return False
    *plain, end = op.grant
    return plain == [was.fence, len(was.results), was.attempt] and was.end[0] <= end <= was.end[1]


def _read(was: Was, row: tuple[object, ...]) -> Iterator[Was]:
    """A read tells everything, and so ends what was known only as a span."""
    *plain, end, due = row
    assert isinstance(end, int) and isinstance(due, int)
    spans = was.end[0] <= end <= was.end[1] and was.due[0] <= due <= was.due[1]
    seen = [was.state, was.fence, was.worker, was.attempt, was.round, len(was.results)]
    if spans and plain == seen:
        yield was._replace(end=(end, end), due=(due, due))
