"""Connections to PostgreSQL: by one URL, without session state, each step of a commit bounded."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from socket import SHUT_RDWR, socket

import psycopg

from fencepost.issues import InvalidRequest, Unavailable
from fencepost.storage.address import FORM, Address
from fencepost.storage.postgres.driver import Connection, link_of, text_of

IDLE = psycopg.pq.TransactionStatus.IDLE
OLDEST_SERVER = 140_000
STANDBY = "is a standby, which takes no work; name the primary, or every host with commas between"


def connect(address: Address) -> Connection:
    """A connection in autocommit. Raises Unavailable or InvalidRequest, without a word of the
    password."""
    try:
        # What is prepared is ours (talk.py). psycopg prepares nothing beside it: it would clear
        # away all that is prepared, ours too, when it sees a rollback
        connection = psycopg.connect(address.conninfo, autocommit=True, prepare_threshold=None)
    except psycopg.ProgrammingError as error:  # libpq cannot read it, and would show what it read
        known = text_of(error).startswith("invalid URI query parameter")
        why = text_of(error) if known else FORM
        raise InvalidRequest(f"the URL cannot be read: {why}") from None
    except psycopg.Error as error:
        raise Unavailable(f"{address.shown} cannot be reached: {_why(error)}") from None
    try:
        _check(connection, address)
    except BaseException:
        connection.close()
        raise
    link_of(connection, prepares=not address.pooled)
    return connection


def ended(connection: Connection) -> bool:
    """Whether it is of no use any more. An idle one on which something has come in, and then no
    more, was ended by the server: better learnt before a command is sent than by its failure."""
    idle = connection.info.transaction_status == IDLE
    if connection.closed or not idle or not hasattr(select, "poll"):
        return connection.closed
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    try:
        while poll.poll(0):
            connection.pgconn.consume_input()
    except psycopg.Error:
        connection.close()
    return connection.closed


def cut(connection: Connection) -> None:
    """End a connection that another thread waits on: it hears that at once, whatever the server
    does. One that is frozen says nothing, and nobody else would end the wait."""
    with suppress(OSError, psycopg.Error), socket(fileno=os.dup(connection.fileno())) as own:
        own.shutdown(SHUT_RDWR)


def _why(error: psycopg.Error) -> str:
    """What libpq says of it, save what is the same each time."""
    text = text_of(error).removeprefix("connection failed: ")
    if "session is read-only" in text:
        return "none of these servers takes writes; see which one is the primary"
    return text


def _check(connection: Connection, address: Address) -> None:
    """Raises Unavailable for a server that can be no store's."""
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise Unavailable(f"{address.shown} is PostgreSQL {version // 10_000}; 14 is the oldest")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):
        raise Unavailable(f"{address.shown} has the encoding {encoding}; a store needs UTF8")
    if connection.info.parameter_status("in_hot_standby") == "on":
        raise Unavailable(f"{address.shown} {STANDBY}")
