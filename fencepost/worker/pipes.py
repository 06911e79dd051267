"""What a command says while it runs: standard output, standard error and progress marks, read by a
thread of their own, and bounded. Whoever goes on writing is read and forgotten."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

LOG_BYTES = 16 * 1024
LINE_BYTES = 1 << 17
PART = 1 << 16


class Pipes:
    """Three pipes. `ends` are the command's; `begun` closes ours of them once it has them."""

    def __init__(self, output_bytes: int, mark: Callable[[bytes], None]) -> None:
        self._most, self._mark = output_bytes, mark
        self._output, self._log, self._line = bytearray(), bytearray(), bytearray()
        self._too_long = self._skipping = False
        pairs = [os.pipe() for _ in range(4)]
        self.ends = tuple(into for _, into in pairs[:3])
        self._out, self._err, self._marks, self._stop = (out for out, _ in pairs)
        self._wake = pairs[3][1]
        self._thread = threading.Thread(target=self._run, name="fencepost-pipes", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.drain()
        for end in (self._out, self._err, self._marks, self._stop):
            os.close(end)

    def begun(self) -> None:
        """The command has its ends."""
        for end in self.ends:
            os.close(end)
        self.ends = ()

    def drain(self) -> None:
        """Read what is there, and no longer: whoever still has an end may hold it for ever."""
        if self._wake >= 0:
            self.begun()
            os.close(self._wake)
            self._wake = -1
            self._thread.join()

    @property
    def output(self) -> bytes | None:
        """What came on standard output; None if that was too much."""
        return None if self._too_long else bytes(self._output)

    @property
    def log(self) -> str | None:
        """The last of standard error; None if there is none."""
        return self._log.decode("utf-8", "replace") if self._log else None

    def _run(self) -> None:
        waiting = select.poll()
        reads = {self._out: self._more_output, self._err: self._more_log,
                 self._marks: self._more_marks}  # fmt: skip
        for end in (*reads, self._stop):
            os.set_blocking(end, False)
            waiting.register(end, select.POLLIN)
        while reads:
            for end, _ in waiting.poll():
                if end == self._stop:
                    for last, read in reads.items():
                        self._exhaust(last, read)
                    return
                if not self._read(end, reads[end]):
                    waiting.unregister(end)
                    del reads[end]

    def _exhaust(self, end: int, read: Callable[[bytes], None]) -> None:
        """What is in the pipe now; a process that escaped may write on without end."""
        for _ in range(64):
            if not self._read(end, read, last=True):
                return

    def _read(self, end: int, read: Callable[[bytes], None], *, last: bool = False) -> bool:
        with suppress(BlockingIOError):
            data = os.read(end, PART)
            if data:
                read(data)
            return bool(data)
        return not last

    def _more_output(self, data: bytes) -> None:
        room = self._most - len(self._output)
        self._too_long = self._too_long or len(data) > room
        self._output += data[: max(room, 0)]

    def _more_log(self, data: bytes) -> None:
        self._log += data
        del self._log[:-LOG_BYTES]

    def _more_marks(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole, skip = bytes(self._line) + line, self._skipping
            self._line.clear()
            self._skipping = False
            if whole.strip() and not skip:
                self._mark(whole)
        self._line += rest
        if len(self._line) > LINE_BYTES:
            self._line.clear()
            self._skipping = True
