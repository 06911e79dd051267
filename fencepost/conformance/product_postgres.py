"""The product on PostgreSQL behind the kit's protocol: a database for each store, on the server
that FENCEPOST_CONFORM_URL names, with the controls of product.py.

Run by the kit as `python3 product_postgres.py SEED`; it needs `fencepost[postgres]` importable and
a role that may create databases. They are called `fencepost_conform_…` and are dropped again.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from fencepost.commands import Cancel
from fencepost.conformance.product import Product, serve_until_done
from fencepost.storage.postgres import schema
from fencepost.storage.postgres.transaction import PostgresTransaction
from fencepost.storage.sqltext import statements

URL = "FENCEPOST_CONFORM_URL"  # the name of a variable: an argument would show a password
NOBODY = "01900000-0000-7000-8000-000000000000"
PREFIX = "fencepost_conform"
STATEMENTS = statements("fencepost.conformance", "product_postgres.sql")


class OnPostgres(Product):
    """On PostgreSQL: a database each."""

    backend = "postgresql"
    transaction = PostgresTransaction

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(seed)
        self.url = url
        self.server = psycopg.connect(url, autocommit=True)
        self.made: set[str] = set()

    def fresh(self, owner: str) -> None:
        if owner in self.handles:
            self.handles.pop(owner).close()  # its database is free now
        super().fresh(owner)

    def copy(self, source: str, target: str, pinned: bool) -> None:
        """By the server's own means, for which nobody may be connected to what is copied. What is
        not pinned is left to the product: at its first command, here one that is refused, it has
        to see by itself that it is a copy."""
        address = self.addresses[source]
        self.handles.pop(source).close()
        there = self._database(copied_from=name_of(address))
        if pinned:
            with psycopg.connect(there, autocommit=True) as connection:
                connection.execute(STATEMENTS["pin"])
        self._reopen(source, address)
        self._reopen(target, there)
        if not pinned:
            self.handles[target].execute([Cancel(NOBODY)])

    def _new_address(self) -> str:
        """A database that no store uses any more, emptied by the product's own means: to make one
        takes ten times as long."""
        used = {name_of(self.addresses[owner]) for owner in self.handles}
        free = sorted(self.made - used)
        if not free:
            return self._database()
        address = self._address(free[0])
        with psycopg.connect(address, autocommit=True) as connection:
            schema.uninstall(connection)
        return address

    def _database(self, copied_from: str | None = None) -> str:
        """A new one, empty or a copy."""
        self.opened += 1
        name = f"{PREFIX}_{os.getpid()}_{self.opened}"
        if copied_from is None:
            self._ask("create", name=name)
        else:
            self._ask("copy", name=name, source=copied_from)
        self.made.add(name)
        return self._address(name)

    def _address(self, name: str) -> str:
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, f"/{name}", parts.query, ""))

    def _drop(self, name: str) -> None:
        self._ask("drop", name=name)
        self.made.discard(name)

    def _ask(self, statement: str, **names: str) -> None:
        quoted: dict[str, Any] = {place: sql.Identifier(name) for place, name in names.items()}
        self.server.execute(sql.SQL(STATEMENTS[statement]).format(**quoted))

    def close(self) -> None:
        super().close()
        with suppress(psycopg.OperationalError):  # the server has gone, and they with it
            for name in sorted(self.made):
                self._drop(name)
        self.server.close()


def name_of(address: str) -> str:
    """The database that a URL of ours names."""
    return urlsplit(address).path[1:]


def main(seed: int) -> None:
    """Serve on standard input and output until the kit is done."""
    try:
        product = OnPostgres(os.environ.get(URL, ""), seed)
    except psycopg.Error as error:
        sys.exit(f"the server cannot be reached: {str(error).strip()}")
    serve_until_done(product)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
