"""A receiver as a WSGI application, or in front of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from . import answers
from .receiver import Receiver

Environ = dict[str, Any]
Start = Callable[..., Any]
App = Callable[[Environ, Start], Iterable[bytes]]


class ReceiverApp:
    """`ReceiverApp(receiver)` answers every path. `ReceiverApp(receiver, app, "/deliveries")`
    answers this one and hands all else on to `app`.

    Deliveries share transactions when the server has several threads. In a server that forks,
    make the receiver after the fork.
    """

    def __init__(self, receiver: Receiver, app: App | None = None, path: str | None = None) -> None:
        if (app is None) != (path is None):
            raise ValueError("an application behind the receiver and the receiver's path")
        self.receiver, self._app, self._path = receiver, app, path

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """One request, as PEP 3333 has it."""
        if self._app is not None and environ.get("PATH_INFO", "") != self._path:
            return self._app(environ, start)
        answer = self._answer(environ)
        listed = {**answer.headers, "content-length": str(len(answer.body))}
        start(f"{answer.status} {HTTPStatus(answer.status).phrase}", list(listed.items()))
        return [answer.body]

    def _answer(self, environ: Environ) -> answers.Answer:
        if environ.get("REQUEST_METHOD") != "POST":
            return answers.problem("method_not_allowed")
        most = self.receiver.max_body_bytes
        length = environ.get("CONTENT_LENGTH") or "0"
        if not (length.isascii() and length.isdigit()):
            return answers.problem("malformed", "content-length is not a number")
        if int(length) > most:
            return answers.problem("too_large", f"at most {most:,} bytes")
        # PEP 3333 promises no end of the input by itself, so never ask for more than was told.
        body = environ["wsgi.input"].read(int(length))
        headers = {
            name[5:].replace("_", "-").lower(): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        headers["content-type"] = environ.get("CONTENT_TYPE") or ""
        return self.receiver.handle(headers, body)
