"""Where a delivery goes: what a sender is given, what it has to tell, and which sender an address
means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, cast

from fencepost.deliveries.event import Event
from fencepost.destinations import kind_of
from fencepost.issues import InvalidRequest
from fencepost.outward import Class

Word = Literal[
    "delivered", "unsent", "unanswered", "later", "taken", "failed", "gone",
    "stale_result", "effect_conflict", "rejected", "forgotten", "old_epoch", "fork",
    "hello_needed", "gap",
]  # fmt: skip
"""What one try came to:

- `delivered`: the effect is there, with evidence
- `unsent`: surely nothing reached the other side (no name, no connection, no TLS)
- `unanswered`: something may have reached it, and no whole answer came
- `later`: it said that it did nothing, and to come again (429, 503), perhaps when
- `taken`: it has it and has not done it (202)
- `failed`: it refused, or said that it failed
- `gone`: nothing may be sent there any more (410)
- the rest are words of a receiver that keeps the fence (`fencepost.receiver.wire`, CODES)
"""


class Try(NamedTuple):
    """One try at a delivery. `told` is for people and holds no secret; `evidence` is JSON, of what
    was delivered; `wait_seconds` is when to come again, where that was said; `has` is what the
    receiver says it has."""

    word: Word
    told: str = ""
    evidence: Any = None
    wait_seconds: float | None = None
    has: Mapping[str, Any] | None = None


class Greeting(NamedTuple):
    """The answer to a hello: its status and JSON, of whom we know; or None, and why. `wait_seconds`
    is when to come again, where that was said."""

    status: int
    said: Mapping[str, Any] | None
    told: str = ""
    wait_seconds: float | None = None


class Place(NamedTuple):
    """One destination as its sender needs it: where, of what class, how (every option of
    `destinations.OPTIONS`), and the secrets that sign now, the newest first."""

    address: str
    kind: Class
    options: Mapping[str, Any]
    secrets: tuple[str, ...]


class Sender(Protocol):
    """Brings events to one destination. `send` is called by as many threads at once as the
    destination's concurrency; it raises nothing, and ends within `seconds`."""

    greets: bool  # whether the other side is to be greeted before anything is sent there

    def send(self, event: Event, seconds: float) -> Try: ...

    def greet(self, body: bytes, seconds: float) -> Greeting:
        """Say a hello (fenced receivers over HTTP)."""
        ...

    def close(self) -> None: ...


# scheme: the module and what makes a sender there
SENDERS = {
    "https": ("fencepost.deliveries.http", "HttpSender"),
    "http": ("fencepost.deliveries.http", "HttpSender"),
    "command": ("fencepost.deliveries.command", "CommandSender"),
    "directory": ("fencepost.deliveries.directory", "DirectorySender"),
    "postgresql": ("fencepost.deliveries.table", "TableSender"),
    "s3": ("fencepost.deliveries.s3", "S3Sender"),
    "sqlite": ("fencepost.deliveries.table", "TableSender"),
}


def sender_of(place: Place, now: Callable[[], float]) -> Sender:
    """The sender for this address; `now` is the time in seconds, for what is signed. Raises
    InvalidRequest for one that nothing can be sent to."""
    found = SENDERS.get(kind_of(place.address))
    if found is None:
        raise InvalidRequest(f"nothing can be delivered to an address of {kind_of(place.address)}:")
    module, name = found
    return cast(Sender, getattr(import_module(module), name)(place, now))
