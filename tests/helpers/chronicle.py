"""Random histories of commands for two queues that must agree: every verb, every refusal, retries,
the clock's boundaries. One seed, one history."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from helpers.differential import Json, Pair

SECOND = 1_000_000
QUEUES = ("a", "b", "c", "out")
WORKERS = ("w1", "w2")
UNKNOWN = "01900000-0000-7000-8000-00000000ffff"
PAUSES = (0, 1, SECOND, 30 * SECOND, 60 * SECOND - 1, 60 * SECOND, 60 * SECOND + 1, 61 * SECOND,
          300 * SECOND, 3_600 * SECOND, 32 * 86_400 * SECOND)  # fmt: skip
VALUES: tuple[Any, ...] = (
    1, 2, "x", None, [1.5, -0.0, 1e30], {"b": 1, "a": "é\u2028"}, "long " * 12,
)  # fmt: skip
MARKS: tuple[Any, ...] = (0, False, "", [1.5, 1e21, None], {"b": 1, "a": "é"})
LOGS = ("", "half way", "line 41: é\u2028\n\u001b[31mno text")
LEFT = f'{{"verb":"renew","task_id":"{UNKNOWN}","worker_id":"w1","fencing_token":1,'
SHA_OF_1 = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
# At and beyond the edge of what a progress and a log may be.
EDGES = (
    *(LEFT + told + "}" for told in (
        '"progress":null', '"progress":NaN', '"log":null', '"log":1', '"log":"\\ud800"',
        f'"progress":"{"x" * 65_534}"', f'"progress":"{"x" * 65_535}"',
        f'"log":"{"é" * 8_192}"', f'"log":"{"é" * 8_193}"',
    )),
    LEFT.replace("renew", "complete") + '"progress":1}',
)
NONSENSE = (
    "", "{}", "[]", "{", '{"verb":"nothing"}', '{"verb":1}', '{"verb":"sweep","limit":0}',
    '{"verb":"sweep","limit":1,"limit":1}', '{"verb":"sweep","limit":true}',
    '{"verb":"sweep","limit":1.0}', '{"verb":"sweep","queue":null}', '{"verb":"sweep","x":1}',
    '{"verb":"enqueue","queue":"../x","tasks":[{"payload":1}]}',
    '{"verb":"enqueue","queue":"a","tasks":[]}', '{"verb":"enqueue","queue":"a","tasks":[{}]}',
    '{"verb":"enqueue","queue":"a","tasks":[{"payload":NaN}]}',
    '{"verb":"enqueue","queue":"a","tasks":[{"payload":9007199254740992}]}',
    '{"verb":"enqueue","queue":"a","tasks":[{"payload":1,"due_at":"2026-01-01T00:00:00"}]}',
    '{"verb":"enqueue","queue":"a","tasks":[{"payload":1,"due_at":"2026-01-01T24:00:00Z"}]}',
    '{"verb":"enqueue","queue":"a","tasks":[{"payload":1,"key":"a b"}]}',
    '{"verb":"claim","worker_id":"w1"}', '{"verb":"scope.set_policy"}',
    '{"verb":"claim","worker_id":"w1","queues":["a","a"]}',
    '{"verb":"queue.set","queue":"a","settings":{}}',
    '{"verb":"queue.set","queue":"a","settings":{"lease_seconds":901}}',
    '{"verb":"queue.set","queue":"a","settings":{"destinations":["a"]}}',
    '{"verb":"queue.set","queue":"out","settings":{"destinations":["b"]}}',
    '{"verb":"queue.set","queue":"b","settings":{"destinations":["a"]}}',
    *('{"verb":"queue.set","queue":"a","settings":{"destinations":["out"],"outcomes":' + told + "}}"
      for told in ('{"b":["result"]}', '{"out":[]}', '{"out":["ready"]}', '{"out":"result"}', "[]",
                   '{"out":["dead","dead"]}', '{"out":null}', '{"o t":["dead"]}', "null")),
)  # fmt: skip


def caller(kind: str = "operator", actor: str = "local", scope: str = "s") -> Json:
    return {"scope": scope, "kind": kind, "actor": actor}


class Chronicle:
    """A history as it is told to a pair; what was answered shapes what comes next."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair, self.rng = pair, random.Random(seed)
        self.words = random.Random(f"words {seed}")  # what workers leave on the way
        self.tasks: list[str] = []
        self.leases: list[Json] = []
        self.sent: list[tuple[Json, str, str | None]] = []
        self.done: list[tuple[Json, str, str | None]] = []
        self.answered: list[str] = []  # tasks that have a result
        self.keys = 0
        self.seen: Counter[str] = Counter()  # codes, `accepted`, `replayed`, `verb X` carried out
        self.begin()

    def begin(self) -> None:
        rng = self.rng
        for queue in QUEUES:
            settings: Json = {
                "max_attempts": rng.choice((1, 2, 3)), "backoff_seconds": rng.choice((0, 1, 30)),
                "on_lapse": rng.choice(("retry", "retry", "reconcile")),
            }  # fmt: skip
            if queue == "a":
                settings |= {"destinations": ["out"], "retain_seconds": rng.choice((None, 0, 300)),
                             "outcomes": self.owing(["out"])}  # fmt: skip
            if queue == "c":
                settings |= {"max_payload_bytes": 40, "max_result_bytes": 40, "max_followups": 1,
                             "result_storage": "digest", "max_hold_seconds": 90}  # fmt: skip
            self.tell({"verb": "queue.set", "queue": queue, "settings": settings})
        if self.words.random() < 0.7:  # so that there are epochs before this one
            self.tell({"verb": "clock.reset"})

    def owing(self, destinations: list[str]) -> Json:
        """Which outcomes oblige these: drawn apart, so that what else happens stays as it was."""
        some = [name for name in destinations if self.words.random() < 0.6]
        outcomes = ("result", "done", "dead", "cancelled", "blocked")
        return {name: self.words.sample(outcomes, self.words.choice((1, 2, 4))) for name in some}

    # -- telling

    def tell(self, command: Json, who: Json | None = None, key: str | None = None) -> Json:
        return self.say(who or caller(), json.dumps(command), key)

    def say(self, who: Json, body: str, key: str | None) -> Json:
        outcome = self.pair.send(who, body, key)
        self.sent.append((who, body, key))
        if outcome["receipt"]:
            self.done.append((who, body, key))
        self.seen.update(outcome["issues"])
        if outcome["status"] == "accepted":
            self.seen["replayed" if outcome["replayed"] else "accepted"] += 1
            self.seen[f"verb {json.loads(body)['verb']}"] += 1
        self.tasks += [name for name in outcome["task_ids"] if name not in self.tasks]
        self.leases += outcome["leases"]
        if outcome["receipt"]:
            entry = json.loads(outcome["receipt"]["entry"])
            items = entry["tasks"]
            self.answered += [items[0]["task_id"]] if "result" in entry else []
            self.tasks += [i["task_id"] for i in items if i["task_id"] not in self.tasks]
        return outcome

    def key(self) -> str | None:
        self.keys += 1
        return self.rng.choice((None, None, f"key-{self.keys}"))

    # -- what happens next

    def step(self) -> None:
        if not self.tasks:
            self.enqueue()
        if not self.leases and self.rng.random() < 0.7:
            return self.claim()
        happens = self.rng.choices(
            (self.time, self.enqueue, self.claim, self.with_lease, self.from_outside, self.operate,
             self.again, self.reuse, self.nonsense, self.adopt),
            (16, 12, 20, 40, 16, 7, 20, 4, 2, 9),
        )  # fmt: skip
        return happens[0]()

    def time(self) -> None:
        self.pair.advance(self.rng.choices(PAUSES, (3, 6, 9, 6, 4, 6, 4, 5, 3, 2, 1))[0])
        if self.rng.random() < 0.03:
            self.pair.jump(self.rng.choice((-3600, -30, 30, 3600)))

    def new_task(self) -> Json:
        rng = self.rng
        task: Json = {"payload": rng.choice(VALUES)}
        if rng.random() < 0.4:
            task["key"] = f"k{rng.randrange(4)}"
        if rng.random() < 0.2:
            task["priority"] = rng.choice((-1, 0, 5))
        if rng.random() < 0.1:
            task["due_at"] = rng.choice(("2026-01-01T00:05:00Z", "2025-12-31T23:00:00.5-02:30"))
        if rng.random() < 0.1:
            task["max_attempts"] = 1
        return task

    def enqueue(self) -> None:
        tasks = [self.new_task() for _ in range(self.rng.choice((1, 1, 2, 4)))]
        command = {"verb": "enqueue", "queue": self.rng.choice(QUEUES), "tasks": tasks}
        others = (caller("producer", "p"), caller(scope="t"))
        who = self.rng.choices((caller(), *others), (8, 2, 1))[0]
        self.tell(command, who, self.key())

    def claim(self) -> None:
        rng = self.rng
        command: Json = {"verb": "claim", "worker_id": rng.choice(WORKERS)}
        if rng.random() < 0.25 and self.tasks:
            command["task_id"] = rng.choice(self.tasks)
        else:
            command["queues"] = rng.sample((*QUEUES, "empty"), rng.choice((1, 1, 2, 3)))
        if rng.random() < 0.5:
            command["limit"] = rng.choice((1, 2, 5))
        if rng.random() < 0.15:
            command["lease_seconds"] = rng.choice((1, 120, 901))
        self.tell(command, self.worker(command["worker_id"]), self.key())

    def worker(self, name: str) -> Json:
        kinds = ("operator", "operator", "worker", "dispatcher", "producer", "auditor")
        kind = self.rng.choices(kinds, (6, 6, 4, 1, 0.2, 0.2))[0]
        actor = name if self.rng.random() < 0.97 else "w1"
        return caller(kind, actor, "t" if self.rng.random() < 0.02 else "s")

    def lease(self) -> Json:
        """What a command binds to a lease, mostly a late one and mostly right, at times spoilt."""
        rng = self.rng
        found = rng.choice(self.leases[-4:]) if self.leases else {
            "task_id": rng.choice(self.tasks or (UNKNOWN,)), "worker_id": "w1",
            "fencing_token": 1, "epoch": 0, "policy_version": 0,
        }  # fmt: skip
        bound = {name: found[name] for name in ("task_id", "worker_id", "fencing_token")}
        spoil = rng.random()
        if spoil < 0.08:
            bound["worker_id"] = rng.choice(WORKERS)
        elif spoil < 0.16:
            bound["fencing_token"] = max(1, bound["fencing_token"] + rng.choice((-1, 1, 7)))
        elif spoil < 0.2:
            bound["task_id"] = rng.choice((*self.tasks, UNKNOWN))
        for name in ("epoch", "policy_version"):
            if rng.random() < 0.15:
                bound[name] = found[name] + (rng.random() < 0.2)
        return bound

    def with_lease(self) -> None:
        rng = self.rng
        verb = rng.choices(("renew", "submit", "complete", "fail", "release"), (3, 6, 6, 4, 2))[0]
        command: Json = {"verb": verb, **self.lease()}
        if verb == "renew" and rng.random() < 0.5:
            command["lease_seconds"] = rng.choice((1, 60, 300, 901))
        if verb in ("submit", "complete"):
            if verb == "submit" or rng.random() < 0.7:
                command["result"] = rng.choice(VALUES)
            if rng.random() < 0.25:
                command["expected_revision"] = rng.choice((0, 1, 2))
        if verb == "complete" and rng.random() < 0.3:
            queues = rng.choices(QUEUES, k=rng.choice((1, 2, 3)))
            new = [{**self.new_task(), "queue": queue} for queue in queues]
            command["followups"] = new * (210 // len(new) if rng.random() < 0.15 else 1)
        if verb == "fail":
            command |= rng.choice(({}, {"then": "retry"}, {"then": "give_up"}, {"then": "block"},
                                   {"then": "block"}))  # fmt: skip
            command |= rng.choice(({}, {"retry_seconds": 5}, {"reason": "it broke \u00e9"}))
        if self.words.random() < 0.4:
            command["log"] = self.words.choice(LOGS)
        if verb in ("renew", "fail", "release") and self.words.random() < 0.5:
            command["progress"] = self.words.choice(MARKS)
        self.tell(command, self.worker(command["worker_id"]), self.key())

    def from_outside(self) -> None:
        rng = self.rng
        task_id = rng.choice((*self.tasks, *self.tasks[-3:], UNKNOWN))
        if rng.random() < 0.3:
            verdict = rng.choice(("accepted", "rejected"))
            command: Json = {
                "verb": "review", "task_id": rng.choice((*self.answered * 4, task_id)),
                "revision": rng.choice((1, 1, 2)), "verdict": verdict,
            }  # fmt: skip
            if verdict == "rejected" and rng.random() < 0.5:
                command["requeue"] = True
        else:
            verb = rng.choices(("cancel", "requeue", "resolve", "erase"), (2, 5, 5, 2))[0]
            command = {"verb": verb, "task_id": task_id}
            if rng.random() < 0.3:
                command["fencing_token"] = rng.randrange(6)
            if rng.random() < 0.3:
                command["reason"] = "because"
            if verb == "resolve":
                command |= rng.choice(({}, {"to": "give_up"}, {"to": "done", "evidence": 7},
                                       {"to": "done", "evidence": rng.choice(VALUES)}))  # fmt: skip
        human = rng.random() < (0.95 if command["verb"] == "review" else 0.1)
        self.tell(command, caller("human", "anna") if human else caller(), self.key())

    def adopt(self) -> None:
        """What a receiver says that it has: the next revision or a known one, mostly as it is."""
        rng = self.words
        task_id = rng.choice((*self.tasks, *self.tasks[-3:], *self.answered[-3:], UNKNOWN))
        command: Json = {
            "verb": "import", "task_id": task_id, "revision": rng.choice((1, 1, 1, 2, 2, 3)),
            "epoch": rng.choice((0, 0, 0, 1)), "fencing_token": rng.choice((1, 7, 2**32 + 1)),
            "final": rng.random() < 0.5, "evidence": rng.choice(VALUES),
        }  # fmt: skip
        if rng.random() < 0.8:
            command["result"] = rng.choice(VALUES)
        else:
            command["result_sha256"] = rng.choice((SHA_OF_1, "00" * 32, "0"))
        if rng.random() < 0.1:
            command["result_sha256"] = SHA_OF_1
        if rng.random() < 0.2:
            command["at"] = rng.choice(("2025-12-31T23:00:00.5-02:30", "2026-01-01T00:05:00Z", "1"))
        who = caller() if rng.random() < 0.95 else caller("human", "anna")
        self.tell(command, who, self.key())

    def operate(self) -> None:
        rng = self.rng
        commands: list[Json] = [
            {"verb": "sweep"}, {"verb": "sweep", "queue": rng.choice(QUEUES), "limit": 1},
            {"verb": "purge"}, {"verb": "purge", "queue": "a"}, {"verb": "clock.reset"},
            {"verb": "queue.set", "queue": rng.choice(QUEUES),
             "settings": {"paused": rng.random() < 0.5}},
            {"verb": "queue.set", "queue": rng.choice(QUEUES), "settings": {"keep_refused": 2}},
            {"verb": "scope.set_policy", "policy_version": rng.randrange(4)},
            {"verb": "scope.set_policy", "retain_seconds": rng.choice((None, 0, 60))},
            {"verb": "queue.set", "queue": rng.choice(QUEUES),
             "settings": {"destinations": (owed := rng.choice(([], ["out"], ["c", "out"]))),
                          "outcomes": self.owing(owed)}},
            {"verb": "scope.revoke", "revoked": rng.random() < 0.5},
        ]  # fmt: skip
        command = rng.choice(commands)
        who = caller() if rng.random() < 0.95 else caller("human", "anna")
        self.tell(command, who, self.key())
        if command["verb"] == "scope.revoke" and rng.random() < 0.7:
            for sent in rng.sample(self.done, min(3, len(self.done))):
                self.say(*sent)  # who is revoked asks for what he has
            self.tell({"verb": "scope.revoke", "revoked": False})

    def again(self) -> None:
        """The same bytes again: as they were, or from another caller, or under another key."""
        who, body, key = self.rng.choice(self.rng.choice((self.sent, self.done))[-12:])
        if self.rng.random() < 0.1:
            key = self.rng.choice((None, "another"))
        if self.rng.random() < 0.1:
            who = {**who, "actor": "w2"}
        self.say(who, body, key)

    def reuse(self) -> None:
        """Other bytes under a key that is known, or the same with a space more."""
        keyed = [one for one in self.sent if one[2]]
        if keyed:
            who, _, key = self.rng.choice(keyed)
            _, body, _ = self.rng.choice(self.sent[-12:])
            self.say(who, body + " " * self.rng.randrange(2), key)

    def nonsense(self) -> None:
        self.say(caller(), self.rng.choice(NONSENSE), self.key())
        self.pair.send(caller(), self.words.choice(EDGES))


class Forgetful(Chronicle):
    """The same where little is kept for long: tasks are ended and purged a part at a time, and
    commands are sent again whose tasks are gone, all or some of them."""

    def begin(self) -> None:
        super().begin()
        for queue in QUEUES:
            kept = None if queue == "a" else self.rng.choice((0, 0, 30))  # whose results owe most
            settings = {"retain_seconds": kept, "max_followups": 5, "max_attempts": 9}
            self.tell({"verb": "queue.set", "queue": queue, "settings": settings})

    def step(self) -> None:
        happens = (self.finish, self.end, self.purge, self.again, super().step)
        self.rng.choices(happens, (2, 6, 5, 6, 20))[0]()

    def finish(self) -> None:
        """A task from its beginning to its end, which brings others about."""
        self.tell({"verb": "enqueue", "queue": "a", "tasks": [self.new_task()]}, key=self.key())
        told = self.tell({"verb": "claim", "worker_id": "w1", "queues": ["a"]}, caller(actor="w1"))
        for lease in told["leases"]:
            bound = {name: lease[name] for name in ("task_id", "worker_id", "fencing_token")}
            done = {"verb": "complete", **bound, "result": self.rng.choice(VALUES)}
            follow = [{**self.new_task(), "queue": queue} for queue in self.rng.sample(QUEUES, 2)]
            self.tell({**done, "followups": follow}, caller(actor="w1"), self.key())

    def end(self) -> None:
        if self.tasks:
            self.tell({"verb": "cancel", "task_id": self.rng.choice(self.tasks[-6:])})

    def purge(self) -> None:
        part = {"queue": self.rng.choice(QUEUES)} if self.rng.random() < 0.5 else {}
        limit = self.rng.choice((1, 1, 2, 100))
        self.tell({"verb": "purge", "limit": limit, **part}, key=self.key())
