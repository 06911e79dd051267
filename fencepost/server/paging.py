"""Cursors (AIP-158): opaque, signed by the store's secret, and bound to the question that they go
on with. A cursor grants nothing: who may read is judged anew for each page."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from struct import Struct

from fencepost.server.answers import Fault

DEFAULT_PAGE = 50
MAX_PAGE = 1_000
MAX_ENTRIES = 100  # of at most 64 KiB each
FEW_LONG = 20  # results, of at most max_result_bytes each
MAC_BYTES = 16
PLACE = Struct(">q")


class Cursors:
    """Makes and reads the cursors of one store."""

    def __init__(self, secret: bytes) -> None:
        self._secret = hmac.digest(secret, b"fencepost-page-v1", "sha256")

    def write(self, after: int, *question: object) -> str:
        """The cursor to go on behind `after`; empty where there is nothing more (0)."""
        if not after:
            return ""
        place = PLACE.pack(after)
        return urlsafe_b64encode(place + self._mac(place, question)).decode().rstrip("=")

    def read(self, text: str | None, *question: object) -> int:
        """Where to go on: 0 at the beginning. Fault for a cursor of another question or store."""
        if not text:
            return 0
        try:
            raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        except (ValueError, UnicodeEncodeError):
            raw = b""
        place, mac = raw[: PLACE.size], raw[PLACE.size :]
        if len(raw) != PLACE.size + MAC_BYTES or not hmac.compare_digest(
            mac, self._mac(place, question)
        ):
            raise Fault(400, "page_token: not one that was given for this very question")
        after: int = PLACE.unpack(place)[0]
        return after

    def _mac(self, place: bytes, question: tuple[object, ...]) -> bytes:
        asked = sha256(repr(question).encode()).digest()
        return hmac.digest(self._secret, place + asked, "sha256")[:MAC_BYTES]
