"""A queue in one SQLite file, shared by all processes of one machine."""

from fencepost.storage.sqlite.store import SqliteStore, install_into, open_store

__all__ = ["SqliteStore", "install_into", "open_store"]
