"""`python -m fencepost.receiver`: a real receiver in one command, and a look into its store."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from . import forgetting, signing
from .answers import Answer
from .keeping import Session
from .receiver import Receiver
from .secretfile import SecretFile
from .serving import Server
from .sqlite import SqliteStore
from .store import Store, Unavailable, statements
from .wire import REPLAYED, Event

EFFECTS = statements("effects.sql")
TIDY_SECONDS = 3_600
EXAMPLES = """examples:
  python -m fencepost.receiver new-secret > secret
  python -m fencepost.receiver --store effects.db --secret-file secret --port 8788
  python -m fencepost.receiver accepted --store effects.db
  python -m fencepost.receiver drop STREAM OPERATION --store effects.db
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 for bad usage, 6 where the store cannot be used."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    verbs: dict[str, Callable[[list[str]], int]] = {
        "accepted": accepted, "drop": drop, "new-secret": new_secret,
    }  # fmt: skip
    verb = verbs.get(given[0]) if given else None
    try:
        return verb(given[1:]) if verb else serve(given)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        return _fail(error, 2)
    except (Unavailable, sqlite3.Error) as error:
        return _fail(error, 6)


def _fail(error: BaseException, code: int) -> int:
    sys.stderr.write(f"receiver: {_shown(str(error))}\n")
    return code


def _shown(text: str) -> str:
    """What comes from elsewhere is shown, not sent to the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _parser(verb: str, what: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"python -m fencepost.receiver{verb}",
        description=what,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def new_secret(arguments: list[str]) -> int:
    """Print a fresh secret."""
    _parser(" new-secret", "Print a fresh secret.").parse_args(arguments)
    sys.stdout.write(signing.new_secret() + "\n")
    return 0


def serve(arguments: list[str]) -> int:
    """Serve until Ctrl-C."""
    parser = _parser("", "Take deliveries, write each effect into the table receiver_effect.")
    add = parser.add_argument
    add("--store", required=True, help="a SQLite file, or postgresql://…")
    add("--secret-file", required=True, type=Path, help="a secret a line, the newest first")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8788, help="0: any that is free")
    add("--name", default="receiver", help="stands in every receipt (default: receiver)")
    add("--no-adopt", action="store_true", help="no stream is handed to a writer without lineage")
    add("--keep-events-seconds", type=int, help="keep the data of events no longer than this")
    add("--keep-receipts-seconds", type=int, default=forgetting.KEEP_RECEIPTS_SECONDS)
    add("--quiet", action="store_true", help="do not print the effects")
    options = parser.parse_args(arguments)
    store, dialect = _opened(options.store)
    store.connection.execute(EFFECTS[f"make_{dialect}"])
    receiver = Receiver(
        store,
        partial(_effect, EFFECTS[f"add_{dialect}"]),
        SecretFile(options.secret_file),
        name=options.name,
        allow_adopt=not options.no_adopt,
        keep_events_seconds=options.keep_events_seconds,
        keep_receipts_seconds=options.keep_receipts_seconds,
    )
    told = (lambda answer: None) if options.quiet else _tell
    asyncio.run(_serve(receiver, told, options.host, options.port))
    return 0


async def _serve(
    receiver: Receiver, told: Callable[[Answer], object], host: str, port: int
) -> None:
    server = Server(receiver, told)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    port = await server.start(host, port)
    _say(f"listening on http://{host}:{port}")

    def tidy() -> None:
        receiver.tidy(lambda job: receiver.desk.carry_out([job])[0])
        loop.call_later(TIDY_SECONDS, tidy)

    tidy()
    await ended.wait()
    await server.stop()
    _say("stopped: what was answered is in the store")


def _tell(answer: Answer) -> None:
    """A line an answer, once it is certain."""
    body = json.loads(answer.body)
    if answer.status != 200:
        _say(f"refused   {body.get('code')} ({answer.status})")
    elif "operation" not in body:
        _say(f"hello     epoch {body['epoch']}, {body['position']} effects here")
    else:
        how = "replayed " if REPLAYED in answer.headers else "accepted "
        fence = f"fence {body['fence']}, position {body['position']}"
        _say(f"{how} {body['type']} {body['subject']} revision {body['revision']}, {fence}")


def _say(line: str) -> None:
    """To whoever reads. That nobody does is no reason to stop."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(_shown(line) + "\n")
        sys.stdout.flush()


def accepted(arguments: list[str]) -> int:
    """List what was accepted, one JSON object a line."""
    parser = _parser(" accepted", "List what was accepted: one JSON object a line, by stream.")
    parser.add_argument("--store", required=True)
    parser.add_argument("--name", help="of the receiver (default: all in the store)")
    parser.add_argument("--stream", help="this stream alone")
    parser.add_argument("--events", action="store_true", help="with the data of each event")
    options = parser.parse_args(arguments)
    for session, stream in _sessions(options.store, options.name):
        if options.stream in (None, stream):
            _list(session, stream, options.events)
    return 0


def _list(session: Session, stream: str, events: bool) -> None:
    held, after, more = session.read(stream), 0, True
    while held and more:
        found, more = session.accepted(held, after, 1_000)
        for one in found:
            line = json.loads(one.receipt)
            after = line["position"]
            if events:
                line["event"] = None if one.event is None else json.loads(one.event)
            sys.stdout.write(json.dumps(line) + "\n")


def drop(arguments: list[str]) -> int:
    """Forget what was in one event."""
    parser = _parser(" drop", "Forget the data of one event. Its receipt and its effect stay.")
    parser.add_argument("stream")
    parser.add_argument("operation")
    parser.add_argument("--store", required=True)
    parser.add_argument("--name", help="of the receiver (default: all in the store)")
    options = parser.parse_args(arguments)
    dropped = 0
    for session, stream in _sessions(options.store, options.name):
        if stream == options.stream:
            session.store.begin()
            session.hold([stream])
            held = session.held(stream)
            dropped += session.drop_event(held, options.operation) if held else 0
            session.store.commit()
    if not dropped:
        raise ValueError("no event of this stream and operation has its data here")
    _say(f"dropped: the data of {options.operation}")
    return 0


def _sessions(address: str, name: str | None) -> Iterator[tuple[Session, str]]:
    """Each receiver's streams in a store that is there."""
    if not address.startswith("postgres") and not Path(address).is_file():
        raise ValueError(f"{address} is no file")
    store, _ = _opened(address)
    try:
        names = [name] if name else [row[0] for row in store.rows("list_receivers")]
        for receiver in names:
            session = Session(store, receiver, lambda: 0)
            for stream in session.streams():
                yield session, stream
    finally:
        store.close()


def _opened(address: str) -> tuple[Store, str]:
    """The store, open, and its dialect."""
    if not address.startswith(("postgres://", "postgresql://")):
        file = SqliteStore(address)
        file.open()
        return file, "sqlite"
    try:
        from .postgres import PostgresStore
    except ImportError:
        raise ValueError(
            "a store on PostgreSQL needs psycopg: pip install psycopg[binary]"
        ) from None
    server = PostgresStore(address)
    server.open()
    return server, "postgres"


def _effect(statement: str, connection: Any, event: Event) -> None:
    fields = ("stream", "operation", "kind", "subject", "epoch", "fence", "revision", "data")
    connection.execute(statement, {name: getattr(event, name) for name in fields})


if __name__ == "__main__":
    sys.exit(main())
