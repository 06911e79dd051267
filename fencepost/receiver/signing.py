"""Standard Webhooks 1.0.0: what is sent is signed, and what comes is verified, the same both ways.

The signature covers `<webhook-id>.<webhook-timestamp>.<body>` and no other header, so whatever must
not be changed on the way has to stand in the body. `v1` is HMAC-SHA256 under a shared secret. Of
the list in `webhook-signature` one good signature is enough: so a secret is rotated by signing with
the old and the new for a while. `v1a` (Ed25519) is neither made nor taken: the standard library has
no Ed25519, and one written in Python would give its secret away by the time that it takes.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets as randomness
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
"""The three headers, in lower case, as HTTP/2 writes them."""

TOLERANCE_SECONDS = 300
"""How far the time of a signature may lie from ours, before or after."""

PREFIX = "whsec_"
SHORTEST_SECRET, LONGEST_SECRET = 24, 64

# No full stop, since that is what the parts are joined with; else what is printed and no space.
_ID = re.compile(r"[!-\-/-~]{1,255}")
_SECONDS = re.compile(r"[0-9]{1,12}")


class BadSignature(Exception):
    """Not signed by whoever has the secret, or not now. The text names no secret."""


@dataclass(frozen=True, slots=True)
class Signed:
    """What a good signature vouches for, beside the body."""

    message_id: str
    timestamp: int


def new_secret() -> str:
    """A fresh secret: 32 random bytes as `whsec_…`."""
    return PREFIX + base64.b64encode(randomness.token_bytes(32)).decode()


def secret_bytes(secret: str) -> bytes:
    """The key of a secret written as `whsec_` and base64.

    Raises ValueError, without a word of the secret, where it is not written so or where the key
    has not 24 to 64 bytes.
    """
    text = secret.strip()
    if not text.startswith(PREFIX):
        raise ValueError(f"a secret begins with {PREFIX}")
    try:
        key = base64.b64decode(text[len(PREFIX) :], validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a secret is {PREFIX} and base64") from None
    if not SHORTEST_SECRET <= len(key) <= LONGEST_SECRET:
        limits = f"{SHORTEST_SECRET} to {LONGEST_SECRET}"
        raise ValueError(f"a secret has {limits} bytes, not {len(key)}")
    return key


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """One signature under one key: `v1,` and base64."""
    content = b"%s.%d.%s" % (message_id.encode("ascii"), timestamp, body)
    # Not `hmac.digest`: it lets other threads run meanwhile, which takes far longer than it does.
    made = hmac.new(key, content, "sha256").digest()
    return "v1," + base64.b64encode(made).decode()


def sign(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers; a signature for each key, the first key's first.

    `timestamp` is the time of this try, in whole seconds. ValueError for no key and for an id that
    may not be signed: with a full stop in it, two messages would have one signature.
    """
    if not keys:
        raise ValueError("no secret to sign with")
    if not well_formed_id(message_id):
        raise ValueError(f"not an id for {ID}: {message_id!a}")
    made = " ".join(signature(key, message_id, timestamp, body) for key in keys)
    return {ID: message_id, TIMESTAMP: str(timestamp), SIGNATURE: made}


def verify(
    keys: Iterable[bytes],
    headers: Mapping[str, str],
    body: bytes,
    now: float,
    tolerance: float = TOLERANCE_SECONDS,
) -> Signed:
    """What the headers vouch for, if one of the keys made one of the signatures, and not long ago.

    `headers` are by lower-case name. Signatures of other versions are passed over. How long it
    takes does not tell how much of a signature was right. Raises BadSignature.
    """
    message_id, stamp = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    if not well_formed_id(message_id):
        raise BadSignature(f"{ID} is missing or not an id")
    if _SECONDS.fullmatch(stamp) is None:
        raise BadSignature(f"{TIMESTAMP} is missing or not whole seconds")
    timestamp = int(stamp)
    if stamp != str(timestamp):  # "0123": the signature is over the text, not over the number
        raise BadSignature(f"{TIMESTAMP} is not written as a plain number")
    given = [item.encode("utf-8", "replace") for item in headers.get(SIGNATURE, "").split(" ")]
    good = False
    for key in keys:
        expected = signature(key, message_id, timestamp, body).encode()
        for item in given:
            good |= hmac.compare_digest(expected, item)
    if not good:
        raise BadSignature(f"no signature in {SIGNATURE} is by a known secret")
    if abs(now - timestamp) > tolerance:
        raise BadSignature(f"{TIMESTAMP} is more than {tolerance:g} s away from now")
    return Signed(message_id, timestamp)


def well_formed_id(text: str) -> bool:
    """Whether this may be an id: 1 to 255 printed ASCII characters, no space, no full stop."""
    return _ID.fullmatch(text) is not None
