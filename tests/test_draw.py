"""What is drawn is never given twice, though several threads draw at once."""

from __future__ import annotations

import random
import threading

import pytest

from fencepost.engine import SystemDraw


class Interrupted(SystemDraw):
    """Another thread comes in where this one has read for the nth time how far it is, and draws
    if it may."""

    def __init__(self, draw, nth):
        self._read, self._left = {}, 0
        super().__init__(random.Random(3).randbytes)
        self.found = []
        self._draw, self._left = draw, nth
        self.other = threading.Thread(target=self.one)

    def one(self):
        self.found.append(self._draw(self))

    def _met(self, name):
        value = self._read[name]
        self._left -= 1
        if self._left == 0:
            self.other.start()
            self.other.join(0.2)  # it is done by then, or waits for us
        return value


for name in ("_place", "_tail"):
    setattr(Interrupted, name, property(
        lambda self, name=name: self._met(name),
        lambda self, value, name=name: self._read.__setitem__(name, value),
    ))  # fmt: skip


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "draw",
    [SystemDraw.salt, SystemDraw.jitter, lambda source: source.task_id(0)],
    ids=["salt", "jitter", "task id"],
)
def test_two_threads_draw_two(draw, nth):
    source = Interrupted(draw, nth)
    while len(source.found) < 2 or not source.other.ident:
        source.one()
    source.other.join(60)
    assert len(set(source.found)) == len(source.found) >= 2
