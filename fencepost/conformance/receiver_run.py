"""The receivers' cases: `receiver_cases.jsonl` put to a receiver, step by step.

docs/receivers.md says what stands in a case, so that a runner can be written in another language.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from .adapters import Broken
from .cases.law import AnyCase, Failed
from .cases.store import Json
from .receiver_target import Answer, Target, signature
from .verification import STATEMENT, Run, digest, kit_digest, plain

CASES_FILE = Path(__file__).resolve().parent / "receiver_cases.jsonl"
TYPES = {
    "event": "application/cloudevents+json", "hello": "application/vnd.fencepost.hello+json",
}  # fmt: skip
ANOTHER_KEY = bytes(range(32))
Told = Callable[[Json], None]


class ReceiverCase(NamedTuple):
    """One line of the file."""

    name: str
    law: str
    code: str | None
    steps: list[Json]
    line: str

    def sha256(self) -> str:
        return hashlib.sha256(self.line.encode()).hexdigest()


def cases() -> list[ReceiverCase]:
    """All cases, in the order in which they stand."""
    lines = CASES_FILE.read_text(encoding="ascii").splitlines()
    found = [(json.loads(line), line) for line in lines]
    return [ReceiverCase(c["name"], c["law"], c["code"], c["steps"], line) for c, line in found]


class ReceiverRun(Run):
    """One run. Its verdicts, and the document made of them, are as those of the queues' run."""

    def __init__(
        self, found: Sequence[AnyCase], key: bytes, now: Callable[[], float] = time.time
    ) -> None:
        self._found = [case for case in found if isinstance(case, ReceiverCase)]
        self.verdicts, self.unusable = [], ""
        self._key, self._now, self._name = key, now, "unknown"

    def __call__(self, adapter: Any, chosen: Iterable[str], told: Told) -> None:
        """Put a receiver through the chosen cases; each verdict is told as it falls."""
        wanted, self._name = set(chosen), adapter.name
        for case in self._found:
            if case.name not in wanted:
                verdict = _verdict(case, "skipped", why="it was not asked for")
            else:
                verdict = self._case(adapter, case)
            self.verdicts.append(verdict)
            told(verdict)

    def _case(self, target: Target, case: ReceiverCase) -> Json:
        try:
            Walk(target, self._key, self._now).walk(case.steps)
        except Failed as failure:
            return _verdict(case, "failed", expected=plain(failure.expected),
                            observed=plain(failure.observed), why=failure.what)  # fmt: skip
        except Broken as error:
            return _verdict(case, "failed", expected="an answer", observed=str(error),
                            why="the receiver's answer")  # fmt: skip
        return _verdict(case, "passed")

    def document(self, backend: str) -> Json:
        """What was found, beside what it was found with."""
        return {
            "object_key": "fencepost_receiver_v1",
            "status": self.status(), "issues": self.issues(), "backend": backend,
            "target": {"name": self._name, "version": "unknown"}, "cases": self.verdicts,
            "sha256": {CASES_FILE.name: digest(CASES_FILE), "kit": kit_digest()},
            "versions": {"python": platform.python_version()},
            "self_run": True, "review": "pending", "statement": STATEMENT,
        }  # fmt: skip


class Walk:
    """One case: a fresh name for the writer, so that no case meets what another has left."""

    def __init__(self, target: Target, key: bytes, now: Callable[[], float]) -> None:
        self._target, self._key, self._now = target, key, now
        self._writer = str(uuid.uuid4())
        self._bodies: list[bytes] = []

    def walk(self, steps: list[Json]) -> None:
        """Each step in turn. Raises Failed at the first answer that is not right."""
        for number, step in enumerate(steps, 1):
            answers = self._post(step)
            for answer in answers:
                self._judge(f"step {number}", step, answer)
            if len({answer.body for answer in answers}) > 1:
                raise Failed(f"step {number}: answers at once", "the same bytes", "several")
            self._bodies.append(answers[0].body)

    def _post(self, step: Json) -> list[Answer]:
        times = step.get("times", 1)
        body = self._named(step["body"])
        headers = {"content-type": step.get("content_type", TYPES[step["post"]])}
        headers |= self._signed(step["id"], body, step.get("sign", {}))
        if times == 1:
            return [self._target.post(headers, body)]
        with ThreadPoolExecutor(times) as pool:
            return list(pool.map(lambda _: self._target.post(headers, body), range(times)))

    def _signed(self, message_id: str, body: bytes, how: Json) -> dict[str, str]:
        """The three headers; `how` says what is wrong with them."""
        stamp = str(int(self._now() - how.get("age_seconds", 0)))
        key = ANOTHER_KEY if how.get("secret") == "another" else self._key
        over = self._named(how["body"]) if "body" in how else body
        made = signature(key, how.get("id", message_id), stamp, over)
        if "version" in how:
            made = how["version"] + made[2:]
        headers = {
            "webhook-id": message_id, "webhook-timestamp": stamp,
            "webhook-signature": how.get("before", "") + made + how.get("after", ""),
        }  # fmt: skip
        headers.pop(how.get("drop", ""), None)
        return headers

    def _named(self, text: str) -> bytes:
        return text.replace("$WRITER", self._writer).encode()

    def _judge(self, at: str, step: Json, answer: Answer) -> None:
        expect = step["expect"]
        if answer.status != expect["status"]:
            told = f"{answer.status} {_shown(answer.body)}"
            raise Failed(f"{at}: status", expect["status"], told)
        if "same_as" in expect and answer.body != self._bodies[expect["same_as"]]:
            raise Failed(f"{at}: the bytes of the answer", "those of the first answer", "others")
        value = _object(at, answer.body)
        if "code" in expect and value.get("code") != expect["code"]:
            raise Failed(f"{at}: code", expect["code"], value.get("code"))
        replayed = answer.headers.get("idempotent-replayed") == "true"
        if expect.get("replayed", replayed) != replayed:
            raise Failed(f"{at}: idempotent-replayed", expect["replayed"], replayed)
        _holds(at, json.loads(self._named(json.dumps(expect.get("json", {})))), value)
        if answer.status in (200, 409):
            self._is_signed(at, step["id"], answer)

    def _is_signed(self, at: str, message_id: str, answer: Answer) -> None:
        """What says that an effect is there, or that it may not be, is signed."""
        headers = answer.headers
        stamp = headers.get("webhook-timestamp", "")
        made = signature(self._key, message_id, stamp, answer.body)
        if headers.get("webhook-id") != message_id:
            raise Failed(f"{at}: the answer's webhook-id", message_id, headers.get("webhook-id"))
        if made not in headers.get("webhook-signature", "").split(" "):
            raise Failed(f"{at}: the answer's signature", "by the secret, over its body", "none")
        if not stamp.isdigit() or abs(int(stamp) - self._now()) > 300:
            raise Failed(f"{at}: the answer's webhook-timestamp", "now", stamp)


def _holds(at: str, expected: Any, observed: Any) -> None:
    """Every member that is expected is there; further ones are the receiver's own."""
    if isinstance(expected, dict) and isinstance(observed, dict):
        for name, value in expected.items():
            if name not in observed:
                raise Failed(f"{at}: {name}", value, "nothing")
            _holds(f"{at}: {name}", value, observed[name])
    elif isinstance(expected, list) and isinstance(observed, list):
        if len(expected) != len(observed):
            raise Failed(f"{at}: how many", len(expected), len(observed))
        for number, value in enumerate(expected):
            _holds(f"{at}: {number}", value, observed[number])
    elif type(expected) is not type(observed) or expected != observed:
        raise Failed(at, expected, observed)


def _object(at: str, body: bytes) -> Json:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Failed(f"{at}: body", "a JSON object", _shown(body))
    return value


def _shown(body: bytes) -> str:
    return body[:200].decode("utf-8", "replace")


def _verdict(case: Any, verdict: str, **more: Any) -> Json:
    return {
        "case": case.name, "law": case.law, "verdict": verdict, "code": case.code,
        "sha256": case.sha256(), **more,
    }  # fmt: skip
