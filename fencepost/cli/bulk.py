"""`enqueue --from`: a file of any length, a task a line, 250 tasks a command."""

from __future__ import annotations

import os
import stat
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import BinaryIO

from fencepost import fields
from fencepost.cli import inputs
from fencepost.cli.interrupts import Interrupts
from fencepost.cli.output import Out, asking
from fencepost.cli.store import open_store
from fencepost.cli.terminal import Progress
from fencepost.clock import SECOND, SystemClock
from fencepost.commands import Enqueue, NewTask, Request
from fencepost.handle import Verbs
from fencepost.handle.verbs import request_of
from fencepost.issues import InvalidRequest, OutcomeUnknown, Unavailable

MAX_COMMAND_BYTES = 8 * 1024 * 1024  # fewer than 250 tasks a command where they are large


def enqueue(args: Namespace, out: Out) -> int:
    """Enqueue the lines; with --json each command's outcome is told. Whatever stops it says
    how many were enqueued before."""
    _check(args)
    clock = SystemClock()
    with (
        inputs.opened(args.source, "--from") as file,
        open_store(args) as fp,
        Progress(
            f"enqueue {args.queue}", _count_lines(file),
            out=sys.stderr, steady=lambda: clock.steady() / SECOND,
        ) as progress,
        Interrupts() as interrupts,
    ):  # fmt: skip
        return Bulk(args, out, fp, progress).run(file, interrupts)


def _check(args: Namespace) -> None:
    """The queue has a name, and nothing that belongs to one task stands beside --from."""
    fields.name(args.queue, "queue")
    single = {
        "PAYLOAD": args.payload, "--text": args.text or None, "--task-key": args.task_key,
        "--priority": args.priority, "--due-at": args.due_at, "--max-attempts": args.max_attempts,
    }  # fmt: skip
    for name, value in single.items():
        if value is not None:
            raise InvalidRequest(f"enqueue: {name} belongs to one task; with --from use --tasks")


def _count_lines(file: BinaryIO) -> int | None:
    """How many lines are to come, where the file can be read twice."""
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        start = file.tell()
        lines, last = 0, b"\n"
        while block := file.read(1 << 20):
            lines, last = lines + block.count(b"\n"), block[-1:]
        file.seek(start)
    except (OSError, ValueError):  # not a file of the system
        return None
    return lines + (last != b"\n")


class Bulk:
    """One run of `enqueue --from`, and how far it has come."""

    def __init__(self, args: Namespace, out: Out, fp: Verbs, progress: Progress) -> None:
        self.args, self.out, self.fp, self.progress = args, out, fp, progress
        self.tasks = self.commands = 0
        self.pending: Request | None = None

    def run(self, file: BinaryIO, interrupts: Interrupts) -> int:
        """All of the file. Ctrl-C is heard between two commands."""
        try:
            for chunk in self._chunks(file):
                with interrupts.held():
                    code = self._send(chunk)
                if code:
                    return code
        except (InvalidRequest, Unavailable) as error:
            raise type(error)(f"{error}; {self._before()}") from None
        except KeyboardInterrupt:
            unheard = "" if self.pending is None else f"; {asking(self.pending)}"
            raise KeyboardInterrupt(self._before() + unheard) from None
        if not self.out.json:
            self.out.say(f"on {self.args.queue}: {self._done()}")
        return 0

    def _chunks(self, file: BinaryIO) -> Iterator[tuple[NewTask, ...]]:
        chunk: list[NewTask] = []
        size = 0
        for number, line in inputs.lines(file):
            chunk.append(inputs.task_of(line, f"line {number}", whole=self.args.tasks))
            size += len(line)
            if len(chunk) == fields.MAX_TASKS_PER_COMMAND or size >= MAX_COMMAND_BYTES:
                yield tuple(chunk)
                chunk, size = [], 0
        if chunk:
            yield tuple(chunk)

    def _send(self, chunk: tuple[NewTask, ...]) -> int:
        key = self.args.key and f"{self.args.key}.{self.commands + 1}"
        self.pending = request_of(Enqueue(self.args.queue, chunk), key)
        (outcome,) = self.fp.execute([self.pending])
        if not outcome.accepted:
            if OutcomeUnknown.code not in outcome.issues:
                self.pending = None
            told = outcome._replace(message=f"{outcome.message}; {self._before()}")
            return self.out.refusal(told, self.pending)
        self.pending = None
        self.commands += 1
        self.tasks += len(chunk)
        self.progress.add(len(chunk))
        if self.out.json:
            self.out.data(outcome.to_json())
            sys.stdout.flush()  # whoever reads along sees each command as it is committed
        return 0

    def _done(self) -> str:
        return f"{self.tasks} tasks in {self.commands} commands"

    def _before(self) -> str:
        """What was done before it stopped, and how to go on."""
        if self.args.key:
            go_on = "send it again with the same --key: nothing is enqueued twice"
        elif self.args.source != "-":
            go_on = f"the rest begins at line {self.tasks + 1}"
        else:
            go_on = f"go on from line {self.tasks + 1}"
        return f"{self._done()} were enqueued before; {go_on}"
