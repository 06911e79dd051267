"""Both ends of a delivery for tests: a sender that says what it is told, a receiver with eyes."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg

from fencepost.receiver import Receiver, SqliteStore, signing, wire
from fencepost.receiver.chain import START, next_head
from fencepost.receiver.postgres import PostgresStore
from helpers import postgres
from helpers.receivers import SECRET

OTHER_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
KEY = signing.secret_bytes(SECRET)
STREAM = "11111111-1111-7111-8111-111111111111/default/out"
START_US = 1_800_000_000_000_000
DAY = 86_400


@contextmanager
def place_of(kind: str, folder: Path, **options: Any) -> Iterator[Place]:
    """A fresh receiver on a store of the kind, closed at the end."""
    with ExitStack() as stack:
        where = str(folder / "effects.db")
        if kind == "postgres":
            where = stack.enter_context(postgres.database())
        place = Place(kind, where, **options)
        stack.callback(place.close)
        yield place


def incarnation(number: int) -> str:
    """A UUID that says which it is."""
    return f"00000000-0000-4000-8000-{number:012x}"


def task(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"


@dataclass(frozen=True)
class Sent:
    """One request: what is signed, and what it is."""

    id: str
    body: bytes
    content_type: str = wire.EVENT_TYPE
    operation: str = ""
    data_sha256: bytes = b""

    def headers(self, seconds: int, key: bytes = KEY) -> dict[str, str]:
        signed = signing.sign([key], self.id, seconds, self.body)
        return {"content-type": self.content_type, **signed}


@dataclass
class Sender:
    """A writer of a store; `copied` is another one that knows what this one knows."""

    epoch: int = 1
    incarnation: str = incarnation(1)
    lineage: tuple[tuple[int, str], ...] = ()
    stream: str = STREAM
    sequence: int = 0
    head: bytes = START
    hellos: int = 0

    def __post_init__(self) -> None:
        own = (self.epoch, self.incarnation)
        if self.lineage[-1:] != (own,):
            self.lineage = (*self.lineage, own)

    def copied(self, epoch: int, incarnation: str) -> Sender:
        return replace(self, epoch=epoch, incarnation=incarnation)

    def event(
        self,
        number: int = 1,
        revision: int = 1,
        fence: int = 1,
        *,
        epoch: int | None = None,
        kind: str = "result",
        round: int = 1,
        ordered: bool = False,
        value: Any = None,
        time: str = "2027-01-01T00:00:00.000000Z",
        **members: Any,
    ) -> Sent:
        """A task's result, or another outcome. `members` stand in the event as they are given;
        None takes one out."""
        epoch = self.epoch if epoch is None else epoch
        data = {
            "task_id": task(number), "queue": "pages", "epoch": epoch, "fencing_token": fence,
            "revision": revision, "result": value, "result_sha256": "0" * 64, "final": True,
        }  # fmt: skip
        if kind == "result":
            operation = wire.result_operation(task(number), revision)
        else:
            operation = wire.outcome_operation(task(number), round, fence, kind)
        event: dict[str, Any] = {
            "specversion": "1.0", "id": f"msg_{uuid.uuid5(uuid.NAMESPACE_OID, operation)}",
            "source": wire.SOURCE + self.stream, "type": wire.TYPES[kind],
            "subject": f"pages/{task(number)}", "time": time,
            "datacontenttype": "application/json", "fpwriterepoch": str(self.epoch),
            "fpincarnation": self.incarnation, "fpepoch": str(epoch), "fpfence": str(fence),
            "fprevision": str(revision), "fpoperation": operation, "data": data,
        }  # fmt: skip
        if ordered:
            event["sequence"] = wire.sequence_text(self.sequence + 1)
            event["fpprevious"] = self.head.hex()
        event = {name: v for name, v in {**event, **members}.items() if v is not None}
        digest = hashlib.sha256(wire.canonical(data)).digest()
        return Sent(event["id"], wire.canonical(event), operation=operation, data_sha256=digest)

    def delivered(self, sent: Sent) -> None:
        """An ordered delivery has its effect: the chain goes on."""
        self.sequence += 1
        self.head = next_head(self.head, self.sequence, sent.operation, sent.data_sha256)

    def hello(self, **members: Any) -> Sent:
        """An announcement. `members` as in `event`."""
        self.hellos += 1
        hello = {
            "hello": 1, "stream": self.stream, "epoch": self.epoch,
            "incarnation": self.incarnation, "lineage": [list(pair) for pair in self.lineage],
            "after": 0, "limit": 1000, "sequence": self.sequence,
            "head": self.head.hex() if self.sequence else None,
        }  # fmt: skip
        hello = {name: v for name, v in {**hello, **members}.items() if v is not None}
        return Sent(f"hello_{self.epoch}_{self.hellos}", wire.canonical(hello), wire.HELLO_TYPE)


@dataclass
class Said:
    """An answer, read."""

    status: int
    body: bytes
    headers: dict[str, str]
    value: dict[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """`accepted`, `replayed`, `ok`, or the code of a refusal."""
        if self.status != 200:
            return str(self.value["code"])
        return "replayed" if wire.REPLAYED in self.headers else str(self.value["status"])


class Closing(sqlite3.Connection):
    """A connection that is closed at the end of its block."""

    def __exit__(self, *error: Any) -> Any:
        super().__exit__(*error)
        self.close()
        return False


class Place:
    """A receiver on a store of its kind; its effects are rows of a table `effect`."""

    def __init__(self, kind: str, where: str, **options: Any) -> None:
        self.kind, self.where, self.now = kind, where, START_US
        self.options = options
        self.before: Callable[[Any, Any], object] = lambda connection, event: None
        self.after: Callable[[Any, Any], object] = lambda connection, event: None
        with self.eyes() as eyes:
            eyes.execute("create table if not exists effect (operation text, data text)")
            eyes.commit()
        self.receiver = self.open()

    def eyes(self) -> Any:
        if self.kind == "postgres":
            return psycopg.connect(self.where)
        return sqlite3.connect(self.where, factory=Closing)

    def store(self) -> Any:
        return PostgresStore(self.where) if self.kind == "postgres" else SqliteStore(self.where)

    def open(self, **options: Any) -> Receiver:
        """Another receiver on the same store: as after a restart, or in another process."""
        given = {"secrets": [SECRET], "now": lambda: self.now, **self.options, **options}
        return Receiver(self.store(), self.effect, **given)

    def effect(self, connection: Any, event: Any) -> None:
        self.before(connection, event)
        mark = "%s" if self.kind == "postgres" else "?"
        connection.execute(
            f"insert into effect values ({mark}, {mark})", (event.operation, event.data.decode())
        )
        self.after(connection, event)

    def send(self, sent: Sent, receiver: Receiver | None = None, key: bytes = KEY) -> Said:
        seconds = self.now // 1_000_000
        answer = (receiver or self.receiver).handle(sent.headers(seconds, key), sent.body)
        return Said(answer.status, answer.body, dict(answer.headers), json.loads(answer.body))

    def pass_time(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)

    def effects(self) -> list[str]:
        """The operations that have their effect, in the order of their names."""
        with self.eyes() as eyes:
            found = eyes.execute("select operation from effect order by operation").fetchall()
        return [operation for (operation,) in found]

    def count(self, table: str) -> int:
        with self.eyes() as eyes:
            ((number,),) = eyes.execute(f"select count(*) from {table}").fetchall()
        return int(number)

    def close(self) -> None:
        self.receiver.close()
