"""What lies between people and the store: messages are lost, doubled, late, and overtake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fencepost.commands import Command, Request
from fencepost.model import Caller, Outcome
from helpers.sim.world import SECOND, World

LOST, DOUBLED, LATE = 0.06, 0.06, 0.03
ASK_AGAIN = ("store_unavailable", "outcome_unknown")
WAIT = ("scope_revoked", "queue_paused")

Then = Callable[[Outcome], None]


class Receiver(Protocol):
    """The store's process, as messages see it."""

    def receive(self, ask: Ask, *, at_once: bool = False) -> None:
        """A message has come in."""

    def moment(self, instant: int) -> int:
        """When, in the world's time, it will be `instant` by the store's."""


class Network:
    """Carries messages both ways. `cut` holds who is cut off, and until when."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cut: dict[str, int] = {}
        self.store: Receiver
        self.waiting: dict[int, Ask] = {}
        self.archive: list[Ask] = []
        self._asked = 0

    def ask(
        self, caller: Caller, command: Command | Request, key: str | None, then: Then,
        at: int | None = None,
    ) -> Ask:  # fmt: skip
        """Send a command, again and again with the same bytes, until there is an answer.

        `at`: the first of these messages arrives at this very microsecond of the world's time.
        """
        request = Request.of(command, key) if isinstance(command, Command) else command
        self._asked += 1
        ask = Ask(self, self._asked, caller, request, then)
        self.waiting[ask.number] = ask
        self.archive.append(ask)
        if at is None or at <= self.world.t:
            ask.send()
        else:
            self.world.at(at - self.world.t, ask.arrive, True)
            self.world.at(at - self.world.t + 2 * SECOND, ask.send)
        return ask

    def carry(self, who: str, what: Callable[..., None], *given: Any) -> None:
        """Deliver once, never, or twice; soon, or late."""
        for delay in self._delays(who):
            self.world.at(delay, what, *given)

    def _delays(self, who: str) -> list[int]:
        world, chance = self.world, self.world.chance
        if world.calm:
            return [int(chance.expovariate(1 / 0.03) * SECOND) + 1]
        if self.cut.get(who, 0) > world.t or world.likely(LOST):
            world.counts["lost"] += 1
            return []
        if world.likely(LATE):
            world.counts["late"] += 1
            delays = [int(chance.expovariate(1 / 90) * SECOND)]
        else:
            delays = [int(chance.expovariate(1 / 0.04) * SECOND) + 1]
        if world.likely(DOUBLED):
            world.counts["doubled"] += 1
            mean = chance.choice((0.1, 20, 600))
            delays.append(int(chance.expovariate(1 / mean) * SECOND) + 1)
        return delays


class Ask:
    """One command and the bytes that are sent for it until somebody answers."""

    def __init__(
        self, net: Network, number: int, caller: Caller, request: Request, then: Then
    ) -> None:
        self.net = net
        self.number = number
        self.caller = caller
        self.body, self.key = request.body, request.key
        self.verb = request.command.verb
        self.then = then
        self.since = net.world.t
        self.tries = 0
        self._tick = 0  # only the last started row of tries goes on

    def send(self) -> None:
        """One more try, and the next is planned."""
        self._tick += 1
        self._try(self._tick)

    def _try(self, tick: int) -> None:
        if self.number not in self.net.waiting or tick != self._tick:
            return
        self.net.carry(self.caller.actor, self.arrive)
        self.tries += 1
        world = self.net.world
        longest = 5 if world.calm else 30
        world.at(world.between(1, 2) * min(2 ** (self.tries - 1), longest), self._try, tick)

    def arrive(self, at_once: bool = False) -> None:
        """The message has reached the store's machine."""
        self.net.store.receive(self, at_once=at_once)

    def reply(self, outcome: Outcome) -> None:
        """The store's answer sets out."""
        self.net.carry(self.caller.actor, self._hear, outcome)

    def _hear(self, outcome: Outcome) -> None:
        if self.number not in self.net.waiting:
            return  # told already; or whoever asked has forgotten that he did
        code = outcome.issues[0] if outcome.issues else ""
        world = self.net.world
        if code in ASK_AGAIN:
            return
        if code in WAIT and not world.calm and world.likely(0.5):
            self._tick += 1
            world.at(world.between(20, 90), self._try, self._tick)
            return
        del self.net.waiting[self.number]
        self.then(outcome)

    def forget(self) -> None:
        """Whoever asked is gone, and so are his bytes."""
        self.net.waiting.pop(self.number, None)
