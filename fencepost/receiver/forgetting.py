"""What is dropped when, and why nothing that was dropped can be done again.

A receipt is dropped when all of these hold: it is older than `receipts` seconds; the writer that
holds the stream has said in a hello that it knows of the effect; every earlier receipt of the
stream is gone. The first has to be longer than a sender goes on trying. The second sees to it that
a sender that has not heard the answer, however long it was away, still gets the receipt.

What is gone leaves the stream's `floor`: the latest time of an event among all that was dropped.
An event of an unknown task that is not later than that is refused as `forgotten`. It may be one
that was never delivered; whether it was can no longer be told, and so it is not done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .clock import SECOND
from .desk import Job
from .keeping import Held, Session

KEEP_RECEIPTS_SECONDS = 90 * 86_400
AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Keep:
    """How long things are kept, in seconds. `events` None: as long as the receipts."""

    events: int | None = None
    receipts: int = KEEP_RECEIPTS_SECONDS


def tidy(run: Callable[[Job], Any], keep: Keep) -> None:
    """Go through all streams; a bounded amount in each transaction, so that deliveries go on."""
    names = run(Job("", lambda session: session.streams()))
    for name in names if isinstance(names, list) else []:

        def step(session: Session, name: str = name) -> bool:
            return tidy_stream(session, name, keep)

        while run(Job(name, step)) is True:
            pass


def tidy_stream(session: Session, name: str, keep: Keep) -> bool:
    """Drop what is old of one stream. Whether there is more."""
    held = session.held(name)
    if held is None:
        return False
    now = session.now()
    stream = held.stream
    old = [
        age
        for age in _older(session, held, stream.forgotten, now - keep.receipts * SECOND)
        if age[0] <= stream.heard
    ]
    if old:
        last = old[-1][0]
        session.drop_receipts(held, last)
        stream = replace(
            stream,
            forgotten=last,
            emptied=max(stream.emptied, last),
            floor=max(stream.floor, *(event_time for *_, event_time in old)),
        )
    full = []
    if keep.events is not None:
        full = _older(session, held, stream.emptied, now - keep.events * SECOND)
    if full:
        session.drop_events(held, stream.emptied, full[-1][0])
        stream = replace(stream, emptied=full[-1][0])
    if stream != held.stream:
        session.put(name, stream)
    return len(old) == AT_ONCE or len(full) == AT_ONCE


def _older(session: Session, held: Held, after: int, than: int) -> list[tuple[int, int, str]]:
    """The receipts after a position up to the first that is young: a clock may have gone back."""
    found = []
    for age in session.ages(held, after, AT_ONCE):
        if age[1] >= than:
            break
        found.append(age)
    return found
