"""Deliveries to a command: the event on standard input, what it has done by its exit code.

It runs in a tree of processes of its own (`worker/containment.py`), which ends with the delivery.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable
from secrets import token_hex
from typing import IO, Any

from fencepost import canonical
from fencepost.deliveries.event import Event
from fencepost.deliveries.places import Greeting, Place, Try
from fencepost.issues import InvalidRequest
from fencepost.worker import containment
from fencepost.worker.containment import Fds, Tree

SCHEME = "command:"
GRACE_SECONDS = 2.0
FINISH_SECONDS = 10.0
EXIT_CODES: dict[int, tuple[Any, str]] = {
    0: ("delivered", "the effect is there; what it has written is the evidence"),
    65: ("rejected", "it will never be possible: the obligation is dead"),
    69: ("later", "nothing was done: the attempt is given back"),
    75: ("failed", "nothing was done for now: tried again after the back-off"),
    77: ("unanswered", "it may have been done: uncertain"),
}
"""Exit code → (word of the try, meaning). Any other: the same as 77, since nobody knows how far it
has come."""


class CommandSender:
    """Runs one command for each delivery. See `places.Sender`."""

    greets = False

    def __init__(self, place: Place, now: Callable[[], float]) -> None:
        self._argv = [str(word) for word in json.loads(place.address.removeprefix(SCHEME))]
        self._timeout = float(place.options["timeout_seconds"])
        self._most = int(place.options["max_response_bytes"])
        self._trees: set[Tree] = set()
        self._lock = threading.Lock()
        self._closed = False

    def send(self, event: Event, seconds: float) -> Try:
        seconds = min(seconds, self._timeout)
        with tempfile.TemporaryFile() as body, tempfile.TemporaryFile() as output:
            body.write(event.body)
            body.seek(0)
            with open(os.devnull, "wb") as nowhere:
                try:
                    tree = self._started(event, Fds(body.fileno(), output.fileno(),
                                                    nowhere.fileno()), seconds)  # fmt: skip
                except (OSError, InvalidRequest) as error:
                    return Try("unsent", f"the command cannot be begun: {error}")
            try:
                ended = tree.wait(seconds + GRACE_SECONDS)
            finally:
                self._end(tree)
            if ended is None or ended.why != "exit" or ended.code is None:
                why = "it did not end in time" if ended is None else ended.why
                if ended is not None and ended.why == "not_started":
                    return Try("unsent", f"the command cannot be run: {ended.error}")
                return Try("unanswered", f"the command was ended: {why}")
            return self._judged(ended.code, output)

    def greet(self, body: bytes, seconds: float) -> Greeting:
        return Greeting(0, None, "a command knows no writers")

    def close(self) -> None:
        """What still runs is ended."""
        with self._lock:
            self._closed = True
            trees = list(self._trees)
        for tree in trees:
            tree.kill(0)

    def _started(self, event: Event, fds: Fds, seconds: float) -> Tree:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("FENCEPOST_")}
        told = {
            "FENCEPOST_ID": event.id, "FENCEPOST_OPERATION": event.operation,
            "FENCEPOST_STREAM": event.stream, "FENCEPOST_SUBJECT": event.subject,
            "FENCEPOST_EPOCH": str(event.epoch), "FENCEPOST_FENCE": str(event.fence),
            "FENCEPOST_REVISION": str(event.revision),
        }  # fmt: skip
        with self._lock:
            if self._closed:
                raise InvalidRequest("the dispatcher is ending")
            tree = containment.start(
                self._argv, {**kept, **told}, fds, containment.NO_LIMITS,
                f"fencepost-deliver.{os.getpid()}.{token_hex(8)}",
                seconds=seconds, grace=GRACE_SECONDS,
            )  # fmt: skip
            self._trees.add(tree)
        return tree

    def _end(self, tree: Tree) -> None:
        if tree.ended is None:
            tree.kill(0)
        tree.finish(FINISH_SECONDS)
        with self._lock:
            self._trees.discard(tree)

    def _judged(self, code: int, output: IO[bytes]) -> Try:
        word, meaning = EXIT_CODES.get(code, EXIT_CODES[77])
        if word != "delivered":
            return Try(word, f"the command ended with {code}: {meaning}")
        output.seek(0)
        return Try("delivered", evidence={"exit": code, **self._written(output)})

    def _written(self, output: IO[bytes]) -> dict[str, Any]:
        """What it has written: JSON as it is read, else text; too much of it is only counted."""
        content = output.read(self._most + 1)
        if len(content) > self._most:
            return {"output_bytes": os.fstat(output.fileno()).st_size}
        if not content.strip():
            return {}
        try:
            return {"output": canonical.loads(content, max_bytes=len(content), what="evidence")}
        except InvalidRequest:
            return {"output": content.decode("utf-8", "replace")}
