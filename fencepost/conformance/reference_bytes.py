"""Which bytes are a command, for the reference: strict JSON, instants, and what the members of each
verb may hold.

Reading never repairs: what two readers could take for two things is refused. Writing is the
canonical form of RFC 8785, so that one value has one text. Standard library only; no line of it is
shared with a product.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

MOST_BYTES, LARGEST = 64 * 1024 * 1024, 10**15 - 1
START = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class Malformed(ValueError):
    """The bytes are no command."""


class Row(dict[str, Any]):
    """A row, a command or a part of one: `row.name` is `row["name"]`, or None."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


# -- JSON


def read_json(raw: str) -> Any:
    """The one value in the text, or Malformed."""
    try:
        if len(raw.encode()) > MOST_BYTES:
            raise Malformed("more than 64 MiB")
        value = json.loads(raw, object_pairs_hook=_once_each, parse_float=_float)
        _check(value, 0)
    except (ValueError, RecursionError) as error:  # json's and unicode's errors are ValueErrors
        raise Malformed(f"not JSON as the contract reads it: {error}") from None
    return value


def _once_each(members: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(members)) < len(members):
        raise Malformed("a member stands twice")
    return dict(members)


def _float(text: str) -> float:
    return float(text if len(text) <= 100 else "nan")  # which _check refuses


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        value.encode()  # a lone surrogate is a ValueError
    elif isinstance(value, dict | list):
        if depth == 64:
            raise Malformed("deeper than 64 levels")
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            _check(part, depth + 1)
    elif isinstance(value, int | float):
        # From 1e21 on a double is written with an exponent and is no integer to any reader.
        huge = isinstance(value, float) and 1e21 <= abs(value) < float("inf")
        if not (abs(value) < 2**53 or huge):  # NaN is neither
            raise Malformed("a number that not every reader keeps")


def canonical(value: Any) -> str:
    """RFC 8785: members sorted by UTF-16 code units, no spaces, numbers as in ECMAScript."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(n)}:{canonical(value[n])}" for n in names) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical, value)) + "]"
    return _number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """Number::toString of ECMA-262: Python finds the same digits and lays them out differently."""
    if value == 0:
        return "0"
    sign, figures, power = Decimal(repr(value)).normalize().as_tuple()
    text, point = "".join(map(str, figures)), len(figures) + int(power)
    if 0 < point <= 21:
        text = text[:point].ljust(point, "0") + ("." + text[point:] if text[point:] else "")
    elif -6 < point <= 0:
        text = "0." + "0" * -point + text
    else:
        text = text[0] + ("." + text[1:] if text[1:] else "") + f"e{point - 1:+d}"
    return "-" * sign + text


# -- Time: an instant is integer microseconds UTC inside, RFC 3339 outside


def rfc3339(at: int) -> str:
    """An instant as text: UTC, six digits and Z. OverflowError outside the years 1 to 9999."""
    when = START + timedelta(microseconds=at)
    return when.isoformat(timespec="microseconds").replace("+00:00", "Z")


def instant(given: str) -> int:
    """Text with an offset and at most nine digits, of which none is lost; no leap second."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6})0{0,3})?"
                         r"(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))", given, re.ASCII)
    if found is None:
        raise Malformed(f"{given!a:.40} is not a time")
    east = timedelta(hours=int(found[4] or 0), minutes=int(found[5] or 0))
    local = datetime.fromisoformat(found[1] + "+00:00") - START
    second = (local + east if found[3] == "-" else local - east) // timedelta(seconds=1)
    at = second * 1_000_000 + int((found[2] or "0").ljust(6, "0"))
    rfc3339(at)
    return at


def is_time(value: Any) -> bool:
    try:
        return type(value) is str and instant(value) is not None
    except (ValueError, OverflowError):
        return False


# -- Commands: `name` is a member checked as the kind of that name, `name=kind` as another kind;
#    what ends in `?` may be left out. Everything else is needed, and nothing else is allowed.
#    The contract's token.create and token.revoke are not among them: tokens are how a face on a
#    network recognises a caller, and here the caller is handed in beside the command. Nor is what
#    says where obligations are delivered to (destination.*): here nothing is.

NEW_TASK = "payload=any key? priority? due_at? max_attempts?"
LEASE = "task_id worker_id=name fencing_token=fence epoch? policy_version?=count"
OUTSIDE = "task_id fencing_token?=count reason?"
VERBS = {
    "enqueue": "queue=name tasks",
    "claim": "worker_id=name queues? task_id? limit?=claim_limit lease_seconds?=seconds",
    "renew": LEASE + " lease_seconds?=seconds progress? log?",
    "submit": LEASE + " result=any expected_revision?=count log?",
    "complete": LEASE + " result?=any expected_revision?=count followups? log?",
    "fail": LEASE + " then? reason? retry_seconds?=delay progress? log?",
    "release": LEASE + " progress? log?",
    "cancel": OUTSIDE,
    "requeue": OUTSIDE,
    "resolve": OUTSIDE + " to? evidence?=any",
    "review": "task_id revision=fence verdict requeue?=flag",
    "import": "task_id revision=fence epoch fencing_token=fence final=flag evidence=any "
              "result?=any result_sha256?=sha256 at?=instant",
    "sweep": "queue?=name limit?",
    "erase": OUTSIDE,
    "purge": "queue?=name limit?",
    "queue.set": "queue=name settings",
    "scope.set_policy": "policy_version?=count retain_seconds?",
    "scope.revoke": "revoked?=flag",
    "clock.reset": "",
}
LEASED = {"renew", "submit", "complete", "fail", "release"}  # what a worker does with its lease
BY_BYTES = LEASED | {"import"}  # without a key of the caller's their own bytes are their key
MAY = {
    "operator": set(VERBS) - {"review"}, "producer": {"enqueue", "cancel"}, "auditor": set(),
    "worker": LEASED | {"claim"}, "dispatcher": LEASED | {"claim", "resolve"},
    "human": {"review", "resolve", "cancel", "requeue"},
}
IN_A_REVOKED_SCOPE = {"scope.revoke", "erase", "purge", "clock.reset"}  # an operator's alone
ENDED = ("done", "dead", "cancelled")
FROM = {"claim": ("ready", "leased"), "cancel": ("ready", "leased", "blocked"),
        "requeue": ENDED, "resolve": ("blocked",)}
DEFAULTS = Row(
    lease_seconds=60, max_lease_seconds=900, max_hold_seconds=86_400, max_attempts=5,
    backoff_seconds=1, max_backoff_seconds=3_600, on_lapse="retry", max_followups=2,
    max_payload_bytes=1_048_576, max_result_bytes=1_048_576, result_storage="content",
    retain_seconds=None, keep_refused=0, paused=False, destinations=[], outcomes={})
SETTINGS = (
    "lease_seconds?=seconds max_lease_seconds?=seconds max_hold_seconds?=seconds max_attempts? "
    "backoff_seconds?=delay max_backoff_seconds?=delay on_lapse? max_followups? "
    "max_payload_bytes?=bytes max_result_bytes?=bytes result_storage? retain_seconds? "
    "keep_refused? paused?=flag destinations? outcomes?"
)
MOST_FOLLOWUPS = 186  # as many as an entry of 65,535 bytes can name beside task and obligations
# A range of integers, a pattern for text, (kind, fewest, most, may stand twice) for a list, or a
# test of its own.
KINDS: dict[str, Any] = {
    "any": lambda value: True,  # null too
    "bytes": range(1, MOST_BYTES + 1),
    "claim_limit": range(1, 101),
    "count": range(LARGEST + 1),
    "delay": range(316_224_001),
    "destinations": ("name", 0, 8, False),
    "due_at": is_time,
    "instant": is_time,
    "epoch": range(LARGEST >> 32),
    "fence": range(1, LARGEST + 1),
    "flag": lambda value: type(value) is bool,
    "followup": lambda value: has_shape(value, NEW_TASK + " queue=name"),
    "followups": ("followup", 0, 250, True),
    "keep_refused": range(1_001),
    "key": r"[!#-\[\]-~]{1,255}",  # visible ASCII without " and \
    "limit": range(1, 201),
    "log": lambda value: is_text(value, 16_384),
    "max_attempts": range(1, 1_001),
    "max_followups": range(181),
    "name": r"[A-Za-z0-9_][A-Za-z0-9._:@-]{0,63}",
    "on_lapse": "retry|reconcile",
    "outcome": "result|done|dead|cancelled|blocked",
    "outcomes": lambda value: is_map(value, "name", ("outcome", 1, 5, False), 8),
    "priority": range(-1_000_000, 1_000_001),
    "progress": lambda value: value is not None and is_text(canonical(value), 65_536),
    "queues": ("name", 1, 16, False),
    "reason": lambda value: is_text(value, 4_096),
    "result_storage": "content|digest",
    "retain_seconds": lambda value: value is None or is_a("delay", value),
    "seconds": range(1, 316_224_001),
    "state": "ready|leased|blocked|done|dead|cancelled",
    "sha256": r"[0-9a-f]{64}",
    "settings": lambda value: value != {} and has_shape(value, SETTINGS),
    "task": lambda value: has_shape(value, NEW_TASK),
    "task_id": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "tasks": ("task", 1, 250, True),
    "then": "retry|give_up|block",
    "to": "done|retry|give_up",
    "verdict": "accepted|rejected",
}


def is_a(kind: str, value: Any) -> bool:
    """Whether the value is of this kind. True, 1.0 and "1" are no integers."""
    rule = KINDS[kind]
    if isinstance(rule, range):
        return type(value) is int and value in rule
    if isinstance(rule, str):
        return type(value) is str and re.fullmatch(rule, value) is not None
    if isinstance(rule, tuple):
        return is_list(value, *rule)
    return bool(rule(value))


def is_map(value: Any, names: str, each: tuple[str, int, int, bool], most: int) -> bool:
    """Whether the value is an object of such names, each with such a list."""
    fits = type(value) is dict and len(value) <= most and all(is_a(names, name) for name in value)
    return fits and all(is_list(member, *each) for member in value.values())


def is_list(value: Any, each: str, fewest: int, most: int, twice: bool) -> bool:
    fits = type(value) is list and fewest <= len(value) <= most
    fits = fits and all(is_a(each, member) for member in value)
    return fits and (twice or len(set(value)) == len(value))


def is_text(value: Any, most: int) -> bool:
    return type(value) is str and len(value.encode()) <= most


def has_shape(value: Any, shape: str) -> bool:
    """Whether the value is an object of these members."""
    parts = [re.fullmatch(r"(\w+)(\??)=?(\w*)", part) or [""] * 4 for part in shape.split()]
    kinds = {part[1]: part[3] or part[1] for part in parts}
    needed = {part[1] for part in parts if not part[2]}
    if type(value) is not dict or not needed <= value.keys() <= kinds.keys():
        return False
    return all(is_a(kinds[name], member) for name, member in value.items())


def read_command(body: str, who: Row, key: str | None) -> Row:
    """The command in these bytes, or Malformed; so are a caller and a key of no such form."""
    given = read_json(body)
    names = is_a("name", who.scope) and is_a("name", who.actor)
    if not names or who.kind not in MAY or not (key is None or is_a("key", key)):
        raise Malformed("the caller or the key is none")
    verb = given.pop("verb", None) if type(given) is dict else None
    if type(verb) is not str or verb not in VERBS or not has_shape(given, VERBS[verb]):
        raise Malformed(f"{verb!a:.40}: not an object of {VERBS.get(str(verb), 'a known verb')}")
    c = Row(given, verb=verb)
    together = {
        "claim": ("queues" in c) != ("task_id" in c),
        "resolve": (c.to == "done") == ("evidence" in c),
        "review": not (c.requeue and c.verdict == "accepted"),
        "scope.set_policy": len(c) > 1,
        "import": ("result" in c) != ("result_sha256" in c),
    }
    if not together.get(verb, True):
        raise Malformed(f"{verb}: these members do not go together")
    return c
