"""What commands are made of: dataclass fields that know their check, their bytes and their name.

A `Part` is a frozen dataclass whose fields were made with `wire` or `content`. It checks its
values when it is made, whether from Python or from JSON, and keeps the canonical bytes of each
member, so that a value is encoded once.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, TypeVar

from fencepost import canonical, fields
from fencepost.canonical import Json
from fencepost.fields import Check, Encode, Spec
from fencepost.issues import InvalidRequest


class _Nothing:
    """The absence of a value, where JSON null is a value of its own."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()


def wire(check: Check, encode: Encode, name: str = "", default: Any = MISSING) -> Any:
    """A dataclass field with its check, its encoder and (where it differs) its JSON name."""
    metadata = {"check": check, "encode": encode, "wire": name}
    return field(default=default, metadata=metadata)


def content(name: str = "", default: Any = MISSING) -> Any:
    """A field that holds any JSON value; its canonical bytes are made once (`encoded`)."""
    return wire(lambda value, what: value, _any_json, name, default)


def _any_json(value: Json) -> bytes:
    """The encoder of content, told apart by identity: only there null is a value."""
    return canonical.dumps(value)


def _specs(kind: type) -> tuple[Spec, ...]:
    return tuple(
        Spec(
            f.name,
            f.metadata["wire"] or f.name,
            f.metadata["check"],
            f.metadata["encode"],
            f.default if f.default in (None, NOTHING, ()) else MISSING,
        )
        for f in dataclass_fields(kind)
        if f.init
    )


@dataclass(frozen=True, slots=True)
class Part:
    """What commands and the objects inside them share: checked fields and canonical members."""

    SPECS: ClassVar[tuple[Spec, ...]] = ()
    WIRE: ClassVar[dict[str, str]] = {}
    # Members that every object of the class has: the verb, for commands.
    FIXED: ClassVar[dict[str, bytes]] = {}
    # Each member with what precedes its value in the object, in RFC 8785 order.
    ORDER: ClassVar[tuple[tuple[str, bytes], ...]] = ()
    members: dict[str, bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        members = dict(self.FIXED)
        for attribute, name, check, encode, absent in self.SPECS:
            value = getattr(self, attribute)
            if value is absent:
                continue
            checked = check(value, name)
            if checked is not value:
                object.__setattr__(self, attribute, checked)
            members[name] = encode(checked)
        object.__setattr__(self, "members", members)

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
        if given.get(spec.wire, spec) is None and spec.encode is not _any_json:
            raise InvalidRequest(f"{what}.{spec.wire}: null is not allowed; leave it out")
    try:
        return kind(**{kind.WIRE[name]: value for name, value in given.items()})
    except TypeError:
        needed = [
            spec.wire
            for f, spec in zip(_init_fields(kind), kind.SPECS, strict=True)
            if f.default is MISSING and spec.wire not in given
        ]
        raise InvalidRequest(f"{what}: {needed[0]} is missing") from None


def _init_fields(kind: type) -> list[Any]:
    return [f for f in dataclass_fields(kind) if f.init]


def parts(kind: type[PartType], low: int, high: int) -> Check:
    """A check for a list of parts, given as parts or as JSON objects."""

    def part(value: Any, what: str) -> PartType:
        return value if type(value) is kind else build(kind, value, what)

    return fields.some(part, low, high)


def sealed(kind: type[PartType]) -> type[PartType]:
    """Class decorator: collects the field specs once the dataclass exists."""
    kind.SPECS = _specs(kind)
    kind.WIRE = {spec.wire: spec.attribute for spec in kind.SPECS}
    verb = getattr(kind, "verb", "")
    kind.FIXED = {"verb": fields.plain(verb)} if verb else {}
    names = sorted((*kind.WIRE, *kind.FIXED))
    kind.ORDER = tuple((name, fields.plain(name) + b":") for name in names)
    return kind
