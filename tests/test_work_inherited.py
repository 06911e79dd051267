"""A shell becomes the worker (`server & exec fencepost work …`) and leaves it its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from helpers.shell import environment

import fencepost
from fencepost.worker import shim

pytestmark = pytest.mark.skipif(not shim.LINUX, reason="NOT RUN: only Linux tells a worker orphans")


def test_what_ran_before_the_worker_began_is_none_of_its_strays(tmp_path):
    with fencepost.open(tmp_path / "fencepost.db", create=True) as fp:
        task_id = fp.enqueue("pages", 1).task_id
    lines = (
        "(sleep 300 & echo $! >> pids; sleep 300) & echo $! >> pids\n"
        "until [ $(wc -l < pids) = 2 ]; do sleep 0.01; done\n"
        f"exec {sys.executable} -m fencepost work pages --worker w --exit-when-empty -- wc -c"
    )
    done = subprocess.run(
        ["sh", "-c", lines], cwd=tmp_path, timeout=60, check=False, stdout=subprocess.DEVNULL,
        env=environment(XDG_STATE_HOME=str(tmp_path / "state")),
    )  # fmt: skip
    before = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    alive = [pid for pid in before if os.path.exists(f"/proc/{pid}")]
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    assert (done.returncode, alive) == (0, before)
    with fencepost.open(tmp_path / "fencepost.db") as fp:
        assert fp.task(task_id).state == "done"
