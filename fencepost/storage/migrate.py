"""Numbered, forward-only migrations, each in one transaction with the record of itself."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator

from fencepost.record import dataclass
from fencepost.storage.sqltext import folder, text_of

NAMED = re.compile(r"(\d{4})_\w+\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: its number, and the SQL that takes the store there."""

    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations(package: str) -> list[Migration]:
    """The migrations beside a driver, in order and without a gap."""
    found = []
    for name in os.listdir(folder(package)):
        match = NAMED.fullmatch(name)
        if match:
            found.append(Migration(int(match[1]), name, text_of(package, name)))
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"{package}: the migrations are not numbered 1 to {len(found)}")
    return found


def split(sql: str) -> Iterator[str]:
    """The statements of a script, one by one, so that they can share a transaction."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
    if any(line.strip() and not line.startswith("--") for line in statement.splitlines()):
        raise ValueError("the script ends in the middle of a statement")
