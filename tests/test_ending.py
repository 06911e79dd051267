"""A long program of ours that is told to end: its exit code, its last words, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time

import pytest
from helpers.shell import command, environment

from fencepost.operate.ending import ended_tidily

WAIT_SECONDS = 20
pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
SIGNALS = [
    (signal.SIGINT, 130, "interrupted"),
    (signal.SIGTERM, 143, "ended by SIGTERM"),
    (signal.SIGHUP, 129, "ended by SIGHUP"),
]


@pytest.mark.parametrize(("number", "code", "words"), SIGNALS)
def test_a_program_that_is_told_to_end_cleans_up_and_says_so(tmp_path, number, code, words):
    def run():
        with tempfile.TemporaryDirectory(dir=tmp_path):
            signal.raise_signal(number)
        raise AssertionError("it went on")

    said, before = [], signal.getsignal(number)
    assert ended_tidily("demo", run, said.append) == code
    assert said == [f"fencepost demo: {words}; its files are removed"]
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(number) is before


def test_what_was_to_be_kept_is_named():
    said = []
    assert ended_tidily("demo", interrupted, said.append, "the store stays in x.db") == 130
    assert said == ["fencepost demo: interrupted; the store stays in x.db"]


def interrupted():
    raise KeyboardInterrupt


def test_a_program_that_comes_to_its_end_is_left_alone():
    said = []
    assert ended_tidily("demo", lambda: 7, said.append) == 7
    assert said == []


@pytest.mark.parametrize(("number", "code", "words"), SIGNALS[:2])
def test_a_bench_that_is_ended_leaves_neither_files_nor_processes(tmp_path, number, code, words):
    with subprocess.Popen(
        command("bench", "--only", "processes", "--dir", tmp_path), cwd=tmp_path, text=True,
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stderr.readline() == "processes, repetition 1 of 3\n"
        while not list(tmp_path.glob("*/*/*.db-wal")):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.005)
        process.send_signal(number)
        # both pipes end with the last process that has them
        out, err = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out) == (code, "")
    assert err.splitlines()[-1] == f"fencepost bench: {words}; its files are removed"
    assert list(tmp_path.iterdir()) == []
