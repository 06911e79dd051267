"""TLS by certificate files: a client that trusts the certificate comes in, others send nothing.

The certificate in tls/ is its own authority, for 127.0.0.1 and localhost, and for tests alone.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.children import TESTS
from helpers.service import Service
from helpers.shell import run
from helpers.tools import need

import fencepost

CERTIFICATE, KEY = TESTS / "tls" / "cert.pem", TESTS / "tls" / "key.pem"
FLAGS = ("--certfile", str(CERTIFICATE), "--keyfile", str(KEY))


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("tls"), *FLAGS) as service:
        yield service


def curl(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [need("curl"), "-sS", "--max-time", "20", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def test_curl_comes_in_where_it_trusts_the_certificate_and_only_there(web: Service) -> None:
    assert web.url == f"https://127.0.0.1:{web.port}"
    header = f"Authorization: Bearer {web.token('producer', 'curl')}"
    trusting = curl("--cacert", str(CERTIFICATE), "-H", header, f"{web.url}/v1/default")
    assert json.loads(trusting.stdout)["scope"] == "default"
    refused = curl("-H", header, f"{web.url}/v1/default")
    assert refused.returncode == 60 and refused.stdout == ""


def test_python_comes_in_where_it_trusts_the_certificate_and_only_there(web: Service) -> None:
    worker, producer = web.token("worker", "w"), web.token("producer", "p")
    with fencepost.open(web.url, token=producer, cafile=str(CERTIFICATE)) as fp:
        task_id = fp.enqueue("q", {"n": 1}, key="one").task_id
    with fencepost.open(web.url, token=worker, cafile=str(CERTIFICATE)) as fp:
        (lease,) = fp.claim("q", worker_id="w", wait_seconds=10)
        assert lease.complete({"ok": True}).task_id == lease.task_id == task_id
    with (
        fencepost.open(web.url, token=worker, deadline_seconds=5) as fp,
        pytest.raises(fencepost.Unavailable, match="certificate"),
    ):
        fp.claim("q", worker_id="w")


def test_whoever_speaks_in_the_clear_gets_nothing(web: Service) -> None:
    with socket.create_connection(("127.0.0.1", web.port), 20) as link:
        link.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        with suppress(ConnectionResetError):
            assert b"200" not in link.recv(1_000)
    assert curl("--cacert", str(CERTIFICATE), f"{web.url}/livez").stdout == "ok\n"


def test_a_key_that_asks_for_a_password_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    fencepost.open(tmp_path / "work.db", create=True).close()
    locked = tmp_path / "locked.pem"
    done = subprocess.run(
        [need("openssl"), "ec", "-in", str(KEY), "-aes256", "-passout", "pass:x",
         "-out", str(locked)],
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    ran = run(tmp_path, "--store", "work.db", "serve", "--certfile", CERTIFICATE,
              "--keyfile", locked)  # fmt: skip
    assert ran.code == 2 and "has a password" in ran.err
