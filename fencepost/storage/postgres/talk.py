"""The conversation with a server: our statements as pipelines of libpq.

psycopg's cursors cost more than the round trips that a batch needs, and read rows as the
application has set them. So here are the protocol's own moves, as a generator that psycopg drives
for us, `connection.wait(…)`, in a blocking connection as in an asynchronous one. A statement is
prepared once for each connection of our own; on a borrowed one, and behind a pooler, never.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from psycopg import errors, generators, pq, waiting
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.postgres import register_default_adapters, types
from psycopg.types.array import register_all_arrays

from fencepost.record import dataclass
from fencepost.storage.postgres import arrays
from fencepost.storage.sqltext import statements
from fencepost.storage.steps import Ask, Steps

T = TypeVar("T")
Talk: TypeAlias = Generator[Any, Any, T]
TEXT, BINARY = pq.Format.TEXT, pq.Format.BINARY
# As psycopg reads by itself, whatever an application has registered with it.
_ADAPTERS = AdaptersMap(types=types)
register_default_adapters(_ADAPTERS)
register_all_arrays(_ADAPTERS)
PARAMETER = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as libpq takes it: `$1` for the first of `names`, whose arrays have `kinds`."""

    name: bytes
    sql: bytes
    names: tuple[str, ...]
    kinds: Mapping[str, str]


def _statement(name: str, text: str) -> Statement:
    names = tuple(dict.fromkeys(PARAMETER.findall(text)))
    sql = PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return Statement(f"fencepost_{name}".encode(), sql.encode(), names, arrays.kinds_of(text))


STATEMENTS: Mapping[str, str] = statements(
    "fencepost.storage.postgres", "queries.sql", "writes.sql", "forget.sql", "reads.sql",
    "verify.sql", "destinations.sql", "locks.sql",
)  # fmt: skip
_KNOWN = {name: _statement(name, text) for name, text in STATEMENTS.items()}


class Link:
    """Our side of one connection: what is prepared there, and what is to be said first."""

    def __init__(self, pgconn: pq.abc.PGconn, *, prepares: bool = False) -> None:
        self.pgconn = pgconn
        self.prepares = prepares
        self.prepared: set[bytes] = set()
        self.first: list[Ask] = []
        self.reader = Transformer(_ADAPTERS)


def talk(link: Link, steps: Steps[T]) -> Talk[T]:
    """Drive the steps to their end and return what they return."""
    try:
        ask = next(steps)
        while True:
            asks = [ask] if isinstance(ask, Ask) else ask.asks
            try:
                answers = yield from exchange(link, asks)
            except BaseException as error:  # noqa: BLE001  the steps may know what to do
                ask = steps.throw(error)
            else:
                ask = steps.send(answers[0] if isinstance(ask, Ask) else answers)
    except StopIteration as stop:
        result: T = stop.value
        return result


def exchange(link: Link, asks: list[Ask]) -> Talk[list[Any]]:
    """Ask these, and before them what is to be said first; their answers. psycopg.Error for the
    first that failed; none behind it was run."""
    first, link.first = link.first, []
    commands: list[Callable[[], None]] = []
    expected: list[tuple[Ask | None, bytes]] = []
    prepared = set(link.prepared)
    for ask in (*first, *asks):
        known = _KNOWN[ask.name]
        values = _values(known, ask)
        if values is None:  # a list is empty, and so is the answer
            continue
        if link.prepares and known.name not in prepared:
            prepared.add(known.name)
            commands.append(partial(link.pgconn.send_prepare, known.name, known.sql))
            expected.append((None, known.name))
        commands.append(_query(link, known, values))
        expected.append((ask, b""))
    results = yield from _pipeline(link.pgconn, commands)
    answers: dict[int, Any] = {}
    for (asked, name), result in zip(expected, results, strict=True):
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            raise errors.error_from_result(result)
        if asked is None:
            link.prepared.add(name)
        else:
            answers[id(asked)] = _answer(link, asked, result)
    return [answers.get(id(ask), 0 if ask.rows is not None else []) for ask in asks]


def _query(link: Link, known: Statement, values: list[bytes | None]) -> Callable[[], None]:
    formats = [BINARY if isinstance(v, (arrays.Encoded, _Blob)) else TEXT for v in values]
    if link.prepares:
        return partial(
            link.pgconn.send_query_prepared, known.name, values,
            param_formats=formats, result_format=BINARY,
        )  # fmt: skip
    return partial(
        link.pgconn.send_query_params, known.sql, values,
        param_formats=formats, result_format=BINARY,
    )  # fmt: skip


def _pipeline(pgconn: pq.abc.PGconn, commands: list[Callable[[], None]]) -> Talk[list[Any]]:
    """The last result of each command. One round trip, ended by a synchronisation point, and sent
    as one piece: psycopg's own loop sends and looks around after each command, which cost more
    than the commands."""
    pgconn.enter_pipeline_mode()
    try:
        for command in commands:
            command()
        pgconn.pipeline_sync()
        while pgconn.flush():  # not all of it has gone yet; the server may want to be heard first
            if (yield waiting.Wait.RW) & waiting.Ready.R:
                pgconn.consume_input()
        found = []
        for _ in (*commands, None):
            found.append((yield from generators.fetch_many(pgconn)))  # noqa: PERF401
        pgconn.exit_pipeline_mode()
    except BaseException:  # nobody could tell any more which answer is for what
        pgconn.finish()
        raise
    return [results[-1] for results in found[:-1]]


class _Blob(bytes):
    """Bytes that go as they are."""


def _values(known: Statement, ask: Ask) -> list[bytes | None] | None:
    """The parameters as libpq takes them; None where a list is empty."""
    given: dict[str, bytes | None] = {}
    if ask.rows is not None:
        if not ask.rows:
            return None
        given = _arrays(known.kinds, "c", zip(*ask.rows, strict=True))
    for name, value in ask.values.items():
        if type(value) is not list:
            given[name] = _scalar(value)
        elif not value:
            return None
        elif type(value[0]) is tuple:
            given.update(_arrays(known.kinds, f"{name}_", zip(*value, strict=True)))
        else:
            given[name] = arrays.encode(known.kinds[name], value)
    return [given[name] for name in known.names]


def _arrays(
    kinds: Mapping[str, str], prefix: str, columns: Iterable[Sequence[Any]]
) -> dict[str, bytes | None]:
    """One array a column: c1, c2 …"""
    names = ((f"{prefix}{place}", column) for place, column in enumerate(columns, start=1))
    return {name: arrays.encode(kinds[name], column) for name, column in names}


def _scalar(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, (bytes, bytearray)):
        return _Blob(value)
    return str(value).encode()


def _answer(link: Link, ask: Ask, result: pq.abc.PGresult) -> Any:
    """What a step is sent: rows, or for many rows how many were changed."""
    if ask.rows is not None:
        return result.command_tuples or 0
    if result.status != pq.ExecStatus.TUPLES_OK:
        return []
    link.reader.set_pgresult(result)
    return link.reader.load_rows(0, result.ntuples, tuple)
