"""A worker as a program has it: `fencepost.Worker`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fencepost.worker.handlers import Handler, Threads, checked
from fencepost.worker.memory import Memory, default_folder, digest_of
from fencepost.worker.options import GRACE_SECONDS, Options
from fencepost.worker.runtime import Ending, Runtime

if TYPE_CHECKING:
    from fencepost.handle import Handle
    from fencepost.remote import RemoteHandle
    from fencepost.worker.child import Processes
    from fencepost.worker.outbox import OutboxStore

    AnyHandle: TypeAlias = Handle | RemoteHandle | OutboxStore


def identity_of(fp: AnyHandle, worker_id: str) -> dict[str, str]:
    """Whose memory it is: the store's, this scope's, this worker's."""
    return {"store": fp.address, "scope": fp.scope_name, "worker": worker_id}


def folder_of(fp: AnyHandle, worker_id: str, state: str | Path | None) -> Path | None:
    """Where it remembers. Nothing outlives a store in memory: None."""
    if state is not None:
        return Path(state)
    return None if fp.address == ":memory:" else default_folder(identity_of(fp, worker_id))


def memory_of(fp: AnyHandle, worker_id: str, state: str | Path | None) -> Memory:
    """The memory of a worker, open."""
    return Memory(folder_of(fp, worker_id, state), identity_of(fp, worker_id))


def cookie_of(fp: AnyHandle, worker_id: str, folder: Path | None) -> str:
    """What marks its processes and files. One that remembers elsewhere is another worker, whose
    processes are not this one's to end: the lock of its folder is not held. An outbox is its own
    folder."""
    place = {} if folder is None else {"state": os.path.realpath(folder)}
    return digest_of({**identity_of(fp, worker_id), **place})


def performer_of(
    fp: AnyHandle, handler: Handler, cookie: str, processes: bool, task_seconds: float | None
) -> Threads | Processes:
    """What works with this handler. Raises InvalidRequest for what is none."""
    checked(handler)
    return _processes(fp, handler, cookie, task_seconds) if processes else Threads(handler)


@contextmanager
def life_of(performer: Threads | Processes, *, alone: bool = True) -> Iterator[None]:
    """One run of it: what an earlier life of this worker has left running is ended before, and no
    file stays behind. `alone`: a lock tells that no other worker of this name lives, whose
    processes they might be."""
    if isinstance(performer, Threads):
        yield
        return
    try:
        if alone:
            performer.sweep()
        yield
    finally:
        performer.close()


class Worker:
    """Claims tasks of the queues, calls `handler` with a `Work` for each, and settles what it
    returns or raises. See docs/work.md.

    `concurrency` tasks at once, each in a thread, or with `processes` in a process of its own: the
    handler is then a function that a module has by name. `state` is the folder of what must not be
    forgotten over the worker's death (default: below XDG_STATE_HOME). The rest is as on the command
    line. Raises InvalidRequest where a worker of this name runs already.
    """

    def __init__(
        self,
        fp: AnyHandle,
        queues: str | Iterable[str],
        handler: Handler,
        *,
        worker_id: str,
        concurrency: int = 1,
        lease_seconds: int | None = None,
        grace: float = GRACE_SECONDS,
        exit_when_empty: bool = False,
        max_tasks: int | None = None,
        max_seconds: float | None = None,
        give_up_seconds: float | None = None,
        processes: bool = False,
        task_seconds: float | None = None,
        state: str | Path | None = None,
    ) -> None:
        names = (queues,) if isinstance(queues, str) else tuple(queues)
        options = Options(
            names, worker_id, concurrency, lease_seconds, grace, exit_when_empty, max_tasks,
            max_seconds, give_up_seconds,
        ).checked()  # fmt: skip
        cookie = cookie_of(fp, worker_id, folder_of(fp, worker_id, state))
        performer = performer_of(fp, handler, cookie, processes, task_seconds)
        self._memory = memory_of(fp, worker_id, state)
        self._performer = performer
        self._runtime = Runtime(fp, performer, options, self._memory)

    def run(self) -> Ending:
        """Work until `stop` is called or an option says so. `done`; `left` where something could
        not be settled, which the next start does; `refused` or `unreachable`. May be called
        once."""
        try:
            with life_of(self._performer, alone=self._memory.kept):
                return self._runtime.run()
        finally:
            self._memory.close()

    def stop(self) -> None:
        """Claim no more; `run` returns once what is begun has ended, or the grace is over. May be
        called by any thread, and in a signal's handler."""
        self._runtime.stop()

    @property
    def counts(self) -> dict[str, int]:
        """How many tasks were settled, by verdict; `lost` are those that were not."""
        return dict(self._runtime.counts)


def _processes(
    fp: AnyHandle, handler: Handler, cookie: str, task_seconds: float | None
) -> Processes:
    from fencepost.worker.child import Processes
    from fencepost.worker.command import Command

    return Processes(handler, Command((), task_seconds=task_seconds), fp.scope_name, cookie)
