"""What stands in the tables, to values and back; all within a transaction of the desk's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .answers import Accepted
from .chain import START
from .rules import Known, Newest, Stream
from .store import Store
from .wire import Event, Writer

PAGE, PAGE_BYTES = 50, 1024 * 1024
"""Receipts read at once, and about how long an answer to a hello may become."""


@dataclass(slots=True)
class Held:
    """A stream of this transaction, with the number of its row."""

    id: int
    stream: Stream


class Session:
    """A transaction: its streams are held, and written once at its end."""

    def __init__(self, store: Store, name: str, now: Callable[[], int]) -> None:
        self.store, self.name, self.now = store, name, now
        self._held: dict[str, Held] = {}
        self._changed: set[str] = set()

    def hold(self, streams: Iterable[str]) -> None:
        """Lock these, in the order given: everybody gives them sorted."""
        for stream in streams:
            for row in self._rows("hold_stream", receiver=self.name, stream=stream):
                self._held[stream] = _held(row)

    def streams(self) -> list[str]:
        """The names of all streams."""
        return [name for (name,) in self._rows("list_streams", receiver=self.name)]

    def read(self, stream: str) -> Held | None:
        """A stream as it is now, for who changes nothing."""
        rows = self._rows("read_stream", receiver=self.name, stream=stream)
        return _held(rows[0]) if rows else None

    def held(self, stream: str) -> Held | None:
        """A stream that was held, if there is one of the name."""
        return self._held.get(stream)

    def add(self, stream: str, writer: Writer) -> bool:
        """A stream that is held by this writer. False: another process has just added it; either
        way it is held here now."""
        added = self._rows(
            "add_stream",
            receiver=self.name,
            stream=stream,
            epoch=writer.epoch,
            incarnation=writer.incarnation,
            head=START,
        )
        self.hold([stream])
        return bool(added)

    def put(self, stream: str, value: Stream) -> None:
        """A stream that is held is so from now on."""
        self._held[stream].stream = value
        self._changed.add(stream)

    def save(self) -> None:
        """Write the streams that have changed."""
        for name in sorted(self._changed):
            held = self._held[name]
            self.store.later("put_stream", stream_id=held.id, **_columns(held.stream))

    @contextmanager
    def attempt(self) -> Iterator[Any]:
        """The connection, for an effect: all that is done in the block is kept, or nothing is."""
        self.store.savepoint()
        try:
            yield self.store.connection
        except BaseException:
            self.store.undo()
            raise
        self.store.release()

    def find(self, held: Held, event: Event) -> tuple[Known | None, Newest | None]:
        """The effect of this operation, and the latest one of its task and kind."""
        ((digest, receipt, *order, operation),) = self.store.look(
            "find_effect",
            stream_id=held.id,
            operation=event.operation,
            subject=event.subject,
            kind=event.kind,
        )
        known = None if digest is None else Known(bytes(digest), bytes(receipt))
        epoch, fence, revision, round = order
        newest = None if epoch is None else Newest((epoch, fence, revision, round), operation)
        return known, newest

    def record(
        self, held: Held, event: Event, receipt: bytes, position: int, now: int, keep: bool
    ) -> None:
        """The receipt, with the event's data if they are kept; and that this is now the latest of
        its task and kind."""
        self.store.later(
            "add_receipt",
            stream_id=held.id,
            position=position,
            operation=event.operation,
            data_sha256=event.data_sha256,
            receipt=receipt,
            event=event.data if keep else None,
            event_time=event.time,
            accepted_at=now,
        )
        self.store.later(
            "put_subject",
            stream_id=held.id,
            subject=event.subject,
            kind=event.kind,
            epoch=event.epoch,
            fence=event.fence,
            revision=event.revision,
            round=event.round,
            operation=event.operation,
            position=position,
        )

    def accepted(self, held: Held, after: int, limit: int) -> tuple[list[Accepted], bool]:
        """What was accepted after a position, and whether there is more than is listed here."""
        found: list[Accepted] = []
        size = 0
        while True:
            at_once = min(PAGE, limit - len(found)) + 1
            rows = self._rows("list_accepted", stream_id=held.id, after=after, limit=at_once)
            for position, receipt, event in rows[: at_once - 1]:
                one = Accepted(bytes(receipt), None if event is None else bytes(event))
                size += len(one.receipt) + len(one.event or b"")
                if found and size > PAGE_BYTES:
                    return found, True
                found.append(one)
                after = position
            if len(rows) < at_once or len(found) == limit:
                return found, len(rows) == at_once

    def ages(self, held: Held, after: int, limit: int) -> list[tuple[int, int, str]]:
        """Position, time of acceptance and time of the event, from the oldest receipt on."""
        rows = self._rows("list_ages", stream_id=held.id, after=after, limit=limit)
        return [(position, accepted_at, time) for position, accepted_at, time in rows]

    def drop_events(self, held: Held, after: int, position: int) -> None:
        """Forget what was in these events; the receipts stay."""
        self._rows("drop_events", stream_id=held.id, after=after, position=position)

    def drop_event(self, held: Held, operation: str) -> bool:
        """Forget what was in this event; the receipt stays. Whether there was anything."""
        return bool(self._rows("drop_event", stream_id=held.id, operation=operation))

    def drop_receipts(self, held: Held, position: int) -> None:
        """Forget the receipts up to here, and the tasks of which nothing later is known."""
        self._rows("drop_subjects", stream_id=held.id, position=position)
        self._rows("drop_receipts", stream_id=held.id, position=position)

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        return self.store.rows(name, **values)


def _held(row: tuple[Any, ...]) -> Held:
    number, epoch, incarnation, sequence, head, position, heard, forgotten, emptied, floor = row
    writer = Writer(epoch, incarnation)
    at = (position, heard, forgotten, emptied)
    return Held(number, Stream(writer, sequence, bytes(head), *at, floor))


def _columns(stream: Stream) -> dict[str, Any]:
    return {
        "epoch": stream.writer.epoch,
        "incarnation": stream.writer.incarnation,
        "sequence": stream.sequence,
        "head": stream.head,
        "position": stream.position,
        "heard": stream.heard,
        "forgotten": stream.forgotten,
        "emptied": stream.emptied,
        "floor": stream.floor,
    }
