"""Several calls at the same moment, in threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Run the calls in threads that set off together; their results in the order of the calls.

    Raises what the first of them raised.
    """
    gate = threading.Barrier(len(calls), timeout=30)

    def run(call: Callable[[], T]) -> T:
        gate.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))
