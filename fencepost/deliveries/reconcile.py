"""Asks what became of effects that are uncertain: a URL or a command that knows the operation.

What it says settles the obligation: found, with its evidence; not found, so that it is sent again.
Whatever else it answers, or none, changes nothing: a person has to look at it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from fencepost.canonical import loads
from fencepost.clock import SECOND
from fencepost.deliveries.event import NoEvent, operation_of
from fencepost.deliveries.flights import Unheard
from fencepost.deliveries.http import Exchange, Unsent
from fencepost.deliveries.run import place_of
from fencepost.issues import FencepostError, InvalidRequest
from fencepost.log import Log
from fencepost.model import Destination, Task
from fencepost.receiver import signing

FIRST_PAUSE, LONGEST_PAUSE = 10 * SECOND, 3_600 * SECOND
ANSWER_BYTES = 65_536
HELD_BACK = ("effect_conflict",)
"""Reasons for which a person is waited for: the truth is known, and is a contradiction."""

if TYPE_CHECKING:
    from fencepost.deliveries.stream import StoreHandle

_log = Log("fencepost.deliveries")


class Said(NamedTuple):
    """What a reconciler knows of an effect."""

    word: Literal["found", "not_found", "unknown"]
    evidence: Any = None
    told: str = ""


def read(status_ok: bool, body: bytes) -> Said:
    """Its answer: a JSON object with `found`, true or false, and perhaps `evidence`. Only that is
    an answer: a page that is not there says nothing of an effect."""
    try:
        said = loads(body, max_bytes=ANSWER_BYTES, what="the reconciler's answer")
    except InvalidRequest as error:
        return Said("unknown", told=str(error))
    if not status_ok or not isinstance(said, dict) or type(said.get("found")) is not bool:
        return Said("unknown", told='it does not say {"found": true} or {"found": false}')
    if not said["found"]:
        return Said("not_found")
    return Said("found", said.get("evidence"))


class Reconciler:
    """Looks through what is blocked on destinations that have one. Not for several threads."""

    def __init__(self, fp: StoreHandle, jitter: Callable[[], float]) -> None:
        self._fp, self._jitter = fp, jitter
        self._asked: dict[str, tuple[int, int]] = {}  # tries, and when the next may be

    def look(self, destinations: Sequence[Destination]) -> set[str]:
        """Ask about each that is due: at once, and then after pauses that grow. The queues on which
        something is sent again. Never raises for one that cannot be asked about."""
        again: set[str] = set()
        for destination in destinations:
            if destination.options["reconcile"] is None or destination.stopped is not None:
                continue
            for task in list(self._fp.tasks(destination.queue, state="blocked")):
                if not self._due(task):
                    continue
                try:
                    if self._settled(destination, task.task_id):
                        again.add(destination.queue)
                except (FencepostError, NoEvent) as error:
                    _log.warning("%s: task %s: %s", destination.queue, task.task_id, error)
        return again

    def _due(self, task: Task) -> bool:
        now = self._fp.steady()
        tries, at = self._asked.get(task.task_id, (0, now))
        if now < at:
            return False
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(tries, 20))
        pause = int(pause * (0.5 + self._jitter() / 2))
        self._asked[task.task_id] = tries + 1, now + pause
        return True

    def _settled(self, destination: Destination, task_id: str) -> bool:
        """Ask, and settle by what is said. True where it is sent again."""
        task = self._fp.task(task_id)
        if task.state != "blocked" or (task.reason or "").startswith(HELD_BACK):
            return False
        if not isinstance(task.payload, dict):
            raise NoEvent("its content has been erased")
        operation = operation_of(task.payload)
        said = self.ask(destination, operation)
        _log.warning("%s: %s is %s %s", destination.queue, operation, said.word, said.told)
        if said.word == "unknown":
            return False
        done = said.word == "found"
        given: dict[str, Any] = {"evidence": {"reconciled": said.evidence}} if done else {}
        reason = f"the reconciler says {said.word}"
        self._fp.resolve(
            task_id, "done" if done else "retry", fence=task.fence, reason=reason, **given
        )
        if done:
            self._asked.pop(task_id, None)
        return not done

    def ask(self, destination: Destination, operation: str) -> Said:
        """What this destination's reconciler says of an operation."""
        how = destination.options["reconcile"]
        seconds = float(destination.options["timeout_seconds"])
        if isinstance(how, list):
            return _run([*how, operation], seconds)
        return self._get(destination, str(how), operation, seconds)

    def _get(self, destination: Destination, url: str, operation: str, seconds: float) -> Said:
        options = destination.options
        place = place_of(destination, self._fp.wall())
        try:
            exchange = Exchange(
                url, allow_private=options["allow_private"], max_bytes=ANSWER_BYTES, keep=0,
                headers=options["headers"],
            )  # fmt: skip
            joint = "&" if "?" in exchange.target.path else "?"
            path = f"{exchange.target.path}{joint}operation={quote(operation, safe='')}"
            keys = [signing.secret_bytes(secret) for secret in place.secrets]
            now = self._fp.wall() // SECOND
            signed = signing.sign(keys, f"ask_{operation}", now, b"") if keys else {}
            answer = exchange.get(path, signed, seconds)
        except (InvalidRequest, Unsent, Unheard) as error:
            return Said("unknown", told=str(error))
        return read(answer.status in (200, 404), answer.body)


def _run(argv: list[str], seconds: float) -> Said:
    """A command, with the operation as its last argument; its answer is what it writes."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=seconds, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return Said("unknown", told=f"it could not be asked: {type(error).__name__}")
    return read(done.returncode == 0, done.stdout[: ANSWER_BYTES + 1])
