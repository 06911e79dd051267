"""Every contact order of a store, a restored copy of it and their receiver, on the real code.

What is real: the machine on SQLite, both writers' beginnings, what a restore tells and hears, the
dispatcher's meeting, the bytes of events and hellos, the receiver's rules and its answers. What is
not: the network, which here is that anything ever sent may come again at any time, and any answer
be lost. The walk goes breadth first, so the way to a broken law is a shortest one. What a restore
asks and what it tells are two contacts: between them a delivery of the old owner may come.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import pytest

from fencepost import commands as c
from fencepost import lineage
from fencepost.deliveries import stream as streams
from fencepost.lineage import RESTORED, STARTED
from fencepost.operate.restoring import receivers
from fencepost.receiver import rules
from fencepost.receiver.reading import read_event
from helpers.contacts import OUT, WORKER, InMemory, Numbers, Place, Receiver, Store, Wire
from helpers.faults import Patch, edit
from helpers.lab import START
from helpers.stand import UNKNOWN

Action = tuple[Any, ...]


class State(NamedTuple):
    """`a`, `b`: the stores (`b` is -1 until the copy is made). `sent` is all that may be under way;
    both that and the receiver by number. `given`: tasks and fences of the old owner's leases."""

    a: Place
    receiver: int
    b: Place = -1
    begun: bool = False
    serves: bool = False
    starts: int = 0
    given: tuple[tuple[int, int], ...] = ()
    sent: frozenset[int] = frozenset()


class Over(Exception):
    """The time for the walk is over."""


class Walk:
    """All orders, to the end. AssertionError at the first law that is broken, with the way there.

    `starts`: how often the old owner may be started anew. `all`: whether whoever serves has to know
    every effect; without, a fault is followed until something is contradicted.
    """

    def __init__(self, starts: int = 0, most: float = 200, *, all: bool = True) -> None:
        self.starts, self.all, self.end = starts, all, time.monotonic() + most
        self.store = Store()
        self.receivers, self.messages = Numbers(), Numbers()
        self._heard: dict[Any, Any] = {}
        self._lawful: set[Any] = set()
        self.counts: Counter[str] = Counter()
        self.states = 0
        self.path: list[Action] = []

    def run(self) -> None:
        try:
            self._run()
        finally:
            self.store.stand.close()

    def _run(self) -> None:
        first = State(self.store.begin(), self.receivers.of(Receiver()), given=((0, 1),))
        came: dict[State, tuple[State, Action] | None] = {first: None}
        todo = deque([first])
        while todo:
            state = todo.popleft()
            if time.monotonic() > self.end:
                self.states = len(came)
                raise Over(f"{len(came)} states were seen")
            for action, do in self._actions(state):
                try:
                    after = do()
                    if after is None:
                        continue
                    self._laws(after)
                except AssertionError:
                    self.path = [action]
                    while (before := came[state]) is not None:
                        state, action = before
                        self.path.insert(0, action)
                    raise
                if after not in came:
                    came[after] = state, action
                    todo.append(after)
        self.states = len(came)

    def told(self) -> str:
        """What was met."""
        counts = ", ".join(f"{what} {number}" for what, number in sorted(self.counts.items()))
        return f"{self.states} states, {self.store.steps} steps of stores, {counts}"

    # -- what may happen

    def _actions(self, state: State) -> Iterator[tuple[Action, Callable[[], State | None]]]:
        yield from self._of_a_store(state, "a")
        if state.starts < self.starts:
            yield ("a", "start"), partial(self._start, state)
        for heard in (True, False):
            yield ("a", "hello", heard), partial(self._meet, state, heard)
        for each in sorted(state.sent):
            yield ("deliver", each), partial(self._delivered, state, each)
        if state.b < 0:
            yield ("copy",), partial(state._replace, b=state.a)
        elif not state.begun:
            for asks in (True, False):
                yield ("b", "begin", asks), partial(self._begin, state, asks)
        elif not state.serves:
            for heard in (True, False):
                for between in (None, *sorted(state.sent)):
                    over = partial(self._taken_over, state, heard, between)
                    yield ("b", "taken_over", heard, between), over
        else:
            yield from self._of_a_store(state, "b")

    def _of_a_store(
        self, state: State, which: str
    ) -> Iterator[tuple[Action, Callable[[], State | None]]]:
        for n in (0, 1):
            yield (which, "claim", n), partial(self._claim, state, which, n)
            for number, fence in state.given if which == "b" else ():
                if number == n:
                    yield (which, "late", n, fence), partial(self._late, state, n, fence)
            yield (which, "complete", n), partial(self._complete, state, which, n)

    def _claim(self, state: State, which: str, n: int) -> State | None:
        place = getattr(state, which)
        task = self.store.tasks[n]

        def do(fp: Any) -> int:
            (outcome,) = fp.execute([c.Claim(WORKER, task_id=task)])
            return outcome.grants[0].fence if outcome.grants else 0

        after, fence = self.store.step(place, ("claim", n), do)
        if not fence:
            return None
        given = (*state.given, (n, fence)) if which == "a" else state.given
        return state._replace(**{which: after}, given=given)

    def _complete(self, state: State, which: str, n: int) -> State | None:
        """By whoever holds the lease in this store."""
        place, task = getattr(state, which), self.store.tasks[n]

        def do(fp: Any) -> bool:
            command = c.Complete(task, WORKER, fp.task(task).fence or 1, result=f"{which}{n}")
            return bool(fp.execute([command])[0].accepted)

        after, accepted = self.store.step(place, ("complete", which, n), do)
        return self._sending(state._replace(**{which: after})) if accepted else None

    def _late(self, state: State, n: int, fence: int) -> None:
        """A worker of the old owner comes to the restored store with what it was given there."""
        task = self.store.tasks[n]

        def do(fp: Any) -> bool:
            return bool(fp.execute([c.Complete(task, WORKER, fence, result="late")])[0].accepted)

        _, accepted = self.store.step(state.b, ("late", n, fence), do)
        self.counts["late"] += 1
        assert not accepted, f"a lease of the old owner counts: task {n}, fence {fence}"

    def _sending(self, state: State) -> State:
        """All that may be under way from now on."""
        sent = set(state.sent)
        for place in (state.a, state.b) if state.serves else (state.a,):
            forebears = frozenset(self.store.writers(place))
            for name, body in self.store.events(place).items():
                sent.add(self.messages.of((*name, body, forebears)))
        return state._replace(sent=frozenset(sent))

    def _delivered(self, state: State, sent: int) -> State:
        """Whether the answer is lost makes no difference to what can follow: the same may come
        again at any time. To whom it is told that there is an effect, it is there as it was sent.
        """
        if (state.receiver, sent) not in self._heard:
            message_id, operation, body, forebears = self.messages.values[sent]
            before: Receiver = self.receivers.values[state.receiver]
            after, code = before.delivered(body, message_id, forebears)
            if code in ("accepted", "replayed"):
                digest = read_event(body, message_id).data_sha256
                there = [e[1] for e in after.effects if e[0] == operation]
                assert there == [digest], "who was told of an effect finds another"
            self._heard[state.receiver, sent] = self.receivers.of(after), code
        receiver, code = self._heard[state.receiver, sent]
        self.counts[code] += 1
        return state._replace(receiver=receiver)

    def _greeted(self, receiver: int, body: bytes) -> tuple[int, bytes]:
        if (receiver, body) not in self._heard:
            after, answer = self.receivers.values[receiver].greeted(body)
            self._heard[receiver, body] = self.receivers.of(after), answer
        return self._heard[receiver, body]  # type: ignore[no-any-return]

    def _start(self, state: State) -> State:
        name = f"00000000-0000-4000-8000-00000000a{state.starts:03}"
        after, _ = self.store.step(
            state.a, ("start", name),
            lambda fp: InMemory(START).begin_another(self.store.stand.connection, STARTED, 0, name),
        )  # fmt: skip
        return self._sending(state._replace(a=after, starts=state.starts + 1))

    def _meet(self, state: State, heard: bool) -> State:
        """The old owner's dispatcher greets the receiver, and imports what it hears."""
        hello = self._said(state.a, "meet", [])[0]
        receiver, answer = self._greeted(state.receiver, hello)
        if not heard:
            return state._replace(receiver=receiver)
        after, _ = self.store.step(
            state.a, ("meet", answer), lambda fp: self._meeting(fp, Wire([answer]))
        )
        self.counts["met"] += 1
        return self._sending(state._replace(receiver=receiver, a=after))

    def _meeting(self, fp: Any, wire: Wire) -> None:
        stream = streams.Stream(fp, fp.destination(OUT), wire, "d")  # type: ignore[arg-type]
        stream._writer_id = UNKNOWN
        with suppress(streams.NotMet, streams.Stopped):
            stream._meet("", 1, again=True)

    def _said(self, place: Place, how: str, told: list[bytes]) -> list[bytes]:
        """What the store says to the receiver, given the answers so far."""

        def do(fp: Any) -> list[bytes]:
            wire = Wire([*told])
            if how == "meet":
                self._meeting(fp, wire)
            else:
                self._talk(fp, wire)
            return wire.said

        return self.store.step(place, ("said", how, *told), do)[1]  # type: ignore[no-any-return]

    def _begin(self, state: State, asks: bool) -> State | None:
        """A copy begins as another writer; in its name is what it has heard of."""
        stream = self.receivers.values[state.receiver].stream
        heard = stream.writer.epoch if asks and stream is not None else 0
        name = f"00000000-0000-4000-8000-{heard:011}b"
        after, _ = self.store.step(
            state.b, ("begin", heard),
            lambda fp: InMemory(START).begin_another(
                self.store.stand.connection, RESTORED, heard, name),
        )  # fmt: skip
        return state._replace(b=after, begun=True)

    def _talk(self, fp: Any, wire: Wire) -> bool:
        (peer,) = receivers.peers(fp)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(receivers, "sender_of", lambda *given: wire)
            talk = receivers.Talk(peer, UNKNOWN)
            told = receivers.taken_over(talk, {}, lambda: None, take_over=False)
        return bool(told["answered"])

    def _taken_over(self, state: State, heard: bool, between: Any) -> State:
        """A restore asks; a delivery may come; it tells, hears, imports; then the copy serves."""
        _, asked = self._greeted(state.receiver, self._said(state.b, "talk", [])[0])
        if between is not None:
            state = self._delivered(state, between)
        said = self._said(state.b, "talk", [asked])
        if len(said) < 2:
            return state
        receiver, answer = self._greeted(state.receiver, said[1])
        state = state._replace(receiver=receiver)
        if not heard:
            return state
        after, answered = self.store.step(
            state.b, ("talk", asked, answer), lambda fp: self._talk(fp, Wire([asked, answer]))
        )
        self.counts["taken over" if answered else "not taken over"] += 1
        state = state._replace(b=after)
        return self._sending(state._replace(serves=True)) if answered else state

    # -- what must hold

    def _laws(self, state: State) -> None:
        if (state.b, state.receiver, state.serves) in self._lawful:
            return
        receiver: Receiver = self.receivers.values[state.receiver]
        effects = receiver.operations()
        assert len(effects) == len(receiver.effects), "an operation has two effects"
        stream = receiver.stream
        if not (state.serves and stream and stream.writer == self.store.writers(state.b)[-1]):
            return
        known = self.store.results(state.b)
        for operation, digest in effects.items():
            assert operation in known or not self.all, f"{operation} is not known to whoever serves"
            assert known.get(operation, digest) == digest, f"{operation} is contradicted"
        self._lawful.add((state.b, state.receiver, state.serves))


# -- faults that the walk must find


class Planted(NamedTuple):
    """`plant` puts the fault in; `told` is a piece of what the broken law says. `starts` and `all`
    are the walk's."""

    plant: Callable[[Patch], None]
    told: str
    starts: int = 0
    all: bool = True


def bent(function: Callable[..., Any], old: str, new: str) -> Callable[[Patch], None]:
    """One piece of a function's source changed."""
    return lambda patch: edit(patch, function, old, new)


NOTHING = bent(receivers._told, "met.unknown, notes", "(), notes")
PLANTED = {
    "nothing is imported": Planted(NOTHING, "is not known to whoever serves"),
    "nothing is imported, and work goes on": Planted(NOTHING, "is contradicted", all=False),
    "what was asked for is imported": Planted(
        bent(receivers._told, "met.unknown, notes",
             '[e for e in said["accepted"] if not hello.knows(talk.peer.fp.results, e)], notes'),
        "is not known to whoever serves",
    ),
    "a copy raises no floor": Planted(
        bent(lineage.following, "epoch + UNHEARD, epoch + UNHEARD", "epoch + UNHEARD, floor"),
        "a lease of the old owner counts",
    ),
    "a copy steps over no epoch": Planted(
        lambda patch: patch.setattr(lineage, "UNHEARD", 1), "a lease of the old owner counts", 1
    ),
    "an old epoch may": Planted(
        bent(rules.judge_event, "event.writer_epoch < stream.writer.epoch", "False"),
        "another lineage holds the stream",
    ),
    "a known effect is judged again": Planted(
        bent(rules.judge_event, "    if known is not None:\n        return None\n", ""),
        "has its effect, and is refused",
    ),
    "other data are no matter": Planted(
        bent(rules.judge_event, "known.data_sha256 != event.data_sha256", "False"),
        "who was told of an effect finds another",
    ),
}  # fmt: skip
