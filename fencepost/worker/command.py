"""Work done by a command: payload in, result out, exit code to verdict. See docs/work.md."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import IO, Any, NamedTuple

from fencepost import canonical
from fencepost.clock import SECOND, to_rfc3339
from fencepost.issues import FencepostError, InvalidRequest
from fencepost.log import Log
from fencepost.parts import NOTHING
from fencepost.record import dataclass
from fencepost.worker import containment
from fencepost.worker.beat import Beat
from fencepost.worker.containment import Ended, Fds, Limits, Tree
from fencepost.worker.folder import Folder
from fencepost.worker.held import STOPPING, Held
from fencepost.worker.isolation import Isolate
from fencepost.worker.pipes import Pipes
from fencepost.worker.verdicts import Verdict, of_exit_code

OUTPUT_BYTES = 8 * 1024 * 1024
FINISH_SECONDS = 10.0

_log = Log("fencepost.worker")

# What a command finds in its environment; docs/work.md shows this table.
ENVIRONMENT: dict[str, tuple[str, Callable[[Held, str], str]]] = {
    "FENCEPOST_TASK": ("the task's id", lambda held, scope: held.lease.task_id),
    "FENCEPOST_FENCE": (
        "its fence: hand it on to whatever has to refuse a worker that is late",
        lambda held, scope: str(held.lease.fence),
    ),
    "FENCEPOST_QUEUE": ("its queue", lambda held, scope: held.lease.queue),
    "FENCEPOST_KEY": ("its key on the queue; empty if none", lambda held, _: held.lease.key or ""),
    "FENCEPOST_ATTEMPT": ("which attempt this is", lambda held, _: str(held.lease.attempt)),
    "FENCEPOST_MAX_ATTEMPTS": (
        "how many there are", lambda held, _: str(held.lease.grant.max_attempts)
    ),
    "FENCEPOST_REVISION": (
        "its revision at the claim", lambda held, _: str(held.lease.revision)
    ),
    "FENCEPOST_SCOPE": ("the scope", lambda held, scope: scope),
    "FENCEPOST_WORKER": ("the worker's id", lambda held, _: held.lease.worker_id),
    "FENCEPOST_LEASE_EXPIRES_AT": (
        "when the lease ends unless it is renewed, by the store's clock",
        lambda held, _: to_rfc3339(held.lease.lease_expires_at),
    ),
    "FENCEPOST_PROGRESS": (
        "the progress mark that an earlier attempt has left, JSON; `null` if none",
        lambda held, _: json.dumps(held.lease.progress),
    ),
}  # fmt: skip
ADDED = {
    "FENCEPOST_RESULT": "a path: what is written there is the result, in place of standard output",
    "FENCEPOST_LEASE": "marks every process of the task: leave it as it is",
}


@dataclass(frozen=True, slots=True)
class Command:
    """What is run for each task. `task_seconds` bounds one run; `output_bytes` its result."""

    argv: tuple[str, ...]
    limits: Limits = containment.NO_LIMITS
    isolate: Isolate | None = None
    task_seconds: float | None = None
    output_bytes: int = OUTPUT_BYTES
    variables: tuple[tuple[str, str], ...] = ()

    def checked(self) -> Command:
        """The same. Raises InvalidRequest for a command that is not there."""
        if not self.argv or shutil.which(self.argv[0]) is None:
            name = self.argv[0] if self.argv else ""
            raise InvalidRequest(f"work: there is no command {name!r} to be run")
        return self


def environment(held: Held, scope: str, result: str) -> dict[str, str]:
    """All that a command gets: this process's own, without anything of ours, and what it is told
    of its task. No token, no address of a store."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_")}
    told = {name: make(held, scope) for name, (_, make) in ENVIRONMENT.items()}
    return {**kept, **told, "FENCEPOST_RESULT": result}


class Run(NamedTuple):
    """How one run went."""

    ended: Ended
    log: str | None
    output: bytes | None  # None: longer than is taken
    overrun: bool


class Commands:
    """Runs the command once a task. `cookie` begins the mark of every process of this worker."""

    def __init__(self, command: Command, scope: str, cookie: str) -> None:
        self._command, self._scope, self._cookie = command, scope, cookie
        self._trees: set[Tree] = set()
        self._lock = threading.Lock()
        self._folder = Folder(cookie)

    def perform(self, held: Held, beat: Beat) -> Verdict | None:
        try:
            run = self._run(held, beat)
        except OSError as error:
            _log.warning("task %s cannot be begun here: %s", held.lease.task_id, error)
            held.lost.wait(1.0)  # it is this machine's fault: others may take it, and we wait
            return Verdict("release")
        return self.judge(held, run)

    def judge(self, held: Held, run: Run) -> Verdict | None:
        """What a run means for its task."""
        return of_run(held, run)

    def abort(self) -> None:
        with self._lock:
            trees = list(self._trees)
        for tree in trees:
            tree.kill(0)
        for tree in trees:
            tree.finish(FINISH_SECONDS)

    def sweep(self) -> None:
        """End what an earlier life of this worker has left running. Only where no other of this
        name lives."""
        containment.sweep(f"{self._cookie}.")

    def close(self) -> None:
        """Remove the folder of results."""
        self._folder.close()

    def _run(self, held: Held, beat: Beat) -> Run:
        with ExitStack() as stack:
            payload = stack.enter_context(_file(held.lease.grant.payload or b"null"))
            result = self._folder.file(f"{held.lease.fence}.json")
            stack.callback(_unlink, result)
            pipes = stack.enter_context(
                Pipes(self._command.output_bytes, lambda line: _mark(held, beat, line))
            )
            tree = self._start(held, payload, pipes, result)
            try:
                overrun = self._attend(held, tree)
            finally:
                self._finish(tree)
            pipes.drain()
            ended = tree.ended
            assert ended is not None
            output = _written(result, self._command.output_bytes)
            return Run(ended, pipes.log, pipes.output if output == b"" else output, overrun)

    def _start(self, held: Held, payload: IO[bytes], pipes: Pipes, result: str) -> Tree:
        seconds, grace = held.remaining() - held.pace.grace / SECOND, held.pace.grace / SECOND
        try:
            tree = containment.start(
                self._command.argv,
                {**environment(held, self._scope, result), **dict(self._command.variables)},
                Fds(payload.fileno(), *pipes.ends), self._command.limits,
                f"{self._cookie}.{held.lease.fence}", self._command.isolate,
                seconds=max(0.0, seconds), grace=grace,
            )  # fmt: skip
        finally:
            pipes.begun()
        with self._lock:
            self._trees.add(tree)
        return tree

    def _attend(self, held: Held, tree: Tree) -> bool:
        """Until the command has ended. Whether it ran for too long."""

        def told(changed: Held) -> None:
            if changed.lost.is_set():
                tree.kill(changed.pace.grace / SECOND)
            else:
                tree.extend(max(0.0, changed.remaining() - changed.pace.grace / SECOND))

        held.listen(told)
        if tree.wait(self._command.task_seconds) is not None:
            return False
        tree.kill(held.pace.grace / SECOND)
        tree.wait()
        return True

    def _finish(self, tree: Tree) -> None:
        if tree.ended is None:
            tree.kill(0)
        tree.finish(FINISH_SECONDS)
        with self._lock:
            self._trees.discard(tree)


def of_run(held: Held, run: Run) -> Verdict | None:
    """The verdict of a run, by its exit code."""
    code, ended = run.ended.code, run.ended
    if run.overrun:
        return Verdict("retry", reason="it ran longer than it may (--task-seconds)", log=run.log)
    if ended.why != "exit":
        return _ended_by_us(held, run)
    assert code is not None
    if code < 0:
        return Verdict("retry", reason=f"the command was killed by {_signal(-code)}", log=run.log)
    row = of_exit_code(code)
    if row.verdict != "complete":
        return Verdict(row.verdict, reason=f"the command ended with {code}", log=run.log)
    try:
        return Verdict("complete", result_of(run.output), log=run.log)
    except FencepostError as error:
        return Verdict("retry", reason=f"what it has written is no result: {error}", log=run.log)


def _ended_by_us(held: Held, run: Run) -> Verdict | None:
    """What it came to is not known: its exit code may be the answer to SIGTERM."""
    if run.ended.why == "not_started":
        return Verdict("retry", reason=f"the command cannot be run: {run.ended.error}")
    if held.over:
        return None
    if held.why == STOPPING:
        return Verdict("cut", log=run.log)
    return Verdict("retry", reason=f"the command was ended: {run.ended.why}", log=run.log)


def result_of(output: bytes | None) -> Any:
    """The result that was written: JSON, read strictly; NOTHING where nothing was. Raises
    InvalidRequest."""
    if output is None:
        raise InvalidRequest("longer than --output-bytes allows")
    if not output.strip():
        return NOTHING
    return canonical.loads(output, max_bytes=len(output), what="result")


def _signal(number: int) -> str:
    import signal

    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _mark(held: Held, beat: Beat, line: bytes) -> None:
    """A line on fd 3."""
    try:
        beat.mark(held, canonical.loads(line, max_bytes=1 << 17, what="progress"))
    except FencepostError as error:
        _log.warning("a progress line of task %s is left out: %s", held.lease.task_id, error)


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[IO[bytes]]:
    """The payload as a file without a name: whoever does not read it holds nobody up."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _written(path: str, most: int) -> bytes | None:
    """What the command has put into the file for its result; empty where there is none."""
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1)
    except OSError:
        return b""
    return content if len(content) <= most else None
