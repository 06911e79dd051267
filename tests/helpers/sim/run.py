"""One run: people and faults for so many virtual minutes, then calm, in which all must be done."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import fencepost
from fencepost import commands as c
from fencepost.clock import FakeClock
from helpers.lab import START, raw
from helpers.scratch import scratch
from helpers.sim.chaos import Chaos
from helpers.sim.ghost import Job
from helpers.sim.messages import Network
from helpers.sim.mischief import Mischief
from helpers.sim.office import SETTINGS, Human, Operator, Person, Producer
from helpers.sim.server import WRITER, Server
from helpers.sim.workers import OUT, Worker
from helpers.sim.world import HOUR, MINUTE, SECOND, Broken, Violation, World

MINUTES = 20
CALM_HOURS = 8
LONGEST_SLEEP = 12 * MINUTE  # of a worker over his lease
QUIET = 6 * MINUTE  # how long a worker may go without an answer when all is well


@dataclass(frozen=True)
class Told:
    """What a run came to. `trace` is the digest of all its events."""

    seed: int
    trace: str
    steps: int
    hours: float
    counts: dict[str, int]


class Simulation:
    """Everything that lives in one run."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.world = World(seed)
        self.net = Network(self.world)
        self.server = Server(self.world, folder, template())
        self.net.store = self.server
        self.operator = Operator(self.world, self.net, self.server)
        for (scope, queue), settings in SETTINGS.items():
            self.operator.ask(scope, c.QueueSet(queue, {"lease_seconds": 60, **settings}))
        self.workers = [Worker(self.world, self.net, f"w{number}") for number in range(5)]
        self.workers.append(Worker(self.world, self.net, "post", OUT, "dispatcher"))
        self.people: list[Person] = [
            kind(self.world, self.net, self.server) for kind in (Producer, Human, Mischief)
        ]
        self.chaos = Chaos(self.world, self.net, self.server, self.workers)

    def live(self, minutes: float) -> None:
        """Faults, then calm."""
        self.world.live(int(minutes * MINUTE))
        self._calm()
        self.server.audit(whole=False)
        self.server.restart()
        self.world.live(self.world.t + MINUTE)
        self.server.audit(whole=True)

    def _calm(self) -> None:
        world, server = self.world, self.server
        world.calm = True
        world.note("calm: no more faults")
        self.net.cut.clear()
        if world.t < server.asleep_until:
            server.asleep_until = world.t
            world.at(0, server.serve)
        self._open_all(world.likely(0.3))
        began = world.t
        world.live(world.t + LONGEST_SLEEP + QUIET)
        world.live(began + CALM_HOURS * HOUR, self._over)
        undone = self._undone()
        if undone:
            raise Violation(f"after {CALM_HOURS} calm hours {len(undone)} tasks are not done: "
                            f"{undone[0]}")  # fmt: skip
        world.counts["calm_minutes"] += (world.t - began) // MINUTE
        self._nobody_waits()

    def _open_all(self, beta_stays_revoked: bool) -> None:
        """Again and again, since a message of before may come late and close what was opened."""
        for ask in list(self.net.waiting.values()):
            if ask.caller.actor in (self.operator.name, *(who.name for who in self.people)):
                ask.forget()
        self.operator.calm_down(beta_stays_revoked)
        self.world.at(5 * MINUTE, self._open_all, beta_stays_revoked)

    def _undone(self) -> list[Job]:
        ghost = self.server.ghost
        return [job for job in ghost.open_jobs() if not ghost.revoked.get(job.scope)]

    def _over(self) -> bool:
        return not self._undone()

    def _nobody_waits(self) -> None:
        world = self.world
        late = [ask for ask in self.net.waiting.values() if world.t - ask.since > QUIET]
        if late:
            raise Violation(f"{late[0].caller.actor} waits for ever: {late[0].verb} "
                            f"#{late[0].number} since {late[0].since / SECOND:.0f}")  # fmt: skip
        for worker in self.workers:
            if world.t - worker.seen > QUIET:
                raise Violation(f"{worker.name} has heard nothing since {worker.seen / SECOND:.0f}")


@cache
def template() -> bytes:
    """The file of an empty store, whose writer is the same in every process."""
    with scratch() as folder:
        path = folder / "empty.db"
        fencepost.open(path, create=True, clock=FakeClock(START)).close()
        with raw(path) as connection:
            chance = "update fencepost_store set writer_id = ?, secret = zeroblob(32)"
            connection.execute(chance, (WRITER,))
        return path.read_bytes()


@contextmanager
def quiet() -> Iterator[None]:
    """What a store says of errors and jumping clocks, many thousand times."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


def run(seed: int, minutes: float = MINUTES) -> Told:
    """One run. Raises Broken, which tells how to see it again."""
    with quiet(), scratch() as folder:
        simulation = Simulation(seed, folder)
        world = simulation.world
        try:
            simulation.live(minutes)
        except (Violation, Exception) as error:
            raise Broken(report(world, minutes, error)) from error
        finally:
            simulation.server.close()
        return Told(seed, world.trace(), world.steps, world.t / HOUR, dict(world.counts))


def report(world: World, minutes: float, error: BaseException) -> str:
    """What was broken, where, after what, and how to see it again."""
    what = str(error) if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
    events = "\n".join(f"  {line}" for line in world.recent)
    return (
        f"{what}\nseed {world.seed}, step {world.steps}, at {world.t / SECOND:.6f} s; the last "
        f"events:\n{events}\nagain, from tests/: "
        f"python3 -m helpers.sim {world.seed} --minutes {minutes:g}"
    )
