# ruff: noqa: PT012, S102 - what raises is the whole block; what is run is the page's own text
"""docs/postgres-transactions.md, run: what stands there works, and commits and rolls back as it
says, with psycopg, SQLAlchemy and Django."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import psycopg
import pytest
from helpers.pg_app import laboratory
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

import fencepost
from fencepost.storage.postgres import borrowing

PAGE = Path(__file__).parent.parent / "docs/postgres-transactions.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def lab():
    with laboratory(clock=False) as made:
        made.fp = made.open(scope="default")
        made.sql("create table orders (id int primary key)")
        yield made
        made.sql("drop table orders")


def orders(lab):
    return [number for (number,) in lab.sql("select id from orders order by 1")]


def invoices(lab):
    return [lab.fp.task(task.task_id).payload["order"] for task in lab.fp.tasks("invoices")]


def dialect(url):
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


@pytest.fixture
def django(lab):
    """Django's own connection to the database; its settings are of the process."""
    from django import setup
    from django.conf import settings
    from django.db import connections

    facts = psycopg.conninfo.conninfo_to_dict(lab.url)
    database = {
        "ENGINE": "django.db.backends.postgresql", "NAME": facts["dbname"], "USER": facts["user"],
        "HOST": facts["host"], "PORT": str(facts.get("port", "")),
    }  # fmt: skip
    if not settings.configured:
        settings.configure(DATABASES={"default": database}, LOGGING_CONFIG=None)
        setup()
    connections.settings = connections.configure_settings({"default": database})
    yield connections["default"]
    connections["default"].close()
    del connections["default"]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_what_the_page_shows_commits_both_rows(lab, django, number):
    names = {"URL": lab.url}
    exec(EXAMPLES[number], names)
    if "settle" in names:
        asyncio.run(names["settle"]())
    names["fp"].close()
    if "engine" in names and "settle" not in names:
        names["engine"].dispose()
    assert len(orders(lab)) == 1
    assert invoices(lab) == orders(lab)


def test_the_page_has_a_recipe_for_each():
    joined = "".join(EXAMPLES)
    for used in ("psycopg.connect", "AsyncConnection", "create_engine", "create_async_engine",
                 "transaction.atomic"):  # fmt: skip
        assert used in joined


@pytest.mark.parametrize("first", ["the block", "a statement"])
def test_a_transaction_of_sqlalchemy_that_is_rolled_back_takes_the_block_along(lab, first):
    engine = create_engine(dialect(lab.url))
    with pytest.raises(ZeroDivisionError), engine.begin() as connection:
        if first == "a statement":
            connection.execute(text("insert into orders (id) values (1)"))
        with lab.fp.within(connection.connection.driver_connection) as tx:
            tx.enqueue("invoices", {"order": 1})
        connection.execute(text("insert into orders (id) values (2)"))
        raise ZeroDivisionError
    with Session(engine) as session:
        session.execute(text("insert into orders (id) values (3)"))
        with lab.fp.within(session.connection().connection.driver_connection) as tx:
            tx.enqueue("invoices", {"order": 3})
        session.commit()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        with lab.fp.within(connection.connection.driver_connection) as tx:
            tx.enqueue("invoices", {"order": 4})
        connection.execute(text("insert into orders (id) values (4)"))
    engine.dispose()
    assert (orders(lab), invoices(lab)) == ([3, 4], [3, 4])


def test_an_asynchronous_transaction_of_sqlalchemy_that_is_rolled_back_takes_the_block_along(lab):
    async def story():
        engine = create_async_engine(dialect(lab.url))
        with pytest.raises(ZeroDivisionError):
            async with engine.begin() as connection:
                raw = await connection.get_raw_connection()
                async with lab.fp.within_async(raw.driver_connection) as tx:
                    await tx.enqueue("invoices", {"order": 1})
                await connection.execute(text("insert into orders (id) values (1)"))
                raise ZeroDivisionError
        await engine.dispose()

    asyncio.run(story())
    assert (orders(lab), invoices(lab)) == ([], [])


def test_an_atomic_of_django_that_is_rolled_back_takes_the_block_along(lab, django):
    """Also where the block is its first statement: by then Django has sent no BEGIN."""
    from django.db import transaction

    for statement_first in (False, True):
        django.ensure_connection()
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            if statement_first:
                pay(django, 1)
            with lab.fp.within(django.connection) as tx:
                tx.enqueue("invoices", {"order": 1})
            pay(django, 2)
            raise ZeroDivisionError
        assert (orders(lab), invoices(lab)) == ([], [])


def test_an_inner_atomic_and_a_block_hold_each_other(lab, django):
    from django.db import transaction

    with transaction.atomic():
        pay(django, 1)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            pay(django, 2)
            with lab.fp.within(django.connection) as tx:
                tx.enqueue("invoices", {"order": 2})
            raise ZeroDivisionError
        with pytest.raises(fencepost.Refused), lab.fp.within(django.connection) as tx:
            pay(django, 3)
            tx.enqueue("invoices", {"order": 3})
            tx.cancel("01900000-0000-7000-8000-000000000000")
        with lab.fp.within(django.connection) as tx:
            tx.enqueue("invoices", {"order": 1})
    assert (orders(lab), invoices(lab)) == ([1], [1])


def test_a_block_that_commits_what_others_have_begun_is_seen_by_these_laws(
    lab, django, monkeypatch
):
    """As it would be if the driver's idleness were taken for the application's."""
    begin = borrowing.Lent.begin

    def greedy(self):
        idle = self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        yield from begin(self)
        self.ends = idle

    monkeypatch.setattr(borrowing.Lent, "begin", greedy)
    with pytest.raises(AssertionError):
        test_an_atomic_of_django_that_is_rolled_back_takes_the_block_along(lab, django)
    lab.sql("truncate orders")
    with pytest.raises(AssertionError):
        test_an_asynchronous_transaction_of_sqlalchemy_that_is_rolled_back_takes_the_block_along(
            lab
        )


def pay(django, number):
    with django.cursor() as cursor:
        cursor.execute("insert into orders (id) values (%s)", [number])
