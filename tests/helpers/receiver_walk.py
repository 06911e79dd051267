"""Out of one seed: writers that fork, take over, repeat and contradict themselves, put to the kit's
receiver and to the independent reference side by side. Both have to say the same each time.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from fencepost.conformance.receiver_reference import Reference
from fencepost.receiver import clock, wire
from helpers.receiving import SECRET, Place, Said, Sender, Sent, incarnation

OWN = ("accepted_at", "receiver", "title", "detail")
KINDS = ("result",) * 6 + ("dead", "cancelled", "done")


class Differs(AssertionError):
    """The two did not say the same."""


class Walk:
    """`steps` of one seed on a store of this kind; `counts` says what was met."""

    def __init__(self, kind: str, where: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.place = Place(kind, where, now=clock.wall)
        self.reference = Reference(SECRET)
        self.counts: Counter[str] = Counter()
        self.writers = [Sender()]
        self.sent: list[Sent] = []
        self.number = 1
        self.ordered = self.random.random() < 0.5
        self._fail = False
        self.place.after = self._effect

    def _effect(self, connection: Any, event: Any) -> None:
        if self._fail:
            raise ArithmeticError

    def close(self) -> None:
        self.place.close()

    def walk(self, steps: int) -> None:
        """Take them. Raises Differs."""
        for _ in range(steps):
            chance = self.random.random()
            if chance < 0.08:
                self._fork()
            elif chance < 0.10:
                self.place.close()
                self.place.receiver = self.place.open()
            elif chance < 0.25 and self.sent:
                self._put(self.random.choice(self.sent))
            elif chance < 0.45:
                self._put(self._hello())
            else:
                self._put(self._event())
        operations = sorted(
            effect["operation"]
            for stream in self.reference.streams.values()
            for effect in stream.effects
        )
        if self.place.effects() != operations:
            raise Differs(f"effects: {self.place.effects()} here, {operations} there")

    def _fork(self) -> None:
        """A copy of a writer begins an epoch: the next one, the same as another copy's, a later."""
        parent = self.random.choice(self.writers[-6:])
        self.number += 1
        heir = parent.copied(parent.epoch + self.random.choice([1, 1, 1, 2]),
                             incarnation(self.number))  # fmt: skip
        if self.random.random() < 0.2:  # it has no lineage to show
            heir = Sender(heir.epoch, heir.incarnation, stream=heir.stream)
        if self.random.random() < 0.15:
            heir.stream = heir.stream.replace("/out", "/other")
        self.writers.append(heir)

    def _hello(self) -> Sent:
        writer = self.random.choice(self.writers[-6:])
        more: dict[str, Any] = {"after": self.random.choice([0, 0, 1, 5, 99])}
        more["limit"] = self.random.choice([1, 3, 1000])
        if self.random.random() < 0.2:
            more["ask_only"] = True
        if self.random.random() < 0.2:
            seen = self.random.choice(self.writers)
            more["adopt"] = {"epoch": seen.epoch, "incarnation": seen.incarnation}
        there = self.reference.stream(writer.stream)
        more["sequence"], more["head"] = self.random.choice(
            [(None, None), (0, None), (there.sequence, there.head), (there.sequence, "ab" * 32)]
        )
        return writer.hello(**more)

    def _event(self) -> Sent:
        draw = self.random
        writer = draw.choice(self.writers[-6:])
        more: dict[str, Any] = {}
        if self.ordered or draw.random() < 0.02:
            there = self.reference.stream(writer.stream)
            step = draw.choice([1, 1, 1, 1, 0, 2])
            more["sequence"] = wire.sequence_text(max(1, there.sequence + step))
            more["fpprevious"] = draw.choice([there.head] * 5 + ["ab" * 32])
        kind = draw.choice(KINDS)
        return writer.event(
            draw.randrange(8), draw.randrange(1, 4), draw.randrange(1, 5), kind=kind,
            epoch=draw.randrange(1, writer.epoch + 1), value=draw.choice(["a", "a", "a", "b"]),
            round=draw.randrange(1, 3), **more,
        )  # fmt: skip

    def _put(self, sent: Sent) -> None:
        """The same request to both."""
        headers = sent.headers(clock.wall() // 1_000_000)
        self._fail = self.random.random() < 0.05
        answer = self.place.receiver.handle(headers, sent.body)
        here = Said(answer.status, answer.body, dict(answer.headers), json.loads(answer.body))
        self.counts[here.code] += 1
        if here.code == "effect_failed":
            return  # undone here, never heard of there
        status, told, body = self.reference.answer(headers, sent.body)
        there = Said(status, body, told, json.loads(body))
        if (here.status, here.code) != (there.status, there.code):
            raise Differs(f"{sent}: {here.code} here, {there.code} there")
        if _plain(there.value) != _plain(here.value):
            raise Differs(f"{sent}: {here.value} here, {there.value} there")
        self.sent.append(sent)


def _plain(value: Any) -> Any:
    """What both may be compared by: their own words left out."""
    if isinstance(value, dict):
        return {n: _plain(v) for n, v in value.items() if n not in OWN}
    return [_plain(one) for one in value] if isinstance(value, list) else value
