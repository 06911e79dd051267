"""Which addresses a delivery may go to: a destination must not lead into the network that the
dispatcher stands in.

A name is resolved once for each connection, what it resolves to is judged, and the connection is
made to that very address. So a name that resolves to another one a moment later changes nothing.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from fencepost.issues import InvalidRequest

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], list[str]]

HOST = re.compile(r"(?=.{1,253}\Z)([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?)+")
VISIBLE = re.compile(r"[!-~]{1,2000}")
# A last label of digits is a number to whoever resolves it: 127.1, 0x7f000001 and 017700000001 are
# all 127.0.0.1. Only an address in its usual form may look like one.
NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?")
# IPv6 addresses that carry an IPv4 address, and by how many bits it is shifted there
NAT64, SIX_TO_FOUR, COMPATIBLE = (
    IPv6Network("64:ff9b::/96"), IPv6Network("2002::/16"), IPv6Network("::/96"),
)  # fmt: skip
# What a Python may still call global: shared (CGNAT), protocol assignments, benchmarks, local NAT64
# and site-local, unique local, discard.
CLOSED: tuple[IPv4Network | IPv6Network, ...] = tuple(
    map(
        ip_network,
        (
            "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4",
            "64:ff9b:1::/48", "100::/64", "2001::/23", "fec0::/10", "fc00::/7",
        ),
    )
)  # fmt: skip


class Refused(Exception):
    """Nothing may be sent there. The text says why, and names no more than the address."""


class Target(NamedTuple):
    """A URL, read: what is connected to, what the Host header says, what is asked for."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.secure else 80
        return host if self.port == usual else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """What a URL means. Raises InvalidRequest, without the URL, for one that could carry a secret
    or mean two things."""
    if VISIBLE.fullmatch(url) is None or "\\" in url:
        raise InvalidRequest("address: the URL is not one line of visible ASCII")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidRequest("address: the URL cannot be read") from None
    _refuse_more(parts, url)
    secure = parts.scheme == "https"
    host = parts.hostname or ""
    if port == 0 or not _is_host(host):
        raise InvalidRequest(
            "address: the URL names no host and port that can be: a number in place of a name is "
            "an address in its usual form (192.0.2.7, [2001:db8::7])"
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(secure, host, port or (443 if secure else 80), path)


def _refuse_more(parts: SplitResult, url: str) -> None:
    if parts.scheme not in ("http", "https"):
        raise InvalidRequest("address: the URL begins with https:// or http://")
    if "@" in parts.netloc:
        raise InvalidRequest("address: no user or password in the URL: what signs is a secret")
    if "#" in url:
        raise InvalidRequest("address: the URL has no #")


def _is_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return HOST.fullmatch(host) is not None and NUMERIC.fullmatch(host) is None
    return "%" not in host  # a zone names an interface of this very machine


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system's resolver gives them. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def permitted(target: Target, *, allow_private: bool, resolve: Resolve = resolve) -> list[str]:
    """The addresses that may be connected to, each as text that resolves to itself alone. Raises
    OSError where the name has none, Refused where none of them may be used."""
    found = resolve(target.host, target.port)
    good = [each for each in found if not refused(each, allow_private=allow_private)]
    if not good:
        why = refused(found[0], allow_private=allow_private) if found else "it has no address"
        raise Refused(why)
    return good


def refused(text: str, *, allow_private: bool = False) -> str:
    """Why nothing may be sent to this address; empty where it may."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return f"{text!r} is no address"
    inside = _inside(address)
    # what is translated on the way is judged by where it ends
    for each in inside if inside and address in NAT64 else (address, *inside):
        if each.is_multicast or each.is_unspecified:
            return f"{text} is no address of one machine"
        if not allow_private and not _public(each):
            return f"{text} is not public; the option allow_private lets deliveries go there"
    return ""


def _public(address: Address) -> bool:
    closed = any(address in net for net in CLOSED if net.version == address.version)
    return address.is_global and not address.is_reserved and not closed


def _inside(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if isinstance(address, IPv4Address):
        return []
    found = [] if address.ipv4_mapped is None else [address.ipv4_mapped]
    low = int(address)
    if address in NAT64 or (address in COMPATIBLE and low > 1):
        found.append(IPv4Address(low & 0xFFFFFFFF))
    if address in SIX_TO_FOUR:
        found.append(IPv4Address((low >> 80) & 0xFFFFFFFF))
    if address.teredo is not None:
        found += address.teredo
    return found
