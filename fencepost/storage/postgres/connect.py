"""Connections to PostgreSQL: by one URL, without session state, each step of a commit bounded."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from fencepost.issues import InvalidRequest, Unavailable
from fencepost.record import dataclass
from fencepost.storage.postgres.driver import Connection, text_of

OLDEST_SERVER = 140_000
CONNECT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is: psycopg's conninfo, what may be told of it, and whether a pooler in
    transaction mode stands before it (`?pooled=1`: then nothing is prepared)."""

    conninfo: str
    shown: str
    pooled: bool


def address_of(url: str) -> Address:
    """What a URL names. Raises InvalidRequest for one that libpq does not take."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    pooled = [value for name, value in options if name == "pooled"]
    if pooled and pooled != ["1"]:
        raise InvalidRequest("the URL's pooled may only be 1: a pooler in transaction mode")
    kept = urlencode([pair for pair in options if pair[0] != "pooled"])
    conninfo = urlunsplit((parts.scheme, parts.netloc, parts.path, kept, ""))
    try:
        found = conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        raise InvalidRequest(f"the URL cannot be read: {text_of(error)}") from None
    place = f"{found.get('host') or 'local'}:{found.get('port') or 5432}"
    shown = f"postgresql://{place}/{found.get('dbname') or found.get('user') or ''}"
    return Address(conninfo, shown, bool(pooled))


def connect(address: Address) -> Connection:
    """A connection in autocommit. Raises Unavailable, without a word of the password."""
    options: dict[str, Any] = (
        {} if "connect_timeout" in address.conninfo else {"connect_timeout": CONNECT_SECONDS}
    )
    try:
        connection = psycopg.connect(
            address.conninfo, autocommit=True,
            prepare_threshold=None if address.pooled else 2, **options,
        )  # fmt: skip
    except psycopg.Error as error:
        raise Unavailable(f"{address.shown} cannot be reached: {text_of(error)}") from None
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        connection.close()
        raise Unavailable(f"{address.shown} is PostgreSQL {version // 10_000}; 14 is the oldest")
    return connection
