"""The contract as the tests see it: validators by name, and what the code says in its terms.

`rule_of` and `values_of` read a command's own checks (`fields.py`, `parts.py`) and say them as a
schema and as a Hypothesis strategy, so that neither is written down a second time here.
"""

from __future__ import annotations

import copy
import inspect
import json
from functools import cache
from typing import Any

from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from fencepost import clock, destinations, fields, parts
from fencepost.commands import Followup, NewTask
from fencepost.conformance import schema
from fencepost.parts import NOTHING, Part

OURS = schema.Contract.load()
CONTRACT: dict[str, Any] = OURS.document
DEFS: dict[str, Any] = CONTRACT["$defs"]
ANSWERS = (
    "queue_settings", "scope", "task", "lease", "result", "refused_result", "token", "destination",
    "obligation",
    "outcome",
    "facts", "receipt", "opening", "entry_view", "proof", "consistency_proof", "counts", "target",
    "verdict", "journal_check", "journal_problem", "stats", "stats_row", "finding", "backup",
)  # fmt: skip
NO_RULE = {*schema.ANNOTATIONS} - {"default"}


@cache
def _registry(closed: bool) -> Registry:
    document = copy.deepcopy(CONTRACT)
    for name in ANSWERS if closed else ():
        document["$defs"][name]["unevaluatedProperties"] = False
    resource = Resource.from_contents(document)
    return Registry().with_resource(CONTRACT["$id"], resource)


@cache
def validator(name: str, closed: bool = False) -> Draft202012Validator:
    """The library's validator of one definition. `closed`: answers may hold nothing unknown, so
    that what the product says and the contract does not name is seen."""
    asked = {"$ref": f"{CONTRACT['$id']}#/$defs/{name}"}
    return Draft202012Validator(asked, registry=_registry(closed))


def fits(name: str, value: Any) -> bool:
    """Whether a value is as the contract asks; the library and the kit's own must agree."""
    said = validator(name).is_valid(value)
    own = OURS.problems(name, value)
    assert said == (not own), f"{name}: {own} {value!a}"
    return said


def assert_told(name: str, value: Any) -> None:
    """A value of the product is as the contract says, and the contract names all of it."""
    wrong = [f"{error.json_path}: {error.message}" for error in
             validator(name, closed=True).iter_errors(value)]  # fmt: skip
    assert not wrong, f"{name}: {wrong}\n{json.dumps(value)}"
    assert OURS.problems(name, value) == []


def members(name: str) -> dict[str, Any]:
    """The members of a definition, with those of the one that it builds on."""
    made = DEFS[name]
    base = members(made["$ref"][8:]) if "$ref" in made else {}
    return {**base, **made.get("properties", {})}


# --- what the code's checks say, as a schema --------------------------------------------------

NAMED = {fields.instant: "instant", fields.settings: "settings_change",
         destinations.options: "destination_options"}  # fmt: skip
PARTS = {NewTask: "enqueued_task", Followup: "followup"}
PATTERNS = {
    fields.name: fields.NAME, fields.key: fields.KEY, fields.task_id: fields.TASK_ID,
    fields.token_id: fields.TOKEN_ID, fields.sha256: fields.SHA256,
    destinations.secret: destinations.SECRET, destinations.stopped: destinations.STOPPED,
    destinations.address: destinations.ADDRESS,
}  # fmt: skip
LONGEST = {destinations.address: {"maxLength": destinations.MAX_ADDRESS}}
TEXTS = {fields.reason: fields.MAX_REASON_BYTES, fields.log: fields.MAX_LOG_BYTES}


def inside(check: Any) -> dict[str, Any]:
    """What a check made by another function has taken from it: bounds, choices, checks."""
    return dict(inspect.getclosurevars(check).nonlocals)


def rule_of(check: Any, encode: Any = None) -> dict[str, Any]:
    """A check as the schema that the contract should have for it."""
    if check in (parts.anything, fields.progress):
        return {}
    if check in NAMED:
        return {"$ref": f"#/$defs/{NAMED[check]}"}
    if check in PATTERNS:
        pattern = f"^{PATTERNS[check].pattern}$"
        return {"type": "string", "pattern": pattern, **LONGEST.get(check, {})}
    if check in TEXTS:
        return {"type": "string", "maxLength": TEXTS[check]}
    if check is fields.flag:
        return {"type": "boolean"}
    told, made = inside(check), check.__qualname__.split(".")[0]
    if made == "integer":
        return {"type": "integer", "minimum": told["low"], "maximum": told["high"]}
    if made == "one_of":
        return {"enum": list(told["choices"])}
    if made == "optional":
        return {"anyOf": [rule_of(told["check"]), {"type": "null"}]}
    if made == "distinct":
        return {**rule_of(told["check"]), "uniqueItems": True}
    if made == "parts":
        return {"$ref": f"#/$defs/{PARTS[told['kind']]}"}
    if made == "by_name":
        return {"type": "object", "propertyNames": rule_of(fields.name),
                "maxProperties": told["high"], "unevaluatedProperties": rule_of(told["check"])}
    assert made == "some", f"{check.__qualname__} is new: say here what it means"
    low = {"minItems": told["low"]} if told["low"] else {}
    return {"type": "array", "items": rule_of(told["check"]), "maxItems": told["high"], **low}


def bare(asked: dict[str, Any]) -> dict[str, Any]:
    """A schema of the contract without its words for people, and with its references followed.
    A `not` only repeats the pattern for engines in which `$` lets a line feed pass."""
    keep = {f"#/$defs/{name}" for name in (*NAMED.values(), *PARTS.values())}
    if "$ref" in asked and asked["$ref"] not in keep:
        return bare({**DEFS[asked["$ref"][8:]], **{k: v for k, v in asked.items() if k != "$ref"}})
    left = {k: v for k, v in asked.items() if k not in NO_RULE and k not in ("not", "default")}
    if left.get("minLength", 0) == left.get("maxLength", 1):
        left = {k: v for k, v in left.items() if k not in ("minLength", "maxLength")}
    for word in ("items", "propertyNames", "unevaluatedProperties"):
        if isinstance(left.get(word), dict):
            left[word] = bare(left[word])
    if "anyOf" in left:
        left["anyOf"] = [bare(one) for one in left["anyOf"]]
    return left


# --- what the code's checks allow, as values --------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-1e6, 1e6, width=32) | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip
INSTANTS = st.integers(clock.MIN_INSTANT, clock.MAX_INSTANT).map(clock.to_rfc3339)


ADDRESSES = [
    "https://h", "http://[::1]:8080/a?b=c", "command:[\"a\",\"é\"]", "sqlite:/a b#t",
    "postgresql://u@h/d?x=1#s.t", "s3://bucket/a/b", "directory:/é", "https://h:65535/",
]  # fmt: skip
_SAID: dict[str, list[Any]] = {
    "reconcile": ["https://h/x", ["a", ""]], "headers": [{}, {"x-a": "", "X-B": "c d"}],
    "endpoint": ["https://h:1"], "region": ["eu-1"],
}  # fmt: skip
OPTIONS = {
    name: st.none() | (st.sampled_from(_SAID[name]) if name in _SAID else st.deferred(
        lambda check=option.check: values_of(check)))
    for name, option in destinations.OPTIONS.items()
}  # fmt: skip


def values_of(check: Any, encode: Any = None) -> st.SearchStrategy[Any]:
    """What a check lets pass. Its bounds come first to mind."""
    if check is parts.anything:
        return JSON
    if check is destinations.address:  # of those that match some are beyond a schema
        return st.sampled_from(ADDRESSES)
    if check is destinations.options:
        return st.fixed_dictionaries({}, optional=OPTIONS)
    if check in PATTERNS:
        return st.from_regex(PATTERNS[check], fullmatch=True)
    if check is fields.instant:
        return INSTANTS
    if check is fields.progress:
        return JSON.filter(lambda value: value is not None)
    if check in TEXTS:
        return st.text(st.characters(codec="utf-8"), max_size=TEXTS[check] // 4)
    if check is fields.flag:
        return st.booleans()
    if check is fields.settings:
        kinds = {name: values_of(own) for name, own in fields.SETTINGS.items()}
        return st.fixed_dictionaries({}, optional=kinds).filter(bool)
    told, made = inside(check), check.__qualname__.split(".")[0]
    if made == "integer":
        low, high = told["low"], told["high"]
        return st.sampled_from([low, high]) | st.integers(low, high)
    if made == "one_of":
        return st.sampled_from(told["choices"])
    if made == "optional":
        return st.none() | values_of(told["check"])
    if made == "distinct":
        return values_of(told["check"]).map(lambda items: list(dict.fromkeys(items)))
    if made == "parts":
        return parts_of(told["kind"])
    if made == "by_name":
        return st.dictionaries(values_of(fields.name), values_of(told["check"]), max_size=3)
    return st.lists(values_of(told["check"]), min_size=told["low"], max_size=told["low"] + 2)


def parts_of(kind: type[Part]) -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects of a part, or of a command: what may be left out is left out at times."""
    must, may = {}, {}
    for spec in kind.SPECS:
        left_out = spec.attribute in kind.DEFAULTS and kind.DEFAULTS[spec.attribute] != ""
        (may if left_out else must)[spec.wire] = values_of(spec.check, spec.encode)
    verb = {"verb": st.just(kind.verb)} if getattr(kind, "verb", "") else {}  # type: ignore[attr-defined]
    return st.fixed_dictionaries({**verb, **must}, optional=may)


def least_of(kind: type[Part]) -> set[str]:
    """Members of a part that have no default at all."""
    return {spec.wire for spec in kind.SPECS if kind.DEFAULTS.get(spec.attribute, "") == ""}


def defaults_of(kind: type[Part]) -> dict[str, Any]:
    """Defaults that are values, by JSON name."""
    given = {spec.wire: kind.DEFAULTS.get(spec.attribute) for spec in kind.SPECS}
    return {name: value for name, value in given.items() if value not in (None, NOTHING, (), "")}
