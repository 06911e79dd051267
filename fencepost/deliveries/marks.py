"""What one attempt leaves to the next about uncertainty, as the obligation's progress mark. Pure.

An idempotent receiver knows an id for a time alone, so it must be known when an effect first became
uncertain. A mark names the attempt after which it was left: if attempts have passed since of which
there is none, a dispatcher has died in them, and something may have been sent.
"""

from __future__ import annotations

from typing import Any

from fencepost.clock import SECOND, from_rfc3339, to_rfc3339


def mark(after: int, uncertain_since: int | None) -> dict[str, Any]:
    """The mark of an attempt; 0 where none was charged. Times are microseconds UTC."""
    since = None if uncertain_since is None else to_rfc3339(uncertain_since)
    return {"after_attempt": after, "uncertain_since": since}


def uncertain_since(left: Any, attempt: int, born: int) -> int | None:
    """Since when the effect is uncertain, as this attempt begins; None where it is not. `born`:
    when the obligation came to be, before which nothing was sent."""
    if not isinstance(left, dict) or type(left.get("after_attempt")) is not int:
        return None if attempt <= 1 else born
    since = left.get("uncertain_since")
    if type(since) is str:
        return from_rfc3339(since)
    return None if attempt <= left["after_attempt"] + 1 else born


def over(since: int | None, now: int, dedupe_seconds: int) -> bool:
    """Whether the receiver may have forgotten the id by now."""
    return since is not None and now - since >= dedupe_seconds * SECOND
