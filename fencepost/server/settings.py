"""How a service listens and what it bears. Every number has its unit in its name."""

from __future__ import annotations

import ipaddress

from fencepost import fields
from fencepost.issues import InvalidRequest
from fencepost.record import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where it listens, and its limits.

    `max_requests_per_second` and `max_claimed_per_minute` hold for one token. A request above a
    limit is refused before it is read where that can be told, and has changed nothing.
    """

    host: str = "127.0.0.1"
    port: int = 8470
    dev: bool = False
    certfile: str | None = None
    keyfile: str | None = None
    behind_proxy: bool = False
    max_body_bytes: int = 16 * MIB
    max_header_bytes: int = 32 * 1024
    header_seconds: int = 10
    body_seconds: int = 30
    idle_seconds: int = 65
    stop_seconds: int = 3
    max_batch: int = fields.MAX_BATCH
    max_batch_claims: int = fields.MAX_BATCH_CLAIMS
    max_bytes_in_flight: int = 256 * MIB
    max_wait_seconds: int = fields.MAX_WAIT_SECONDS
    max_connections: int = 1_000
    max_waiting: int = 500
    max_waiting_per_token: int = 64
    max_streams: int = 64
    max_streams_per_token: int = 4
    max_requests_per_second: int = 2_000
    max_claimed_per_minute: int = 60_000
    min_free_bytes: int = 64 * MIB

    @property
    def tls(self) -> bool:
        """Whether this process itself speaks TLS."""
        return self.certfile is not None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked(settings: ServerSettings) -> ServerSettings:
    """The settings, if they can hold together. Raises InvalidRequest."""
    if not 0 <= settings.port <= 65_535:
        raise InvalidRequest("serve: --port is a number from 0 to 65535")
    if (settings.certfile is None) != (settings.keyfile is None):
        raise InvalidRequest("serve: --certfile and --keyfile belong together")
    local = is_loopback(settings.host)
    if settings.dev and not local:
        raise InvalidRequest(
            f"serve: --dev lets everybody in and listens on loopback only, not on {settings.host}"
        )
    if not local and not settings.tls and not settings.behind_proxy:
        raise InvalidRequest(
            f"serve: tokens would cross the network in the clear to {settings.host}: give "
            "--certfile and --keyfile, or --behind-proxy where a proxy in front speaks TLS"
        )
    return settings
