"""The product behind its real HTTP server: one store at a time on a loopback port, with controls
over standard input and output that the shipped code does not have.

Run by the kit as `python3 product_http.py SEED`; it needs `fencepost[server]` importable.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from fencepost.clock import SECOND, FakeClock
from fencepost.conformance import product, product_pin
from fencepost.engine import SystemDraw
from fencepost.handle import Handle, open_handle
from fencepost.server import serve as running
from fencepost.server.logs import Lines
from fencepost.server.settings import ServerSettings
from fencepost.storage import saving
from fencepost.storage.sqlite.transaction import SqliteTransaction

Json = dict[str, Any]
# A clock that stands still fills no bucket, so no rate is set.
SETTINGS = ServerSettings(port=0, max_requests_per_second=10**9, max_claimed_per_minute=10**9)


class Running:
    """One store and the server before it, in a thread."""

    def __init__(self, fp: Handle, clock: FakeClock, lines: Lines) -> None:
        self.fp = fp
        self.listener = running.listen(SETTINGS)
        self.server = running.server(fp, SETTINGS, clock, lines)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        host, port = self.listener.getsockname()[:2]
        return f"http://{host}:{port}"

    def _serve(self) -> None:
        with self.listener:
            self.server.run(sockets=[self.listener])
        self.fp.close()

    def stop(self) -> None:
        """Let it end by itself: the next store need not wait for it."""
        self.server.should_exit = True


class Served:
    """What the kit can ask of this process."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = FakeClock(product.START)
        self.lines = Lines(self.clock, open(os.devnull, "w"))  # noqa: SIM115  # as long as we live
        self.all: list[Running] = []
        self.moved = self.opened = 0
        self.faults = ExitStack()

    def describe(self) -> Json:
        return {**product.described(), "backend": "http"}

    def open(
        self, path: str, microseconds: int, create: bool = False, pinned: bool = False
    ) -> Json:
        """Serve this file, `microseconds` after the clock's beginning; of a new store with the
        token of an operator of every scope. Pinned: it cannot know that it is a copy."""
        if self.all:
            self.all[-1].stop()
        self.advance_microseconds(microseconds - self.moved)
        self.opened += 1
        if pinned:
            product_pin.pin(Path(path))
        draw = SystemDraw(Random(f"{self.seed} {path} {self.opened}").randbytes)  # noqa: S311
        fp = open_handle(path, create=create, clock=self.clock, draw=draw)
        told: Json = {}
        if create:
            _, told["token"] = fp.token_create("kit", "operator", every_scope=True)
        self.all.append(Running(fp, self.clock, self.lines))
        return {**told, "url": self.all[-1].url}

    def copy(self, path: str) -> None:
        """A copy of the store as it is, there."""
        self.all[-1].fp.copy_to(Path(path), lambda done, all: None)

    def advance_microseconds(self, microseconds: int) -> None:
        self.moved += microseconds
        self.clock.advance(microseconds / SECOND)

    def fail_next(self, place: str) -> None:
        """The next command that writes meets the failure."""
        if place == "obligation_insert":
            self.faults.enter_context(product.obligation_insert(SqliteTransaction))
        elif place in ("before_commit", "after_commit"):
            die_around_commit(after=place == "after_commit")
        else:
            raise NotImplementedError(f"there is no fail-point {place}")

    def mend(self) -> None:
        """No more failures."""
        self.faults.close()

    def close(self) -> None:
        for one in self.all:
            one.stop()
        for one in self.all:
            one.thread.join(10)


def die_around_commit(*, after: bool) -> None:
    """From now on the process dies at the commit of what a command has written: before it, or with
    the commit made and nobody told."""
    save, commit = saving.save, SqliteTransaction.commit
    wrote = threading.Event()

    def saved(*arguments: Any) -> Any:
        wrote.set()  # a seal of the journal commits too, and is not meant
        yield from save(*arguments)

    def committed(transaction: SqliteTransaction) -> None:
        if wrote.is_set():
            if after:
                commit(transaction)
            die()
        commit(transaction)

    setattr(saving, "save", saved)  # noqa: B010  # in the place of the product's own, as below
    setattr(SqliteTransaction, "commit", committed)  # noqa: B010


def die() -> NoReturn:
    """End without a word, as a killed process does."""
    os._exit(137)


def main(seed: int) -> None:
    """Serve until the kit is done."""
    logging.disable()  # failures that the kit asked for are no news
    from fencepost.conformance.adapters import serve

    served = Served(seed)
    try:
        serve(served, sys.stdin, sys.stdout)  # type: ignore[arg-type]  # controls only
    finally:
        served.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
