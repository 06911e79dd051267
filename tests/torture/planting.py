"""Sets a mutant into the running program, and records which functions a test reaches.

Both exchange the code of the function that is there (`__code__`), so that whoever holds it, a
table of verbs or a class, has the other one too, and the program runs at its own speed elsewhere.
"""

from __future__ import annotations
import __future__

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

from torture.mutated import owner_and_name


def found(function: str) -> FunctionType:
    """The function that mutmut names so: `fencepost.journal.tree.xǁFrontierǁroot`."""
    module, _, mangled = function.rpartition(".")
    place: Any = importlib.import_module(module)
    owner, name = owner_and_name(mangled)
    there = vars(vars(place)[owner] if owner else place)[name]
    there = getattr(there, "__func__", there)  # of a class method
    assert type(there) is FunctionType, function
    return there


def plant(function: str, code: str) -> None:
    """Let the function be what `code` says, for the rest of this process."""
    real = found(function)
    made = _compiled(real, code)
    real.__code__ = made.__code__
    real.__defaults__, real.__kwdefaults__ = made.__defaults__, made.__kwdefaults__


def _compiled(real: FunctionType, code: str) -> FunctionType:
    place: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag
    text = compile(code, f"<mutant of {real.__qualname__}>", "exec", flags, dont_inherit=True)
    exec(text, real.__globals__, place)  # noqa: S102  it is our own code, with one change
    (made,) = place.values()
    if isinstance(made, type):
        made = vars(made)[real.__name__]
    assert type(made) is FunctionType
    return made


class Reach:
    """Which of these functions have been called: each has a bell at its door that rings once."""

    def __init__(self, functions: Iterable[str]) -> None:
        self._open: list[set[str]] = []
        self._bells: dict[str, tuple[FunctionType, CodeType]] = {}
        for number, name in enumerate(functions):
            real = found(name)
            self._bells[name] = real, self._bell(f"_bell_{number}", name, real)

    def _bell(self, bell: str, name: str, real: FunctionType) -> CodeType:
        code = real.__code__

        def rung(*arguments: Any, **named: Any) -> Any:
            real.__code__ = code
            for reached in self._open:
                reached.add(name)
            return real(*arguments, **named)

        real.__globals__[bell] = rung
        text = f"def bell(*arguments, **named):\n return {bell}(*arguments, **named)"
        return _compiled(real, text).__code__

    @contextmanager
    def recorded(self) -> Iterator[set[str]]:
        """What is reached in here. It can be used within itself."""
        reached: set[str] = set()
        self._open.append(reached)
        for real, bell in self._bells.values():
            real.__code__ = bell
        try:
            yield reached
        finally:
            self._open.pop()
