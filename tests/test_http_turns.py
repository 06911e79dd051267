"""Batches and bodies that would keep the store, or the memory, for themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.web import Served

from fencepost.engine import Call
from fencepost.issues import Unavailable
from fencepost.server.bridge import BIG_BODY, Bridge


@pytest.fixture
def web() -> Iterator[Served]:
    with Served() as served:
        yield served


def enqueues(commands: int, each: int) -> dict[str, Any]:
    tasks = [{"payload": 0}] * each
    return {
        "commands": [
            {"command": {"verb": "enqueue", "queue": "many", "tasks": tasks}, "key": f"k{place}"}
            for place in range(commands)
        ]
    }


def test_a_batch_of_many_tasks_takes_more_than_one_turn_and_each_is_told(
    web: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []
    hand_in = web.server._app.service.bridge.fp.hand_in

    def counted(given: Any, told: Any) -> Call:
        call = hand_in(given, told)
        turns.append(call.units)
        return call

    monkeypatch.setattr(web.server._app.service.bridge.fp, "hand_in", counted)
    reply = web.post("/v1/default/batch", enqueues(9, 250), web.token("producer", "p"))
    assert (reply.status, reply.json["status"]) == (200, "accepted")
    assert [len(outcome["task_ids"]) for outcome in reply.json["outcomes"]] == [250] * 9
    assert turns == [1_000, 1_000, 250]


def test_a_batch_that_breaks_off_tells_what_was_done_and_what_was_not(
    web: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    fp = web.server._app.service.bridge.fp
    hand_in, given_in = fp.hand_in, [0]

    def second_fails(given: Any, told: Any) -> Call:
        given_in[0] += 1
        if given_in[0] == 2:
            raise Unavailable("the turn to write did not come; nothing was done, try again")
        return hand_in(given, told)

    monkeypatch.setattr(fp, "hand_in", second_fails)
    reply = web.post("/v1/default/batch", enqueues(6, 250), web.token("producer", "p"))
    assert (reply.status, reply.json["status"]) == (200, "incomplete")
    assert [outcome["issues"] for outcome in reply.json["outcomes"]] == [
        [], [], [], [], ["store_unavailable"], ["store_unavailable"],
    ]  # fmt: skip
    assert sum(1 for _ in web.fp.tasks("many")) == 1_000


def test_bodies_that_are_big_in_memory_are_read_one_after_the_other(web: Served) -> None:
    async def scene() -> int:
        bridge = Bridge(web.fp, 30.0)
        now = [0, 0]

        def look() -> None:
            now[0] += 1
            now[1] = max(now)
            time.sleep(0.02)  # as long as reading takes: nobody waits for it
            now[0] -= 1

        await asyncio.gather(*(bridge.parse(look, BIG_BODY + 1) for _ in range(4)))
        return now[1]

    assert asyncio.run(scene()) == 1
