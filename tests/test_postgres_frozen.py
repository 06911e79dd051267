"""A server that is frozen, or whose machine is: it keeps its connections and never answers. Who has
asked it can still be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from helpers.delivering import Depot
from helpers.postgres import Server
from helpers.receivers import Kit, Web

import fencepost
from fencepost.issues import Unavailable


@pytest.fixture
def server():
    with Server() as made:
        yield made


def family(pid):
    """The process and all that it has begun."""
    found = [pid]
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(each.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(each.parent.name))
    return found


@contextmanager
def frozen(server):
    """Nothing of the server goes on."""
    stopped = []
    try:
        for pid in family(server.pid):
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)
        yield
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_to_close_a_handle_ends_the_waits_of_its_threads(server):
    fp = fencepost.open(server.url(), create=True, wait_seconds=1)
    fp.now()
    met = []
    asked = threading.Event()

    def ask():
        asked.set()
        try:
            fp.now()
        except Unavailable as error:
            met.append(error)

    with frozen(server):
        waiting = threading.Thread(target=ask, daemon=True)
        waiting.start()
        asked.wait()
        waiting.join(0.5)  # it is on its way to the server by then, or finds the handle closed
        fp.close()
        waiting.join(60)
        assert not waiting.is_alive() and len(met) == 1
    with pytest.raises(Unavailable, match="is closed"):
        fp.now()


def test_a_second_signal_ends_a_dispatcher_whose_store_never_answers(server, tmp_path):
    kit = Kit(tmp_path / "receiver.db")
    with Web(kit.answer) as web:
        with fencepost.open(server.url(), create=True) as fp:
            place = Depot(fp, tmp_path)
            place.destination(web.url)
            place.results(1)
        running = subprocess.Popen(
            [sys.executable, "-m", "fencepost", "--store", server.url(), "deliver"],
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": os.getcwd()},
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            for _ in range(1_200):
                if kit.effects():
                    break
                threading.Event().wait(0.05)
            assert len(kit.effects()) == 1
            with frozen(server):
                running.send_signal(signal.SIGTERM)
                threading.Event().wait(3)  # its main loop has asked the store meanwhile
                running.send_signal(signal.SIGINT)
                _, told = running.communicate(timeout=60)
        finally:
            running.kill()
        assert running.returncode in (128 + signal.SIGINT, 0), told
        with fencepost.open(server.url()) as fp:
            assert fp.verify().clean
    kit.close()
