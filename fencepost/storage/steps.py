"""The language between storage steps and drivers: ask for a named statement, get rows.

A step is a generator. `yield one(name, …)` answers the rows of one statement; `yield
many(name, rows)` runs it once a row and answers how many rows it changed in all; `yield
together(asks)` runs several, none of which needs another's answer, and answers a list: one round
trip where a network lies between. Drivers are
a dozen lines each (see `sqlite/driver.py`), so no statement and no order of statements exists
twice.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from fencepost.record import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """One statement by name. `rows` for many, `values` for one."""

    name: str
    values: dict[str, Any]
    rows: list[tuple[Any, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """Several statements, run in this order."""

    asks: list[Ask]


T = TypeVar("T")
Steps: TypeAlias = Generator[Ask | Together, Any, T]


class Read(Protocol):
    """Runs reading steps, all on one snapshot."""

    def __call__(self, steps: Steps[T], /) -> T: ...


def one(name: str, **values: Any) -> Ask:
    """Run the statement once; the answer is a list of rows."""
    return Ask(name, values)


def many(name: str, rows: list[tuple[Any, ...]]) -> Ask:
    """Run the statement once a row; the answer is the number of rows changed."""
    return Ask(name, {}, rows)


def together(asks: list[Ask]) -> Together:
    """Run them all; the answer is a list of their answers."""
    return Together(asks)


S = TypeVar("S")


def beside(steps: Steps[S], other: Steps[T]) -> Steps[tuple[S, T]]:
    """Run both. What `other` asks, once, goes along behind what `steps` ask first, in one round
    trip; so it must not depend on what they ask after that."""
    wanted = next(other)
    assert isinstance(wanted, Ask)
    try:
        ask = next(steps)
    except StopIteration as stop:
        return stop.value, _ended(other, (yield wanted))
    asks = [ask] if isinstance(ask, Ask) else ask.asks
    *answers, answer = yield together([*asks, wanted])
    found = _ended(other, answer)
    try:
        ask = steps.send(answers[0] if isinstance(ask, Ask) else answers)
        while True:
            ask = steps.send((yield ask))
    except StopIteration as stop:
        return stop.value, found


def _ended(steps: Steps[T], answer: Any) -> T:
    """What the steps return after their last answer."""
    try:
        steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("it asks once more")


def rows_of(name: str, **values: Any) -> Steps[list[tuple[Any, ...]]]:
    """The rows of one statement, as a step of its own."""
    rows: list[tuple[Any, ...]] = yield one(name, **values)
    return rows
