"""What is drawn is never given twice, though several threads draw at once."""

from __future__ import annotations

import random
import threading

import pytest

from fencepost.engine import SystemDraw


class Interrupted(SystemDraw):
    """Another thread comes in where this one has read how far it is, and draws if it may."""

    def __init__(self, draw):
        self.found, self.comes = [], None
        self._read = {}
        super().__init__(random.Random(3).randbytes)
        self.draw = draw
        self.comes = threading.Thread(target=self.one)

    def one(self):
        self.found.append(self.draw(self))

    def _met(self, name):
        value = self._read[name]
        if self.comes is not None:
            other, self.comes = self.comes, None
            other.start()
            other.join(0.3)  # it is done by then, or waits for us
            self.other = other
        return value


for name in ("_place", "_tail"):
    setattr(Interrupted, name, property(
        lambda self, name=name: self._met(name),
        lambda self, value, name=name: self._read.__setitem__(name, value),
    ))  # fmt: skip


@pytest.mark.parametrize(
    "draw",
    [SystemDraw.salt, SystemDraw.jitter, lambda source: source.task_id(0)],
    ids=["salt", "jitter", "task id"],
)
def test_two_threads_draw_two(draw):
    source = Interrupted(draw)
    source.one()
    source.other.join(60)
    assert len(set(source.found)) == 2
