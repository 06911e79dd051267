"""A receiver that is killed at any step: effect and receipt are both there, or both not."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.receiver_dying import STEPS
from helpers.receiving import SECRET, Sender, place_of, task

TESTS = Path(__file__).parent
PATIENCE_SECONDS = 50.0


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_at_each_step_it_has_both_effect_and_receipt_or_neither(kind, tmp_path):
    with place_of(kind, tmp_path) as place:
        sender = Sender()
        place.send(sender.hello())
        place.close()
        for number, step in enumerate(STEPS):
            sent = sender.event(number, ordered=True)
            given = {
                "headers": sent.headers(place.now // 1_000_000), "body": sent.body.decode(),
                "now": place.now,
            }  # fmt: skip
            died = subprocess.run(
                [sys.executable, "-m", "helpers.receiver_dying", kind, place.where, step],
                input=json.dumps(given), text=True, capture_output=True, cwd=TESTS,
                timeout=PATIENCE_SECONDS, check=False,
                env={"PYTHONPATH": f"{TESTS}:{TESTS.parent}", "PATH": "/usr/bin:/bin"},
            )  # fmt: skip
            assert (died.returncode, died.stdout) == (-signal.SIGKILL, ""), (step, died.stderr)
            there = place.effects().count(sent.operation)
            assert there == (1 if step == "after the commit" else 0), step
            receipts = place.count("fencepost_receiver_receipt")
            assert receipts == len(place.effects()), step
            # The sender has heard nothing, and sends the same bytes again.
            place.receiver = place.open()
            said = place.send(sent)
            assert said.code == ("replayed" if there else "accepted"), step
            assert said.value["sequence"] == number + 1
            place.close()
            sender.delivered(sent)
        assert place.effects() == [f"{task(number)}:1" for number in range(len(STEPS))]


class Running:
    """`python -m fencepost.receiver` on a file, started again and again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0
        (folder / "secret").write_text(SECRET + "\n", encoding="ascii")
        self.process: subprocess.Popen[str] | None = None

    def start(self, *more: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fencepost.receiver", "--store", str(self.folder / "effects.db"),
             "--secret-file", str(self.folder / "secret"), "--port", str(self.port), *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=TESTS.parent,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line
        self.port = int(line.rsplit(":", 1)[1])

    def end(self, number: int) -> tuple[int, str, str]:
        assert self.process is not None
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, err

    def post(self, sent) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", "/", sent.body, sent.headers(int(time.time())))
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, answer.read(), headers
        finally:
            connection.close()


@pytest.fixture
def running(tmp_path):
    made = Running(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.end(signal.SIGKILL)
    if made.process is not None:
        made.process.communicate()


def test_under_load_and_killed_again_and_again_each_effect_is_there_once(running):
    """Each sender repeats its bytes until it hears 200. What was acknowledged stays, and what an
    answer said once it says again."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    running.start("--quiet")
    sender = Sender()
    assert running.post(sender.hello())[0] == 200
    total, acknowledged, over = 400, {}, threading.Event()

    def deliver(number: int) -> None:
        sent = sender.event(number)
        while not over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, body, _ = running.post(sent)
                assert status == 200, body
                acknowledged[sent.operation] = body
                return
            time.sleep(0.01)

    with ThreadPoolExecutor(16) as pool:
        futures = [pool.submit(deliver, number) for number in range(total)]
        for kill in range(1, 5):
            until = time.monotonic() + PATIENCE_SECONDS
            goal = kill * total // 6 + chance.randrange(20)
            while len(acknowledged) < goal and time.monotonic() < until:
                time.sleep(0.002)
            assert len(acknowledged) >= goal
            assert running.end(signal.SIGKILL)[0] == -signal.SIGKILL
            with contextlib.closing(sqlite3.connect(running.folder / "effects.db")) as eyes:
                effects = eyes.execute("select count(*) from receiver_effect").fetchone()
                receipts = eyes.execute(
                    "select count(*) from fencepost_receiver_receipt"
                ).fetchone()
            assert effects == receipts
            running.start("--quiet")
        try:
            for future in futures:
                future.result(PATIENCE_SECONDS)
        finally:
            over.set()
    assert len(acknowledged) == total
    for number in range(total):
        sent = sender.event(number)
        status, body, headers = running.post(sent)
        assert (status, body) == (200, acknowledged[sent.operation])
        assert headers["idempotent-replayed"] == "true"
    with contextlib.closing(sqlite3.connect(running.folder / "effects.db")) as eyes:
        rows = eyes.execute("select operation from receiver_effect").fetchall()
    assert sorted(operation for (operation,) in rows) == sorted(acknowledged)
    assert len(rows) == total


def test_ctrl_c_ends_it_with_what_was_answered_in_the_store(running):
    running.start()
    running.post(Sender().hello())
    running.post(Sender().event(7, fence=5))
    running.post(Sender().event(7, fence=5))
    running.post(Sender().event(8, incarnation_of_nobody="x", fpincarnation="0" * 36))
    code, out, err = running.end(signal.SIGINT)
    assert (code, err) == (0, "")
    told = f"result pages/{task(7)} revision 1, fence 5, position 1"
    assert out.splitlines() == [
        "hello     epoch 1, 0 effects here", f"accepted  {told}", f"replayed  {told}",
        "refused   malformed (400)", "stopped: what was answered is in the store",
    ]  # fmt: skip
    running.start()  # and it can be started anew
    assert running.end(signal.SIGTERM)[0] == 0
