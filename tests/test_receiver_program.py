"""A receiver's secrets, its program, its folder alone, its file."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from helpers.receiving import KEY, OTHER_SECRET, SECRET, Sender, incarnation, place_of, task

from fencepost.receiver import Receiver, SqliteStore, signing
from fencepost.receiver import __main__ as program
from fencepost.receiver.secretfile import SecretFile

PACKAGE = Path(program.__file__).parent
OTHER = signing.secret_bytes(OTHER_SECRET)
SENDER = Sender()
EVENT = SENDER.event()


@pytest.fixture
def place(tmp_path):
    with place_of("sqlite", tmp_path) as made:
        yield made


# -- secrets


def test_a_rotation_of_secrets_is_taken_up_while_it_runs(place, tmp_path):
    path = tmp_path / "secrets"
    path.write_text(f"# of the press\n{SECRET}\n", encoding="ascii")
    receiver = place.open(secrets=SecretFile(path))
    try:
        assert place.send(SENDER.hello(), receiver).code == "ok"
        assert place.send(EVENT, receiver, key=OTHER).status == 401
        path.write_text(f"{OTHER_SECRET}\n{SECRET}\n", encoding="ascii")
        answer = place.send(EVENT, receiver, key=OTHER)
        assert answer.code == "accepted"
        assert len(answer.headers["webhook-signature"].split(" ")) == 2
        for key in (KEY, OTHER):
            assert signing.verify([key], answer.headers, answer.body, place.now // 1_000_000)
        path.write_text("half a secr", encoding="ascii")  # it is being written
        assert place.send(EVENT, receiver).code == "replayed"
        path.write_text(f"{OTHER_SECRET}\n", encoding="ascii")
        assert place.send(EVENT, receiver).status == 401
        assert place.send(EVENT, receiver, key=OTHER).code == "replayed"
    finally:
        receiver.close()


def test_a_stream_is_adopted_with_the_secret_for_it_and_with_no_other(place):
    receiver = place.open(adopt_secret=OTHER_SECRET)
    stranger = Sender(5, incarnation(5))
    here = {"adopt": {"epoch": 1, "incarnation": incarnation(1)}}
    try:
        place.send(SENDER.hello(), receiver)
        assert place.send(stranger.hello(), receiver).code == "fork"
        assert place.send(stranger.hello(**here), receiver).code == "adopt_forbidden"
        assert place.send(stranger.hello(), receiver, key=OTHER).code == "adopt_forbidden"
        assert place.send(EVENT, receiver, key=OTHER).status == 401
        assert place.send(stranger.hello(**here), receiver, key=OTHER).code == "ok"
        assert place.send(EVENT, receiver).code == "old_epoch"
        assert place.send(stranger.event(), receiver).code == "accepted"
    finally:
        receiver.close()
    never = place.open(allow_adopt=False)
    try:
        moved = {"adopt": {"epoch": 5, "incarnation": incarnation(5)}}
        assert place.send(Sender(6, incarnation(6)).hello(**moved), never).code == "adopt_forbidden"
    finally:
        never.close()


@pytest.mark.parametrize("secrets", [[], SECRET, ["whsec_x"], [SECRET, "x"]])
def test_a_receiver_without_good_secrets_is_not_made(tmp_path, secrets):
    with pytest.raises(ValueError, match="secret"):
        Receiver(SqliteStore(tmp_path / "a.db"), print, secrets)
    (tmp_path / "secrets").write_text("# nothing\n", encoding="ascii")
    with pytest.raises(ValueError, match="no secret"):
        SecretFile(tmp_path / "secrets")


# -- the program and its store


def run(*arguments, code=0, folder=None):
    done = subprocess.run(
        [sys.executable, "-m", "fencepost.receiver", *map(str, arguments)],
        capture_output=True, text=True, timeout=50, check=False, cwd=folder or PACKAGE.parents[1],
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout if not code else done.stderr


def test_people_can_list_what_was_accepted_and_drop_what_was_in_it(place):
    place.send(SENDER.hello())
    place.send(SENDER.event(1, value="private"))
    place.send(SENDER.event(2, revision=3, fence=7))
    lines = [json.loads(line) for line in run("accepted", "--store", place.where).splitlines()]
    assert [(one["position"], one["operation"], one["epoch"]) for one in lines] == [
        (1, f"{task(1)}:1", 1), (2, f"{task(2)}:3", 1),
    ]  # fmt: skip
    assert {one["stream"] for one in lines} == {SENDER.stream}
    assert lines[0]["incarnation"] == incarnation(1) and "event" not in lines[0]
    run("drop", SENDER.stream, f"{task(1)}:1", "--store", place.where)
    lines = run("accepted", "--store", place.where, "--events").splitlines()
    assert json.loads(lines[0])["event"] is None
    assert json.loads(lines[1])["event"]["revision"] == 3
    assert place.send(SENDER.event(1, value="private")).code == "replayed"
    again = run("drop", SENDER.stream, f"{task(1)}:1", "--store", place.where, code=2)
    assert "no event of this stream" in again
    assert run("accepted", "--store", place.where, "--stream", "x") == ""


def test_a_store_that_is_not_there_is_not_made_by_looking(tmp_path):
    assert "is no file" in run("accepted", "--store", tmp_path / "none.db", code=2)
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text").write_text("no database at all, only text " * 50, encoding="ascii")
    assert "receiver: " in run("accepted", "--store", tmp_path / "text", code=6)


def test_what_is_asked_wrongly_is_said_in_one_line(tmp_path):
    (tmp_path / "secret").write_text("x\n", encoding="ascii")
    wrong = run("--store", tmp_path / "a.db", "--secret-file", tmp_path / "secret", code=2)
    assert wrong == f"receiver: {tmp_path}/secret: secret 1: a secret begins with whsec_\n"
    assert "--secret-file" in run("--store", tmp_path / "a.db", code=2)


def test_a_new_secret_can_be_had_and_help_begins_nowhere_else():
    assert len(signing.secret_bytes(run("new-secret").strip())) == 32
    for verb in ((), ("accepted",), ("drop",), ("new-secret",)):
        assert "examples:" in run(*verb, "--help")


def test_the_folder_alone_is_enough(tmp_path):
    """Copied elsewhere under another name, with nothing else of ours to be found, and -I."""
    shutil.copytree(PACKAGE, tmp_path / "kit", ignore=shutil.ignore_patterns("__pycache__"))
    script = tmp_path / "try.py"
    script.write_text(
        f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import kit.asgi, kit.wsgi, kit.serving, kit.__main__
from kit import Receiver, SqliteStore, new_secret
receiver = Receiver(SqliteStore({str(tmp_path / "a.db")!r}), print, [new_secret()])
assert receiver.handle({{"content-type": "application/cloudevents+json"}}, b"").status == 401
receiver.tidy()
receiver.close()
assert not [name for name in sys.modules if name.startswith("fencepost")], "it reaches for ours"
print("alone")
""",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-I", script], capture_output=True, text=True, timeout=50, check=True,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == "alone\n"


# -- what a commit is


def test_a_commit_is_on_the_disk_and_that_is_read_back(tmp_path):
    fresh = SqliteStore(tmp_path / "fresh.db")
    fresh.open()
    asked = [fresh.connection.execute(f"PRAGMA {name}").fetchone() for name in
             ("journal_mode", "synchronous", "wal_autocheckpoint")]  # fmt: skip
    assert asked == [("wal",), (2,), (0,)]
    fresh.close()
    theirs = SqliteStore(tmp_path / "theirs.db")
    connection = sqlite3.connect(tmp_path / "theirs.db")
    connection.execute("create table theirs (a)")
    connection.close()
    theirs.open()
    assert theirs.connection.execute("PRAGMA journal_mode").fetchone() == ("truncate",)
    theirs.close()


def test_a_long_log_is_copied_back_while_it_runs(tmp_path):
    """And not while somebody reads in it: then after a later commit."""
    path = tmp_path / "fresh.db"
    receiver = Receiver(SqliteStore(path), lambda connection, event: None, [SECRET])

    def send(sent):
        return receiver.handle(sent.headers(int(time.time())), sent.body).status

    def log():
        return os.stat(f"{path}-wal").st_size

    assert send(SENDER.hello()) == 200
    for number in range(6):
        assert send(SENDER.event(number, value="x" * 900_000)) == 200
        assert log() < 6_000_000
    with contextlib.closing(sqlite3.connect(path)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from fencepost_receiver_receipt").fetchone()
        for number in range(6, 14):
            assert send(SENDER.event(number, value="x" * 900_000)) == 200
        assert log() > 6_000_000
    assert send(SENDER.event(14)) == 200
    assert log() == 0
    receiver.close()


def test_a_store_that_cannot_be_written_says_so_and_then_goes_on(tmp_path):
    with place_of("sqlite", tmp_path) as place:
        place.send(SENDER.hello())
        with place.eyes() as eyes:
            eyes.execute("begin immediate")
            short = place.open()
            short.desk._store._busy_seconds = 0.05
            refused = place.send(EVENT, short)
            assert (refused.code, refused.headers["retry-after"]) == ("unavailable", "1")
            eyes.execute("rollback")
        assert place.send(EVENT, short).code == "accepted"
        short.close()


def test_a_receiver_is_used_on_one_side_of_a_fork(tmp_path, monkeypatch):
    """Made before the fork and used after it is well; used on both sides would wait for ever."""
    with place_of("sqlite", tmp_path) as place:
        here = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: here + 1)
        assert place.send(SENDER.hello()).code == "ok"
        monkeypatch.setattr(os, "getpid", lambda: here + 2)
        with pytest.raises(RuntimeError, match="before a fork"):
            place.send(EVENT)
        monkeypatch.undo()


def test_a_closed_receiver_and_one_with_too_many_waiting_say_come_again(tmp_path, monkeypatch):
    monkeypatch.setattr("fencepost.receiver.desk.WAITING", 2)
    with place_of("sqlite", tmp_path) as place:
        place.send(SENDER.hello())
        hold, begun = threading.Event(), threading.Event()
        place.before = lambda connection, event: (begun.set(), hold.wait(30))
        seconds = place.now // 1_000_000

        def hand_in(number):
            sent = SENDER.event(number)
            return place.receiver.submit(sent.headers(seconds), sent.body)

        first = hand_in(0)
        assert begun.wait(30)
        rest = [hand_in(number) for number in range(1, 5)]
        assert [future.result(30).status for future in rest[2:]] == [503, 503]
        hold.set()
        assert [future.result(30).status for future in (first, *rest[:2])] == [200] * 3
        place.close()
        assert place.send(EVENT).code == "unavailable"
