"""What a store knows of the receivers that it delivers to. Part of the nouns (`model.py`).

Times are integer microseconds UTC inside, RFC 3339 where a value becomes JSON, as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from fencepost.clock import to_rfc3339
from fencepost.record import dataclass

Class = Literal["fenced", "cas", "idempotent", "unfenced"]
CLASSES: tuple[Class, ...] = ("fenced", "cas", "idempotent", "unfenced")


class Secret(NamedTuple):
    """One secret of a destination, as Standard Webhooks write it. `until`: the time (microseconds)
    from which it is not signed with any more; None for the newest."""

    secret: str
    until: int | None = None

    def to_json(self) -> dict[str, Any]:
        until = None if self.until is None else to_rfc3339(self.until)
        return {"secret": self.secret, "until": until}


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the obligations on `queue` are delivered to, and what stands there.

    `options` holds every option of `destinations.OPTIONS`, with its default where none was set.
    `secrets`: the newest first. `stopped` says why nothing is delivered; None while it is.

    Of the stream to an ordered receiver `sequence` is the last position that was delivered (0:
    none) and `head` its hash (hex; None before the first). `heard` is the position up to which the
    store knows the receiver's effects, `announced` the incarnation of the writer that the receiver
    was last told of.
    """

    queue: str
    address: str
    class_: Class
    options: Mapping[str, Any]
    secrets: tuple[Secret, ...] = ()
    stopped: str | None = None
    sequence: int = 0
    head: str | None = None
    heard: int = 0
    announced: str | None = None

    @property
    def kind(self) -> str:
        """What sort of place its address names: `https`, `command`, `s3` …"""
        return self.address.partition(":")[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "queue": self.queue,
            "address": self.address,
            "class": self.class_,
            "options": dict(self.options),
            "secrets": [secret.to_json() for secret in self.secrets],
            "stopped": self.stopped,
            "sequence": self.sequence,
            "head": self.head,
            "heard": self.heard,
            "announced": self.announced,
        }

    def __repr__(self) -> str:
        """For logs and tracebacks: nothing of an address, a header or a secret."""
        stopped = ", stopped" if self.stopped is not None else ""
        return f"Destination({self.queue!r}, {self.class_} {self.kind}{stopped})"
