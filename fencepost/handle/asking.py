"""Verbs are written once, for whoever has an answer at once and for whoever awaits it.

A verb that goes on after an answer is a generator: it yields the answer, or what will be one, and
is sent what it says. `Verbs.drive` sends it right back; an asynchronous twin awaits it first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
Asking: TypeAlias = Generator[Any, Any, T]


class Driving(Protocol):
    """What drives the verbs that it has."""

    def drive(self, steps: Asking[T]) -> T: ...


S = TypeVar("S", bound=Driving)


def asks(verb: Callable[Concatenate[S, P], Asking[T]]) -> Callable[Concatenate[S, P], T]:
    """A verb as its callers know it."""

    @wraps(verb)
    def driven(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.drive(verb(self, *args, **kwargs))

    return driven


def answered(answer: T) -> Generator[T, T, T]:
    """The answer, once it is there."""
    return (yield answer)


def at_once(steps: Asking[T]) -> T:
    """Where every answer is one already."""
    try:
        answer = next(steps)
        while True:
            answer = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def awaiting(steps: Asking[T]) -> T:
    """Where every answer is awaited."""
    try:
        asked = next(steps)
        while True:
            try:
                answer = await asked
            except BaseException as error:  # noqa: BLE001  the verb may know what to do
                asked = steps.throw(error)
            else:
                asked = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
