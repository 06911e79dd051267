"""A receiver as a plain ASGI application, or in front of one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from . import answers
from .answers import Answer
from .receiver import Receiver

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class ReceiverApp:
    """`ReceiverApp(receiver)` answers every path. `ReceiverApp(receiver, app, "/deliveries")`
    answers this one and hands all else on to `app`.

    Without an `app` of its own it closes the receiver when the server shuts down.
    """

    def __init__(self, receiver: Receiver, app: App | None = None, path: str | None = None) -> None:
        if (app is None) != (path is None):
            raise ValueError("an application behind the receiver and the receiver's path")
        self.receiver, self._app, self._path = receiver, app, path

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request, as ASGI 3 has it."""
        if self._app is not None and (scope["type"] != "http" or scope["path"] != self._path):
            await self._app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            raise RuntimeError(f"a receiver knows nothing of {scope['type']}")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.shutdown":
                await asyncio.to_thread(self.receiver.close)
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        headers: dict[str, str] = {}
        for raw, value in scope["headers"]:
            name = raw.decode("latin-1").lower()
            text = value.decode("latin-1")
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        if scope["method"] != "POST":
            await _send(send, answers.problem("method_not_allowed"))
            return
        body = await self._body(headers, receive)
        if body is None:
            return
        if isinstance(body, Answer):
            await _send(send, body)
            return
        # A client that goes away does not undo what it has asked for.
        answer = await asyncio.shield(asyncio.wrap_future(self.receiver.submit(headers, body)))
        await _send(send, answer)

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes | Answer | None:
        """The body, a refusal where it is too long; None where the client has gone."""
        most = self.receiver.max_body_bytes
        length = headers.get("content-length", "")
        parts, size = [], int(length) if length.isascii() and length.isdigit() else 0
        more = size <= most
        size = 0 if more else size
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False) and size <= most
        if size > most:
            return answers.problem("too_large", f"at most {most:,} bytes")
        return b"".join(parts)


async def _send(send: Send, answer: Answer) -> None:
    listed = {**answer.headers, "content-length": str(len(answer.body))}
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in listed.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
