"""Which server writes: recognised anew after a start, a promotion, a restore, a copy.

Nothing that can be read in a database tells two copies of it apart, but some things change with
each fork (distributed.md of the design): the server's start time, its timeline, the database's
oid, the cluster's identifier. Each transaction that changes something compares them with what
the store's row says; where they differ a new epoch and a random incarnation are minted before
the first fence is drawn.

An ordinary restart changes the start time alone. Which epoch and floor come next, and why:
`fencepost/lineage.py`, `following`.
"""

from __future__ import annotations

from typing import Any

from fencepost.lineage import COPIED, SERVERS, STARTED, following
from fencepost.log import Log
from fencepost.record import dataclass
from fencepost.storage.postgres.driver import STATEMENTS, Connection, rows

log = Log("fencepost.storage")
COPIES = SERVERS
"""Changes that only a copy brings about; deliveries stop. A standby that takes over goes on."""


@dataclass(frozen=True, slots=True)
class Server:
    """What one server says of itself, and an incarnation drawn for it."""

    system_identifier: int
    timeline: str
    database_oid: int
    started_at: Any
    incarnation: Any

    def columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def server(connection: Connection) -> Server:
    """Who answers here. On a standby it fails: nothing may be written there."""
    return Server(*_rows(connection, "server")[0])


def recognise(
    connection: Connection, wall: int, named: str | None = None, heard: int = 0
) -> None:
    """A new epoch if this is not the server that has written last, or somebody has `named` why;
    then above every epoch that was `heard` of. One winner."""
    with connection.transaction():
        _rows(connection, "settings")
        _rows(connection, "hold_alone")
        ((*known, epoch, floor),) = _rows(connection, "known_server")
        found = server(connection)
        why = named or changed(known, found)
        if why is None:
            return
        before = floor
        epoch, floor = following(why, max(epoch, heard), floor)
        if floor != before:
            _rows(connection, "end_leases", now=wall, floor=floor)
        if named is not None or why in COPIES:
            _rows(connection, "stop_destinations", why=named or COPIED)
        _rows(connection, "raise_fences", least=epoch << 32)
        _rows(connection, "raise_numbers")
        _rows(connection, "recognise", epoch=epoch, floor=floor, **found.columns())
        remember(connection, epoch, why, found, wall)
    log.warning("another server writes (%s): epoch %d, floor %d", why, epoch, floor)


def changed(known: list[Any], found: Server) -> str | None:
    """What tells this server from the one that has written last; None if nothing does."""
    system_identifier, timeline, database_oid, started_at = known
    if system_identifier != found.system_identifier:
        return COPIES[0]
    if database_oid != found.database_oid:
        return COPIES[1]
    if timeline != found.timeline:
        return "another timeline"
    return None if started_at == found.started_at else STARTED


def remember(connection: Connection, epoch: int, why: str, found: Server, wall: int) -> None:
    """The lineage: every writer that was recognised, with its epoch."""
    _rows(connection, "insert_writer", epoch=epoch, why=why, recognised_at=wall, **found.columns())


def _rows(connection: Connection, name: str, **values: Any) -> list[tuple[Any, ...]]:
    return rows(connection, STATEMENTS[name], **values)
