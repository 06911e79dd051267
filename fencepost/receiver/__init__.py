"""The kit for whoever receives deliveries: the fence is enforced where the effect is.

    from fencepost.receiver import Receiver, Reject, SqliteStore
    from fencepost.receiver.asgi import ReceiverApp

    def effect(connection, event):
        connection.execute("insert into page values (?, ?)", (event.task_id, event.data))

    app = ReceiverApp(Receiver(SqliteStore("effects.db"), effect, ["whsec_…"]))

The effect, what is remembered of it and the receipt become true in one transaction. The folder
imports nothing else of Fencepost's: copy it, and it works.
"""

from __future__ import annotations

from .answers import Answer
from .receiver import Effect, Receiver, Reject, TryLater
from .signing import new_secret
from .sqlite import SqliteStore
from .store import EffectBroke, Store, Unavailable
from .wire import Event, Writer

__all__ = [
    "Answer",
    "Effect",
    "EffectBroke",
    "Event",
    "Receiver",
    "Reject",
    "SqliteStore",
    "Store",
    "TryLater",
    "Unavailable",
    "Writer",
    "new_secret",
]
