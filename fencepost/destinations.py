"""What may be said of a destination: its address, its class, its options, its secrets.

`OPTIONS` is the one table of options. A check says what was wrong and never what was given: in an
address, a header or a secret that may be a password.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from fencepost import canonical, fields
from fencepost.fields import Check
from fencepost.issues import InvalidRequest
from fencepost.outward import CLASSES, Class, Destination, Secret

WEB = frozenset({"https", "http"})
TABLES = frozenset({"postgresql", "sqlite"})
SIGNED = WEB | {"command"}
KINDS = SIGNED | TABLES | {"s3", "directory"}
MAY_BE: dict[str, frozenset[str]] = {
    **dict.fromkeys(WEB, frozenset({"fenced", "idempotent", "unfenced"})),
    "command": frozenset({"idempotent", "unfenced"}),
    **dict.fromkeys(TABLES, frozenset({"fenced"})),
    "s3": frozenset({"cas", "idempotent"}),
    "directory": frozenset({"cas"}),
}
"""The classes that a place of each kind can have."""
MAX_ADDRESS = 2_048  # characters
MAX_STOPPED = 256
MAX_ARGUMENTS = 64
MAX_HEADERS = 16
MAX_SECRETS = 8
KEEP_SECONDS = 86_400  # that an older secret goes on to be signed with
SECRET_BYTES = 32

TABLE = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
_SEEN = r'[!"$-~]'  # visible ASCII but #
_TEXT = r"[^\x00-\x1f\x7f]"
_HOST = r"(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]{2,45}\])"
_ORIGIN = rf"https?://{_HOST}(?::[1-9][0-9]{{0,4}})?"
ORIGIN = re.compile(_ORIGIN)
WEB_ADDRESS = re.compile(rf"{_ORIGIN}(?:[/?]{_SEEN}*)?")
_FORMS: dict[str, tuple[re.Pattern[str], str]] = {
    "https": (WEB_ADDRESS, "HOST[:PORT][/PATH][?QUERY], without user and password (set headers)"),
    "http": (WEB_ADDRESS, "HOST[:PORT][/PATH][?QUERY], without user and password (set headers)"),
    "command": (re.compile(rf"command:\[{_TEXT}*\]"), '["PROGRAM","ARGUMENT"]'),
    "postgresql": (
        re.compile(rf"postgresql://{_SEEN}+#(?:{TABLE}\.)?{TABLE}"), "USER@HOST/DATABASE#TABLE",
    ),
    "sqlite": (re.compile(rf"sqlite:/[^\x00-\x1f\x7f#]*#{TABLE}"), "/PATH/OF/FILE#TABLE"),
    "s3": (
        re.compile(rf"s3://[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9](?:/{_SEEN}*)?"), "BUCKET/PREFIX",
    ),
    "directory": (re.compile(rf"directory:/{_TEXT}*"), "/PATH"),
}  # fmt: skip
ADDRESS = re.compile(f"(?:{'|'.join(dict.fromkeys(p.pattern for p, _ in _FORMS.values()))})")
SECRET = re.compile(
    r"whsec_(?:(?:[A-Za-z0-9+/]{4}){8,21}(?:[A-Za-z0-9+/]{2}==)?"
    r"|(?:[A-Za-z0-9+/]{4}){8,20}[A-Za-z0-9+/]{3}=)"
)
"""Base64 of 24 to 64 bytes."""
STOPPED = re.compile(rf"{_TEXT}{{1,{MAX_STOPPED}}}")
REGION = re.compile(r"[a-z0-9-]{1,64}")
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
HEADER_VALUE = re.compile(r"[ -~]{0,1024}")
_OURS = re.compile(
    r"webhook-.*|content-.*|host|connection|transfer-encoding|te|trailer|upgrade|expect",
    re.IGNORECASE,
)


# -- addresses


def address(value: Any, what: str) -> str:
    """Where a destination is: one of `_FORMS`."""
    kind = kind_of(value) if type(value) is str else ""
    if kind not in _FORMS:
        known = ", ".join(f"{known}:" for known in _FORMS)
        raise InvalidRequest(f"{what}: an address begins with one of {known}")
    pattern, form = _FORMS[kind]
    found = pattern.fullmatch(value)
    if found is None or len(value) > MAX_ADDRESS or (kind in WEB and not _has_port(value)):
        mark = "://" if kind in ("https", "http", "postgresql", "s3") else ":"
        raise InvalidRequest(f"{what}: this is not {kind}{mark}{form}")
    if kind == "command":
        try:
            words = json.loads(value.removeprefix("command:"))
        except (ValueError, RecursionError):
            words = None
        _arguments(words, what)
    return value  # type: ignore[no-any-return]


def _has_port(address: str) -> bool:
    """A port, if it names one, is one that there is."""
    host = address.partition("://")[2].partition("/")[0].partition("?")[0]
    port = host.rpartition("]")[2].partition(":")[2]
    return not port or int(port) < 65_536


def _arguments(value: Any, what: str) -> list[str]:
    """The words of a command."""
    fits = type(value) is list and 1 <= len(value) <= MAX_ARGUMENTS
    if not fits or not all(type(word) is str and "\0" not in word for word in value):
        raise InvalidRequest(f"{what}: a command is a list of 1 to {MAX_ARGUMENTS} texts")
    if not value[0]:
        raise InvalidRequest(f"{what}: a command begins with a program")
    return value  # type: ignore[no-any-return]


def arguments_of(address: str) -> list[str]:
    """The words of a `command:` address."""
    words: list[str] = json.loads(address.removeprefix("command:"))
    return words


def kind_of(address: str) -> str:
    """What sort of place an address names: its scheme."""
    return address.partition(":")[0]


def stopped(value: Any, what: str) -> str:
    """Why nothing is delivered: 1 to 256 characters on one line."""
    if type(value) is not str or STOPPED.fullmatch(value) is None:
        raise InvalidRequest(f"{what}: say why, on one line of at most {MAX_STOPPED} characters")
    return value


# -- secrets


def new_secret(source: Callable[[int], bytes] = os.urandom) -> str:
    """A new secret of 32 bytes from `source`, as Standard Webhooks write it. Show it once."""
    return f"whsec_{base64.b64encode(source(SECRET_BYTES)).decode()}"


def secret(value: Any, what: str) -> str:
    """`whsec_` and base64 of 24 to 64 bytes. What is wrong is told without a word of it."""
    if type(value) is not str or SECRET.fullmatch(value) is None:
        raise InvalidRequest(f"{what}: a secret is whsec_ and base64 of 24 to 64 bytes")
    return value


# -- options


def _asked(value: Any, what: str) -> Any:
    """Who is asked what became of an effect: an address of the web, or a command's words."""
    if type(value) is list:
        return _arguments(value, what)
    if type(value) is not str or kind_of(value) not in WEB:
        raise InvalidRequest(f"{what}: give https://…, or a list of a program and its arguments")
    return address(value, what)


def _origin(value: Any, what: str) -> str:
    if type(value) is not str or ORIGIN.fullmatch(value) is None or not _has_port(value):
        raise InvalidRequest(f"{what}: this is not https://HOST[:PORT]")
    return value


def _region(value: Any, what: str) -> str:
    if type(value) is not str or REGION.fullmatch(value) is None:
        raise InvalidRequest(f"{what}: a region is of a-z 0-9 -, such as us-east-1")
    return value


def _headers(value: Any, what: str) -> dict[str, str]:
    if type(value) is not dict or len(value) > MAX_HEADERS:
        raise InvalidRequest(f"{what}: give an object of at most {MAX_HEADERS} headers")
    for name, text in value.items():
        if type(name) is not str or HEADER.fullmatch(name) is None or _OURS.fullmatch(name):
            raise InvalidRequest(f"{what}: a name is not one of a header that can be set")
        if type(text) is not str or HEADER_VALUE.fullmatch(text) is None:
            raise InvalidRequest(f"{what}: a value is not 0 to 1024 printable ASCII characters")
    return value


class Option(NamedTuple):
    """One option: its check, what it is when it was not set, where it means something, and what."""

    check: Check
    default: Any
    kinds: frozenset[str]
    meaning: str
    classes: frozenset[str] = frozenset(CLASSES)


OPTIONS: dict[str, Option] = {
    "ordered": Option(
        fields.flag, False, SIGNED | TABLES,
        "deliver one after another, in the order of the obligations, each with its position",
    ),
    "concurrency": Option(
        fields.integer(1, 256), 8, KINDS, "deliveries at once, in one dispatcher; 1 if ordered",
    ),
    "rate": Option(
        fields.integer(1, 100_000), None, KINDS, "deliveries a second at most, in one dispatcher",
    ),
    "timeout_seconds": Option(
        fields.integer(1, 600), 30, KINDS - {"directory"}, "how long one delivery may take",
    ),
    "max_response_bytes": Option(
        fields.integer(0, 1_048_576), 65_536, SIGNED, "how much of an answer is read",
    ),
    "max_delay_seconds": Option(
        fields.integer(1, 86_400), 3_600, KINDS,
        "the longest pause, whatever Retry-After asks for and however long it is down",
    ),
    "dedupe_seconds": Option(
        fields.delay, 86_400, KINDS,
        "how long the receiver knows an id again: so long an uncertain delivery is repeated",
        frozenset({"idempotent"}),
    ),
    "reconcile": Option(
        _asked, None, KINDS, "who is asked what became of an uncertain delivery",
    ),
    "allow_private": Option(
        fields.flag, False, WEB | {"s3"}, "addresses of this machine and of private networks too",
    ),
    "headers": Option(_headers, {}, WEB, "headers that are sent along; their values are secret"),
    "endpoint": Option(_origin, None, frozenset({"s3"}), "the server, where it is not Amazon's"),
    "region": Option(_region, "us-east-1", frozenset({"s3"}), "the region that is signed for"),
}  # fmt: skip


def options(value: Any, what: str) -> dict[str, Any]:
    """A change of options: known names only, each with its own check; null: the default again."""
    if type(value) is not dict:
        raise InvalidRequest(f"{what}: give an object of options to change")
    for name in value:
        if name not in OPTIONS:
            known = ", ".join(OPTIONS)
            shown = json.dumps(name)[:60]
            raise InvalidRequest(f"{what}: there is no option {shown}; known are {known}")
    return {
        name: None if given is None else OPTIONS[name].check(given, f"{what}.{name}")
        for name, given in value.items()
    }


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option, by its default where it was not set, or to null."""
    found = {name: option.default for name, option in OPTIONS.items()}
    found.update((name, value) for name, value in given.items() if value is not None)
    return found


def changed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of all options that differ from their default."""
    return {name: value for name, value in options.items() if value != OPTIONS[name].default}


def contradiction(address: str, class_: str, options: Mapping[str, Any]) -> str | None:
    """Why these cannot hold together; None if they can."""
    kind = kind_of(address)
    if class_ not in MAY_BE[kind]:
        return f"a destination at {kind}: is {' or '.join(sorted(MAY_BE[kind]))}, not {class_}"
    for name, value in options.items():
        option = OPTIONS[name]
        if value is None or value == option.default:
            continue
        if kind not in option.kinds:
            return f"{name} means nothing at {kind}:; it is for {', '.join(sorted(option.kinds))}"
        if class_ not in option.classes:
            classes = ", ".join(sorted(option.classes))
            return f"{name} means nothing to {class_}; it is for {classes}"
    if options["ordered"] and options["concurrency"] not in (1, OPTIONS["concurrency"].default):
        return "what is ordered is delivered one at a time: leave concurrency out"
    return None


# -- rows

Columns = tuple[str, str, str, str, str | None, int, str | None, int, str | None]
"""Address, class, options and secrets (JSON), stopped, sequence, head, heard, announced."""


def columns(destination: Destination) -> Columns:
    """A destination as its row keeps it: of the options those that differ from their default."""
    d = destination
    secrets = [{"secret": secret, "until": until} for secret, until in d.secrets]
    told = changed(d.options)
    options, signed = canonical.dumps(told).decode(), canonical.dumps(secrets).decode()
    return (
        d.address, d.class_, options, signed, d.stopped, d.sequence, d.head, d.heard, d.announced,
    )  # fmt: skip


def of_columns(queue: str, row: Columns) -> Destination:
    """A destination out of its row. An option of a newer minor version is left alone."""
    address, class_, options, secrets, stopped, sequence, head, heard, announced = row
    signed = tuple(Secret(one["secret"], one["until"]) for one in json.loads(secrets))
    return Destination(
        queue, address, cast(Class, class_), complete(json.loads(options)), signed, stopped,
        sequence, head, heard, announced,
    )  # fmt: skip


def committed(row: Columns) -> bytes:
    """What an entry commits to: the whole row, byte for byte."""
    return canonical.dumps(list(row))
