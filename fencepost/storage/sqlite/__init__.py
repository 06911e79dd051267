"""A queue in one SQLite file, shared by all processes of one machine."""

from fencepost.storage.sqlite.opening import install_into, open_store
from fencepost.storage.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "install_into", "open_store"]
