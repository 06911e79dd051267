"""How a target is reached: in this process, or as a program that speaks JSON lines on stdio.

The protocol is described in docs/conformance.md. Whatever a program does instead of answering
(it dies, stays silent, prints something else) becomes a `Broken` with a clear reason, never a
hang: each answer is waited for so long and no longer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TextIO

from .cases.law import Unavailable
from .cases.store import Adapter, Json

MAX_LINE = 64 * 1024 * 1024
GRACE_SECONDS = 2.0


class Broken(Exception):
    """The target did not answer as the protocol says: dead, silent, or speaking otherwise."""


class Unusable(Exception):
    """There is no such target, or it cannot be started."""


def compact(value: Any) -> str:
    """One line of JSON in ASCII, so that nothing in it can end the line."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


class Program:
    """A started program. One thread owns its two streams, so that one that does not read, or never
    ends its line, holds up that thread and nobody else."""

    def __init__(self, argv: Sequence[str], environ: dict[str, str] | None) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed in `end`
        try:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                env=environ, encoding="utf-8", errors="backslashreplace",
                start_new_session=os.name == "posix",
            )  # fmt: skip
        except OSError as error:
            self.errors.close()
            raise Unusable(f"{argv[0]!a} cannot be started: {error.strerror}") from None
        self._asked: SimpleQueue[str | None] = SimpleQueue()
        self._told: SimpleQueue[str] = SimpleQueue()
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._thread.start()

    def _talk(self) -> None:
        source, sink = self.process.stdout, self.process.stdin
        assert source is not None and sink is not None
        while (line := self._asked.get()) is not None:
            answer = ""  # what a dead program says
            with suppress(OSError, ValueError):
                sink.write(line)
                sink.flush()
                answer = source.readline(MAX_LINE)
            self._told.put(answer)
        for stream in (sink, source):
            with suppress(OSError, ValueError):
                stream.close()

    def exchange(self, line: str, seconds: float) -> str:
        """The line that answers; empty where the program has died. Raises queue.Empty."""
        self._asked.put(line)
        return self._told.get(timeout=seconds)

    def end(self, *, now: bool = False) -> str:
        """End it and all that it has started, `now` or as soon as it has seen its input end. Tells
        how it ended, and what it wrote to standard error at last."""
        if now:
            self._kill()
        self._asked.put(None)
        try:
            ended = f" (exit code {self.process.wait(GRACE_SECONDS)})"
        except subprocess.TimeoutExpired:
            ended = ""
        self._kill()
        self.process.wait()
        self._thread.join(GRACE_SECONDS)
        self.errors.seek(max(self.errors.seek(0, os.SEEK_END) - 300, 0))
        words = self.errors.read().decode("utf-8", "replace").strip()
        self.errors.close()
        return f"{ended}: {words!a}" if words else ended

    def _kill(self) -> None:
        with suppress(OSError):
            if os.name == "posix":
                os.killpg(self.process.pid, signal.SIGKILL)  # the session that it was started in
            else:
                self.process.kill()


class Stdio:
    """A target behind a program's standard input and output. It is started when it is asked, and
    anew after it broke."""

    def __init__(
        self, argv: Sequence[str], seconds: float, environ: dict[str, str] | None = None
    ) -> None:
        self.argv, self.seconds, self.environ = list(argv), seconds, environ
        self._program: Program | None = None
        self._number = 0

    def describe(self) -> Json:
        return _object(self.ask("describe"))

    def fresh(self, owner: str) -> None:
        self.ask("fresh", owner=owner)

    def send(self, owner: str, caller: Json, body: str, key: str | None) -> Json:
        return _object(self.ask("send", owner=owner, caller=caller, body=body, key=key))

    def read(self, owner: str, caller: Json, what: str, **names: Any) -> Any:
        given = {name: value for name, value in names.items() if value is not None}
        return self.ask("read", owner=owner, caller=caller, what=what, **given)

    def advance(self, seconds: float) -> None:
        self.ask("advance", seconds=seconds)

    def advance_microseconds(self, microseconds: int) -> None:
        self.ask("advance", microseconds=microseconds)

    def fail_next(self, owner: str, place: str) -> None:
        self.ask("fail_next", owner=owner, place=place)

    def copy(self, source: str, target: str, pinned: bool) -> None:
        self.ask("copy", source=source, target=target, pinned=pinned)

    def race(self, sends: list[Json]) -> list[Json]:
        outcomes = self.ask("race", sends=sends)
        if not isinstance(outcomes, list) or len(outcomes) != len(sends):
            raise Broken(f"race did not answer {len(sends)} outcomes")
        return [_object(outcome) for outcome in outcomes]

    def ask(self, op: str, **members: Any) -> Any:
        """One operation's value. Raises Unavailable, or Broken with the reason."""
        if self._program is None:
            self._program = Program(self.argv, self.environ)
        self._number += 1
        line = compact({"id": self._number, "op": op, **members}) + "\n"
        try:
            answer = self._program.exchange(line, self.seconds)
        except Empty:
            self.close(now=True)
            raise Broken(f"{op}: no answer within {self.seconds:g} s; it was ended") from None
        if not answer:
            raise Broken(f"{op}: the target died{self.close()}")
        return self._value(op, answer)

    def _value(self, op: str, line: str) -> Any:
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or answer.get("id") != self._number:
            self.close(now=True)
            what = "not JSON" if answer is None else f"not to request {self._number}"
            raise Broken(f"{op}: the answer is {what}: {line[:80]!a}")
        if "unavailable" in answer:
            raise Unavailable(f"{op}: {answer['unavailable']}")
        if "ok" not in answer:
            told = str(answer.get("error", "the answer has none of ok, unavailable and error"))
            raise Broken(f"{op}: the target met an error: {told[:300]!a}")
        return answer["ok"]

    def close(self, *, now: bool = False) -> str:
        """End the program; the next question starts it anew. Tells how it ended."""
        program, self._program = self._program, None
        return "" if program is None else program.end(now=now)


def _object(value: Any) -> Json:
    if not isinstance(value, dict):
        raise Broken(f"the answer is not an object: {compact(value)[:80]}")
    return value


def serve(adapter: Adapter, source: TextIO, sink: TextIO) -> None:
    """Put an adapter on a stream of JSON lines, until the stream ends."""
    for line in source:
        request = json.loads(line)
        number, op = request.pop("id"), request.pop("op")
        if op == "advance" and "microseconds" in request:
            op = "advance_microseconds"
        answer: Json = {"id": number}
        try:
            answer["ok"] = getattr(adapter, op)(**request)
        except NotImplementedError as error:
            answer["unavailable"] = str(error) or op
        except Exception as error:  # noqa: BLE001  # whatever it is, the case has to hear of it
            answer["error"] = f"{type(error).__name__}: {error}"
        sink.write(compact(answer) + "\n")
        sink.flush()
