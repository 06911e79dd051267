"""`dataclass`, `field`, `fields` and `replace`, without the start-up time of `dataclasses`.

The standard module loads `inspect` and compiles up to seven methods a class, one by one: that
took 35 ms of every start of the command line (Python 3.11), where all of it may take 60. Here a
class costs one compiled `__init__`, and the other methods are shared. To a type checker these
names *are* those of `dataclasses`; and what is made here is a dataclass to `dataclasses.asdict`,
`replace` and `fields` as well, once somebody asks.

Only what this package uses: slots always, `frozen`, `eq`, defaults and default factories.
Annotations must be text (`from __future__ import annotations`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")
_SET = object.__setattr__


class _Missing:
    """No default."""

    def __repr__(self) -> str:
        return "MISSING"


_MISSING = _Missing()


class _Field:
    """One field: its name and type as text, and how it gets a value."""

    __slots__ = ("default", "default_factory", "name", "type")

    def __init__(self, default: Any, default_factory: Any) -> None:
        self.name = self.type = ""
        self.default, self.default_factory = default, default_factory


def _field(*, default: Any = _MISSING, default_factory: Any = _MISSING) -> Any:
    return _Field(default, default_factory)


def _fields(record: Any) -> tuple[_Field, ...]:
    return tuple(record.__record__.values())


def _replace(record: T, **changes: Any) -> T:
    values = {name: getattr(record, name) for name in record.__record__}  # type: ignore[attr-defined]
    return type(record)(**{**values, **changes})


def _dataclass(
    *, slots: bool, frozen: bool = False, eq: bool = True
) -> Callable[[type[T]], type[T]]:
    """The decorator. `slots` is there to say the same as the real one; it must be True."""
    assert slots, "a record has slots"

    def make(kind: type[T]) -> type[T]:
        own = _own_fields(kind)
        inherited = {
            name: field for base in reversed(kind.__mro__[1:])
            for name, field in getattr(base, "__record__", {}).items()
        }  # fmt: skip
        every = {**inherited, **own}
        members = {
            name: value for name, value in vars(kind).items()
            if name not in own and name not in ("__dict__", "__weakref__")
        }  # fmt: skip
        members |= {
            "__slots__": tuple(name for name in own if name not in inherited),
            "__record__": every,
            "__match_args__": tuple(every),
            "__dataclass_fields__": _AsDataclass(),
            "__init__": _init(every, frozen, hasattr(kind, "__post_init__"), kind.__qualname__),
        }
        for name, method in (FROZEN if frozen else MUTABLE if eq else PLAIN).items():
            members.setdefault(name, method)
        made = type(kind.__name__, kind.__bases__, members)
        made.__qualname__ = kind.__qualname__
        return made

    return make


def _own_fields(kind: type) -> dict[str, _Field]:
    found: dict[str, _Field] = {}
    for name, annotation in vars(kind).get("__annotations__", {}).items():
        if annotation.startswith("ClassVar"):
            continue
        given = vars(kind).get(name, _MISSING)
        field = given if isinstance(given, _Field) else _Field(given, _MISSING)
        field.name, field.type = name, annotation
        found[name] = field
    return found


def _init(every: dict[str, _Field], frozen: bool, post: bool, owner: str) -> Any:
    """The one method that is compiled: it runs as often as records are made."""
    known: dict[str, Any] = {"_SET": _SET, "_MISSING": _MISSING}
    parameters, lines = [], []
    for name, field in every.items():
        value = name
        if field.default is not _MISSING:
            known[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        elif field.default_factory is not _MISSING:
            known[f"_factory_{name}"] = field.default_factory
            parameters.append(f"{name}=_MISSING")
            value = f"_factory_{name}() if {name} is _MISSING else {name}"
        else:
            parameters.append(name)
        lines.append(f"_SET(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if post:
        lines.append("self.__post_init__()")
    body = "\n ".join(lines) or "pass"
    exec(f"def __init__(self, {', '.join(parameters)}):\n {body}", known)  # noqa: S102  # our names
    known["__init__"].__qualname__ = f"{owner}.__init__"  # what a TypeError names
    return known["__init__"]


class _AsDataclass:
    """`__dataclass_fields__`, made when the standard library first looks for it."""

    def __get__(self, record: object, kind: Any) -> dict[str, Any]:
        import dataclasses as real

        def same(field: _Field) -> Any:
            if field.default is not _MISSING:
                return real.field(default=field.default)
            if field.default_factory is not _MISSING:
                return real.field(default_factory=field.default_factory)
            return real.field()

        twin = real.make_dataclass(
            kind.__name__, [(f.name, f.type, same(f)) for f in _fields(kind)]
        )
        kind.__dataclass_fields__ = twin.__dataclass_fields__  # type: ignore[attr-defined]
        return dict(kind.__dataclass_fields__)


# -- the methods that all records share


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__record__])


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__record__)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: object) -> bool:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _refuse_set(self: Any, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _setstate(self: Any, state: tuple[Any, ...]) -> None:
    for name, value in zip(self.__record__, state, strict=True):
        _SET(self, name, value)


PLAIN: dict[str, Any] = {"__repr__": _repr, "__getstate__": _values, "__setstate__": _setstate}
MUTABLE = {**PLAIN, "__eq__": _eq, "__hash__": None}
FROZEN = {
    **PLAIN, "__eq__": _eq, "__hash__": _hash,
    "__setattr__": _refuse_set, "__delattr__": _refuse_delete,
}  # fmt: skip

if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
else:
    dataclass, field, fields, replace = _dataclass, _field, _fields, _replace

__all__ = ["dataclass", "field", "fields", "replace"]
