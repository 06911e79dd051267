"""What an HTTP answer says of a delivery. Pure, and trusts nobody: an answer is a stranger's bytes.

Of what comes back only a receiver's signed words are read. The body of any other answer is hashed
and dropped: kept, it would be a way to read what stands in a network from outside.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, cast

from fencepost import canonical
from fencepost.deliveries.event import Event
from fencepost.deliveries.places import Greeting, Try, Word
from fencepost.issues import InvalidRequest
from fencepost.outward import Class
from fencepost.receiver import signing
from fencepost.receiver.wire import CODES

SHOWN = ("operation", "epoch", "incarnation", "sequence", "head", "fence", "revision", "position")
SPOKEN: frozenset[Word] = frozenset(
    {"stale_result", "effect_conflict", "rejected", "forgotten", "old_epoch", "fork",
     "hello_needed", "gap"}
)  # fmt: skip
"""A receiver's codes that decide more than one try; the rest of its refusals are failures."""
GATEWAY = frozenset({502, 504})
_SECONDS = re.compile(r"[0-9]{1,9}")


class Answer(NamedTuple):
    """A whole answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def understood(kind: Class, event: Event, answer: Answer, keys: Sequence[bytes], now: float) -> Try:
    """What the answer to a delivery says. `now`: the time, seconds since 1970."""
    status, headers = answer.status, answer.headers
    if status == 202:
        return Try("taken", "it was taken, and is not done (202)")
    if 200 <= status < 300:
        return _delivered(kind, event, answer, keys, now)
    if status == 410:
        return Try("gone", "the receiver says that nothing may be sent there any more (410)")
    wait = retry_after(headers.get("retry-after"), now)
    if status in (429, 503):
        return Try("later", f"the receiver asks for time ({status})", wait_seconds=wait)
    if status in GATEWAY:
        return Try("unanswered", f"a gateway had no answer from the receiver ({status})")
    if 300 <= status < 400:
        return Try("failed", f"it leads elsewhere ({status}), where nothing is sent")
    spoken = _signed(event.id, answer, keys, now) if kind == "fenced" else None
    if spoken is None:
        return Try("failed", f"the receiver answered {status}")
    code, told = spoken.get("code"), _shown(spoken)
    if code in SPOKEN and CODES[str(code)][0] == status:
        return Try(cast(Word, code), told, has=spoken)
    known = code if code in CODES else "no code that is known"
    return Try("failed", f"the receiver answered {status}: {known}")


def _delivered(kind: Class, event: Event, answer: Answer, keys: Sequence[bytes], now: float) -> Try:
    if kind != "fenced":
        evidence = {
            "status": answer.status, "bytes": len(answer.body),
            "body_sha256": hashlib.sha256(answer.body).hexdigest(),
        }  # fmt: skip
        return Try("delivered", evidence=evidence)
    receipt = _signed(event.id, answer, keys, now)
    if receipt is None:
        return Try("failed", f"it answered {answer.status} without a receipt that is signed")
    if wrong := not_ours(receipt, event):
        return Try("failed", f"its receipt has another {wrong} than what was sent")
    return Try("delivered", evidence=evidence_of(answer), has=receipt)


def not_ours(receipt: Mapping[str, Any], event: Event) -> str:
    """The member in which a receipt speaks of another effect; empty where it speaks of this."""
    expected = {
        "status": "accepted", "stream": event.stream, "operation": event.operation,
        "data_sha256": event.data_sha256.hex(),
    }  # fmt: skip
    return next((name for name, value in expected.items() if receipt.get(name) != value), "")


def evidence_of(answer: Answer) -> dict[str, Any]:
    """A receiver's receipt as it came, and what its signature is made over: whoever has the secret
    can verify it again."""
    kept = (signing.ID, signing.TIMESTAMP, signing.SIGNATURE)
    return {
        "receipt": answer.body.decode(),
        **{name.replace("-", "_"): answer.headers.get(name, "") for name in kept},
    }


def greeted(answer: Answer, message_id: str, keys: Sequence[bytes], now: float) -> Greeting:
    """What the answer to a hello says; nothing where it is not signed."""
    said = _signed(message_id, answer, keys, now)
    told = f"the receiver answered {answer.status} to a hello"
    wait = retry_after(answer.headers.get("retry-after"), now)
    if said is None:
        return Greeting(answer.status, None, f"{told}, not signed", wait)
    try:
        canonical.dumps(_without_events(said))
    except InvalidRequest as error:
        return Greeting(answer.status, None, f"{told} that cannot be read: {error}", wait)
    code = said.get("code")
    return Greeting(answer.status, said, f"{told}: {code}" if code in CODES else told, wait)


def _without_events(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a receiver says of itself, which is kept and told: numbers and texts that everybody can
    read. The events are judged as they are imported."""
    accepted = said.get("accepted")
    bare = [
        {name: value for name, value in each.items() if name != "event"}
        for each in (accepted if isinstance(accepted, list) else ())
        if isinstance(each, dict)
    ]
    return {**said, "accepted": bare}


def _signed(
    message_id: str, answer: Answer, keys: Sequence[bytes], now: float
) -> dict[str, Any] | None:
    """The JSON object of an answer that whoever has the secret has made to this very message."""
    try:
        signed = signing.verify(keys, answer.headers, answer.body, now)
        said = json.loads(answer.body.decode())  # its bytes become evidence: UTF-8 alone
    except (signing.BadSignature, ValueError, RecursionError):
        return None
    return said if signed.message_id == message_id and isinstance(said, dict) else None


def _shown(said: Mapping[str, Any]) -> str:
    """What a receiver says it has, for a reason: ids and numbers alone."""
    newest = said.get("newest")
    said = {**said, **newest} if isinstance(newest, dict) else said
    parts = [
        f"{name} {value}" for name in SHOWN
        if (value := said.get(name)) is not None and type(value) in (int, str)
        and str(value).isprintable() and len(str(value)) <= 80
    ]  # fmt: skip
    return "the receiver has " + ", ".join(parts) if parts else "the receiver says so"


def retry_after(text: str | None, now: float) -> float | None:
    """Seconds from now: RFC 9110, a number or a date. None for what is neither."""
    if text is None:
        return None
    if _SECONDS.fullmatch(text.strip()):
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.fromtimestamp(now, UTC)).total_seconds())
