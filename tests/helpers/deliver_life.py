"""`fencepost deliver` as a process that is killed at a step of a delivery."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Self

from helpers.shell import command, environment

# Killed as it comes to this: before and after each step of a delivery that leaves something.
# How many it lets pass: the first meetings and connections are the only ones.
STEPS = {
    "claimed": 2, "announced": 0, "connecting": 0, "sending": 2, "sent": 2, "heard": 1, "judged": 2,
    "settling": 1, "settled": 1,
}  # fmt: skip
# The same of the senders that are not HTTP.
SINK_STEPS = {
    "table": {
        "announced": 0, "asked": 2, "effect": 2, "committing": 4, "committed": 4, "settling": 1,
    },
    "directory": {"writing": 1, "written": 1, "placing": 1, "placed": 1, "settling": 1},
    "s3": {"putting": 1, "put": 1, "settling": 1},
    "command": {"starting": 1, "started": 1, "ended": 1, "settling": 1},
}  # fmt: skip
KILLER = """
import importlib, os, signal, sys

step, left = sys.argv.pop(1), [int(sys.argv.pop(1))]

def die(*_):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name):
    real = getattr(owner, name)
    def wrapped(*given, **more):
        die()
        return real(*given, **more)
    setattr(owner, name, wrapped)

def after(owner, name):
    real = getattr(owner, name)
    def wrapped(*given, **more):
        made = real(*given, **more)
        die()
        return made
    setattr(owner, name, wrapped)

PLACES = {
    "claimed": (before, "deliveries.delivering", "Delivering.perform"),
    "announced": (after, "deliveries.stream", "Stream._meet"),
    "connecting": (before, "deliveries.http", "Exchange._connect"),
    "sending": (before, "deliveries.http", "_put"),
    "sent": (after, "deliveries.http", "_put"),
    "heard": (before, "deliveries.answers", "understood"),
    "judged": (after, "deliveries.delivering", "judge"),
    "settling": (after, "worker.memory", "Memory.settle"),
    "settled": (before, "worker.settle", "Settler._judge"),
    "asked": (before, "deliveries.table", "TableSender._ask"),
    "effect": (after, "deliveries.table", "TableSender._effect"),
    "committing": (before, "receiver.desk", "Session.save"),
    "committed": (after, "receiver.desk", "Desk.carry_out"),
    "writing": (before, "deliveries.directory", "_write"),
    "written": (after, "deliveries.directory", "_write"),
    "placing": (before, "deliveries.directory", "_placed"),
    "placed": (after, "deliveries.directory", "_placed"),
    "putting": (before, "deliveries.http", "Exchange.send"),
    "put": (after, "deliveries.http", "Exchange.send"),
    "starting": (before, "deliveries.command", "CommandSender._started"),
    "started": (after, "deliveries.command", "CommandSender._started"),
    "ended": (before, "deliveries.command", "CommandSender._judged"),
}
how, module, path = PLACES[step]
owner = importlib.import_module("fencepost." + module)
*parents, name = path.split(".")
for each in parents:
    owner = getattr(owner, each)
how(owner, name)
from fencepost.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


class Life:
    """One process that delivers from `folder/store.db`. `step`: where it is killed, after so many
    that it lets pass."""

    def __init__(self, folder: Path, *flags: object, step: str = "", after: int = 0) -> None:
        words = command(
            "--store",
            folder / "store.db",
            "--json",
            "deliver",
            "--state",
            folder / "memory",
            *flags,
        )
        if step:
            words = [words[0], "-c", KILLER, step, str(after), *words[words.index("--store") :]]
        self.errors = (folder / "deliver.err").open("ab")
        self.child = subprocess.Popen(
            words, cwd=folder, env=environment(PYTHONPATH=os.getcwd()), stdout=subprocess.PIPE,
            stderr=self.errors, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
        self.child.communicate()
        self.errors.close()

    def ends(self, seconds: float = 40) -> tuple[int, Any]:
        """Its exit code and what it said at the end."""
        out, _ = self.child.communicate(timeout=seconds)
        lines = out.decode().splitlines()
        return self.child.returncode, json.loads(lines[-1]) if lines else None
