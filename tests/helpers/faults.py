"""Plants a fault in the running program: a function replaced wherever it is held, a line of its
source changed, a condition of a statement dropped or turned round. Undone by monkeypatch."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.storage.sqlite import driver

Patch = pytest.MonkeyPatch


def replace_function(patch: Patch, old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Put `new` in the place of `old` in every module, tuple and dict of the package."""
    places = 0
    for name, module in list(sys.modules.items()):
        if not name.startswith("fencepost"):
            continue
        for attribute, value in list(vars(module).items()):
            if value is old:
                patch.setattr(module, attribute, new)
                places += 1
            elif type(value) is tuple and old in value:
                patch.setattr(module, attribute, tuple(new if v is old else v for v in value))
                places += 1
            elif type(value) is dict and not attribute.startswith("__"):
                for key in [key for key, held in value.items() if held is old]:
                    patch.setitem(value, key, new)
                    places += 1
    assert places, f"{old.__qualname__} is held nowhere"


def edited(function: Callable[..., Any], old: str, new: str) -> Callable[..., Any]:
    """The function with one piece of its source changed; the piece must stand in it once."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {function}"
    scope: dict[str, Any] = {}
    code = compile(source.replace(old, new), inspect.getfile(function), "exec", dont_inherit=True,
                   flags=__import__("__future__").annotations.compiler_flag)  # fmt: skip
    exec(code, function.__globals__, scope)  # noqa: S102  planting a fault is the purpose
    made: Callable[..., Any] = scope[function.__name__]
    return made


def edit(patch: Patch, function: Callable[..., Any], old: str, new: str) -> None:
    """Replace a function by its edited self; a method in its class."""
    made = edited(function, old, new)
    if "." in function.__qualname__:
        owner = function.__globals__[function.__qualname__.split(".")[0]]
        patch.setattr(owner, function.__name__, made)
    else:
        replace_function(patch, function, made)


def asked_for(law: Callable[..., Any], **given: Any) -> dict[str, Any]:
    """Of what is there, what a law asks for by the names of its parameters."""
    return {name: given[name] for name in inspect.signature(law).parameters if name in given}


def must_find(what: str, law: Callable[..., object], *given: Any) -> None:
    """The law fails, in whatever way; else it is said that nothing sees `what`."""
    try:
        law(*given)
    except BaseException:  # noqa: BLE001  whatever a fault breaks, it is found
        return
    pytest.fail(f"nothing sees that {what}")


# --- statements -------------------------------------------------------------------------------


def conditions(name: str) -> list[str]:
    """The conditions of a statement's last `where` or `on`, joined there by `and`."""
    sql = driver.STATEMENTS[name]
    after = re.split(r"\bwhere\b|\n\s+on\b", sql)[-1]
    after = re.split(r"\breturning\b|\border by\b|\blimit\b", after)[0]
    return [part.strip().rstrip(";").strip() for part in re.split(r"\band\b", after)]


def dropped(name: str, condition: str) -> str:
    """The statement without that condition, its parameters still bound."""
    always = "(true or (" + condition + "))"
    return _with(name, condition, always)


def flipped(name: str, condition: str) -> str:
    """The statement with that condition turned round."""
    return _with(name, condition, "not (" + condition + ")")


def _with(name: str, condition: str, other: str) -> str:
    head, found, tail = driver.STATEMENTS[name].rpartition(condition)
    assert found, f"{name} has no {condition!r}"
    return head + other + tail


def statement_mutants(*names: str) -> Iterator[tuple[str, str, str, str]]:
    """(statement, condition, what was done to it, the mutant) for each of their conditions."""
    for name in names:
        for condition in conditions(name):
            yield name, condition, "dropped", dropped(name, condition)
            yield name, condition, "flipped", flipped(name, condition)
