"""What `sqlite_reference.py` is made of beside the rules: codes and refusals, a clock, threads,
chance, the shapes of answers, and what the bytes of an entry are made of. Standard library only;
no line of it is shared with a product.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from threading import Barrier, Thread
from typing import Any

from .reference_bytes import MAY, VERBS, Row, canonical, is_a, rfc3339

SECOND = 1_000_000

NEW_STORE = Row(epoch=0, floor=0, fence=0, mark=0, entries=0)
NEW_SCOPE = Row(policy_version=0, revoked=False, retain_seconds=None)

# -- Codes and refusals

# Every refusal, a rule a line, in the order in which they lead. Rules 1 to 3 end the list of
# issues; from rule 4 on all that apply are told.
RULES = [line.split() for line in """
unauthenticated forbidden not_found scope_revoked
invalid_request entry_too_large
idempotency_key_reused receipt_erased
store_read_only queue_paused payload_too_large too_many_followups lease_too_long key_conflict
stale_epoch
stale_policy
task_cancelled task_done task_dead task_blocked not_leased task_ready task_leased commitment_closed
wrong_worker
unknown_fence stale_fence
lease_expired
duplicate_result result_conflict
stale_revision stale_sequence""".strip().splitlines()]
CODES = [code for rule in RULES for code in rule]
BLOCKED = ("scope_revoked", "store_read_only", "queue_paused")  # refused until somebody acts


class Refused(Exception):
    """The command is refused with these codes and changes nothing."""

    def __init__(self, codes: Iterable[str], **facts: Any) -> None:
        issues = sorted(set(codes), key=CODES.index)
        alone = any(issues[0] in rule for rule in RULES[:3])
        self.issues, self.facts = (issues[:1], {}) if alone else (issues, facts)


class Fault(Exception):
    """A failure that a test has asked for; the argument is the code that the caller is told."""


def facts(t: Row | None, c: Row, earlier: Sequence[Any]) -> dict[str, Any]:
    """What a refusal tells of a task; with it goes the receipt of an earlier result, or, to the
    worker and fence that ended the task, that of its end."""
    if t is None:
        return {}
    told = {"state": t.state, "fencing_token": t.fence, "revision": t.revision}
    if earlier:
        return {**told, "receipt": earlier[0]["entry"]}
    own = t.state == "done" and is_own(c, t)
    return {**told, "receipt": t.entry} if own else told


def is_own(c: Row, t: Row) -> bool:
    """Of the very worker and fence that hold the task, or held it last."""
    return (c.worker_id, c.fencing_token) == (t.worker_id, t.fence)


def ending(entries: list[Row], t: Row, task_of: Callable[[str], Any] | None) -> list[Row]:
    """The entries whose opening goes with this task. An erased task takes along all that speak of
    its content. A purged one (`task_of` tells who is left) takes those that are about it, and an
    enqueue, or a sweep that owed it, with the last of its tasks: what is kept can be asked for
    again."""

    def over(entry: Row) -> bool:
        if task_of is None:
            return True
        left = any(task_of(told["task_id"]) for told in json.loads(entry.body)["tasks"])
        return bool(entry.about == t.task_id if entry.about else not left)

    return [entry for entry in entries if t.task_id in entry.speaks_of and over(entry)]


# -- Time, threads and chance


class Clock:
    """The time of all stores, which moves only when it is told to. `jump` moves the wall clock
    alone, as setting it does."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_767_225_600_000_000, 0  # 2026-01-01T00:00:00Z

    def advance(self, microseconds: int) -> None:
        self.wall, self.steady = self.wall + microseconds, self.steady + microseconds

    def jump(self, microseconds: int) -> None:
        self.wall += microseconds

    def now(self, mark: int, last: tuple[int, int]) -> int:
        """A store's time: the wall clock, but never backwards. Where the wall is behind the mark,
        or behind `last` (what was answered, when by the steady clock), it goes on steadily."""
        latest, asked = last
        if self.wall >= max(mark, latest):
            return self.wall
        return max(mark, latest + self.steady - asked if latest else 0)


def at_once(one: Callable[[Callable[[], object], Any], Any], given: list[Any]) -> list[Any]:
    """What `one` answers to each of the given, all on threads of their own; it waits for the
    others where it calls its first argument."""
    answers: list[Any] = [None] * len(given)
    together = Barrier(len(given))

    def run(place: int) -> None:
        answers[place] = one(together.wait, given[place])

    threads = [Thread(target=run, args=(place,)) for place in range(len(given))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


class Chance:
    """Salts, jitter and task ids."""

    def salt(self) -> str:
        return os.urandom(32).hex()

    def jitter(self) -> float:
        return int.from_bytes(os.urandom(4), "big") / 2**32

    def task_id(self, now: int) -> str:
        """A UUIDv7, RFC 9562 section 5.7."""
        drawn = os.urandom(10).hex()
        text = f"{now // 1_000:012x}7{drawn[:3]}8{drawn[4:19]}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


# -- Answers, and what the bytes of an entry are made of


def present(members: dict[str, Any]) -> dict[str, Any]:
    """What says nothing is left out."""
    return {name: value for name, value in members.items() if value is not None}


def sha(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def commitment(label: str, salt: str, value: str) -> str:
    """Binds to the value (in hex), and tells nothing of it once the salt is gone."""
    start = b"fencepost-commit-v1\0" + label.encode() + b"\0"
    return sha256(start + bytes.fromhex(salt + value)).hexdigest()


def keyed_digest(secret: str, names: Sequence[str | None]) -> str:
    return hmac.new(secret.encode(), canonical(names).encode(), "sha256").hexdigest()


def handed_in(c: Row) -> str | None:
    """The canonical text of the result or the evidence, if the command has one. The evidence of an
    import is none: it says where the result stands."""
    names = ("result",) if c.verb == "import" else ("result", "evidence")
    value = [c[name] for name in names if name in c]
    return canonical(value[0]) if value else None


def remark(c: Row) -> dict[str, Any]:
    """What a worker leaves on its task beside a result; what is not given stays as it was."""
    told: dict[str, Any] = {"log": c.log} if "log" in c else {}
    return {**told, "progress": canonical(c.progress)} if "progress" in c else told


def after(t: Row) -> str:
    """The digest of a task's lasting members: names a line each, eleven numbers, its content."""
    names = ("1", t.task_id, t.scope, t.queue, t.state, t.worker_id or "")
    numbers = (t.priority, t.due_at, t.attempt, t.max_attempts, t.round, t.revision, t.fence,
               t.epoch, t.policy_version, t.created_at, t.erased)
    lines = "".join(f"{name}\n" for name in names).encode()
    packed = b"".join(number.to_bytes(8, "big", signed=True) for number in numbers)
    return sha256(lines + packed + bytes.fromhex(t.content)).hexdigest()


def item(t: Row, before: str | None, queue: str = "", role: str = "",
         gone: bool = False) -> dict[str, Any]:
    """What an entry says of one task. Its queue is named where it is not the entry's own."""
    return present({
        "after": None if gone else after(t), "before": before, "fence": t.fence,
        "queue": None if t.queue == queue else t.queue, "revision": t.revision,
        "role": role or None, "state": None if gone else t.state, "task_id": t.task_id})


def receipt(entry: Row) -> dict[str, Any]:
    opening = {"salt": entry.salt, "request_sha256": entry.request, "result_sha256": entry.result}
    return {"number": entry.number, "entry": entry.body, "opening": present(opening)}


def named(entry: Row | None) -> list[str]:
    """The tasks that a command is about, without those that its result brought about."""
    items = json.loads(entry.body)["tasks"] if entry else []
    return [told["task_id"] for told in items if "role" not in told]


def leaf(entry: Row) -> dict[str, Any]:
    """An entry as it is read, with its opening where that has not been erased."""
    told = receipt(entry) if entry.salt else {"number": entry.number, "entry": entry.body}
    return {**told, "leaf_hash": sha256(b"\0" + entry.body.encode()).hexdigest()}


def task(t: Row, *, payload: bool = True) -> dict[str, Any]:
    """A task as it is read."""
    names = ("task_id scope queue key state priority attempt max_attempts round revision epoch "
             "policy_version worker_id parent reason")
    claimed = t.fence > 0
    return {
        **{name: t[name] for name in names.split()}, "fencing_token": t.fence,
        "erased": bool(t.erased), "due_at": rfc3339(t.due_at),
        "granted_at": rfc3339(t.granted_at) if claimed else None,
        "lease_expires_at": rfc3339(t.lease_expires_at) if claimed else None,
        "created_at": rfc3339(t.created_at), "changed_at": rfc3339(t.changed_at),
        "payload": json.loads(t.payload) if payload and t.payload else None,
        "progress": json.loads(t.progress) if payload and t.progress else None,
        "log": t.log if payload else None}


def lease(t: Row) -> dict[str, Any]:
    """What a claim gives for one task."""
    names = ("task_id queue key worker_id fencing_token revision attempt max_attempts epoch "
             "policy_version granted_at lease_expires_at payload progress")
    told = task(t)
    return {name: told[name] for name in names.split()}


def results(t: Row) -> list[dict[str, Any]]:
    """The accepted results of a task as they are read."""
    return [
        {
            "task_id": t.task_id, "revision": r.revision, "round": r.round,
            "result_sha256": r.sha256, "kept": r.value is not None,
            "value": None if r.value is None else json.loads(r.value),
            "commitment": r.commitment, "entry": r.entry,
        }
        for r in map(Row, t.results)
    ]


def about(name: str, controls: list[str]) -> dict[str, Any]:
    """What a target says of itself."""
    return {"name": name, "version": "1", "controls": controls, "operations": list(VERBS),
            "principals": list(MAY)}


def outcome(accepted: Row) -> dict[str, Any]:
    """The answer to a command that was carried out."""
    nothing: dict[str, Any] = {
        "receipt": None, "task_ids": [], "leases": [], "replayed": False, "facts": {}}
    return {"status": "accepted", "issues": [], "message": "", **nothing, **accepted}


def refusal(issues: list[str], message: str = "", **facts: Any) -> dict[str, Any]:
    """The answer to a command that was refused, or that failed with the store."""
    status = "blocked" if issues[0] in BLOCKED else "failed"
    told = message or f"refused: {', '.join(issues)}"
    return {**outcome(Row(facts=facts)), "status": status, "issues": issues, "message": told}


def read(t: Any, what: str, n: Row) -> Any:
    """What a caller reads in his scope; `t` is a transaction of the reference, `n` the names."""
    if t.policy.revoked and t.caller.kind not in ("operator", "auditor"):
        return refusal(["scope_revoked"])
    kinds = {"queue": "name", "actor": "name", "after": "count"}
    given = {name: value for name, value in n.items() if value is not None}
    if not all(is_a(kinds.get(name, name), value) for name, value in given.items()):
        return refusal(["invalid_request"])
    tasks = [row for row in t.all("task") if row.scope == t.scope]
    for row in tasks:  # a parent that has been purged is named no more
        row["parent"] = row.parent if t.task_of(row.parent) else None
    entries = [entry for entry in t.all("entry") if entry.scope == t.scope]
    if what == "counts":
        owed = [row for row in tasks if t.is_destination(row.queue)]
        handed_in = [entry for entry in entries if "result" in json.loads(entry.body)]
        kept = sum(len(row.results) for row in tasks)
        return {"results": kept, "receipts": len(handed_in), "obligations": len(owed)}
    if what == "entries":
        return [leaf(entry) for entry in entries if entry.number > (n.after or 0)]
    if what == "tasks":
        here = [row for row in tasks if n.queue in (None, row.queue)]
        return [task(row, payload=False) for row in here if n.state in (None, row.state)]
    if what == "receipt":
        return _read_receipt(t, entries, n)
    found = [row for row in tasks if row.task_id == n.task_id]
    if not found:
        return refusal(["not_found"])
    return results(found[0]) if what == "results" else task(found[0])


def _read_receipt(t: Any, entries: list[Row], n: Row) -> dict[str, Any]:
    """By its key, or, where there was none, by the digest of the command's bytes."""
    number, gone = t.filed("key", t.scope, n.actor or t.caller.actor, n.key) or (0, 0)
    if gone:
        return refusal(["receipt_erased"])
    if number:
        return receipt(t.get("entry", number))
    same = [entry for entry in entries if entry.request == n.key]
    return receipt(same[0]) if same else refusal(["not_found"])
