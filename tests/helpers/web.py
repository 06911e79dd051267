"""A service on a loopback port, in a thread of the test, and the plainest way to ask it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Self

import fencepost
from fencepost.clock import Clock, SystemClock
from fencepost.server import serve
from fencepost.server.logs import Lines
from fencepost.server.settings import ServerSettings

Json = dict[str, Any]


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The leading issue; empty for an accepted command."""
        return "" if self.status < 400 else str(self.json["code"])


class Sink(list[str]):
    """Where the log's lines go."""

    def write(self, text: str) -> None:
        self.append(text)

    def flush(self) -> None: ...


class Asking:
    """The plainest way to ask a service on a loopback port."""

    port: int

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:  # fmt: skip
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = dict(headers or {})
        if token is not None:
            given["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, token: str | None = None, **headers: str) -> Reply:
        return self.ask("GET", path, token=token, headers=_named(headers))

    def post(
        self, path: str, body: Json | bytes, token: str | None = None, key: str | None = None,
        **headers: str,
    ) -> Reply:  # fmt: skip
        """Send JSON: an object, or bytes as they are."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"Content-Type": "application/json", **_named(headers)}
        if key is not None:
            given["Idempotency-Key"] = key
        return self.ask("POST", path, raw, token=token, headers=given)


@dataclass
class Served(Asking):
    """A store and its service. `with Served() as web: web.post(...)`."""

    clock: Clock = field(default_factory=SystemClock)
    path: str = ":memory:"
    settings: Json = field(default_factory=dict)
    dev: bool = False

    def __enter__(self) -> Self:
        self.fp = fencepost.open(self.path, create=True, clock=self.clock)
        self.log = Sink()
        given = ServerSettings(port=0, dev=self.dev, **self.settings)
        self._listener = serve.listen(given)
        self.port = self._listener.getsockname()[1]
        self.server = serve.server(self.fp, given, self.clock, Lines(self.clock, self.log))  # type: ignore[arg-type]
        self._thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self._listener]}, name="served"
        )
        self._thread.start()
        while not self.server.started and self._thread.is_alive():
            time.sleep(0.002)  # its start has no event of its own
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.fp.close()

    def stop(self) -> None:
        """As a signal does it."""
        self.server.handle_exit(15, None)
        self._thread.join(20)
        assert not self._thread.is_alive(), "the service did not stop"

    def token(self, kind: str, actor: str = "", *, scope: str = "default", **more: Any) -> str:
        """A token of this kind, made beside the service."""
        return self.fp.as_caller("local", scope=scope).token_create(actor or kind, kind, **more)[1]  # type: ignore[no-any-return]


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
