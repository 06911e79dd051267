"""Where a service is: its address, read strictly, and the token that is shown there."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple, NoReturn
from urllib.parse import SplitResult, urlsplit

from fencepost import tokens
from fencepost.issues import InvalidRequest

VISIBLE = re.compile(r"[!-~]{1,2000}")
PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")
HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9._-]{1,32})?")


class Secret:
    """A token. It is written into one header and nowhere else: no repr, no pickle, no message."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if type(text) is not str or not tokens.check(text):
            raise InvalidRequest("this is no token of Fencepost's, or mistyped (it is not shown)")
        self._text = text

    def __repr__(self) -> str:
        return "<token>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a token is not pickled: give it to the other process by its environment")

    def header(self) -> str:
        """The value of `Authorization`."""
        return f"Bearer {self._text}"


class Origin(NamedTuple):
    """Scheme, host, port and what stands before `/v1` in every path."""

    secure: bool
    host: str
    port: int
    prefix: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.prefix}"


def origin_of(url: str) -> Origin:
    """The origin of a URL. InvalidRequest for whatever could carry a secret or mean two things;
    the message never shows the URL, since there may be one in it."""
    if VISIBLE.fullmatch(url) is None:
        raise InvalidRequest("the URL is not one line of visible ASCII")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidRequest("the URL cannot be read: write https://host:port") from None
    _refuse_more(parts, url)
    secure = parts.scheme == "https"
    host = parts.hostname or ""
    if HOST.fullmatch(host) is None:
        raise InvalidRequest("the URL names no host: write https://host:port")
    if port == 0 or PREFIX.fullmatch(parts.path) is None or {".", ".."} & {*parts.path.split("/")}:
        raise InvalidRequest("the URL has a port or a path that cannot be: write https://host/path")
    return Origin(secure, host, port or (443 if secure else 80), parts.path.rstrip("/"))


def _refuse_more(parts: SplitResult, url: str) -> None:
    if parts.scheme not in ("http", "https"):
        raise InvalidRequest("the URL of a service begins with https:// or http://")
    if "@" in parts.netloc:
        raise InvalidRequest(
            "no user or token in the URL, which gets into logs: give token= or FENCEPOST_TOKEN"
        )
    if "?" in url or "#" in url:
        raise InvalidRequest("the URL of a service has no ? and no #: give a token by token=")


def is_loopback(host: str) -> bool:
    """Whether what is sent to this host (a name or an address) stays on this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def refuse_plaintext(origin: Origin) -> None:
    """A token over http:// to another machine could be read on the way. Raises InvalidRequest."""
    if not origin.secure and not is_loopback(origin.host):
        raise InvalidRequest(
            "a token is sent to another machine over https only; allow_plaintext=True sends it in "
            "the clear, for whoever is on the way to read"
        )
