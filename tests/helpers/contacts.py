"""A store, its copy and their receiver for a walk of all their contacts: see handover.py.

States of a walk are made of small numbers; a step of a store is carried out once for each of its
states and each answer that it is given.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fencepost.deliveries.event import Voice, event_of
from fencepost.deliveries.places import Greeting
from fencepost.receiver import answers, rules
from fencepost.receiver.reading import read_event, read_hello
from fencepost.receiver.rules import Known, Newest, Stream
from fencepost.receiver.wire import Writer, canonical, stream_name
from fencepost.storage.sqlite import identity
from helpers.lab import START
from helpers.receivers import SECRET
from helpers.stand import QUEUE, SCOPE, UNKNOWN, Stand

OUT, WORKER = "out", "w"
STREAM = stream_name(UNKNOWN, SCOPE, OUT)
FACTS = (
    "select state, fence, revision, epoch from fencepost_task where parent is null order by id",
    "select last_fence, epoch, floor from fencepost_store",
    "select task, revision, hex(sha256) from fencepost_result order by task, revision",
    "select epoch, incarnation from fencepost_writer order by epoch",
    "select stopped, heard, announced from fencepost_destination",
)

Place = int


class Numbers:
    """A number for each value, and the value again: states of a walk are made of small numbers."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


@dataclass(frozen=True)
class Receiver:
    """The receiver in values. `effects` are (operation, digest, receipt, data, order), as they
    came; `held` is every writer that has ever held the stream."""

    stream: Stream | None = None
    effects: tuple[tuple[str, bytes, bytes, bytes, Any], ...] = ()
    held: frozenset[Writer] = frozenset()

    def greeted(self, body: bytes) -> tuple[Receiver, bytes]:
        """(what it is after this hello, its answer)"""
        hello = read_hello(body)
        refusal = rules.judge_hello(hello, self.stream, True)
        if refusal is not None and not hello.ask_only:
            return self, answers.refused(refusal).body
        after = self
        if not hello.ask_only:
            stream = rules.after_hello(hello, self.stream)
            after = replace(self, stream=stream, held=self.held | {stream.writer})
        found = [answers.Accepted(e[2], e[3]) for e in self.effects[hello.after :]]
        would = (refusal.code if refusal else "") if hello.ask_only else None
        said = answers.greeted("r", after.stream, None, found, False, would)
        return after, said.body

    def delivered(self, body: bytes, message_id: str, forebears: frozenset[Writer]) -> tuple[
        Receiver, str
    ]:  # fmt: skip
        """(what it is after this event, its code). The laws of effects are asserted here."""
        event = read_event(body, message_id)
        same = [e for e in self.effects if e[0] == event.operation]
        known = Known(same[0][1], same[0][2]) if same else None
        orders = [e[4] for e in self.effects if e[0].split(":")[0] == event.task_id]
        newest = Newest(max(orders), "") if orders else None
        refusal = rules.judge_event(event, known, self.stream, newest)
        there = known is not None and known.data_sha256 == event.data_sha256
        if refusal is not None:
            assert not there, f"{event.operation} has its effect, and is refused: {refusal.code}"
            return self, refusal.code
        if known is not None:
            return self, "replayed"
        assert self.stream is not None
        assert self.held <= forebears, f"{event.operation}: another lineage holds the stream"
        assert newest is None or event.order > newest.order, "an effect after a later one"
        after = rules.after_event(event, self.stream)
        receipt = answers.receipt("r", event, after, START)
        effect = (event.operation, event.data_sha256, receipt, event.data, event.order)
        return replace(self, stream=after, effects=(*self.effects, effect)), "accepted"

    def operations(self) -> dict[str, str]:
        """Operation → digest of its result."""
        return {e[0]: json.loads(e[3])["result_sha256"] for e in self.effects}


class Wire:
    """A sender whose hellos get the answers that were chosen for it; what it said is kept."""

    greets = True

    def __init__(self, told: list[bytes | None]) -> None:
        self.told, self.said = told, list[bytes]()

    def greet(self, body: bytes, seconds: float) -> Greeting:
        self.said.append(body)
        answer = self.told.pop(0) if self.told else None
        if answer is None:
            return Greeting(0, None, "no answer came")
        said = json.loads(answer)
        return Greeting(said["status"] if said.get("status") != "ok" else 200, said)

    def close(self) -> None:
        pass


class InMemory(identity.Identity):
    """The identity of a store in memory: no file and nothing beside it, the same rows."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._known = identity.Record("", 0, 0, 0, 0, 0)
        self.sidecar = self  # type: ignore[assignment]
        self.place = None  # type: ignore[assignment]

    def read(self) -> None:
        return None

    def _write(self, record: Any) -> None:
        self._known = record

    def begin_another(self, connection: Any, why: str, heard: int, incarnation: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(identity, "read", lambda place: identity.Reading(None, None, None, None))
            patch.setattr(identity, "_uuid", lambda: incarnation)
            connection.execute("begin")
            self._recognised(connection, self._now, identity.Change(why, "a walk"), heard)
            connection.execute("commit")


class Store:
    """States of stores, each an image with what tells it from others; one connection for all."""

    def __init__(self) -> None:
        self.stand = Stand()
        self.images: dict[Place, bytes] = {}
        self._places = Numbers()
        self._done: dict[Any, Any] = {}

    def begin(self) -> Place:
        """Two tasks, the first leased; each result is owed to the receiver."""
        fp = self.stand.fp
        fp.queue_set(QUEUE, destinations=[OUT])
        fp.destination_set(OUT, "https://r.example", class_="fenced")
        fp.destination_secret(OUT, SECRET)
        self.tasks = tuple(self.stand.task(f"t{n}") for n in (0, 1))
        self.stand.claim_of(self.tasks[0], WORKER)
        return self._kept()

    def _kept(self) -> Place:
        connection = self.stand.connection
        place = self._places.of(tuple(tuple(connection.execute(sql)) for sql in FACTS))
        if place not in self.images:
            self.images[place] = connection.serialize()
        return place

    def step(self, place: Place, name: Any, do: Callable[[Any], Any]) -> tuple[Place, Any]:
        """(the state after this step, what it returned); carried out once for each state."""
        if (place, name) not in self._done:
            self.stand.close()
            self.stand = Stand()  # whoever has read something before holds nothing of this one
            with closing(sqlite3.connect(":memory:")) as image:
                image.deserialize(self.images[place])
                image.backup(self.stand.connection)
            told = do(self.stand.fp)
            self._done[place, name] = self._kept(), told
        return self._done[place, name]  # type: ignore[no-any-return]

    @property
    def steps(self) -> int:
        """How often the real code was asked."""
        return len(self._done)

    # -- looking

    def look(self, place: Place, name: Any, do: Callable[[Any], Any]) -> Any:
        after, told = self.step(place, name, do)
        assert after == place, f"{name} changes the store"
        return told

    def writers(self, place: Place) -> tuple[Writer, ...]:
        return tuple(
            self.look(place, "writers", lambda fp: [Writer(w.epoch, w.incarnation)
                                                    for w in fp.writers()])
        )  # fmt: skip

    def results(self, place: Place) -> dict[str, str]:
        """Operation → digest of its result."""

        def do(fp: Any) -> dict[str, str]:
            return {f"{task}:{r.revision}": r.result_sha256
                    for task in self.tasks for r in fp.results(task)}  # fmt: skip

        return self.look(place, "results", do)  # type: ignore[no-any-return]

    def events(self, place: Place) -> dict[tuple[str, str], bytes]:
        """(id, operation) → what this store may send now."""
        writer = self.writers(place)[-1]

        def do(fp: Any) -> dict[tuple[str, str], bytes]:
            voice = Voice(STREAM, writer.epoch, writer.incarnation)
            owed = [fp.task(each.task_id) for each in fp.tasks(OUT)]
            made = [event_of(o.task_id, canonical(o.payload), voice) for o in owed]
            return {(each.id, each.operation): each.body for each in made}

        return self.look(place, "events", do)  # type: ignore[no-any-return]
