"""The local chain of checkpoints: after each step a hash over `before|step|state`. Pure.

It is the shelter feed's: SHA-256, 16 hex digits, `GENESIS` before the first. `state` is JSON of the
rows that stand in the store, `[label, digest]` each, and of the last fence of each task. Steps that
were refused are links too. A step's text says all that it changes of the state, so that the chain
can be played again from nothing.
"""

from __future__ import annotations

import hashlib
import json
from bisect import insort
from collections.abc import Iterable
from typing import Any

from fencepost import canonical

GENESIS = "GENESIS"
NO_RESULT = "-"


def short(text: str | bytes) -> str:
    """The chain's digest: 16 hex digits of SHA-256, of text as UTF-8."""
    raw = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(raw).hexdigest()[:16]


def digest_of(result: Any) -> str:
    """The digest of a result: text by its raw UTF-8, everything else by its canonical JSON."""
    return short(result if type(result) is str else canonical.dumps(result))


def link(before: str, step: str, state: str) -> str:
    """The hash of a step: what the feed chains."""
    return short(f"{before}|{step}|{state}")


def state_text(rows: Iterable[tuple[str, str]], leases: dict[str, int]) -> str:
    """What the feed hashes of a state, byte for byte."""
    listed = sorted((label, digest) for label, digest in rows)
    return json.dumps({"rows": listed, "leases": leases}, sort_keys=True)


class Player:
    """Plays steps again: the state after each comes from the words of the step alone."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []  # sorted
        self.leases: dict[str, int] = {}
        self.recorded: set[tuple[str, str]] = set()
        self.closings: set[tuple[str, str, str | None]] = set()  # and the digest of follow-ups
        self._followups: dict[str, str] = {}
        self.hash = GENESIS
        self._text: str | None = None

    def step(self, step: str) -> str:
        """Its hash. Raises ValueError for a step that nobody writes."""
        match step.split(" "):
            case ["take" | "claim", label, "fence", fence]:
                self.leases[label], self._text = int(fence), None
            case ["accepted" | "recognised", label, digest]:
                insort(self.rows, (label, digest))
                self._text = None
            case ["lost", label, digest]:
                self.rows.remove((label, digest))
                self._text = None
            case ["record", label, digest] | ["verdict", label, _, digest]:
                self.recorded.add((label, digest))
            case ["followups", label, digest]:
                self._followups[label] = digest
            case ["close", label, digest]:
                self.closings.add((label, digest, self._followups.pop(label, None)))
            case ["again" | "ended", _, _] | ["reopen", _]:
                pass
            case ["told" | "moot", _, _]:
                pass
            case ["refused", _, _, _] | ["conflict", _, _] | ["human", _, "again" | "theirs"]:
                pass
            case _:
                raise ValueError("no such step")
        self.hash = link(self.hash, step, self.state())
        return self.hash

    def state(self) -> str:
        """The state as it is hashed."""
        if self._text is None:  # most steps change nothing of it
            self._text = state_text(self.rows, self.leases)
        return self._text
