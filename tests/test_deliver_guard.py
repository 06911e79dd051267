"""Where a delivery may not go: faults.md 68."""

from __future__ import annotations

import pytest
from helpers.receivers import Web, http

from fencepost.deliveries.guard import Refused, permitted, refused, target_of
from fencepost.deliveries.http import Exchange, Unsent
from fencepost.issues import InvalidRequest

INSIDE = [
    "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "192.0.0.8", "198.18.0.1", "240.0.0.1", "255.255.255.255",
    "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:a00:1::1", "2001:0:7f00:1::", "2001:db8::1",
    "100::1",
]  # fmt: skip
NOWHERE = ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:0.0.0.0", "no address"]  # noqa: S104
OUTSIDE = ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_of_the_inside_is_refused_unless_it_is_allowed(address):
    assert "allow_private" in refused(address)
    assert refused(address, allow_private=True) == ""


@pytest.mark.parametrize("address", NOWHERE)
def test_what_is_no_address_of_one_machine_is_always_refused(address):
    assert refused(address) and refused(address, allow_private=True)


@pytest.mark.parametrize("address", OUTSIDE)
def test_a_public_address_is_not_refused(address):
    assert refused(address) == ""


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://127.1/",
        "http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://127.0.0.1./", "http://user@host/",
        "http://user:pw@host/", "http://good.example@10.0.0.1/", "http://host:0/", "http:///x",
        "http://host:99999/", "http://[fe80::1%25eth0]/", "http://[::1/", "http://a b/", "http://h\n/",
        "http://host\\@evil/", "http://host/#x", "ftp://host/", "file:///etc/passwd", "host/path",
        "http://exam\u2025ple.com/", "http://.example/", "http://a..b/",
    ],
)  # fmt: skip
def test_a_url_that_could_be_read_in_two_ways_is_refused_and_not_shown(url):
    with pytest.raises(InvalidRequest) as refusal:
        target_of(url)
    assert "pw" not in str(refusal.value) and "evil" not in str(refusal.value)


def test_a_url_is_read():
    target = target_of("https://Example.com:8443/a?b=c")
    assert target == (True, "example.com", 8443, "/a?b=c")
    assert target.authority == "example.com:8443"
    assert target_of("http://[2001:db8::7]/").authority == "[2001:db8::7]"


def test_of_a_names_addresses_only_those_that_may_be_are_connected_to():
    target = target_of("http://example.com/")
    found = permitted(
        target, allow_private=False, resolve=lambda host, port: ["10.0.0.1", "8.8.8.8"]
    )
    assert found == ["8.8.8.8"]
    with pytest.raises(Refused, match="not public"):
        permitted(target, allow_private=False, resolve=lambda host, port: ["10.0.0.1", "::1"])


def exchange(url, resolve, *, allow_private=False):
    return Exchange(url, allow_private=allow_private, max_bytes=1000, keep=0, resolve=resolve)


def test_a_name_that_resolves_to_another_address_a_moment_later_changes_nothing():
    """The name is asked once for a connection, and the connection is made to what was judged."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"], ["127.0.0.1"]])
    asked = []

    def rebinding(host, port):
        asked.append(host)
        return next(answers)

    with Web(lambda asked: http(200)) as web:
        sent = exchange(f"http://rebind.example:{web.port}/", rebinding)
        with pytest.raises(Unsent):  # the public one, which nobody answers on this port
            sent.post("text/plain", b"", {}, 0.3)
        assert asked == ["rebind.example"] and web.connections == 0
        with pytest.raises(Unsent, match="not public"):
            sent.post("text/plain", b"", {}, 5)
        assert len(asked) == 2 and web.connections == 0
        again = exchange(f"http://rebind.example:{web.port}/", rebinding, allow_private=True)
        assert again.post("text/plain", b"", {}, 5).status == 200
        assert web.asked[0].headers["host"] == f"rebind.example:{web.port}"


def test_no_proxy_of_the_environment_is_used(monkeypatch):
    with Web(lambda asked: http(200)) as web, Web(lambda asked: http(200)) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        sent = exchange(web.url, lambda host, port: [host], allow_private=True)
        assert sent.post("text/plain", b"", {}, 5).status == 200
        assert proxy.connections == 0 and len(web.asked) == 1
