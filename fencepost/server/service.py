"""What all endpoints share: the store, who is asking, the limits, who waits for news."""

from __future__ import annotations

import asyncio

from fencepost.clock import Clock
from fencepost.handle import Handle
from fencepost.model import Caller
from fencepost.server.asked import Asked, Receive, body
from fencepost.server.bridge import Bridge
from fencepost.server.callers import Callers
from fencepost.server.limits import Limits
from fencepost.server.meters import Meters
from fencepost.server.news import News
from fencepost.server.settings import ServerSettings

WAIT_SECONDS = 30.0
ANSWER_SECONDS = 1.0  # of the time to stop, for the answers of those who waited in vain


class Service:
    """One service over one store. Made inside the loop that serves it."""

    def __init__(self, fp: Handle, settings: ServerSettings, clock: Clock) -> None:
        self.fp = fp
        self.settings = settings
        self.clock = clock
        self.bridge = Bridge(fp, WAIT_SECONDS)
        self.limits = Limits(settings, clock)
        self.callers = Callers(self.bridge, self.limits, dev=settings.dev)
        self.meters = Meters()
        self.news = News(self.bridge)
        self.stopping = asyncio.Event()
        self.probing: asyncio.Future[bool] | None = None

    async def body(self, asked: Asked, receive: Receive) -> bytes:
        """The body of a request, within all that bounds it."""
        settings, hold = self.settings, self.limits.hold
        return await body(asked, receive, settings.max_body_bytes, settings.body_seconds, hold)

    def handle(self, asked: Asked) -> Handle:
        """The store as the caller may see it."""
        return self.fp.for_caller(caller_of(asked))

    def stop(self) -> None:
        """No more claims; whoever waits for news is answered now, and who still waits for the
        turn to write is told in time that nothing was done. Called in the loop."""
        if self.stopping.is_set():
            return
        self.stopping.set()
        self.news.stop()
        patience = max(0.0, self.settings.stop_seconds - ANSWER_SECONDS)
        asyncio.get_running_loop().call_later(patience, self.bridge.give_up)


def caller_of(asked: Asked) -> Caller:
    """Who asks, once recognised."""
    assert asked.caller is not None, "an endpoint that has recognised nobody"
    return asked.caller
