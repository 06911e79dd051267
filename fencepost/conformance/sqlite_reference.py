"""The contract as one readable file: a queue on SQLite with nothing but the standard library.

An oracle to hold other queues against, and the text to learn the rules from: plain, slow, and
sharing no line with any product. Read it downwards: 1. one command in one transaction, through
rules 1 to 3, 2. leases, where a stale fence is refused, 3. the verbs, 4. the journal, whose entries
are the receipts, 5. the store. `reference_bytes.py`, `reference_parts.py` and `reference_stores.py`
have all else. SQLite keeps rows of JSON and makes each command atomic; a refusal is an exception,
so all that was written is undone. Times are microseconds UTC. Every verb is here; not here are late
results kept aside, the Merkle tree, batches, and a store that can only be read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from . import reference_bytes as wire
from . import reference_parts as parts
from .reference_bytes import DEFAULTS, ENDED, FROM, LEASED, MAY, Row, canonical, instant, rfc3339
from .reference_parts import SECOND, Refused, commitment, item, lease, receipt, sha
from .reference_stores import Stores

Rules = list[tuple[str, Any]]  # a code, and whether it applies
FOREVER, KEYS_STAY_REFUSED = 2**62, 31 * 86_400 * SECOND  # after an erase, after a purge


# -- 1. One command in one transaction


class Transaction:
    """One command at one moment of the store's time."""

    def __init__(self, home: Reference, owner: Any, db: sqlite3.Connection, caller: Row, c: Row,
                 body: str = "", key: str | None = None) -> None:
        self.home, self.owner, self.db, self.caller, self.c = home, owner, db, caller, c
        self.scope, self.actor = caller.scope, c.worker_id or caller.actor
        self.request = sha(body)
        self.key = None if c.verb in wire.BY_BYTES and key == self.request else key
        self.result = parts.handed_in(c)
        self.result_sha = c.result_sha256 if self.result is None else sha(self.result)
        self.store = self.get("store", "")
        self.now = home.clock.now(self.store.mark, owner.last)
        owner.last = (self.now, home.clock.steady)
        self.policy = self.get("scope", self.scope) or parts.NEW_SCOPE
        self.task = self.task_of(c.task_id)
        self.speaks_of: list[str] = []  # the tasks whose content the request holds

    def get(self, kind: str, name: Any) -> Any:
        found = self.db.execute("select row from kept where kind = ? and name = ?", (kind, name))
        return next((Row(json.loads(row)) for (row,) in found), None)

    def all(self, kind: str) -> list[Row]:  # in the order in which they came into being
        found = self.db.execute("select row from kept where kind = ? order by rowid", (kind,))
        return [Row(json.loads(row)) for (row,) in found]

    def put(self, kind: str, name: Any, row: Row) -> Row:
        self.db.execute("insert into kept values (?, ?, ?) on conflict (kind, name) do update "
                        "set row = excluded.row", (kind, name, json.dumps(row)))
        return row

    def task_of(self, task_id: str | None) -> Any:
        t = self.get("task", task_id)
        return t if t and t.scope == self.scope else None  # another scope's does not exist

    def queue(self, name: str) -> Row:
        """Its settings; the defaults where it is not there."""
        return self.get("queue", f"{self.scope} {name}") or DEFAULTS

    def is_destination(self, name: str) -> bool:  # as long as another queue names it
        return any(name in q.destinations for q in self.all("queue") if q.scope == self.scope)

    def decide(self) -> Row:
        """Rules 1 to 3 are the same for all verbs; the rest is the verb's own."""
        self.check_authority(self.c, self.caller.kind)
        if len(self.c.followups or ()) > wire.MOST_FOLLOWUPS:
            raise Refused(["entry_too_large"])
        entry = self.known_entry()
        if self.task and self.task.erased:
            raise Refused(["receipt_erased"])
        if entry:
            return self.replay(entry)
        name = {"import": "adopt"}.get(self.c.verb, self.c.verb.replace(".", "_"))
        verb: Callable[[Row, Any], Row] = getattr(self, name)
        return verb(self.c, self.task)

    def check_authority(self, c: Row, kind: str) -> None:
        """Rule 1, for replays too: who may not ask learns nothing."""
        bound = kind in ("worker", "dispatcher") and self.actor != self.caller.actor
        if c.verb not in MAY[kind] or bound:
            raise Refused(["forbidden"])
        if self.policy.revoked and not (kind == "operator" and c.verb in wire.IN_A_REVOKED_SCOPE):
            raise Refused(["scope_revoked"])
        if c.task_id and not self.task:
            raise Refused(["not_found"])
        queues = [self.task.queue] if self.task else c.queues or [c.queue]
        queues += [new["queue"] for new in c.followups or ()]
        owed = [self.is_destination(name) for name in queues]
        if {"producer": any(owed), "worker": any(owed), "dispatcher": not all(owed)}.get(kind):
            raise Refused(["forbidden"])  # only a dispatcher works on destinations

    def known_entry(self) -> Any:
        """Rule 3: the entry that these bytes have left, under their key or as they are."""
        by_bytes = self.request if self.c.verb in wire.BY_BYTES else None
        names = ["bytes", self.c.task_id, by_bytes]
        names = names if self.key is None else ["key", self.scope, self.actor, self.key]
        number, gone = self.filed(*names) or (0, 0)
        if gone and self.key is not None:  # erased bytes without a key are known no more
            raise Refused(["receipt_erased"])
        entry = None if gone else self.get("entry", number)
        if entry and entry.request != self.request:
            raise Refused(["idempotency_key_reused"])
        return entry

    def replay(self, entry: Row) -> Row:
        """The stored bytes, whatever has happened since. A claim shows the leases that live."""
        told = json.loads(entry.body)["tasks"] if self.c.verb == "claim" else ()
        found = [(self.task_of(item["task_id"]), item["fence"]) for item in told]
        live = [t for t, fence in found if t and (t.state, t.fence) == ("leased", fence)]
        leases = [lease(t) for t in live if not self.lapsed(t)]
        return self.accept(entry, replayed=True, leases=leases)

    def accept(self, entry: Row | None, **more: Any) -> Row:
        return Row({"receipt": entry and receipt(entry), "task_ids": parts.named(entry), **more})

    def refuse_if(self, rules: Rules, t: Any = None, earlier: Sequence[Any] = ()) -> None:
        """From rule 4 on all codes are told that apply, with what the rules compared with."""
        if codes := [code for code, applies in rules if applies]:
            raise Refused(codes, **parts.facts(t, self.c, earlier))

    # -- 2. Leases: [granted_at, lease_expires_at), half-open

    def lease_rules(self, c: Row, t: Row) -> Rules:
        """WHERE A STALE FENCE IS REFUSED: rules 5 to 10, for all that a worker does with a lease.
        A task keeps its last worker, fence and end, so that all of them can be told."""
        held, policy_version = t.fence > 0, self.policy.policy_version
        return [
            ("stale_epoch", held and t.epoch < self.store.floor),
            ("stale_epoch", c.epoch not in (None, t.epoch)),
            ("stale_policy", held and t.policy_version != policy_version),
            ("stale_policy", c.policy_version not in (None, t.policy_version)),
            ("not_leased" if t.state == "ready" else f"task_{t.state}", t.state != "leased"),
            ("wrong_worker", c.worker_id != t.worker_id),
            ("unknown_fence", c.fencing_token > t.fence),
            ("stale_fence", c.fencing_token < t.fence),
            ("lease_expired", held and self.now >= t.lease_expires_at),
        ]

    def outside_rules(self, c: Row, t: Row) -> Rules:
        """Rules 7 and 9 for those who hold no lease: the state, and the fence they saw, if told."""
        seen = t.fence if c.fencing_token is None else c.fencing_token
        return [(f"task_{t.state}", t.state not in FROM.get(c.verb, t.state)),
                ("unknown_fence", seen > t.fence), ("stale_fence", seen < t.fence)]

    def lapsed(self, t: Row) -> bool:
        ended = self.now >= t.lease_expires_at or t.epoch < self.store.floor
        return bool(t.state == "leased" and ended)

    def after_lapse(self, t: Row) -> str:
        """The attempt was charged at the claim, so a worker that died has used one."""
        spent = "dead" if t.attempt >= t.max_attempts else "ready"
        return "blocked" if self.queue(t.queue).on_lapse == "reconcile" else spent

    def next_fence(self, t: Row) -> int:
        """One counter for the whole store: it only rises, and epoch e begins above e * 2**32."""
        fence: int = max(self.store.fence, self.store.epoch << 32) + 1
        self.store |= {"fence": fence, "epoch": max(self.store.epoch, fence >> 32)}
        return fence

    def lease_end(self, t: Row, granted_at: int) -> int:
        asked = self.c.lease_seconds or self.queue(t.queue).lease_seconds
        longest = granted_at + self.queue(t.queue).max_hold_seconds * SECOND
        return int(min(self.now + asked * SECOND, longest))

    def backoff(self, t: Row) -> int:
        """Doubled with each attempt; up to half is taken off, so that not all come at once."""
        q = self.queue(t.queue)
        seconds = min(q.backoff_seconds << min(t.attempt - 1, 40), q.max_backoff_seconds)
        return int(seconds * SECOND * (1 - self.home.chance.jitter() / 2))

    # -- 3. Verbs: the command and its task, if it names one -> what is accepted

    def enqueue(self, c: Row, _: None) -> Row:
        """A new task, or, under a known key with the same payload, the task as it is."""
        paused = ("queue_paused", self.queue(c.queue).paused)
        self.refuse_if([paused, *self.new_task_rules(c.queue, c.tasks)])
        items = [self.add(new, c.queue, c.queue) for new in c.tasks]
        if self.key is None and all("before" in item for item in items):  # nothing new: no entry
            return self.accept(None, task_ids=[i["task_id"] for i in items], facts={"known": True})
        return self.accept(self.record(items, c.queue))

    def new_task_rules(self, queue: str, tasks: Sequence[Any]) -> Rules:
        """Rule 4 for tasks to be added. A task key is bound to its payload and stays taken."""
        rules: Rules = []
        payloads: dict[str, str] = {}
        for new in map(Row, tasks):
            payload = canonical(new.payload)
            large = len(payload.encode()) > self.queue(queue).max_payload_bytes
            first = payloads.setdefault(new.key, payload) if new.key else payload
            known = self.task_of_key(queue, new.key) or Row(payload=payload)
            gone = self.filed("task", self.scope, queue, new.key)
            rules += [("payload_too_large", large), ("receipt_erased", gone),
                      ("key_conflict", not known.payload == payload == first)]
        return rules

    def task_of_key(self, queue: str, key: str | None) -> Any:
        place = (self.scope, queue, key)
        found = [t for t in self.all("task") if (t.scope, t.queue, t.key) == place] if key else []
        return found[0] if found else None

    def add(self, given: Any, queue: str, entry_queue: str, role: str = "",
            parent: str | None = None) -> dict[str, Any]:
        """A new task, or the one of this key; as the entry names it."""
        if role == "obligation":
            self.home.fault(self.owner, "obligation_insert")
        new, known = Row(given), self.task_of_key(queue, given.get("key"))
        t = known or self.new_task(new, queue, parent)
        self.speaks_of.append(t.task_id)
        return item(t, known and known.state, entry_queue, role)

    def new_task(self, new: Row, queue: str, parent: str | None) -> Row:
        q, salt, payload = self.need_queue(queue), self.home.chance.salt(), canonical(new.payload)
        named = f"{new.key or ''}\0".encode().hex() + sha(payload)
        return self.change(Row(
            task_id=self.home.chance.task_id(self.now), scope=self.scope, queue=queue, key=new.key,
            state="ready", priority=new.priority or 0, attempt=0, round=1, revision=0, fence=0,
            due_at=instant(new.due_at) if new.due_at else self.now, epoch=0, policy_version=0,
            max_attempts=new.max_attempts or q.max_attempts, worker_id=None, granted_at=0,
            lease_expires_at=0, created_at=self.now, parent=parent, reason=None, erased=0,
            payload=payload, content=commitment("content", salt, named), results=[]))

    def need_queue(self, name: str, **settings: Any) -> Row:
        """Scope and queue come into being with what is first put there."""
        self.put("scope", self.scope, self.policy)
        q = Row({**self.queue(name), "scope": self.scope, "queue": name, **settings})
        return self.put("queue", f"{self.scope} {name}", q)

    def change(self, t: Row, **new: Any) -> Row:
        """A task is changed, by the entry that comes next."""
        t.update(new, changed_at=self.now, entry=self.store.entries + 1)
        return self.put("task", t.task_id, t)

    def claim(self, c: Row, t: Row | None) -> Row:
        """ready, or lapsed with attempts left -> leased. What else has lapsed here is settled."""
        names = [t.queue] if t else c.queues
        known = [q for name in names if (q := self.queue(name)).queue]
        too_long = [(c.lease_seconds or q.lease_seconds) > q.max_lease_seconds for q in known]
        self.refuse_if([("queue_paused", known and all(q.paused for q in known)),
                        ("lease_too_long", any(too_long)),
                        (f"task_{t.state}" if t else "", t and t.state not in FROM["claim"])])
        places = [(self.scope, q.queue) for q in known if not q.paused]
        here = [x for x in ([t] if t else self.all("task")) if (x.scope, x.queue) in places]
        free = sorted(filter(self.free, here), key=lambda task: -task.priority)[: c.limit or 1]
        spent = [task for task in here if self.lapsed(task) and self.after_lapse(task) != "ready"]
        if spent:  # the queues as they are named, the oldest end first; as many as an entry names
            spent.sort(key=lambda task: (names.index(task.queue), task.lease_expires_at))
            self.record(self.settle_all(spent, 200, ""), verb="sweep")
        if not free and self.key is None:
            return self.accept(None)
        queue = c.queues[0] if c.queues and len(c.queues) == 1 else ""
        before = [task.state for task in free]
        items = [item(self.grant(t), was, queue) for t, was in zip(free, before, strict=True)]
        return self.accept(self.record(items, queue), leases=[lease(task) for task in free])

    def free(self, t: Row) -> bool:
        """What was enqueued without a time is due whatever a clock says that was set back."""
        if t.state == "ready":
            return bool(t.due_at <= self.now or t.due_at == t.created_at)
        return self.lapsed(t) and self.after_lapse(t) == "ready"

    def grant(self, t: Row) -> Row:
        """The attempt is charged now, so that a worker that dies has used one."""
        return self.change(
            t, state="leased", fence=self.next_fence(t), epoch=self.store.epoch,
            policy_version=self.policy.policy_version, worker_id=self.actor, granted_at=self.now,
            attempt=t.attempt + 1, lease_expires_at=self.lease_end(t, self.now))

    def renew(self, c: Row, t: Row) -> Row:
        """The end moves on, the fence stays; no entry, no receipt."""
        q = self.queue(t.queue)
        too_long = (c.lease_seconds or q.lease_seconds) > q.max_lease_seconds
        self.refuse_if([*self.lease_rules(c, t), ("lease_too_long", too_long)], t)
        used_up = t.lease_expires_at >= t.granted_at + q.max_hold_seconds * SECOND
        self.refuse_if([("lease_too_long", used_up)], t)
        end = max(t.lease_expires_at, self.lease_end(t, t.granted_at))
        self.put("task", t.task_id, Row({**t, **parts.remark(c), "lease_expires_at": end}))
        return self.accept(None, task_ids=[t.task_id], facts={"lease_expires_at": rfc3339(end)})

    def one_task(self, c: Row, t: Row) -> Row:
        """The rules; the result, unless this round has it, and what is owed for it; follow-ups;
        the task's new state; and the entry, which is the receipt."""
        q, new = self.queue(t.queue), c.followups or []
        known = [r for r in t.results if (r["round"], r["sha256"]) == (t.round, self.result_sha)]
        again = known if c.verb == "submit" and parts.is_own(c, t) else []  # told to no one else
        rules = self.lease_rules(c, t) if c.verb in LEASED else self.outside_rules(c, t)
        rules += [("payload_too_large", len((self.result or "").encode()) > q.max_result_bytes),
                  ("duplicate_result", again),
                  ("stale_revision", c.expected_revision not in (None, t.revision)),
                  ("too_many_followups", len(new) > q.max_followups)]
        for queue in {task["queue"] for task in new}:
            rules += self.new_task_rules(queue, [task for task in new if task["queue"] == queue])
        self.refuse_if(rules, t, again)
        before = t.state
        owed = self.accept_result(t, q) if self.result is not None and not known else []
        self.change(t, **self.becomes(c, t), **parts.remark(c))
        owed += self.owe_state(t, before, c.reason, t.queue)
        more = [self.add(task, task["queue"], t.queue, "followup", t.task_id) for task in new]
        self.speaks_of.append(t.task_id)
        entry = self.record([item(t, before, t.queue), *more, *owed], t.queue)
        self.file(entry.number, "bytes", t.task_id, self.request)
        return self.accept(entry)

    submit = complete = fail = release = cancel = requeue = resolve = one_task

    def becomes(self, c: Row, t: Row) -> dict[str, Any]:
        """What the verb makes of its task."""
        said, dead = {"reason": c.reason}, {"state": "dead"}
        again = {"state": "ready", "due_at": t.created_at}  # at once, whatever a clock says
        if c.verb == "fail":
            wait = self.backoff(t) if c.retry_seconds is None else c.retry_seconds * SECOND
            again = dead if t.attempt >= t.max_attempts else {**again, "due_at": self.now + wait}
        words = {"retry": again, "give_up": dead, "block": {"state": "blocked"},
                 "done": {"state": "done"}}
        return {
            "submit": {}, "complete": {"state": "done"}, "cancel": {"state": "cancelled", **said},
            "release": {"state": "ready", "attempt": t.attempt - 1},  # the fence is not given back
            "fail": words[c.then or "retry"] | said, "resolve": words[c.to or "retry"] | said,
            "requeue": self.new_round(t) | said,
        }[c.verb]

    def new_round(self, t: Row) -> dict[str, Any]:
        """Earlier results stay; in the new round the same result may be handed in again."""
        return {"state": "ready", "round": t.round + 1, "attempt": 0, "due_at": t.created_at,
                "progress": None, "log": None}

    def accept_result(self, t: Row, q: Row, **by: Any) -> list[dict[str, Any]]:
        """The result of a revision, its open commitment to a human, and what is owed for it; `by`:
        when it was accepted and under which lease, if not here and now."""
        t["revision"] += 1
        t.results.append({
            "revision": t.revision, "round": t.round, "sha256": self.result_sha,
            "entry": self.store.entries + 1, "commitment": "open",
            "value": self.result if q.result_storage == "content" else None})
        self.change(t)
        if self.result is None:  # an imported digest: nobody can be told of what
            return []
        said = {"final": self.c.verb != "submit", **by}
        return self.owe(t, "result", t.queue, result=json.loads(self.result),
                        result_sha256=self.result_sha, **said)

    def adopt(self, c: Row, t: Row) -> Row:
        """import: a result that a receiver has accepted from another writer is a fact, whatever
        the task's state is here. Known with the same digest, nothing changes."""
        q, known = self.queue(t.queue), c.revision <= t.revision
        own = t.results[c.revision - 1]["sha256"] if known else None
        large = len((self.result or "").encode()) > q.max_result_bytes
        self.refuse_if([
            ("payload_too_large", not known and large),
            ("result_conflict", known and own != self.result_sha),
            ("unknown_fence", not known and c.epoch >= self.store.epoch),
            ("stale_revision", not known and c.revision != t.revision + 1)], t)
        if known and self.key is None:
            return self.accept(None, task_ids=[t.task_id], facts={"known": True})
        before, owed = t.state, self.take_over(c, t, q) if not known else []
        note = {"content": self.result is not None, "epoch": c.epoch, "fence": c.fencing_token,
                "revision": c.revision, "round": t.round}
        self.speaks_of.append(t.task_id)
        entry = self.record([item(t, before, t.queue), *owed], t.queue, note=note)
        self.file(entry.number, "bytes", t.task_id, self.request)
        return self.accept(entry)

    def take_over(self, c: Row, t: Row, q: Row) -> list[dict[str, Any]]:
        """The result, under the lease that it was accepted under. A running lease ends; and in one
        round no result is recorded twice, so another begins."""
        before, ends = t.state, t.state == "leased" and not c.final
        again = any((r["round"], r["sha256"]) == (t.round, self.result_sha) for r in t.results)
        t.update({"state": "done"} if c.final else {"state": "ready"} if ends else {})
        t.update({"attempt": t.attempt - 1} if ends else {})
        t.update({**self.new_round(t), "state": t.state, "due_at": t.due_at} if again else {})
        at = rfc3339(instant(c.at) if c.at else self.now)
        by = {"at": at, "epoch": c.epoch, "fencing_token": c.fencing_token, "final": c.final}
        return self.accept_result(t, q, **by) + self.owe_state(t, before, None, t.queue)

    def owe_state(self, t: Row, before: str, reason: str | None, entry_queue: str) -> list[Any]:
        """What is owed for the state that a task has come to, if it is another one now."""
        said = parts.present({"round": t.round, "reason": reason})
        return self.owe(t, t.state, entry_queue, **said) if t.state != before else []

    def owe(self, t: Row, outcome: str, entry_queue: str, **said: Any) -> list[Any]:
        """A task on each destination that this outcome obliges. What it says is complete, so that
        it outlives the task it came from."""
        told = {"outcome": outcome, "at": rfc3339(self.now), "task_id": t.task_id,
                "queue": t.queue, "revision": t.revision, "fencing_token": t.fence,
                "epoch": self.store.epoch, **parts.present({"key": t.key}), **said}
        return [self.add({"payload": told}, name, entry_queue, "obligation", t.task_id)
                for name in self.owed(t.queue, outcome)]

    def owed(self, queue: str, outcome: str) -> list[str]:
        q = self.queue(queue)
        return [n for n in q.destinations if outcome in q.outcomes.get(n, ["result"])]

    def review(self, c: Row, t: Row) -> Row:
        """A human closes the commitment of one revision. The state stays, or a round begins."""
        found = next((r for r in t.results if r["revision"] == c.revision), None)
        self.refuse_if([("stale_revision", not found),
                        ("commitment_closed", found and found["commitment"] != "open"),
                        (f"task_{t.state}", c.requeue and t.state not in FROM["requeue"])], t)
        before = t.state
        t.results[c.revision - 1]["commitment"] = c.verdict
        self.put("task", t.task_id, t)
        if c.requeue:
            self.change(t, **self.new_round(t), reason=None)
        self.speaks_of.append(t.task_id)
        note = {"revision": c.revision, "verdict": c.verdict}
        return self.accept(self.record([item(t, before, t.queue)], t.queue, note=note))

    def sweep(self, c: Row, _: None) -> Row:
        over = [t for t in self.within(c) if self.lapsed(t)]
        over = sorted(over, key=lambda t: (t.queue, t.lease_expires_at))
        if not over and self.key is None:
            return self.accept(None)
        items = self.settle_all(over, c.limit or 100, c.queue or "")
        return self.accept(self.record(items, c.queue or ""))

    def within(self, c: Row) -> list[Row]:  # the queue that is named, or the whole scope
        return [t for t in self.all("task") if t.scope == self.scope and c.queue in (None, t.queue)]

    def settle_all(self, over: list[Row], most: int, queue: str) -> list[dict[str, Any]]:
        """As many of them as the entry can name with what is owed for each: 200 in all."""
        items: list[dict[str, Any]] = []
        for t in over[:most]:
            if len(items) + 1 + len(self.owed(t.queue, self.after_lapse(t))) > 200:
                break
            self.settle(t)
            items += [item(t, "leased", queue), *self.owe_state(t, "leased", t.reason, queue)]
        return items

    def settle(self, t: Row) -> Row:
        """A lease that ran out: tried again, dead, or blocked for a person."""
        to, told = self.after_lapse(t), f"lease lapsed in attempt {t.attempt} of {t.max_attempts}"
        due = self.now + self.backoff(t) if to == "ready" else t.due_at
        return self.change(t, state=to, due_at=due, reason=told)

    def erase(self, c: Row, t: Row) -> Row:
        """The content of a task and of its obligations goes; an open task is cancelled."""
        self.refuse_if(self.outside_rules(c, t), t)
        owed = [o for o in self.all("task") if o.parent == t.task_id and not o.erased
                and self.is_destination(o.queue)]
        rows = owed[:180] if len(owed) > 180 else [t, *owed]  # what one entry can name
        before = [row.state for row in rows]
        for row in rows:
            to = row.state if row.state in ENDED else "cancelled"
            self.change(row, state=to, erased=self.now)
        self.speaks_of.append(t.task_id)
        entry = self.record([item(row, was) for row, was in zip(rows, before, strict=True)])
        for row in rows:
            self.forget(row, FOREVER)
            gone = [{**result, "sha256": None, "value": None} for result in row.results]
            row.update(key=None, reason=None, payload=None, results=gone, progress=None, log=None)
            self.put("task", row.task_id, row)
        return self.accept(entry, facts={"remaining": max(len(owed) - 180, 0)})

    def purge(self, c: Row, _: None) -> Row:
        """Ended tasks go when their time is over: as the queue says, or the scope, or never."""
        over = [t for t in self.within(c) if t.state in ENDED and self.kept_until(t) <= self.now]
        over.sort(key=lambda t: (t.queue, ENDED.index(t.state), t.changed_at))
        del over[c.limit or 100 :]
        self.db.execute("delete from receipt where gone between 1 and ?", (self.now - 1,))
        if not over and self.key is None:
            return self.accept(None)
        items = [item(t, t.state, c.queue or "", gone=True) for t in over]
        for t in over:
            self.db.execute("delete from kept where kind = 'task' and name = ?", (t.task_id,))
        for t in over:
            self.forget(t, self.now + KEYS_STAY_REFUSED, purged=True)
        return self.accept(self.record(items, c.queue or ""))

    def kept_until(self, t: Row) -> int:
        kept = [self.queue(t.queue).retain_seconds, self.policy.retain_seconds, FOREVER]
        return int(t.changed_at + next(seconds for seconds in kept if seconds is not None) * SECOND)

    def queue_set(self, c: Row, _: None) -> Row:
        q = Row({**self.queue(c.queue), **c.settings})
        if (q.lease_seconds > min(q.max_lease_seconds, q.max_hold_seconds)
                or c.queue in q.destinations or (q.destinations and self.is_destination(c.queue))
                or any(self.queue(name).destinations for name in q.destinations)
                or not q.outcomes.keys() <= {*q.destinations}):
            raise Refused(["invalid_request"])  # these cannot hold together
        self.need_queue(c.queue, **c.settings)
        for name in q.destinations:
            self.need_queue(name)
        return self.accept(self.record([], c.queue, note=c.settings))

    def scope_set_policy(self, c: Row, _: None) -> Row:
        """A raised version refuses all that was claimed under an older one."""
        old, told = self.policy.policy_version, {n: c[n] for n in c if n != "verb"}
        if c.policy_version is not None and c.policy_version <= old:
            raise Refused(["stale_policy"], policy_version=old)
        return self.set_scope(told)

    def scope_revoke(self, c: Row, _: None) -> Row:
        return self.set_scope({"revoked": c.revoked is not False})

    def set_scope(self, new: dict[str, Any]) -> Row:
        self.put("scope", self.scope, Row({**self.policy, **new}))
        return self.accept(self.record([], note=new))

    def clock_reset(self, c: Row, _: None) -> Row:
        """The store's time goes back to the wall clock, and all leases end."""
        note = {"from": rfc3339(self.now), "to": rfc3339(self.home.clock.wall)}
        self.now, self.owner.last = self.home.clock.wall, (0, 0)
        self.new_epoch()
        return self.accept(self.record([], note=note))

    def new_epoch(self) -> None:
        """A new epoch, which is also the floor: no lease from before counts."""
        self.store |= {"epoch": self.store.epoch + 1, "floor": self.store.epoch + 1}
        for t in self.all("task"):
            if t.state == "leased":
                t["lease_expires_at"] = min(t.lease_expires_at, self.now)
                self.put("task", t.task_id, t)

    # -- 4. The journal: an entry is the receipt. It holds no content, only commitments to it

    def record(self, items: Sequence[dict[str, Any]], queue: str = "", *, verb: str = "",
               note: dict[str, Any] | None = None) -> Row:
        """Append the entry. Another `verb` is what the command did on its way: no receipt."""
        salt, number = self.home.chance.salt(), self.store.entries + 1
        key, result = (None, None) if verb else (self.key, self.result_sha)
        body = canonical(parts.present({
            "actor": self.actor, "at": rfc3339(self.now), "epoch": self.store.epoch,
            "key": key and commitment("key", salt, key.encode().hex()), "note": note,
            "queue": queue or None, "request": commitment("request", salt, self.request),
            "result": result and commitment("result", salt, result),
            "scope": self.scope, "tasks": items, "v": 1, "verb": verb or self.c.verb,
            "writer": self.store.writer}))
        if key:
            self.file(number, "key", self.scope, self.actor, key)
        self.store["entries"] = number
        speaks_of, self.speaks_of = self.speaks_of, []
        return self.put("entry", number, Row(
            number=number, body=body, salt=salt, request=self.request, result=result,
            scope=self.scope, about=None if verb else self.c.task_id, speaks_of=speaks_of))

    def file(self, entry: int, *names: str, gone: int = 0) -> None:
        """What these names lead to: an entry, or, until `gone`, the word that it was erased. They
        are kept as keyed digests: when the content goes, they tell nothing."""
        lookup = parts.keyed_digest(self.store.secret, names)
        self.db.execute("insert or replace into receipt values (?, ?, ?)", (lookup, entry, gone))

    def filed(self, *names: str | None) -> Any:
        lookup = parts.keyed_digest(self.store.secret, names)
        found = self.db.execute("select entry, gone from receipt where lookup = ?", (lookup,))
        return found.fetchone()

    def forget(self, t: Row, until: int, purged: bool = False) -> None:
        """Close what opens the commitments of the entries whose end this is; their keys and the
        task's own stay refused."""
        for entry in parts.ending(self.all("entry"), t, self.task_of if purged else None):
            self.put("entry", entry.number, Row(entry, salt=None, request=None, result=None))
            self.db.execute("update receipt set gone = max(gone, ?) where entry = ?",
                            (until, entry.number))
        if t.key:
            self.file(0, "task", t.scope, t.queue, t.key, gone=until)


# -- 5. The store


class Reference(Stores):
    """Queues by these rules (`reference_stores.py`)."""

    name, transaction = "sqlite_reference", Transaction  # a broken queue has others
