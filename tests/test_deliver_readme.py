"""The README's way to somebody outside, as a newcomer types it."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

from test_http_readme import Newcomer, block

DELIVER = "fencepost deliver --exit-when-empty"


def test_the_readme_goes_from_a_result_to_the_receivers_receipt(tmp_path):
    newcomer = Newcomer(tmp_path)
    newcomer.environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    python = tmp_path / "bin" / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    typed = block("README.md", DELIVER, "sh").replace("8788", newcomer.port)
    before, after = typed.split(DELIVER)
    before = before.replace(" &\n", " > receiver.log 2>&1 & echo $! > receiver.pid\n")
    try:
        newcomer.shell(f"fencepost init\n{before}")
        until_listening(int(newcomer.port))
        said = newcomer.shell(f"{DELIVER}\n{after}")
    finally:
        os.kill(int((tmp_path / "receiver.pid").read_text()), signal.SIGTERM)
    (receipt,) = (json.loads(line) for line in said.splitlines() if line.startswith("{"))
    assert (receipt["status"], receipt["position"], receipt["revision"]) == ("accepted", 1, 1)
    shown = newcomer.shell("fencepost --json list --queue out")
    assert json.loads(shown.splitlines()[0])["state"] == "done"


def until_listening(port: int) -> None:
    """Who types is slower than a program that starts."""
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < end, "the receiver did not start"
            time.sleep(0.05)
