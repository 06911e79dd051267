"""A database that orders text by the rules of a language behaves as one that goes by bytes."""

from __future__ import annotations

import json
import os
import random
import re
from contextlib import contextmanager, suppress

import psycopg
from helpers import postgres
from helpers.lab import SCOPE, START

import fencepost
from fencepost import commands as c
from fencepost.clock import FakeClock
from fencepost.commands import Request
from fencepost.engine import SystemDraw
from fencepost.storage import reading
from fencepost.storage.postgres import talk

# By bytes: B < Z < _x < a < b; by a language a < B < b < Z, and other signs count for little.
NAMES = ["b", "Z", "a", "B", "_x", "a-b", "ab", "a.c"]


def opened(url):
    draw = SystemDraw(random.Random(5).randbytes)
    return fencepost.open(url, scope=SCOPE, create=True, clock=FakeClock(START), draw=draw)


OTHERS = """
    select count(*) from pg_collation
    where (collprovider = 'i' and collname <> 'unicode')
        or (collprovider = 'c' and collname like 'en\\_%')
"""


@contextmanager
def elsewhere():
    """The URL of a database whose text is ordered as in English; None where the server has no
    such order."""
    name = f"fencepost_in_english_{os.getpid()}"
    ways = ("locale_provider icu icu_locale 'en-US' locale 'C'", "locale 'en_US.UTF-8'")
    for way in ways:
        with suppress(psycopg.Error):
            postgres.admin(f"create database {name} template template0 {way} encoding 'UTF8'")
            break
    else:
        assert postgres.admin(OTHERS) == [(0,)]
        yield None
        return
    try:
        yield postgres.server_url(name)
    finally:
        postgres.admin(f"drop database {name} with (force)")


def told(url):
    """What a small history with such names answers, and what is listed then."""
    with opened(url) as fp:
        for name in NAMES:
            fp.queue_set(f"q{name}", max_attempts=3)
            fp.as_caller("ann", scope=f"s{name}").enqueue(name, {"in": name}, key=name)
            fp.token_create(f"w{name}", "worker")
        tasks = tuple(c.NewTask({"key": name}, key=name) for name in NAMES)
        fp.execute([Request.of(c.Enqueue("keyed", tasks), name) for name in NAMES])
        leases = fp.claim("keyed", worker_id="w", limit=20)
        for lease in leases:
            lease.complete({"of": lease.payload})
        store = fp._store
        return (
            [lease.payload["key"] for lease in leases],
            store.read(reading.scope_names()),
            [row["queue"] for row in store.read(reading.counts(SCOPE, fp.now()))],
            [token.actor for token in store.read(reading.tokens_of_scope(SCOPE))],
            [json.loads(view.body)["verb"] for view in fp.entries()],
            fp.verify().problems,
        )


def test_a_database_in_another_language_answers_alike():
    with elsewhere() as url, postgres.database() as plain:
        if url is None:
            return
        with psycopg.connect(url) as connection:
            ordered = connection.execute("select 'a' < 'B', 'B' < 'a' collate \"C\"")
            assert ordered.fetchone() == (True, True)
        assert told(url) == told(plain)


def test_every_column_of_text_is_compared_by_its_bytes():
    with postgres.database() as url, opened(url), psycopg.connect(url) as connection:
        others = connection.execute(
            "select c.relname, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid "
            "where starts_with(c.relname, 'fencepost_') and c.relkind in ('r', 'i') "
            "and a.attcollation <> 0 and a.attcollation <> 'pg_catalog.\"C\"'::regcollation"
        )
        assert others.fetchall() == []


def test_every_order_of_what_comes_in_is_by_bytes():
    """An array's text has the database's language: what is inserted in the order of names says
    which order that is."""
    for name, sql in talk.STATEMENTS.items():
        for column in re.findall(r"v\.(?:scope|queue|key)\b(?! (?:collate|=))", sql):
            assert not re.search(rf"order by[^;]*{re.escape(column)}(?! collate)\b", sql), name
