"""Clients of services, many at once in one process, each with a key and a word of its own: what
each was told is kept and looked for again in the store."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fencepost
from fencepost import canonical
from fencepost.commands import Complete, Enqueue, NewTask, Request
from helpers.web import Asking, Reply

QUEUE = "crowd"
LEASE_SECONDS = 600  # no lease ends here: what is refused is a fault
BUSY = (429, 503)


class Kept(Asking):
    """A service, on one connection that is kept."""

    def __init__(self, service: Asking) -> None:
        self.port = service.port
        self._link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)

    def close(self) -> None:
        self._link.close()

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:  # fmt: skip
        given = {**(headers or {}), "Authorization": f"Bearer {token}"}
        self._link.request(method, path, body, given)
        answer = self._link.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, found, answer.read())


class Client(threading.Thread):
    """Enqueues, claims (sometimes waiting), completes, and sometimes sends again what it has sent:
    as one whose answer was lost, and then to any of the services."""

    def __init__(
        self, number: int, services: Sequence[Asking], token: str, seed: int, until: float
    ) -> None:
        super().__init__(name=f"client-{number}")
        self.worker = f"c{number}"
        self.token, self.until = token, until
        self.links = [Kept(service) for service in services]
        self.mine = self.links[number % len(services)]
        self.chance = random.Random(f"{seed}/{number}")
        self.receipts: dict[str, bytes] = {}
        self.enqueued: list[str] = []
        self.done: list[str] = []
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        try:
            while time.monotonic() < self.until:
                self.step()
        except Exception as error:  # noqa: BLE001  whatever went wrong is told by the main thread
            self.wrong.append(f"{self.worker}: {type(error).__name__}: {error}")
        finally:
            for link in self.links:
                link.close()

    def step(self) -> None:
        self.enqueue()
        wait = self.chance.choice((0, 0, 1))
        reply = self.post(f"queues/{QUEUE}/claims?wait_seconds={wait}", {
            "verb": "claim", "queues": [QUEUE], "worker_id": self.worker, "limit": 2,
            "lease_seconds": LEASE_SECONDS,
        })  # fmt: skip
        for lease in reply.json["leases"]:
            self.complete(lease)

    def enqueue(self) -> None:
        key = f"{self.worker}-{len(self.receipts)}"
        body = Request.of(Enqueue(QUEUE, (NewTask({"by": key}),))).body
        reply = self.twice(f"queues/{QUEUE}/tasks", body, key)
        self.receipts[key] = reply.body
        self.enqueued += reply.json["task_ids"]

    def complete(self, lease: dict[str, Any]) -> None:
        command = Complete(lease["task_id"], self.worker, lease["fencing_token"],
                           result={"by": self.worker, "of": lease["payload"]})  # fmt: skip
        key = f"{self.worker}-{len(self.receipts)}"
        body = Request.of(command).body
        reply = self.twice(f"tasks/{lease['task_id']}/complete", body, key)
        self.receipts[key] = reply.body
        self.done.append(lease["task_id"])

    def twice(self, path: str, body: bytes, key: str) -> Reply:
        """Sent, and now and then sent again: the same bytes have to come back."""
        reply = self.post(path, body, key)
        if self.chance.random() < 0.2:
            again = self.post(path, body, key, self.chance.choice(self.links))
            self.counts["sent_again"] += 1
            if (again.body, again.headers.get("idempotent-replayed")) != (reply.body, "true"):
                self.wrong.append(f"{key} is answered otherwise the second time")
        return reply

    def post(
        self, path: str, body: Any, key: str | None = None, link: Asking | None = None
    ) -> Reply:  # fmt: skip
        """Until it is accepted: whoever is told to come again later does so."""
        while True:
            reply = (link or self.mine).post(f"/v1/default/{path}", body, self.token, key)
            self.counts["answers"] += 1
            if reply.status == 200:
                return reply
            if reply.status not in BUSY or "retry-after" not in reply.headers:
                raise AssertionError(f"{path}: {reply.status} {reply.body[:300]!r}")
            self.counts[f"told_{reply.status}"] += 1
            time.sleep(self.chance.uniform(0.05, 0.5))


def crowd(
    path: Path, services: Sequence[Asking], clients: int, seconds: float, seed: int
) -> list[Client]:
    """So many clients of the store at `path` for so long; the first of the services is the first
    client's, the second the second's, and so on."""
    with fencepost.open(path) as fp:
        tokens = [fp.token_create(f"c{number}", "operator")[1] for number in range(clients)]
    until = time.monotonic() + seconds
    threads = [Client(number, services, text, seed, until) for number, text in enumerate(tokens)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 120)
    stuck = [thread.name for thread in threads if thread.is_alive()]
    assert not stuck, f"seed {seed}: {len(stuck)} clients have not ended: {stuck[:5]}"
    return threads


def judged(path: Path, told: Sequence[Client]) -> tuple[Counter[str], list[str]]:
    """(counts, what is wrong): what the clients were told against what is in the store."""
    wrong = [what for client in told for what in client.wrong]
    counts = sum((client.counts for client in told), Counter())
    with fencepost.open(path) as fp:
        for client in told:
            handle = fp.as_caller(client.worker)
            for key, body in client.receipts.items():
                try:
                    same = canonical.dumps(handle.receipt(key).to_json()) in body
                except fencepost.NotFound:
                    same = False
                if not same:
                    wrong.append(f"the receipt of {key} is another than was told, or not there")
                counts["receipts"] += 1
        wrong += _tasks(fp, told, counts)
        report = fp.verify()
        if not report.clean:
            wrong.append(f"verify: {report}")
    return counts, wrong


def _tasks(fp: fencepost.Handle, told: Sequence[Client], counts: Counter[str]) -> list[str]:
    made = Counter(task_id for client in told for task_id in client.enqueued)
    done = Counter(task_id for client in told for task_id in client.done)
    wrong = [f"{task_id} was completed {n} times" for task_id, n in done.items() if n > 1]
    wrong += [f"{task_id} was made {n} times" for task_id, n in made.items() if n > 1]
    states = {task.task_id: task.state for task in fp.tasks(QUEUE)}
    ended = {task_id for task_id, state in states.items() if state == "done"}
    for what, here, there in (("made", set(states), set(made)), ("done", ended, set(done))):
        wrong += [f"{task_id} is {what} and nobody was told" for task_id in sorted(here - there)]
        wrong += [f"{task_id} was told as {what} and is not" for task_id in sorted(there - here)]
    for task_id in ended:
        revisions = [result.revision for result in fp.results(task_id)]
        if revisions != [1]:
            wrong.append(f"{task_id} has the results {revisions}")
    counts.update(tasks=len(states), done=len(ended))
    return wrong
