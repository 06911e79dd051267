"""Over TLS: whom it trusts, and that what breaks there is told and mended as elsewhere."""

from __future__ import annotations

import socket
import ssl
import subprocess

import pytest
from helpers import stub
from helpers.remote import TOKEN
from helpers.stand import QUEUE, SCOPE, Stand
from helpers.stub import Stub
from helpers.tools import need

import fencepost
from fencepost.issues import InvalidRequest, Unavailable


def certificate(folder, name, host):
    key, made = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(
        [need("openssl"), "req", "-x509", "-newkey", "ec",
         "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", key, "-out", made, "-days", "2", "-subj", f"/CN={host}",
         "-addext", f"subjectAltName={host}"],
        check=True, capture_output=True,
    )  # fmt: skip
    return made, key


class Secured(Stub):
    """The stub behind TLS."""

    def __init__(self, fp, certificate):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*certificate)
        super().__init__(fp)
        self.url = self.url.replace("http:", "https:")

    def wrap(self, connection: socket.socket) -> socket.socket:
        return self.context.wrap_socket(connection, server_side=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return {name: certificate(folder, name, host) for name, host in
            [("right", "IP:127.0.0.1"), ("other", "DNS:other.example")]}  # fmt: skip


@pytest.fixture
def opened(certificates):
    made = []

    def opened(served, trusted):
        stand = Stand()
        secured = Secured(stand.fp, certificates[served])
        cafile = None if trusted is None else str(certificates[trusted][0])
        fp = fencepost.open(
            secured.url, scope=SCOPE, token=TOKEN, cafile=cafile, max_skew_seconds=None,
            sleep=lambda seconds: None, deadline_seconds=20,
        )  # fmt: skip
        made.append((fp, secured, stand))
        return made[-1]

    yield opened
    for fp, secured, stand in made:
        fp.close()
        secured.close()
        stand.fp.close()


def test_a_service_whose_ca_is_named_is_trusted_and_its_connection_kept(opened):
    fp, secured, stand = opened("right", "right")
    for n in range(3):
        fp.enqueue(QUEUE, n)
    assert secured.connections == 1 and len(list(stand.fp.tasks())) == 3


@pytest.mark.parametrize(("served", "trusted"), [
    ("right", None), ("right", "other"), ("other", "other"),
])  # fmt: skip
def test_any_other_certificate_is_refused_at_once_and_nothing_is_sent(opened, served, trusted):
    fp, secured, _ = opened(served, trusted)
    with pytest.raises(Unavailable, match=r"certificate is not trusted .* \(1 try\)"):
        fp.enqueue(QUEUE, 1)
    assert secured.seen == []


@pytest.mark.parametrize("fault", ["hung_up", "lost", "cut", "reset"])
def test_what_breaks_inside_tls_is_carried_out_once_too(opened, fault):
    fp, secured, stand = opened("right", "right")
    fp.enqueue(QUEUE, "first")
    secured.script.append(stub.cut(0.5) if fault == "cut" else getattr(stub, fault))
    for n in range(2):
        fp.enqueue(QUEUE, n)
    assert [stand.fp.task(t.task_id).payload for t in stand.fp.tasks()] == ["first", 0, 1]


@pytest.mark.parametrize("cafile", ["/nowhere/ca.pem", "/dev/null"])
def test_a_ca_that_cannot_be_read_is_told_when_it_is_named(cafile):
    with pytest.raises(InvalidRequest, match="cafile"):
        fencepost.open("https://host", cafile=cafile)
