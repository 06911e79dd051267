"""`fencepost work QUEUE... -- COMMAND`: a worker as a process of its own, until a signal."""

from __future__ import annotations

import signal
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fencepost.cli.output import Out
from fencepost.cli.store import open_store
from fencepost.issues import InvalidRequest
from fencepost.record import replace
from fencepost.worker import containment
from fencepost.worker.command import OUTPUT_BYTES, Command, Commands
from fencepost.worker.containment import Limits
from fencepost.worker.options import GRACE_SECONDS, Options
from fencepost.worker.runtime import Ending, Performer, Runtime
from fencepost.worker.worker import cookie_of, folder_of, memory_of

if TYPE_CHECKING:
    from fencepost.handle import Handle
    from fencepost.remote import RemoteHandle
    from fencepost.worker.outbox import OutboxStore

MEGABYTE = 1_000_000
ASK_SECONDS = 10.0  # the worker itself asks again, and knows what must not wait
# docs/work.md shows this table. After a second signal: 128 and its number.
EXITS: dict[Ending, tuple[int, str]] = {
    "done": (0, "ended as asked, and all that it had begun is settled"),
    "refused": (3, "the token or the scope was refused for 10 s"),
    "left": (6, "ended as asked, and the store did not answer: the next start settles the rest"),
    "unreachable": (6, "the store could not be reached for `--give-up-seconds`"),
}


class Place(NamedTuple):
    """Where a worker works: a store, or an outbox."""

    fp: Handle | RemoteHandle | OutboxStore
    worker_id: str
    folder: Path | None
    run_of: Callable[[Performer], Runtime]


def work(args: Namespace, out: Out) -> int:
    command = _command(args).checked()
    with ExitStack() as stack:
        place = _store(args, stack) if args.offline is None else _outbox(args, stack)
        cookie = cookie_of(place.fp, place.worker_id, place.folder)
        containment.own_process()
        commands = Commands(command, place.fp.scope_name, cookie)
        commands.sweep()
        stack.callback(commands.close)
        runtime = place.run_of(commands)
        signals = stack.enter_context(stopped_by_signals(runtime))
        ending = runtime.run()
    _tell(runtime, ending, out)
    return 128 + signals[-1] if ending == "aborted" else EXITS[ending][0]


def _store(args: Namespace, stack: ExitStack) -> Place:
    if args.worker is None:
        raise InvalidRequest("work: give --worker W")
    if not args.queues:
        raise InvalidRequest("work: give a QUEUE, or --offline OUTBOX")
    options = _options(args, args.worker).checked()
    fp = open_store(args, seconds=ASK_SECONDS)
    stack.callback(fp.close)
    memory = memory_of(fp, options.worker_id, args.state)
    stack.callback(memory.close)
    folder = folder_of(fp, options.worker_id, args.state)
    return Place(fp, args.worker, folder, lambda commands: Runtime(fp, commands, options, memory))


def _outbox(args: Namespace, stack: ExitStack) -> Place:
    """Without a network: the outbox knows the worker, and is all that he remembers."""
    from fencepost.cli.offline import opened
    from fencepost.worker.outbox import OutboxStore, queues_of, runtime_of

    for name in ("lease_seconds", "give_up_seconds", "state"):
        if getattr(args, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InvalidRequest(f"work --offline: {flag} belongs to a store: leave it out")
    args.outbox = args.offline
    box = stack.enter_context(opened(args))
    wished = queues_of(box, args.queues)
    options = _options(args, box.worker_id)
    options = replace(options, queues=wished, exit_when_empty=True).checked(least_queues=0)
    stack.enter_context(box.alone())
    store = OutboxStore(box)
    return Place(store, box.worker_id, None, lambda commands: runtime_of(store, commands, options))


def _command(args: Namespace) -> Command:
    argv = tuple(getattr(args, "command", ()))
    if not argv:
        raise InvalidRequest("work: say what is to be run, behind --")
    limits = Limits(
        _times(args.memory_mb, MEGABYTE), args.cpu_seconds, args.open_files,
        _times(args.file_mb, MEGABYTE),
    )  # fmt: skip
    return Command(
        argv, limits, args.isolate, args.task_seconds,
        OUTPUT_BYTES if args.output_bytes is None else args.output_bytes,
    )  # fmt: skip


def _times(number: int | None, unit: int) -> int | None:
    return None if number is None else number * unit


def _options(args: Namespace, worker_id: str) -> Options:
    return Options(
        queues=tuple(args.queues),
        worker_id=worker_id,
        concurrency=args.jobs,
        lease_seconds=args.lease_seconds,
        grace=GRACE_SECONDS if args.grace is None else args.grace,
        exit_when_empty=args.exit_when_empty,
        max_tasks=args.max_tasks,
        max_seconds=args.max_seconds,
        give_up_seconds=args.give_up_seconds,
    )


class Stoppable(Protocol):
    """What a signal stops."""

    def stop(self) -> None: ...
    def abort(self) -> None: ...


@contextmanager
def stopped_by_signals(runtime: Stoppable) -> Iterator[list[int]]:
    """The first signal stops well, the second at once. What came, in order. A hangup that was
    ignored before stays so: that is what `nohup` is for."""
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:
            runtime.stop()
        else:
            runtime.abort()

    numbers = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield came
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _tell(runtime: Runtime, ending: Ending, out: Out) -> None:
    counts = dict(sorted(runtime.counts.items()))
    if out.json:
        out.data({"ended": ending, "tasks": counts})
        return
    told = ", ".join(f"{number} {what}" for what, number in counts.items()) or "no task"
    out.note(f"work ended ({ending}): {told}")
