"""Deliveries to a command: the event on standard input, what it has done by its exit code.

It runs in a tree of processes of its own (`worker/containment.py`), which ends with the delivery,
and with whoever delivers.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from secrets import token_hex
from typing import IO, Any

from fencepost import canonical
from fencepost.deliveries.event import Event
from fencepost.deliveries.places import Greeting, Place, Try, Word
from fencepost.destinations import arguments_of
from fencepost.issues import InvalidRequest
from fencepost.receiver import signing
from fencepost.worker import containment
from fencepost.worker.containment import Ended, Fds, Tree
from fencepost.worker.pipes import Pipes

GRACE_SECONDS = 2.0
GRACE_SHARE = 5  # no more than this part of the time is kept for its end
FINISH_SECONDS = 10.0
STDERR = 2
EXIT_CODES: dict[int, tuple[Word, str]] = {
    0: ("delivered", "the effect is there; what it has written is the evidence"),
    65: ("rejected", "it will never be possible: the obligation is dead"),
    69: ("later", "nothing was done: the attempt is given back, and the destination rests"),
    75: ("failed", "nothing was done: tried again after the back-off"),
    77: ("unanswered", "nobody knows whether it was done: uncertain"),
    78: ("gone", "nothing may be sent there any more: the destination is stopped"),
}
OTHER = EXIT_CODES[77]
"""Any other exit code, and a signal: nobody knows how far it has come."""


class CommandSender:
    """Runs one command for each delivery. See `places.Sender`."""

    greets = False

    def __init__(self, place: Place, now: Callable[[], float]) -> None:
        self._argv = arguments_of(place.address)
        self._now = now
        self._keys = [signing.secret_bytes(secret) for secret in place.secrets]
        self._timeout = float(place.options["timeout_seconds"])
        self._most = int(place.options["max_response_bytes"])
        self._trees: set[Tree] = set()
        self._lock = threading.Lock()
        self._closed = False

    def send(self, event: Event, seconds: float) -> Try:
        seconds = min(seconds, self._timeout)
        grace = min(GRACE_SECONDS, seconds / GRACE_SHARE)
        try:
            with _file(event.body) as body, Pipes(self._most, lambda line: None) as pipes:
                tree = self._started(event, body, pipes, seconds - grace, grace)
                try:
                    ended = tree.wait(seconds)
                finally:
                    self._end(tree)
                pipes.drain()
                return self._judged(ended or tree.ended, pipes)
        except (OSError, InvalidRequest) as error:
            return Try("unsent", f"the command cannot be begun: {error}")

    def greet(self, body: bytes, seconds: float) -> Greeting:
        return Greeting(0, None, "a command knows no writers")

    def close(self) -> None:
        """What still runs is ended, and nothing more begins."""
        with self._lock:
            self._closed = True
            trees = list(self._trees)
        for tree in trees:
            tree.kill(0)

    def environment(self, event: Event) -> dict[str, str]:
        """What it is told beside the event: docs/deliveries.md has the table."""
        told = {
            "FENCEPOST_ID": event.id, "FENCEPOST_OPERATION": event.operation,
            "FENCEPOST_STREAM": event.stream, "FENCEPOST_SUBJECT": event.subject,
            "FENCEPOST_EPOCH": str(event.epoch), "FENCEPOST_FENCE": str(event.fence),
            "FENCEPOST_REVISION": str(event.revision),
            "FENCEPOST_SEQUENCE": "" if event.turn is None else str(event.turn.sequence),
        }  # fmt: skip
        if self._keys:
            signed = signing.sign(self._keys, event.id, int(self._now()), event.body)
            told |= {
                f"FENCEPOST_{name.upper().replace('-', '_')}": text for name, text in signed.items()
            }
        return told

    def _started(
        self, event: Event, body: IO[bytes], pipes: Pipes, seconds: float, grace: float
    ) -> Tree:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("FENCEPOST_")}
        with self._lock:  # so that no tree begins unseen by `close`
            if self._closed:
                raise InvalidRequest("the dispatcher is ending")
            try:
                tree = containment.start(
                    self._argv, {**kept, **self.environment(event)},
                    Fds(body.fileno(), pipes.ends[0], STDERR), containment.NO_LIMITS,
                    f"fencepost-deliver.{os.getpid()}.{token_hex(8)}",
                    seconds=seconds, grace=grace,
                )  # fmt: skip
            finally:
                pipes.begun()
            self._trees.add(tree)
        return tree

    def _end(self, tree: Tree) -> None:
        """Nothing of it is left when its delivery is settled."""
        if tree.ended is None:
            tree.kill(0)
        tree.finish(FINISH_SECONDS)
        with self._lock:
            self._trees.discard(tree)

    def _judged(self, ended: Ended | None, pipes: Pipes) -> Try:
        if ended is not None and ended.why == "not_started":
            return Try("unsent", f"the command cannot be run: {ended.error}")
        if ended is None or ended.why != "exit" or ended.code is None:
            why = "nobody knows how" if ended is None else ended.why
            return Try("unanswered", f"the command was ended: {why}")
        word, meaning = EXIT_CODES.get(ended.code, OTHER)
        if word != "delivered":
            return Try(word, f"the command ended with {ended.code}: {meaning}")
        return Try("delivered", evidence=evidence(pipes.output, self._most))


def evidence(output: bytes | None, most: int) -> dict[str, Any]:
    """What it has written, as evidence: JSON as it is read, else text. Of what is longer than
    `max_response_bytes` only that is told."""
    if output is not None and not output.strip():
        return {"exit": 0}
    if output is not None:
        try:
            said = canonical.loads(output, max_bytes=len(output), what="evidence")
        except InvalidRequest:
            said = output.decode("utf-8", "replace")
        told = {"exit": 0, "output": said}
        if len(canonical.dumps(told)) <= most:
            return told
    return {"exit": 0, "output_over_bytes": most}


def _file(content: bytes) -> IO[bytes]:
    """The event as a file without a name: a command that does not read it holds nobody up."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    try:
        file.write(content)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file
