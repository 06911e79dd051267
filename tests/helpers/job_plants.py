"""Workers that are broken in one way each: who counts must find them. A program that the worker
runs before it begins, and a piece of what must be said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from helpers.job_troubles import Trouble, cut, kill
from helpers.trees import bent_shim

# Nobody is told of orphans: what a command puts into a session of its own is forgotten.
FORGETS_DAEMONS = """
containment.SHIM = {shim!r}
containment.own_process = lambda: False
"""
# Neither the worker nor the shim ends what works under a lease that is lost.
NOTICES_NOTHING = """
from fencepost.worker import held
held.Held.lose = lambda self, why, refused=False: None
held.Held.remaining = lambda self: 600.0
"""
# What a run of an earlier lease came to is handed in under the next one.
STALE_MEMORY = """
from fencepost.worker import command, verdicts
known = dict()
def perform(self, held, beat, real=command.Commands.perform):
    if held.lease.task_id in known:
        return known.pop(held.lease.task_id)
    known[held.lease.task_id] = real(self, held, beat)
    return verdicts.Verdict("retry")
command.Commands.perform = perform
"""
LEAVES_FILES = """
from fencepost.worker import folder
folder.Folder._tidy = lambda self: None
"""
NEVER_FORGETS = """
from fencepost.worker import memory
memory.Memory._empty = lambda self: None
"""


class Plant(NamedTuple):
    """`said` is a piece of a sentence that must be among what is wrong."""

    planted: str
    said: str
    troubles: tuple[Trouble, ...] = ()


def _forgetful() -> str:
    shim = bent_shim("LINUX and not prctl(PR_SET_CHILD_SUBREAPER, 1)", "False")
    return FORGETS_DAEMONS.format(shim=shim)


PLANTS: dict[str, Callable[[], Plant]] = {
    "containment that forgets daemons": lambda: Plant(_forgetful(), "are left at the end"),
    "a worker that never notices a lost lease": lambda: Plant(
        NOTICES_NOTHING, "outlived it by", (cut,)
    ),
    "a completion from a stale memory": lambda: Plant(STALE_MEMORY, "was handed in under fence"),
    "a folder that is left behind": lambda: Plant(LEAVES_FILES, "in TMPDIR", (kill,)),
    "a memory that only grows": lambda: Plant(NEVER_FORGETS, "the state of worker"),
}
