"""Ctrl-C between two commands, never inside one: so that what was done can be counted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """While it is entered, Ctrl-C inside `held()` waits for its end; a second one does not."""

    def __init__(self) -> None:
        self._holding = False
        self._wanted = False
        self._before: Any = None
        self._main = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._main:  # signals belong to the main thread
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._holding or self._wanted:
            raise KeyboardInterrupt
        self._wanted = True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Finish this block before a Ctrl-C is heard."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._wanted:
            raise KeyboardInterrupt
