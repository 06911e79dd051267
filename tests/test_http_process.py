"""`fencepost serve` as a process: how it starts, what it says, and how it ends."""

from __future__ import annotations

import http.client
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.service import Service, planted
from helpers.shell import command, environment, run
from helpers.web import Reply
from test_turn import until_somebody_waits

import fencepost
from fencepost.server.settings import ServerSettings
from fencepost.storage.sqlite.turn import TurnLock

STOP = 5.0  # seconds, of which docs/http.md speaks
ENQUEUE = {"verb": "enqueue", "queue": "q", "tasks": [{"payload": 1}]}
CLAIM = {"verb": "claim", "queues": ["empty"], "worker_id": "w"}
EVERYWHERE = "0.0.0.0"  # noqa: S104  it is refused
LOAD = 3.0  # how much longer something may take on a machine that has other things to do


class Later(threading.Thread):
    """A request in a thread of its own."""

    def __init__(self, web: Service, path: str, body: dict[str, object], token: str) -> None:
        super().__init__()
        self.given = (path, body, token)
        self.web = web
        self.reply: Reply | None = None
        self.start()

    def run(self) -> None:
        with suppress(OSError, http.client.HTTPException):  # ended without an answer
            self.reply = self.web.post(*self.given)

    def answered(self) -> Reply | None:
        self.join(30)
        return self.reply


def until_nobody_listens(web: Service) -> None:
    """The first signal has been heard."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", web.port), 5).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.01)
    raise AssertionError("it listens still")


def test_it_says_where_it_is_and_how_to_make_the_token_that_is_missing(tmp_path: Path) -> None:
    with Service(tmp_path) as web:
        assert web.url == f"http://127.0.0.1:{web.port}"
        assert web.get("/livez").body == web.get("/readyz").body == b"ok\n"
        (line,) = [line for line in web.said().splitlines() if "token create" in line]
        words = shlex.split(line.removeprefix("fencepost: "))
        made = run(tmp_path, *words[1:])
        token = made.out.strip()
        assert made.code == 0 and token.startswith("fp_")
        assert web.get("/v1/default").status == 401
        assert web.get("/v1/default", token).json["scope"] == "default"
        assert web.ended()[0] == 0
    with Service(tmp_path) as web:
        assert "token" not in web.said()
        assert token not in web.said()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_waiting_and_streams_and_lets_commits_finish(
    tmp_path: Path, number: int
) -> None:
    with Service(tmp_path) as web:
        token = web.token("operator", "w")
        stream = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
        headers = {"Authorization": f"Bearer {token}"}
        stream.request("GET", "/v1/default/journal/events", headers=headers)
        tail = stream.getresponse()
        assert tail.readline() == b"retry: 3000\n"
        waiting = Later(web, "/v1/default/queues/empty/claims?wait_seconds=50", CLAIM, token)
        turn = TurnLock(web.path)
        with turn:
            committing = Later(web, "/v1/default/queues/q/tasks", ENQUEUE, token)
            until_somebody_waits(web.path)
            began = time.monotonic()
            os.kill(web.child.pid, number)
            until_nobody_listens(web)
        turn.close()
        assert web.child.wait(30) == 0
        assert time.monotonic() - began < STOP
        assert (committing.answered() or Reply(0, {}, b"")).status == 200
        vain = waiting.answered()
        assert vain is not None and (vain.status, vain.json["leases"]) == (200, [])
        assert b"data: {" in tail.read()
        stream.close()
        assert "Traceback" not in web.said()
    assert not Path(f"{web.path}-wal").exists(), "the store was not closed"
    with fencepost.open(web.path) as fp:
        assert [task.state for task in fp.tasks("q")] == ["ready"]
        assert fp.verify().clean


def test_a_service_that_raised_the_signal_once_more_would_be_seen(tmp_path: Path) -> None:
    as_uvicorn_does = planted(
        tmp_path,
        "import uvicorn\nfrom fencepost.server.serve import Server\n"
        "Server.capture_signals = uvicorn.Server.capture_signals\n",
    )
    with Service(tmp_path, "--dev", **as_uvicorn_does) as web:
        web.post("/v1/default/queues/q/tasks", ENQUEUE)
        assert web.ended(signal.SIGTERM)[0] == -signal.SIGTERM
    assert Path(f"{web.path}-wal").exists(), "so the store was not closed"


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once_and_spoils_nothing(tmp_path: Path, second: int) -> None:
    with Service(tmp_path, "--dev") as web:
        turn = TurnLock(web.path)
        with turn:
            lost = Later(web, "/v1/default/queues/q/tasks", ENQUEUE, "")
            until_somebody_waits(web.path)
            os.kill(web.child.pid, signal.SIGTERM)
            until_nobody_listens(web)
            code, seconds = web.ended(second)
            assert code == -second and seconds < 1
        turn.close()
        assert lost.answered() is None
    with fencepost.open(web.path) as fp:
        assert list(fp.tasks()) == [] and fp.verify().clean


def test_a_turn_that_never_comes_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    with Service(tmp_path, "--dev") as web:
        turn = TurnLock(web.path)
        with turn:
            lost = Later(web, "/v1/default/queues/q/tasks", ENQUEUE, "")
            until_somebody_waits(web.path)
            code, seconds = web.ended(signal.SIGTERM, seconds=20)
        turn.close()
        assert (code, seconds < STOP * LOAD) == (6, True)
        assert "was not carried out" in web.said().splitlines()[-1]
        reply = lost.answered()
        assert reply is not None and reply.status == 503
        assert "nothing was done" in reply.json["detail"] and reply.headers["retry-after"] == "1"
    with fencepost.open(web.path) as fp:
        assert list(fp.tasks()) == [] and fp.verify().clean


def test_a_log_that_nobody_reads_any_more_ends_nothing(tmp_path: Path) -> None:
    fencepost.open(tmp_path / "work.db", create=True).close()
    words = command("--store", "work.db", "--json", "serve", "--port", "0", "--dev")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=tmp_path, env=environment(), text=True, **pipes) as child:  # type: ignore[call-overload]
        try:
            port = int(child.stdout.readline().split('"port":')[1].split("}")[0])
            child.stderr.close()
            for _ in range(3):
                link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                link.request("GET", "/v1/default")
                assert link.getresponse().status == 200
                link.close()
            child.send_signal(signal.SIGTERM)
            assert child.wait(30) == 0
        finally:
            child.kill()


# -- what it is given


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--port", "x"], 2, "'x' is not an integer"),
        (["--port", "65536"], 2, "0 to 65535"),
        (["--port", "-1"], 2, "0 to 65535"),
        (["--nonsense"], 2, "unrecognized arguments: --nonsense"),
        (["--host", EVERYWHERE], 2, "in the clear"),
        (["--host", "192.0.2.1", "--dev"], 2, "loopback only"),
        (["--host", EVERYWHERE, "--dev", "--behind-proxy"], 2, "loopback only"),
        (["--certfile", "no.pem"], 2, "belong together"),
        (["--certfile", "no.pem", "--keyfile", "no.pem"], 2, "No such file"),
        (["--certfile", "work.db", "--keyfile", "work.db"], 2, "no certificate"),
        (["--host", "192.0.2.1", "--behind-proxy"], 6, "cannot listen on 192.0.2.1"),
        (["--store", "nowhere.db"], 6, "nowhere.db init"),
        (["--store", "http://127.0.0.1:1"], 2, "service's own machine"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(
    tmp_path: Path, flags: list[str], code: int, said: str
) -> None:
    fencepost.open(tmp_path / "work.db", create=True).close()
    ran = run(tmp_path, "--store", "work.db", "serve", "--port", "0", *flags)
    assert (ran.code, ran.out) == (code, ""), ran
    assert len(ran.err.splitlines()) == 1 and said in ran.err


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with Service(tmp_path) as web:
        ran = run(tmp_path, "--store", web.path, "serve", "--port", web.port)
        assert ran.code == 6
        assert f"cannot listen on 127.0.0.1 port {web.port}: Address already in use" in ran.err


def test_the_help_begins_with_examples_and_names_every_flag(tmp_path: Path) -> None:
    told = run(tmp_path, "serve", "--help").out
    assert told.startswith("examples:\n  fencepost serve ")
    for flag in ("--host", "--port", "--certfile", "--keyfile", "--behind-proxy", "--dev"):
        assert flag in told
    assert str(ServerSettings().port) in told


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "httptools"])
def test_without_the_extra_it_says_what_to_install(tmp_path: Path, package: str) -> None:
    missing = planted(
        tmp_path,
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] == {package!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n",
    )
    ran = run(tmp_path, "serve", **missing)
    assert ran.code == 2 and len(ran.err.splitlines()) == 1
    assert package in ran.err and "pip install 'fencepost[server]'" in ran.err
    assert run(tmp_path, "serve", "--help", **missing).code == 0
    assert run(tmp_path, "init", **missing).code == 0
