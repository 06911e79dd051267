"""What a store's address says, and what of it anybody may be told. Text alone: no driver is loaded.

A PostgreSQL URL may hold a password, so no message, log line or command to be pasted shows one
as it was given: `without_password` takes out what is secret, also where a URL is malformed and
nobody can say where its password ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.issues import InvalidRequest, Unavailable
from fencepost.record import dataclass

SCHEMES = ("postgresql://", "postgres://")
SECRET = {
    "password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key",
}  # fmt: skip
FORM = (
    "it is postgresql://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE, with each of @ : / ? # % and "
    "space in a name or password written as % and two hex digits (@ is %40)"
)
UNREADABLE = re.compile(r"[#\s\0]|%(?![0-9A-Fa-f]{2})|%00")
# What libpq is told unless the URL says otherwise (seconds; milliseconds): a network that has gone
# is noticed in half a minute, in place of a quarter of an hour.
DEFAULTS = {
    "connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}  # fmt: skip


def is_postgres(address: object) -> bool:
    """Whether this names a PostgreSQL database."""
    return type(address) is str and address.lower().startswith(SCHEMES)


@contextmanager
def psycopg_here() -> Iterator[None]:
    """Around an import of the PostgreSQL back end. Raises Unavailable where its driver is not."""
    try:
        yield
    except ImportError as error:
        raise Unavailable(
            f"PostgreSQL needs psycopg, which is not here ({error}): pip install "
            "'fencepost[postgres]'"
        ) from None


def without_password(address: str) -> str:
    """The address without what is secret in it; a path or another URL as it is."""
    if not is_postgres(address):
        return address
    scheme, rest = address.split("://", 1)
    userinfo, at, rest = rest.rpartition("@")
    head, query = _divided(rest)
    kept = [pair for pair in query if _name(pair) not in SECRET]
    user = userinfo.split(":", 1)[0]
    place, slash, database = head.partition("/")
    hosts = ",".join(
        one if _is_port(port := _port(one)) else one.removesuffix(f":{port}")
        for one in place.split(",")
    )
    return f"{scheme}://{user}{at}{hosts}{slash}{database}{'?' if kept else ''}{'&'.join(kept)}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is: what libpq is given, what may be told of it, whether a pooler in
    transaction mode stands before it (`?pooled=1`: then nothing is prepared), and whether who waits
    is woken by whoever commits (`?hints=1`)."""

    conninfo: str
    shown: str
    pooled: bool
    hints: bool = False


def address_of(url: str) -> Address:
    """What a URL names. Raises InvalidRequest, with nothing of a password in it, for one that
    libpq would read in another way than it is meant."""
    scheme, rest = url.split("://", 1)
    head, query = _divided(rest)
    authority, _, database = head.partition("/")
    place = authority.rpartition("@")[2]
    if "@" in database or authority.count("@") > 1 or any("@" in pair for pair in query):
        raise InvalidRequest(
            f"the URL cannot be read: there is an @ that is not before HOST; {FORM}"
        )
    if UNREADABLE.search(url) or any("=" not in pair for pair in query):
        raise InvalidRequest(f"the URL cannot be read; {FORM}")
    if not all(_is_port(_port(one)) for one in place.split(",")):
        raise InvalidRequest(f"the URL cannot be read: a port is 1 to 65535; {FORM}")
    pooled = _switch(query, "pooled", "a pooler in transaction mode")
    hints = _switch(query, "hints", "who waits is woken by whoever commits")
    if pooled and hints:
        raise InvalidRequest("the URL's hints need a session of their own: leave out pooled=1")
    kept = [pair for pair in query if _name(pair) not in ("pooled", "hints")]
    if "," in place and all(_name(pair) != "target_session_attrs" for pair in kept):
        kept.append("target_session_attrs=read-write")  # of several hosts the one that may write
    given = {_name(pair) for pair in kept}
    kept += [f"{name}={value}" for name, value in DEFAULTS.items() if name not in given]
    user = unquote(authority.rpartition("@")[0].partition(":")[0])
    conninfo = f"{scheme.lower()}://{head}?{'&'.join(kept)}"
    return Address(conninfo, _shown(place, unquote(database) or user, query), pooled, hints)


def _switch(query: list[str], name: str, meaning: str) -> bool:
    """Whether the URL says `name=1`. InvalidRequest for any other value."""
    given = [pair for pair in query if _name(pair) == name]
    if given and given != [f"{name}=1"]:
        raise InvalidRequest(f"the URL's {name} may only be 1: {meaning}")
    return bool(given)


def with_schema(url: str, name: str) -> str:
    """The same database, where names go to this schema. What else the URL says stays."""
    head, query = _divided(url)
    path = f"-csearch_path%3D{name}"
    for place, pair in enumerate(query):
        if _name(pair) == "options":
            query[place] = f"{pair}%20{path}"  # the last one counts
            break
    else:
        query.append(f"options={path}")
    return f"{head}?{'&'.join(query)}"


def _shown(place: str, database: str, query: list[str]) -> str:
    """The same text for the same store, however it is asked for: where, which database, and which
    schema of it. Who asks, how the way there is secured and which of several hosts is named first
    (after a fail-over, another) are left out."""
    named = {_name(pair): unquote(pair.partition("=")[2]) for pair in query}
    hosts = sorted(one if _port(one) else f"{one}:5432" for one in place.split(","))
    if not place:
        hosts = [f"{named.get('host', 'local')}:{named.get('port', '5432')}"]
    options = f"?options={named['options']}" if named.get("options") else ""
    return f"postgresql://{','.join(hosts)}/{named.get('dbname') or database}{options}"


def _divided(rest: str) -> tuple[str, list[str]]:
    head, _, query = rest.partition("?")
    return head, [pair for pair in query.split("&") if pair]


def _port(host: str) -> str:
    return host.rpartition("]")[2].partition(":")[2]


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdecimal() and 0 < int(text) < 65_536)


def unquote(text: str) -> str:
    """urllib's, loaded for a URL alone: every start of the command line comes by here."""
    from urllib.parse import unquote

    return unquote(text)


def _name(pair: str) -> str:
    return unquote(pair.partition("=")[0]).strip().lower()
