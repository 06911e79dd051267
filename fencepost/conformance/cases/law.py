"""What a case is, and the two ways in which it can end without passing."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from .store import Store

VERBS_OF_ALL = ("enqueue", "claim")
KINDS_OF_ALL = ("operator", "worker")


class Failed(Exception):
    """The target broke the law. `code` is the issue code that it should have told, if any."""

    def __init__(self, what: str, expected: Any, observed: Any, code: str | None = None) -> None:
        super().__init__(f"{what}: expected {expected!r}, observed {observed!r}")
        self.what, self.expected, self.observed, self.code = what, expected, observed, code


class Unavailable(Exception):
    """The target cannot do what the case needs. The message says what."""


class AnyCase(Protocol):
    """What a run tells of a case, whatever it is put to."""

    @property
    def name(self) -> str: ...
    @property
    def law(self) -> str: ...
    @property
    def code(self) -> str | None: ...
    def sha256(self) -> str: ...


class Case(NamedTuple):
    """One law. `controls`, `verbs` and `kinds` are what a target must offer to be judged by it;
    `code` is the issue code that it is about, where it is about one."""

    name: str
    law: str
    run: Callable[[Store], None]
    controls: frozenset[str]
    verbs: frozenset[str]
    kinds: frozenset[str]
    code: str | None

    def sha256(self) -> str:
        """Digest of the case's own source, so that a verdict says which text it is about."""
        return hashlib.sha256(inspect.getsource(self.run).encode()).hexdigest()


def law(
    *, controls: str = "", verbs: str = "", kinds: str = "", code: str | None = None
) -> Callable[[Callable[[Store], None]], Case]:
    """Make a case of a function: its name is the case's, its docstring the law in plain words.

    What every case needs (`fresh`, enqueue, claim, an operator and a worker) is not repeated.
    """

    def made(run: Callable[[Store], None]) -> Case:
        words = " ".join((run.__doc__ or "").split())
        return Case(
            run.__name__, words, run,
            frozenset(("fresh", *controls.split())),
            frozenset((*VERBS_OF_ALL, *verbs.split())),
            frozenset((*KINDS_OF_ALL, *kinds.split())),
            code,
        )  # fmt: skip

    return made


def cases_of(module: Any) -> list[Case]:
    """The cases of a module, in the order in which they stand in it."""
    return [value for value in vars(module).values() if isinstance(value, Case)]
