"""The lines that a newcomer copies, as he copies them: each page's own text is what is run.

Two things are put in for him: a free port in place of 8470, and the task and its fence, which he
reads in the answer to his claim.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.shell import environment
from helpers.tools import need

import fencepost

ROOT = Path(__file__).resolve().parent.parent
PORT = "8470"


class Newcomer:
    """A folder, a shell in it, and `fencepost` as an installation puts it on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        program = folder / "bin" / "fencepost"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fencepost "$@"\n')
        program.chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        self.serving: subprocess.Popen[bytes] | None = None
        self.environment = environment(
            PATH=f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", NO_COLOR="1"
        )

    def shell(self, text: str) -> str:
        """What the lines print. They stop at the first that fails."""
        text = text.replace(PORT, self.port)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text], cwd=self.folder, env=self.environment,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, text: str) -> None:
        """The lines up to `fencepost serve`, which goes on in a terminal of its own."""
        lines = text.splitlines()
        assert lines.pop() == "fencepost serve"
        self.shell("\n".join(lines))
        self.serving = subprocess.Popen(
            ["fencepost", "serve", "--port", self.port], cwd=self.folder, env=self.environment,
            stderr=subprocess.DEVNULL, executable=str(self.folder / "bin" / "fencepost"),
        )  # fmt: skip
        end = time.monotonic() + 30
        while time.monotonic() < end and self.serving.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", int(self.port)), 5).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.02)
        raise AssertionError("it did not start")

    def end(self) -> None:
        if self.serving is not None:
            self.serving.terminate()
            assert self.serving.wait(20) == 0


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    need("curl")
    made = Newcomer(tmp_path)
    yield made
    made.end()


def blocks(page: str, language: str = "") -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```\n", text, re.DOTALL | re.MULTILINE)
    return [inside for named, inside in found if named == language]


def block(page: str, mark: str, language: str = "") -> str:
    """The one block with these words in it."""
    (found,) = [each for each in blocks(page, language) if mark in each]
    return found.rstrip("\n")


def test_docs_http_starts_a_service_and_does_the_main_job_with_curl(newcomer: Newcomer) -> None:
    newcomer.start(block("docs/http.md", "fencepost serve"))
    before, after = block("docs/http.md", "curl -s").split("TASK=...", 1)
    said = newcomer.shell(before)
    enqueued, claimed = (json.loads(line) for line in said.replace("}{", "}\n{").splitlines())
    (lease,) = claimed["leases"]
    assert [lease["task_id"]] == enqueued["task_ids"]
    assert (lease["payload"], lease["fencing_token"]) == ({"page": 17}, 1)
    first_lines = "\n".join(before.splitlines()[:2])
    last = f"{first_lines}\nTASK={lease['task_id']} {after}"
    one, two = newcomer.shell(last), newcomer.shell(last + " -D headers")
    assert one == two and json.loads(one)["status"] == "accepted"
    assert "idempotent-replayed: true" in (newcomer.folder / "headers").read_text().lower()


def test_the_readme_goes_from_token_to_receipt_with_the_shell_curl_and_python(
    newcomer: Newcomer,
) -> None:
    newcomer.shell("fencepost init")
    newcomer.start(block("README.md", "fencepost serve"))
    lines = block("README.md", "export FENCEPOST_STORE").splitlines()
    where, enqueue, token, claim, complete, *curl = lines
    assert "TASK" in complete and " F " in complete and curl[0].startswith("curl ")
    newcomer.shell(f"{where}\n{enqueue}")
    who = f"{where}\n{token}\n"
    said = newcomer.shell(who + claim)
    (task_id,) = set(re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", said))
    (fence,) = set(re.findall(r"fence (\d+)", said))
    typed = who + complete.replace("TASK", task_id).replace(" F ", f" {fence} ")
    first = re.findall(r"entry (\d+)", newcomer.shell(typed))
    assert first == re.findall(r"entry (\d+)", newcomer.shell(typed)) != []
    assert json.loads(newcomer.shell(who + "\n".join(curl)))["leases"] == []
    newcomer.shell(f"{where}\n{enqueue.replace('page-18', 'page-19')}")
    python = block("README.md", "http://127.0.0.1", "py").replace(PORT, newcomer.port)
    (newcomer.folder / "work.py").write_text(f"import fencepost\n{python}\n")
    newcomer.shell(f"{token}\n{sys.executable} -W error work.py")
    with fencepost.open(newcomer.folder / "fencepost.db") as fp:
        assert [task.state for task in fp.tasks()] == ["done", "done"]
        assert fp.verify().clean


def test_the_table_of_limits_is_the_code_s() -> None:
    from fencepost.server.settings import ServerSettings

    given = ServerSettings()
    text = (ROOT / "docs/http.md").read_text(encoding="utf-8").split("## Limits")[1]
    table = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", text, re.MULTILINE))
    kib, mib = 1024, 1024 * 1024
    assert table["a request's line and headers"] == (
        f"{given.max_header_bytes // kib} KiB, within {given.header_seconds} s"
    )
    assert table["a body"] == f"{given.max_body_bytes // mib} MiB, within {given.body_seconds} s"
    assert table["requests of one token"] == f"{given.max_requests_per_second:,} a second"
    assert table["tasks claimed by one token"] == f"{given.max_claimed_per_minute:,} a minute"
    waiting = f"{given.max_waiting_per_token} a token, {given.max_waiting:,} together"
    assert table["claims that wait"] == waiting
    assert table["tasks that the claims of one batch ask for"] == f"{given.max_batch_claims}"
    assert table["bodies being sent and carried out, together"] == (
        f"{given.max_bytes_in_flight // mib} MiB"
    )
    streams = f"{given.max_streams_per_token} a token, {given.max_streams} together"
    assert table["streams"] == streams
    assert table["connections"] == f"{given.max_connections:,}"
