"""A storm over deliveries: results of many kinds, two receivers, faults at every step, dispatchers
that are ended again and again. What must hold then is judged from both sides.

One receiver keeps the fence (the kit); the other only does what it is told, and counts. The seed
decides what goes wrong and when, as far as threads let it.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from fencepost.clock import SystemClock
from fencepost.commands import Complete, Submit
from helpers.delivering import Depot, depot
from helpers.receivers import Asked, Kit, Reply, Web, http

PLAIN = "plain"


class Weather:
    """What goes wrong with one request in a few. `calm` ends it."""

    def __init__(self, seed: int, rate: float, without: tuple[str, ...] = ()) -> None:
        self._random, self._lock = random.Random(seed), threading.Lock()
        self._kinds = [kind for kind in FAULTS if kind not in without]
        self.rate, self.calm = rate, False
        self.seen: Counter[str] = Counter()

    def draw(self) -> tuple[str, float]:
        """What happens to this request, and a number from 0 to 1 to do it by."""
        with self._lock:
            wrong = not self.calm and self._random.random() < self.rate
            kind = self._random.choice(self._kinds) if wrong else "none"
            self.seen[kind] += 1
            return kind, self._random.random()

    def faults(self) -> int:
        """So many requests have met one."""
        with self._lock:
            return self.seen.total() - self.seen["none"]


FAULTS = (
    "cut before", "cut before", "cut after", "cut after", "cut within", "cut within", "500 before",
    "500 after", "502 after", "202", "twice", "twice", "busy", "garbage",
)  # fmt: skip


OWN_FAULT = ("500 after", "twice")
"""Where nobody keeps a fence, a receiver that does something twice, or does it and says that it
failed, is beyond what any sender can mend."""


def faulty(weather: Weather, answer: Any) -> Any:
    """The answers of a receiver, through this weather."""

    def made(asked: Asked) -> Any:
        kind, number = weather.draw()
        match kind:
            case "cut before":
                return None
            case "500 before":
                return http(500)
            case "busy":
                return http(503, retry_after="0")
            case "garbage":
                return Reply(b"HTTP/1.1 299 \0\r\n" + bytes(range(256)), close=True)
        whole = answer(asked)
        match kind:
            case "cut after":
                return None
            case "cut within":
                return Reply(whole[: int(number * len(whole))], close=True)
            case "500 after":
                return http(500)
            case "502 after":
                return http(502)
            case "202":
                return http(202)
            case "twice":
                return answer(asked)
        return whole

    return made


class Counting:
    """A receiver that keeps no fence: it does what comes, and counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.effects: Counter[str] = Counter()

    def answer(self, asked: Asked) -> bytes:
        with self._lock:
            self.effects[json.loads(asked.body)["fpoperation"]] += 1
        return http(200)


def storm(
    folder: Path, seed: int, results: int, seconds: float, least: int = 0
) -> dict[str, Any]:
    """Counts, and under `failures` what did not hold. It is calm after half the time, or once at
    `least` so many faults have been met, and then everything has to come to its end."""
    before = logging.root.manager.disable
    logging.disable()
    kit, plain = Kit(folder / "receiver.db"), Counting()
    weather = Weather(seed, 0.08)
    try:
        with (
            depot(folder, clock=SystemClock()) as place,
            Web(faulty(weather, kit.answer)) as first,
            Web(faulty(bad := Weather(seed + 1, 0.04, OWN_FAULT), plain.answer)) as second,
        ):
            place.destination(first.url, "fenced", concurrency=16, timeout_seconds=10)
            place.destination(second.url, "unfenced", queue=PLAIN, concurrency=8)
            for queue in ("out", PLAIN):
                place.fp.queue_set(queue, backoff_seconds=0, max_attempts=1_000, lease_seconds=30)
            accepted = filled(place, random.Random(seed), results)
            _deliver(place, random.Random(seed + 2), (weather, bad), seconds, least)
            counts: Counter[str] = Counter()
            failures = judged_fenced(place, kit, accepted, counts)
            failures += judged_plain(place, plain, accepted, counts)
            counts["faults"] = weather.faults()
    finally:
        logging.disable(before)
        kit.close()
    return {**counts, "failures": failures[:20]}


def filled(place: Depot, drawn: random.Random, results: int) -> set[str]:
    """So many results, a fifth of them of tasks that hand in several; their operations."""
    place.fp.queue_set("pages", destinations=["out", PLAIN], max_followups=0)
    accepted: set[str] = set()
    while len(accepted) < results:
        place.fp.enqueue_many("pages", [{"payload": {"n": n}} for n in range(100)])
        leases = list(place.fp.claim("pages", worker_id="w", limit=100))
        commands: list[Any] = []
        for lease in leases:
            parts = drawn.choice((0, 0, 0, 0, 3))
            commands += [
                Submit(lease.task_id, "w", lease.fence, result={"part": part, "text": "😀\u2028"})
                for part in range(parts)
            ]
            commands.append(Complete(lease.task_id, "w", lease.fence, result={"last": parts}))
            accepted |= {f"{lease.task_id}:{revision + 1}" for revision in range(parts + 1)}
        for start in range(0, len(commands), 50):
            assert all(each.accepted for each in place.fp.execute(commands[start : start + 50]))
    return accepted


def _deliver(
    place: Depot, drawn: random.Random, weathers: tuple[Weather, ...], seconds: float, least: int
) -> None:
    """Lives that are ended, well or at once, and one that comes to the end."""
    over = time.monotonic() + seconds / 2
    while _open(place) and (time.monotonic() < over or weathers[0].faults() < least):
        life = place.dispatcher(exit_when_empty=True, max_seconds=60)
        thread = threading.Thread(target=life.run)
        thread.start()
        thread.join(drawn.uniform(0.2, 3.0))
        (life.abort if drawn.random() < 0.6 else life.stop)()
        thread.join()
    for weather in weathers:
        weather.calm = True
    end = time.monotonic() + seconds
    while _open(place) and time.monotonic() < end:
        with suppress(RuntimeError):
            place.deliver(max_seconds=max(1.0, end - time.monotonic()))


def _open(place: Depot) -> bool:
    rows = place.fp.stats()["queues"]
    return any(
        row["queue"] in ("out", PLAIN) and row["state"] in ("ready", "leased") for row in rows
    )


def judged_fenced(
    place: Depot, kit: Kit, accepted: set[str], counts: Counter[str]
) -> list[dict[str, str]]:
    """Each accepted result has its effect once, or is dead because a newer one of its task came
    before; nothing else has an effect, and nothing is uncertain."""
    effects = Counter(operation for operation, _ in kit.effects())
    counts["effects"] = len(effects)
    failures = [_fault("an effect twice", each) for each, times in effects.items() if times > 1]
    failures += [_fault("an effect of nothing", each) for each in effects.keys() - accepted]
    for task in place.obligations():
        operation = f"{task.payload['task_id']}:{task.payload['revision']}"
        counts[task.state] += 1
        stale = task.state == "dead" and (task.reason or "").startswith("stale_result: ")
        if task.state == "done":
            receipt = json.loads(place.evidence(task.task_id)["receipt"])
            if receipt["operation"] != operation or operation not in effects:
                failures.append(_fault("evidence of no effect", operation))
        elif not stale:
            failures.append(_fault(f"{task.state}: {task.reason}", operation))
        elif operation in effects:
            failures.append(_fault("an effect that is booked as none", operation))
    owed = counts["done"] + counts["dead"]
    if owed != len(accepted):
        failures.append(_fault("obligations", f"{owed} for {len(accepted)} results"))
    return failures


def judged_plain(
    place: Depot, plain: Counting, accepted: set[str], counts: Counter[str]
) -> list[dict[str, str]]:
    """Nobody at the other end refuses a second one: so none was sent twice after it may have
    arrived, and what may have arrived unheard is listed as uncertain."""
    failures = []
    for task in place.obligations(PLAIN):
        operation = f"{task.payload['task_id']}:{task.payload['revision']}"
        times = plain.effects[operation]
        counts[f"plain {task.state}"] += 1
        uncertain = (task.reason or "").startswith(("effect_uncertain", "the worker "))
        if times > 1:
            failures.append(_fault(f"an effect {times} times", operation))
        elif task.state == "done" and times < 1:
            failures.append(_fault("done without an effect", operation))
        elif task.state == "blocked" and not uncertain:
            failures.append(_fault(f"blocked: {task.reason}", operation))
        elif task.state not in ("done", "blocked"):
            failures.append(_fault(f"{task.state}: {task.reason}", operation))
    told = [each for each, times in plain.effects.items() if each not in accepted]
    return failures + [_fault("an effect of nothing", each) for each in told]


def _fault(what: str, where: str) -> dict[str, str]:
    return {"name": f"{what}: {where}"}
