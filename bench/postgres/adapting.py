"""What the adapters of PostgreSQL queues share: how they are called, and how they answer.

    adapter.py about            {"version": …, "setting": …, "durability": …, "fenced": …,
                                 "receipt": …, "pending": SQL, "scale": …}
    adapter.py setup URL        {}              their tables, in an empty database
    adapter.py bulk URL TASKS   {"rate": …}     as many as they advise in one call
    adapter.py single URL TASKS {"rate": …}     one a call, by 16 callers
    adapter.py worker URL       {"first": …, "handled": …} at SIGTERM; `first` is the start of the
                                first handler on the system's monotonic clock

The answer is the last line of stdout. Status 3: the peer cannot be loaded here. `pending` is asked
in the peer's own database; the drain is over when it says no. `scale`: the share of the tasks that
a slow peer is given.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from time import monotonic, perf_counter
from typing import Any

NOT_IMPORTABLE = 3
CALLERS = 16
AT_ONCE = 1_000


class Handled:
    """Counts the calls of a handler, and when the first came; tells both at SIGTERM."""

    def __init__(self) -> None:
        self.count = 0
        self.first = 0.0

    def __call__(self) -> None:
        if not self.count:
            self.first = monotonic()
            # again: some take the signal for themselves when they begin
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.tell)
        self.count += 1

    def tell(self, *_: object) -> None:
        print(json.dumps({"first": self.first, "handled": self.count}), flush=True)
        os._exit(0)


async def run_until_told(work: Awaitable[Any], handled: Handled) -> None:
    """A worker, until SIGTERM."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, handled.tell)
    await work


async def rate_of(tasks: int, send: Callable[[int], Awaitable[Any]], callers: int) -> float:
    """Each of the callers sends its share, one after another."""

    async def one(number: int) -> None:
        for _ in range(tasks // callers):
            await send(number)

    began = perf_counter()
    await asyncio.gather(*(one(number) for number in range(callers)))
    return tasks // callers * callers / (perf_counter() - began)


async def bulk_rate(tasks: int, send: Callable[[int], Awaitable[Any]]) -> float:
    """Slices of 1,000, one after another; `send` is told how many."""
    began = perf_counter()
    for start in range(0, tasks, AT_ONCE):
        await send(min(AT_ONCE, tasks - start))
    return tasks / (perf_counter() - began)


def main(
    about: Callable[[], dict[str, Any]],
    do: Callable[[str, str, int], Awaitable[dict[str, Any]]],
    run: Callable[[Any], Any] = asyncio.run,
) -> int:
    """Run the adapter as it was called."""
    try:
        if sys.argv[1] == "about":
            found = about()
        else:
            what, url, *tasks = sys.argv[1:]
            found = run(do(what, url, int(tasks[0]) if tasks else 0))
    except ImportError as error:
        print(error, file=sys.stderr)
        return NOT_IMPORTABLE
    print(json.dumps(found))
    return 0
