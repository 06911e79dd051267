"""Places of deliveries that are not HTTP, for the tests: events to send there by hand, a bucket on
a real server, what became of a table."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg

from fencepost import destinations
from fencepost.deliveries.event import Event, Turn, Voice, event_of
from fencepost.deliveries.places import Place, sender_of

TASK = "01900000-0000-7000-8000-{:012d}"
OBLIGATION = "01910000-0000-7000-8000-{:012d}"
VOICE = Voice("w/default/out", 0, "01920000-0000-7000-8000-000000000000")


def event(
    number: int = 1, *, revision: int = 1, fence: int = 7, epoch: int = 0, outcome: str = "result",
    round_: int = 1, result: Any = None, voice: Voice = VOICE, turn: Turn | None = None,
) -> Event:  # fmt: skip
    """What is sent for a result, or for another outcome."""
    about = {
        "at": "2026-11-30T12:00:00.000000Z", "queue": "pages", "task_id": TASK.format(number),
        "outcome": outcome, "epoch": epoch, "fencing_token": fence, "revision": revision,
    }  # fmt: skip
    if outcome == "result":
        about |= {"result": {"n": number} if result is None else result}
    else:
        about |= {"round": round_}
    payload = json.dumps(about, sort_keys=True, separators=(",", ":")).encode()
    return event_of(OBLIGATION.format(number), payload, voice, turn)


def place(address: str, class_: str, *, secrets: tuple[str, ...] = (), **options: Any) -> Place:
    """A destination as a sender is given it."""
    return Place(address, class_, destinations.complete(options), secrets)  # type: ignore[arg-type]


def sender(address: str, class_: str, **options: Any) -> Any:
    """The sender to there, by the system's clock."""
    return sender_of(place(address, class_, **options), time.time)


def rows(address: str, columns: str = "task_id, outcome, revision, data") -> list[tuple[Any, ...]]:
    """What stands in the table of a destination; nothing where there is none yet."""
    where, _, table = address.partition("#")
    order = "order by epoch, fence, revision, task_id"
    statement = f"select {columns} from {table} {order}"
    if where.startswith("sqlite:"):
        with contextlib.closing(sqlite3.connect(where.removeprefix("sqlite:"))) as own:
            return own.execute(statement).fetchall()
    with psycopg.connect(where) as connection:
        return connection.execute(statement).fetchall()  # type: ignore[arg-type]


def execute(address: str, statement: str) -> list[tuple[Any, ...]]:
    """Run one statement in the database of a destination."""
    where = address.partition("#")[0]
    if where.startswith("sqlite:"):
        with contextlib.closing(sqlite3.connect(where.removeprefix("sqlite:"))) as own, own:
            return own.execute(statement).fetchall()
    with psycopg.connect(where, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


class Bucket:
    """A bucket on moto's server, a process's worth of S3 over real HTTP."""

    NAME = "effects"

    def __init__(self, port: int) -> None:
        import boto3

        self.endpoint = f"http://127.0.0.1:{port}"
        self.client = boto3.client(
            "s3", endpoint_url=self.endpoint, region_name="us-east-1",
            aws_access_key_id="id", aws_secret_access_key="word",
        )  # fmt: skip
        self.client.create_bucket(Bucket=self.NAME)

    def objects(self) -> dict[str, bytes]:
        """All that is in it."""
        found = self.client.list_objects_v2(Bucket=self.NAME).get("Contents", [])
        return {each["Key"]: self.read(each["Key"]) for each in found}

    def read(self, name: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=self.NAME, Key=name)["Body"].read()
        return body

    def write(self, name: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.NAME, Key=name, Body=body)

    def empty(self) -> None:
        for name in self.objects():
            self.client.delete_object(Bucket=self.NAME, Key=name)


@contextlib.contextmanager
def bucket() -> Iterator[Bucket]:
    """A server with an empty bucket."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Bucket(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
