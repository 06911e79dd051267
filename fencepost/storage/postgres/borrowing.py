"""An application's own psycopg connection, blocking or not, for our rows in its transaction.

Where its connection is in autocommit and nothing has begun, the block begins and commits. Else
the block is a savepoint of the application's transaction, and the commit stays the application's.
What we set for our statements is set for one command and then put back; only that the commit is
durable holds to the end of the transaction.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors, pq

from fencepost.clock import Clock
from fencepost.issues import InvalidRequest, OutcomeUnknown, Unavailable
from fencepost.record import dataclass
from fencepost.storage.port import AnotherServer, Conflict
from fencepost.storage.postgres.backing import PostgresBacking
from fencepost.storage.postgres.commit import commit, commit_async
from fencepost.storage.postgres.driver import STATEMENTS, explained, run, run_async
from fencepost.storage.steps import Steps, one, together

T = TypeVar("T")
IDLE, INTRANS, INERROR = (
    pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR,
)  # fmt: skip
# What is put back after each command.
SET = ["search_path", "client_encoding", *re.findall(r"config\('(\w+)", STATEMENTS["settings"])]
LOCK_MILLISECONDS = 15_000
OPEN = (psycopg.IsolationLevel.READ_COMMITTED, None)
ENDED = (
    "within: the transaction was ended inside the block; what was done before that stands, what "
    "came after is rolled back. Leave commit and rollback to the block"
)


@dataclass(frozen=True, slots=True)
class Home:
    """Where the store's own connection leads: cluster, database, start of the server, the schema
    as SQL writes it; and the store's secret."""

    cluster: int
    database: str
    started_at: int
    schema: str
    secret: bytes


class Lent(PostgresBacking):
    """Keeps `storage/port.py`'s Lent."""

    def __init__(
        self, connection: Any, where: str, clock: Clock | None, home: Callable[[], Home | None]
    ) -> None:
        super().__init__(where, clock)
        self.connection = connection
        self.ends = False  # whether the commit is the block's
        self._home = home
        self._schema = ""
        self._looked = False
        self._over = True
        self._before: list[tuple[str, str]] = []

    @property
    def _status(self) -> pq.TransactionStatus:
        return self.connection.info.transaction_status  # type: ignore[no-any-return]

    def begin(self) -> Steps[None]:
        self._check_connection()
        self._over = False
        idle = self._status == IDLE
        self.ends = idle and self.connection.autocommit
        asks = [one("begin_theirs")] if idle else []
        asks += [one("savepoint_block"), one("place_of_connection")]
        try:
            *_, (place,) = yield together(asks)
            self._check_place(*place)
        except Exception:
            if self._status in (INTRANS, INERROR):
                yield together([one("rollback")] if idle else self._undo("block"))
            self._over = True
            raise

    def _check_connection(self) -> None:
        status = self._status
        if self.connection.closed or status == pq.TransactionStatus.UNKNOWN:
            raise Unavailable("within: the connection is closed")
        if self.connection.pgconn.pipeline_status != pq.PipelineStatus.OFF:
            raise InvalidRequest("within: the connection is in pipeline mode; leave that first")
        if status not in (IDLE, INTRANS):
            raise InvalidRequest(
                "within: the connection's transaction has failed, or a statement of it still runs; "
                "end it first"
            )
        if status == IDLE and self.connection.isolation_level not in OPEN:
            raise InvalidRequest(isolation(self.connection.isolation_level.name))

    def _check_place(
        self, cluster: int, database: str, started_at: int, schema: str, level: str, read_only: str
    ) -> None:
        home = self._home()
        here = (cluster, database, started_at)
        if home is None or here != (home.cluster, home.database, home.started_at):
            if not self._looked:
                self._looked = True
                raise AnotherServer(f"{self.where}: is it this server?")
            raise InvalidRequest(f"within: the connection is not to {self.where}")
        if level != "read committed":
            raise InvalidRequest(isolation(level))
        if read_only == "on":
            raise InvalidRequest("within: the connection's transaction is read-only")
        self._secret, self._schema = home.secret, home.schema

    def check_going(self) -> None:
        status = self._status
        if status == INERROR:
            raise InvalidRequest(
                "within: a statement of the block has failed, and with it the transaction; what "
                "the block has done is rolled back"
            )
        if status == IDLE:
            raise InvalidRequest(ENDED)
        if status != INTRANS:
            raise Unavailable("within: the connection is closed, or a statement of it still runs")

    def mark(self, seconds: float) -> Steps[None]:
        """The store's tables are found whatever the application's search path says, and whatever
        temporary tables it has."""
        wait = max(1, min(LOCK_MILLISECONDS, int(seconds * 1_000)))
        settings = [
            ("search_path", f"{self._schema}, pg_temp"), ("client_encoding", "UTF8"),
            ("lock_timeout", f"{wait}ms"),
        ]  # fmt: skip
        _, self._before, *_ = yield together([
            one("savepoint_command"), one("current_settings", names=SET), one("settings"),
            one("set_settings", settings=settings),
        ])  # fmt: skip

    def unmark(self) -> Steps[None]:
        yield together([one("set_settings", settings=self._before), one("release_command")])

    def back(self) -> Steps[None]:
        """What was set is as it was, too."""
        yield together(self._undo("command"))

    def _undo(self, what: str) -> list[Any]:
        return [one(f"back_to_{what}"), one(f"release_{what}")]

    def again(self, error: BaseException) -> bool:
        if isinstance(error, psycopg.Error):
            error = explained(error, self.where)
        return isinstance(error, Conflict)

    def release(self) -> Steps[None]:
        try:
            yield together([one("release_block"), one("durable")])
        except (errors.InvalidSavepointSpecification, errors.NoActiveSqlTransaction) as error:
            raise InvalidRequest(ENDED) from error
        self._over = not self.ends

    def rollback(self) -> Steps[None]:
        if self._over or self._status not in (INTRANS, INERROR):
            return
        # where it is lost, or the application has ended it, nothing of the block is left
        with suppress(psycopg.Error, OSError):
            yield together([one("rollback")] if self.ends else self._undo("block"))

    def _explained(self, error: psycopg.Error) -> Exception:
        told = explained(error, self.where)
        return Unavailable(str(told)) if isinstance(told, Conflict) else told

    def _unknown(self, error: Exception) -> OutcomeUnknown:
        return OutcomeUnknown(f"{self.where}: {error} (while committing; it may have happened)")


class Borrowed(Lent):
    """On a blocking connection."""

    def __init__(self, connection: Any, *known: Any) -> None:
        if not isinstance(connection, psycopg.Connection):
            raise InvalidRequest(
                f"within: {type(connection).__name__} is not a psycopg.Connection"
                + (" (there is within_async)" if _is_async(connection) else "")
            )
        super().__init__(connection, *known)

    def run(self, steps: Steps[T]) -> T:
        try:
            return run(self.connection, steps)
        except psycopg.Error as error:
            raise self._explained(error) from error

    def commit(self) -> None:
        if self.ends:
            try:
                commit(self.connection)
            except (psycopg.Error, OSError) as error:
                raise self._unknown(error) from error


class BorrowedAsync(Lent):
    """On an asynchronous one."""

    def __init__(self, connection: Any, *known: Any) -> None:
        if not _is_async(connection):
            raise InvalidRequest(
                f"within_async: {type(connection).__name__} is not a psycopg.AsyncConnection"
            )
        super().__init__(connection, *known)

    async def run(self, steps: Steps[T]) -> T:
        try:
            return await run_async(self.connection, steps)
        except psycopg.Error as error:
            raise self._explained(error) from error

    async def commit(self) -> None:
        if self.ends:
            try:
                await commit_async(self.connection)
            except (psycopg.Error, OSError) as error:
                raise self._unknown(error) from error


def _is_async(connection: Any) -> bool:
    return isinstance(connection, psycopg.AsyncConnection)


def isolation(level: str) -> str:
    """Why a transaction of this level will not do."""
    return (
        f"within: the transaction is {level.lower().replace('_', ' ')}; ours has to see what "
        "others have committed meanwhile: use READ COMMITTED"
    )
