"""How a long program of ours ends when it is told to: its children ended, its files removed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130


class Ended(BaseException):
    """A signal asks for the end; the argument is its number."""


def ended_tidily(
    name: str, run: Callable[[], int], say: Callable[[str], None], left: str = ""
) -> int:
    """Run it; its exit code, or what a shell says of a program that the signal has ended.

    SIGTERM and SIGHUP are raised in `run` as Ctrl-C is, so that its blocks clean up. `left` says
    what stays where the caller wanted something kept.
    """
    files = left or "its files are removed"
    try:
        with _raised_by_signals():
            return run()
    except KeyboardInterrupt:
        say(f"fencepost {name}: interrupted; {files}")
        return INTERRUPTED
    except Ended as end:
        number = signal.Signals(end.args[0])
        say(f"fencepost {name}: ended by {number.name}; {files}")
        return 128 + number


@contextmanager
def _raised_by_signals() -> Iterator[None]:
    numbers = [signal.SIGTERM, signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # signals belong to the main thread
    before = {number: signal.signal(number, _end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    raise Ended(number)
