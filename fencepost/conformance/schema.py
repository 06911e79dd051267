"""Says whether a JSON value is what the contract asks for; needs the standard library alone.

It knows the part of JSON Schema 2020-12 that `queue_contract.json` uses, and refuses a schema
that uses more: a rule that is not understood must not look like one that was kept.

    Contract.load(path).problems("outcome", value) == []
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

CONTRACT = Path(__file__).with_name("queue_contract.json")
ANNOTATIONS = {"title", "description", "default", "format", "contentMediaType", "contentSchema"}
LAST = "unevaluatedProperties"  # told after all else of a schema
TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: TYPES["number"](value) and value == value // 1,
}


class Contract:
    """A contract's `$defs` by name. ValueError for one that says more than is known here."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.names: dict[str, Any] = document["$defs"]
        for name, schema in self.names.items():
            for part in _parts(schema):
                unknown = part.keys() - ANNOTATIONS - {LAST} - CHECKS.keys() - APPLIES.keys()
                if left := [word for word in unknown if not word.startswith("x-")]:
                    raise ValueError(f"{name}: {sorted(left)} cannot be checked here")
                if part.get("$ref", "#/$defs/name")[8:] not in self.names:
                    raise ValueError(f"{name}: {part['$ref']} is not there")

    @classmethod
    def load(cls, path: Path = CONTRACT) -> Contract:
        """The contract in this file, by default the one beside this module."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def problems(self, name: str, value: Any) -> list[str]:
        """What is wrong with a value of that name, each with its place."""
        return self.check(self.names[name], value, "")[0]

    def check(self, schema: Any, value: Any, at: str) -> tuple[list[str], set[str]]:
        """(what is wrong, names of the members that the schema has said something about)."""
        if isinstance(schema, bool):
            return ([] if schema else [f"{at or '/'}: is not allowed here"]), set()
        found: list[str] = []
        seen: set[str] = set()
        for word, asked in schema.items():
            if word in CHECKS and (problem := CHECKS[word](asked, value)):
                found.append(f"{at or '/'}: {problem}")
            elif word in APPLIES:
                problems, names = APPLIES[word](self, asked, value, at, schema)
                found += problems
                seen |= names
        if LAST in schema and isinstance(value, dict):
            asked, rest = schema[LAST], sorted(value.keys() - seen)
            found += self.each((asked, value[name], f"{at}/{name}") for name in rest)
            seen = set(value)
        return (found, set()) if found else ([], seen)

    def each(self, asked: Iterable[tuple[Any, Any, str]]) -> list[str]:
        """What is wrong with each (schema, value, place)."""
        return [problem for one in asked for problem in self.check(*one)[0]]


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all schemas inside it."""
    if not isinstance(schema, dict):
        return
    yield schema
    inside = [schema.get(word) for word in ("items", "not", "propertyNames", LAST)]
    for word in ("oneOf", "anyOf", "allOf", "prefixItems"):
        inside += schema.get(word, ())
    for part in (*inside, *schema.get("properties", {}).values()):
        yield from _parts(part)


def same(one: Any, other: Any) -> bool:
    """Equal as JSON values: true is not 1, and 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


# --- words that look at one value: (argument, value) → what is wrong, or None
Check = Callable[[Any, Any], str | None]


def _type(asked: Any, value: Any) -> str | None:
    kinds = [asked] if isinstance(asked, str) else asked
    fits = any(TYPES[kind](value) for kind in kinds)
    return None if fits else f"{_shown(value)} is not of type {' or '.join(kinds)}"


def _bound(kind: str, fits: Callable[[Any, Any], bool], told: str) -> Check:
    """A check that speaks of one type only, and lets every other value pass."""

    def check(asked: Any, value: Any) -> str | None:
        if not TYPES[kind](value) or fits(value, asked):
            return None
        return f"{_shown(value)} {told} {json.dumps(asked)}"

    return check


def _distinct(items: list[Any]) -> bool:
    return not any(same(one, two) for place, one in enumerate(items) for two in items[:place])


CHECKS: dict[str, Check] = {
    "type": _type,
    "const": lambda asked, v: None if same(asked, v) else f"{_shown(v)} is not {_shown(asked)}",
    "enum": lambda asked, v: (
        None if any(same(one, v) for one in asked) else f"{_shown(v)} is none of {_shown(asked)}"
    ),
    "minimum": _bound("number", lambda v, least: bool(v >= least), "is below"),
    "maximum": _bound("number", lambda v, most: bool(v <= most), "is above"),
    "minLength": _bound("string", lambda v, least: len(v) >= least, "is shorter than"),
    "maxLength": _bound("string", lambda v, most: len(v) <= most, "is longer than"),
    "pattern": _bound("string", lambda v, p: re.search(p, v) is not None, "does not match"),
    "minItems": _bound("array", lambda v, least: len(v) >= least, "has fewer items than"),
    "maxItems": _bound("array", lambda v, most: len(v) <= most, "has more items than"),
    "uniqueItems": _bound("array", lambda v, on: not on or _distinct(v), "has an item twice;"),
    "required": _bound("object", lambda v, names: v.keys() >= set(names), "lacks one of"),
    "minProperties": _bound("object", lambda v, least: len(v) >= least, "has fewer members than"),
    "maxProperties": _bound("object", lambda v, most: len(v) <= most, "has more members than"),
}

# --- words that hand on to other schemas: → (what is wrong, members spoken of)
Applied = tuple[list[str], set[str]]


def _properties(self: Contract, asked: Any, value: Any, at: str, _: Any) -> Applied:
    if not isinstance(value, dict):
        return [], set()
    names = asked.keys() & value.keys()
    return self.each((asked[name], value[name], f"{at}/{name}") for name in sorted(names)), names


def _names(self: Contract, asked: Any, value: Any, at: str, _: Any) -> Applied:
    names = sorted(value) if isinstance(value, dict) else []
    return self.each((asked, name, f"{at}/{name}") for name in names), set()


def _prefix(self: Contract, asked: Any, value: Any, at: str, _: Any) -> Applied:
    items = value if isinstance(value, list) else []
    pairs = enumerate(zip(asked, items, strict=False))
    return self.each((part, item, f"{at}/{place}") for place, (part, item) in pairs), set()


def _items(self: Contract, asked: Any, value: Any, at: str, schema: Any) -> Applied:
    first = len(schema.get("prefixItems", ()))
    rest = list(enumerate(value))[first:] if isinstance(value, list) else []
    return self.each((asked, item, f"{at}/{place}") for place, item in rest), set()


def _several(least: int, most: int | None) -> Callable[..., Applied]:
    """At least `least` of the schemas, and at most `most`, must fit (None: all of them)."""

    def apply(self: Contract, asked: Any, value: Any, at: str, _: Any) -> Applied:
        tried = [self.check(part, value, at) for part in asked]
        fitting = [names for problems, names in tried if not problems]
        if (most is None or len(fitting) <= most) and len(fitting) >= (least or len(asked)):
            return [], set().union(*fitting)
        if fitting and most is not None:
            return [f"{at or '/'}: {_shown(value)} fits {len(fitting)} of the forms"], set()
        nearest = min((problems for problems, _ in tried if problems), key=len)
        return [f"{at or '/'}: {_shown(value)} fits no form; the nearest: {nearest[0]}"], set()

    return apply


APPLIES: dict[str, Callable[..., Applied]] = {
    "$ref": lambda self, asked, value, at, _: self.check(self.names[asked[8:]], value, at),
    "properties": _properties,
    "propertyNames": _names,
    "prefixItems": _prefix,
    "items": _items,
    "oneOf": _several(1, 1),
    "anyOf": _several(1, None),
    "allOf": _several(0, None),
    "not": lambda self, asked, value, at, _: (
        ([] if self.check(asked, value, at)[0] else [f"{at or '/'}: must not match {asked}"]),
        set(),
    ),
}


def _shown(value: Any) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 80 else text[:77] + "..."
