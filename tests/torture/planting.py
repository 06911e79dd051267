"""Sets a mutant into the running program.

It exchanges the code of the function that is there (`__code__`), so that whoever holds it, a
table of verbs or a class, has the other one too, and the program runs at its own speed elsewhere.
"""

from __future__ import annotations
import __future__

import importlib
from types import FunctionType
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
