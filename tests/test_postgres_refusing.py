"""A PostgreSQL that has no room left, and one that is too old."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading

import psycopg
import pytest
from helpers import postgres
from helpers.lab import QUEUE

import fencepost
from fencepost.issues import Unavailable

SMALL = "16m"


@pytest.fixture
def small_disk(monkeypatch):
    """The URL of a database whose files are on a disk of 16 MB."""
    server = postgres.Server()
    disk = server.folder / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size={SMALL} tmpfs {disk} && exec "$@"'
    wrapper = ("unshare", "--mount", "sh", "-c", mount, "sh")
    tried = subprocess.run([*wrapper, "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        server.close()
        pytest.skip("no such isolation may be made on this machine: mount needs root")
    user = postgres.as_user()
    monkeypatch.setattr(postgres, "as_user", lambda: (*wrapper, *user))
    with server:
        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.execute(f"create tablespace small location '{disk}'")
            admin.execute("create database work template template0 tablespace small")
        yield server.url("work")


def fill(fp, told):
    for number in range(400):
        payload = os.urandom(30_000).hex()
        told.append(fp.enqueue(QUEUE, payload, idempotency_key=f"k{number}").number)


def test_a_full_disk_is_told_nothing_was_done_and_work_goes_on_when_there_is_room(small_disk):
    with (
        fencepost.open(small_disk, create=True) as fp,
        psycopg.connect(small_disk, autocommit=True) as beside,
    ):
        beside.execute(
            "create table ballast as select repeat('x', 500) from generate_series(1, 4000)"
        )
        told = []
        with pytest.raises(Unavailable, match="disk is full"):
            fill(fp, told)
        assert told
        count = beside.execute("select count(*) from fencepost_task").fetchone()
        assert count == (len(told),)
        beside.execute("drop table ballast")
        assert (
            fp.enqueue(QUEUE, "small", idempotency_key=f"k{len(told)}").entry["verb"] == "enqueue"
        )
        assert fp.verify().problems == ()


def test_a_server_that_is_too_old_is_refused_by_its_number():
    """It says its version before it is asked anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=_an_old_server, args=(listener,))
        thread.start()
        url = f"postgresql://me@127.0.0.1:{port}/work?sslmode=disable&gssencmode=disable"
        with pytest.raises(Unavailable, match="is PostgreSQL 13; 14 is the oldest"):
            fencepost.open(url)
        thread.join(20)


def _an_old_server(listener):
    client, _ = listener.accept()
    with client:
        (size,) = struct.unpack("!I", client.recv(4))
        client.recv(size - 4)
        said = {
            b"server_version": b"13.22",
            b"server_encoding": b"UTF8",
            b"client_encoding": b"UTF8",
        }
        told = b"".join(
            _message(b"S", name + b"\0" + value + b"\0") for name, value in said.items()
        )
        ready = _message(b"K", struct.pack("!II", 1, 1)) + _message(b"Z", b"I")
        client.sendall(_message(b"R", struct.pack("!I", 0)) + told + ready)
        while client.recv(1_000):
            pass


def _message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body
