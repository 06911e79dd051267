"""What commands are made of: members that know their check, their bytes and their name.

A `Part` is an immutable object whose class attributes were made with `wire` or `content`. It
checks its values when it is made, whether from Python or from JSON, and keeps the canonical
bytes of each member, so that a value is encoded once. It is no dataclass because a dataclass
compiles six methods a class at import, which was half of the time to start a command.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar, dataclass_transform

from fencepost import canonical, fields
from fencepost.canonical import Json
from fencepost.fields import Check, Encode
from fencepost.issues import InvalidRequest


class _Nothing:
    """The absence of a value, where JSON null is a value of its own."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()
REQUIRED = _Nothing()


class Wire(NamedTuple):
    """How one member is checked, encoded, named in JSON, and what it is when left out."""

    check: Check
    encode: Encode
    name: str
    default: Any


def wire(check: Check, encode: Encode, name: str = "", default: Any = REQUIRED) -> Any:
    """A member with its check, its encoder and (where it differs) its JSON name."""
    return Wire(check, encode, name, default)


def content(name: str = "", default: Any = REQUIRED) -> Any:
    """A member that holds any JSON value; its canonical bytes are made once (`encoded`)."""
    return Wire(anything, any_json, name, default)


def anything(value: Any, what: str) -> Any:
    """The check of content: its encoder refuses what is no JSON."""
    return value


def any_json(value: Json) -> bytes:
    """The encoder of what may be null, told apart by identity."""
    return canonical.dumps(value)


class Spec(NamedTuple):
    """One member of a class: its Python name, its JSON name, its check, its bytes.

    `absent` is the default that says it was left out; it is not checked and has no bytes.
    """

    attribute: str
    wire: str
    check: Check
    encode: Encode
    absent: Any


@dataclass_transform(frozen_default=True, field_specifiers=(wire, content))
class Part:
    """What commands and the objects inside them share: checked values, canonical members."""

    SPECS: ClassVar[tuple[Spec, ...]] = ()
    DEFAULTS: ClassVar[dict[str, Any]] = {}
    WIRE: ClassVar[dict[str, str]] = {}
    # Members that every object of the class has: the verb, for commands.
    FIXED: ClassVar[dict[str, bytes]] = {}
    # Each member with what precedes its value in the object, in RFC 8785 order.
    ORDER: ClassVar[tuple[tuple[str, bytes], ...]] = ()
    members: dict[str, bytes]

    def __init_subclass__(cls) -> None:
        own = [(name, made) for name, made in vars(cls).items() if isinstance(made, Wire)]
        cls.SPECS += tuple(
            Spec(
                name,
                made.name or name,
                made.check,
                made.encode,
                made.default if made.default in (None, NOTHING, ()) else REQUIRED,
            )
            for name, made in own
        )
        given = {name: made.default for name, made in own if made.default is not REQUIRED}
        cls.DEFAULTS = {**cls.DEFAULTS, **given}
        cls.WIRE = {spec.wire: spec.attribute for spec in cls.SPECS}
        verb = getattr(cls, "verb", "")
        cls.FIXED = {"verb": fields.plain(verb)} if verb else {}
        names = sorted((*cls.WIRE, *cls.FIXED))
        cls.ORDER = tuple((name, fields.plain(name) + b":") for name in names)

    def __init__(self, *args: Any, **given: Any) -> None:
        values = {**self.DEFAULTS, **given}
        if args:
            values.update(self._positional(args, given))
        members = dict(self.FIXED)
        for attribute, name, check, encode, absent in self.SPECS:
            try:
                value = values[attribute]
            except KeyError:
                raise TypeError(f"{type(self).__name__}: {attribute} is missing") from None
            if value is not absent:
                values[attribute] = checked = check(value, name)
                members[name] = encode(checked)
        if len(values) > len(self.SPECS):
            unknown = set(values).difference(spec.attribute for spec in self.SPECS)
            raise TypeError(f"{type(self).__name__} has no {min(unknown)}")
        values["members"] = members
        self.__dict__.update(values)
        self.agree()

    def _positional(self, args: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.SPECS):
            raise TypeError(f"{type(self).__name__} takes {len(self.SPECS)} values")
        placed = {spec.attribute: value for spec, value in zip(self.SPECS, args, strict=False)}
        if twice := placed.keys() & given.keys():
            raise TypeError(f"{type(self).__name__}: {min(twice)} is given twice")
        return placed

    def agree(self) -> None:
        """Members that do not go together are refused here. Raises InvalidRequest."""

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.members == getattr(other, "members", None)

    def __hash__(self) -> int:
        return hash((type(self), self.encoded_object()))

    def __repr__(self) -> str:
        shown = [f"{s.attribute}={getattr(self, s.attribute)!r}" for s in self.SPECS
                 if getattr(self, s.attribute) is not s.absent]  # fmt: skip
        return f"{type(self).__name__}({', '.join(shown)})"

    def encoded_object(self) -> bytes:
        """The whole object in RFC 8785 form, out of members that are encoded already."""
        members = self.members
        given = [before + members[name] for name, before in self.ORDER if name in members]
        return b"{" + b",".join(given) + b"}"

    def encoded(self, name: str) -> bytes | None:
        """Canonical bytes of one member; None where it was left out."""
        return self.members.get(name)


PartType = TypeVar("PartType", bound=Part)


def build(kind: type[PartType], given: Any, what: str) -> PartType:
    """A part out of a parsed JSON object: unknown, missing and null members are refused."""
    if type(given) is not dict:
        raise InvalidRequest(f"{what}: give an object")
    unknown = [name for name in given if name not in kind.WIRE]
    if unknown:
        raise InvalidRequest(
            f"{what}: unknown member {unknown[0]!r}; known are {', '.join(sorted(kind.WIRE))}"
        )
    for spec in kind.SPECS:
        if given.get(spec.wire, spec) is None and spec.encode is not any_json:
            raise InvalidRequest(f"{what}.{spec.wire}: null is not allowed; leave it out")
        if spec.wire not in given and spec.attribute not in kind.DEFAULTS:
            raise InvalidRequest(f"{what}: {spec.wire} is missing")
    return kind(**{kind.WIRE[name]: value for name, value in given.items()})


def parts(kind: type[PartType], low: int, high: int) -> Check:
    """A check for a list of parts, given as parts or as JSON objects."""

    def part(value: Any, what: str) -> PartType:
        return value if type(value) is kind else build(kind, value, what)

    return fields.some(part, low, high)
