"""What a command's fields may hold: one check a kind of value, and the protocol's constants.

A check takes (value, name) and returns the value as it is kept, or raises InvalidRequest with
a message that names the field, what was wrong and what is allowed. Nothing is repaired. The
limits here are constants of the protocol: a setting that an operator can change between two
tries of one command is judged later, by a rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from fencepost import canonical
from fencepost.clock import from_datetime, from_rfc3339, to_rfc3339
from fencepost.issues import InvalidRequest

MAX_INTEGER = 10**15 - 1
MAX_TASKS_PER_COMMAND = 250
MAX_SWEEP = 200
MAX_FOLLOWUPS = 180  # as many as one entry can name beside the task and its obligations
MAX_CLAIM = 100
MAX_WAIT_SECONDS = 60  # of a claim that waits
MAX_BATCH = 1_000  # commands that go together over HTTP
MAX_BATCH_CLAIMS = 250  # tasks that their claims ask for: the answer holds the payloads
MAX_QUEUES_PER_CLAIM = 16
MAX_DESTINATIONS = 8
MAX_OBLIGATIONS = 2 * MAX_DESTINATIONS  # of one completion: for its result and for its end
MAX_SECONDS = 10 * 366 * 86_400
MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_REASON_BYTES = 4_096
MAX_PROGRESS_BYTES = 64 * 1024
MAX_LOG_BYTES = 16 * 1024
MAX_ENTRY_BYTES = 65_535
MAX_PRIORITY = 1_000_000
MAX_EPOCH = (MAX_INTEGER >> 32) - 1
MAX_HEARD = MAX_EPOCH - (1 << 14)  # of before: the next is above it, and many a one after that

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@-]{0,63}")
KEY = re.compile(r"[!#-\[\]-~]{1,255}")
TOKEN_ID = re.compile(r"tok_[0-9a-f]{32}")
SHA256 = re.compile(r"[0-9a-f]{64}")
TASK_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

OUTCOMES = ("result", "done", "dead", "cancelled", "blocked")
"""What can come of a task that others may have to be told: an accepted result, or a state."""

Check = Callable[[Any, str], Any]
Encode = Callable[[Any], bytes]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def name(value: Any, what: str) -> str:
    """A scope, queue, worker or actor: 1 to 64 characters that are safe on every surface."""
    if type(value) is not str or NAME.fullmatch(value) is None:
        raise InvalidRequest(
            f"{what}: {_shown(value)} is not a name; use 1 to 64 of A-Z a-z 0-9 . _ : @ - "
            "beginning with a letter, a digit or _"
        )
    return value


def key(value: Any, what: str) -> str:
    """A task key or an idempotency key: 1 to 255 visible ASCII characters but `"` and `\\`."""
    if type(value) is not str or KEY.fullmatch(value) is None:
        raise InvalidRequest(
            f"{what}: {_shown(value)} is not a key; use 1 to 255 visible ASCII characters "
            'without " and \\ (percent-encode anything else)'
        )
    return value


def task_id(value: Any, what: str) -> str:
    """A UUID in lowercase hex with hyphens (RFC 9562 §4)."""
    if type(value) is not str or TASK_ID.fullmatch(value) is None:
        raise InvalidRequest(f"{what}: {_shown(value)} is not a task id (a UUID in lowercase)")
    return value


def token_id(value: Any, what: str) -> str:
    """`tok_` and a UUID in lowercase hex without hyphens."""
    if type(value) is not str or TOKEN_ID.fullmatch(value) is None:
        raise InvalidRequest(f"{what}: this is not the id of a token (tok_ and 32 hex digits)")
    return value


def sha256(value: Any, what: str) -> str:
    """A SHA-256 digest in lowercase hex."""
    if type(value) is not str or SHA256.fullmatch(value) is None:
        raise InvalidRequest(f"{what}: this is not a SHA-256 digest (64 lowercase hex digits)")
    return value


def integer(low: int, high: int) -> Check:
    """A check for whole numbers in `[low, high]`. A bool, a float or a string is not one."""

    def check(value: Any, what: str) -> int:
        if type(value) is not int:
            raise InvalidRequest(f"{what}: {_shown(value)} is not an integer")
        if not low <= value <= high:
            raise InvalidRequest(f"{what}: {_shown(value)} is outside {low} to {high}")
        return value

    return check


fence = integer(1, MAX_INTEGER)
count = integer(0, MAX_INTEGER)
epoch = integer(0, MAX_EPOCH)
seconds = integer(1, MAX_SECONDS)
delay = integer(0, MAX_SECONDS)
priority = integer(-MAX_PRIORITY, MAX_PRIORITY)
attempts = integer(1, 1_000)


def instant(value: Any, what: str) -> str:
    """A time: RFC 3339 with an offset, or an aware datetime. Kept as UTC with six digits."""
    try:
        if isinstance(value, datetime):
            return to_rfc3339(from_datetime(value))
        if type(value) is str:
            return to_rfc3339(from_rfc3339(value))
    except ValueError as error:
        raise InvalidRequest(f"{what}: {error}") from None
    raise InvalidRequest(f"{what}: {_shown(value)} is not a time; give RFC 3339 with an offset")


def flag(value: Any, what: str) -> bool:
    if type(value) is not bool:
        raise InvalidRequest(f"{what}: {_shown(value)} is not true or false")
    return value


def one_of(*choices: str) -> Check:
    """A check for one word of a closed list."""

    def check(value: Any, what: str) -> str:
        if type(value) is not str or value not in choices:
            raise InvalidRequest(f"{what}: {_shown(value)} is not one of {', '.join(choices)}")
        return value

    return check


def reason(value: Any, what: str) -> str:
    """Free text of at most 4,096 bytes of UTF-8. Content: kept beside the task, erasable."""
    return _text(value, what, MAX_REASON_BYTES)


def log(value: Any, what: str) -> str:
    """What the work has said, at most 16,384 bytes of UTF-8. Content, as a reason is."""
    return _text(value, what, MAX_LOG_BYTES)


def _text(value: Any, what: str, limit: int) -> str:
    if type(value) is not str:
        raise InvalidRequest(f"{what}: {_shown(value)} is not text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidRequest(f"{what}: contains a lone surrogate") from None
    _fits(size, what, limit)
    return value


def progress(value: Any, what: str) -> Any:
    """How far the work has come: JSON of at most 65,536 canonical bytes, and not null."""
    _fits(len(canonical.dumps(value)), what, MAX_PROGRESS_BYTES)
    return value


def _fits(size: int, what: str, limit: int) -> None:
    if size > limit:
        raise InvalidRequest(f"{what}: {size} bytes; at most {limit} are kept")


def optional(check: Check) -> Check:
    """The same check, with None allowed."""
    return lambda value, what: None if value is None else check(value, what)


def some(check: Check, low: int, high: int) -> Check:
    """A check for a list of `low` to `high` members; kept as a tuple."""

    def checked(value: Any, what: str) -> tuple[Any, ...]:
        if type(value) not in (list, tuple):
            raise InvalidRequest(f"{what}: {_shown(value)} is not a list")
        if not low <= len(value) <= high:
            raise InvalidRequest(f"{what}: {len(value)} members; {low} to {high} are allowed")
        return tuple(check(member, f"{what}[{place}]") for place, member in enumerate(value))

    return checked


def distinct(check: Check) -> Check:
    """The same list check, with each member allowed once."""

    def checked(value: Any, what: str) -> tuple[Any, ...]:
        members: tuple[Any, ...] = check(value, what)
        if len(set(members)) != len(members):
            raise InvalidRequest(f"{what}: a member stands twice")
        return members

    return checked


def by_name(check: Check, high: int) -> Check:
    """A check for an object of at most `high` members that are named as things here are."""

    def checked(value: Any, what: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise InvalidRequest(f"{what}: {_shown(value)} is not an object")
        if len(value) > high:
            raise InvalidRequest(f"{what}: {len(value)} members; at most {high} are allowed")
        return {name(key, what): check(given, f"{what}.{key}") for key, given in value.items()}

    return checked


SETTINGS: dict[str, Check] = {
    "lease_seconds": seconds,
    "max_lease_seconds": seconds,
    "max_hold_seconds": seconds,
    "max_attempts": attempts,
    "backoff_seconds": delay,
    "max_backoff_seconds": delay,
    "on_lapse": one_of("retry", "reconcile"),
    "max_followups": integer(0, MAX_FOLLOWUPS),
    "max_payload_bytes": integer(1, MAX_BODY_BYTES),
    "max_result_bytes": integer(1, MAX_BODY_BYTES),
    "result_storage": one_of("content", "digest"),
    "retain_seconds": optional(delay),
    "keep_refused": integer(0, 1_000),
    "paused": flag,
    "destinations": distinct(some(name, 0, MAX_DESTINATIONS)),
    "outcomes": by_name(distinct(some(one_of(*OUTCOMES), 1, len(OUTCOMES))), MAX_DESTINATIONS),
}


def settings(value: Any, what: str) -> dict[str, Any]:
    """A change of queue settings: known names only, each with its own check."""
    if type(value) is not dict or not value:
        raise InvalidRequest(f"{what}: give an object of settings to change")
    for member in value:
        if member not in SETTINGS:
            raise InvalidRequest(
                f"{what}: there is no setting {_shown(member)}; known are {', '.join(SETTINGS)}"
            )
    return {member: SETTINGS[member](given, f"{what}.{member}") for member, given in value.items()}


def plain(value: str) -> bytes:
    """Canonical JSON of text that a check has already shown to need no escape."""
    return b'"' + value.encode() + b'"'


def number(value: int) -> bytes:
    return b"%d" % value


def boolean(value: bool) -> bytes:
    return b"true" if value else b"false"


def listed(encode: Encode) -> Encode:
    """Canonical JSON of a list, each member by `encode`."""
    return lambda members: b"[" + b",".join(map(encode, members)) + b"]"
