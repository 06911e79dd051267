"""Faults, at random, until it is calm."""

from __future__ import annotations

from helpers.sim.copies import Copy
from helpers.sim.messages import Network
from helpers.sim.server import Server
from helpers.sim.workers import Worker
from helpers.sim.world import SECOND, World

EVERY = 15.0  # seconds, on the average
OFTEN = {
    "jump": 4, "worker": 6, "crash": 3, "restart": 1, "cut": 4, "sleep": 2, "audit": 6,
    "verify": 1, "seal": 8, "copy": 2,
}  # fmt: skip


class Chaos:
    """Picks what goes wrong next."""

    def __init__(self, world: World, net: Network, server: Server, workers: list[Worker]) -> None:
        self.world, self.net, self.server, self.workers = world, net, server, workers
        self._next()

    def _next(self) -> None:
        self.world.at(self.world.chance.expovariate(1 / EVERY) * SECOND, self._turn)

    def _turn(self) -> None:
        if self.world.calm:
            return
        (what,) = self.world.chance.choices(list(OFTEN), list(OFTEN.values()))
        getattr(self, what)()
        self._next()

    def jump(self) -> None:
        """The wall clock is set, by up to an hour."""
        furthest = self.world.chance.choice((2, 60, 600, 3_600))
        self.world.jump(self.world.between(-furthest, furthest))

    def worker(self) -> None:
        """A worker's process dies."""
        self.world.chance.choice(self.workers).die()

    def crash(self) -> None:
        """The store's process dies, at rest."""
        if self.server.up:
            self.server.die("at rest")

    def restart(self) -> None:
        """The store is closed and opened."""
        if self.server.up:
            self.server.restart()

    def cut(self) -> None:
        """Somebody is cut off for a while."""
        who = self.world.chance.choice(self.workers).name
        span = self.world.between(5, 300)
        self.net.cut[who] = self.world.t + span
        self.world.count("cuts", f"{who} is cut off for {span / SECOND:.0f} s")

    def sleep(self) -> None:
        """The store's machine is suspended."""
        self.server.sleep(self.world.between(1, self.world.chance.choice((5, 60, 900))))

    def audit(self) -> None:
        """All rows are looked at."""
        self.server.audit(whole=False)

    def verify(self) -> None:
        """And the journal."""
        self.server.audit(whole=True)

    def seal(self) -> None:
        """The writer is idle."""
        self.server.seal()

    def copy(self) -> None:
        """The file is copied and opened as a store of its own."""
        if self.server.up:
            Copy(self.world, self.net, self.server).live()
