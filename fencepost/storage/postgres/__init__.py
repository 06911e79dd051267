"""The PostgreSQL back end (`fencepost[postgres]`): the same steps, other statements."""

from fencepost.storage.postgres.store import PostgresStore, open_store

__all__ = ["PostgresStore", "open_store"]
