"""The other side of the phase http: a process that asks the service as fast as it answers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from fencepost.operate.bench.lab import BATCH, QUEUE, WORKER, CheckFailed, result

CONNECTIONS = 32
HEAD_END, LENGTH = b"\r\n\r\n", b"content-length: "
PAUSE_SECONDS = 0.02
Json = dict[str, Any]
Requests = Iterator[bytes]


def http(port: int, token: str, folder: str, numbers: Sequence[int]) -> Json:
    """Measure and tell the rates. `numbers`: empty requests, waits."""
    pin(-1)
    asking = Asking(port, token)
    leases: list[Json] = json.loads(Path(folder, "leases.json").read_text(encoding="utf-8"))
    empty, waits = numbers
    asyncio.run(asking.warm())
    found: Json = {
        "empty": asking.rate(asking.get("/v1/default") for _ in range(empty)),
        "single": asking.rate(map(asking.completion, leases)),
        "batches": asyncio.run(asking.drain()),
        "waits": asyncio.run(asking.waits(waits)),
    }
    return found


def pin(place: int) -> None:
    """Stay on one core, where the system can do that."""
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[place]})


class Asking:
    """Requests as bytes, and what came back."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._head = f"Host: bench\r\nAuthorization: Bearer {token}\r\n".encode()

    def get(self, path: str) -> bytes:
        return b"GET %s HTTP/1.1\r\n%s\r\n" % (path.encode(), self._head)

    def post(self, path: str, value: Json) -> bytes:
        body = json.dumps(value, separators=(",", ":")).encode()
        return b"POST %s HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (  # noqa: E501
            path.encode(), self._head, len(body), body,
        )  # fmt: skip

    def completion(self, lease: Json) -> bytes:
        return self.post(f"/v1/default/tasks/{lease['task_id']}/complete", command(lease))

    # -- many at once

    def rate(self, requests: Requests) -> float:
        """Requests a second over CONNECTIONS connections; CheckFailed if one was refused."""
        return asyncio.run(self._all(requests))

    async def _all(self, requests: Requests) -> float:
        began, counts = perf_counter(), await self._crowd(requests)
        return sum(counts) / (perf_counter() - began)

    async def _crowd(self, requests: Requests) -> list[int]:
        return await asyncio.gather(*(self._one(requests) for _ in range(CONNECTIONS)))

    async def _one(self, requests: Requests) -> int:
        link, count = await self.link(), 0
        for request in requests:
            await link.ask(request)
            count += 1
        link.close()
        return count

    async def link(self) -> Link:
        return Link(*await asyncio.open_connection("127.0.0.1", self._port, limit=2**26))

    async def warm(self) -> None:
        """The first request of a token and of a path costs more than those that follow."""
        link = await self.link()
        await link.ask(self.get("/v1/default"))
        link.close()

    # -- a worker that claims 100 and completes 100

    async def drain(self) -> float:
        """Tasks a second until the queue is empty."""
        link, done = await self.link(), 0
        claim = {"verb": "claim", "queues": [QUEUE], "worker_id": WORKER, "limit": BATCH}
        began = perf_counter()
        while leases := (await link.ask(self.post("/v1/default/claims", claim)))["leases"]:
            members = [{"command": command(lease)} for lease in leases]
            answer = await link.ask(self.post("/v1/default/batch", {"commands": members}))
            if answer["status"] != "accepted":
                raise CheckFailed("a completion of a batch was refused")
            done += len(leases)
        taken = perf_counter() - began
        link.close()
        return done / taken

    # -- a claim that waits

    async def waits(self, number: int) -> list[float]:
        """Milliseconds from sending an enqueue to the waiting claim's answer, each time."""
        waiting, sending = await self.link(), await self.link()
        path = "/v1/default/queues/waited/claims?wait_seconds=20"
        claim = {"verb": "claim", "queues": ["waited"], "worker_id": WORKER}
        one = {"verb": "enqueue", "queue": "waited", "tasks": [{"payload": 1}]}
        found = []
        for _ in range(number):
            asked = asyncio.create_task(waiting.ask(self.post(path, claim)))
            await asyncio.sleep(PAUSE_SECONDS)
            began = perf_counter()
            await asyncio.gather(
                sending.ask(self.post("/v1/default/queues/waited/tasks", one)), asked
            )
            if len(asked.result()["leases"]) != 1:
                raise CheckFailed("a claim that waited was given nothing")
            found.append((perf_counter() - began) * 1e3)
        waiting.close()
        sending.close()
        return found


class Link:
    """One kept connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.close: Callable[[], None] = writer.close

    async def ask(self, request: bytes) -> Json:
        """The answer's JSON. CheckFailed for any status but 200."""
        self._writer.write(request)
        head = (await self._reader.readuntil(HEAD_END)).lower()
        start = head.index(LENGTH) + len(LENGTH)
        body = await self._reader.readexactly(int(head[start : head.index(b"\r", start)]))
        if not head.startswith(b"http/1.1 200 "):
            raise CheckFailed(f"the service answered {body[:200]!r}")
        found: Json = json.loads(body)
        return found


def command(lease: Json) -> Json:
    """The completion of a lease."""
    return {
        "verb": "complete", "task_id": lease["task_id"], "worker_id": WORKER,
        "fencing_token": lease["fencing_token"], "result": result(lease["payload"]["n"]),
    }  # fmt: skip


def settle() -> None:
    """Let a process that has just started come to rest."""
    sleep(1.0)
