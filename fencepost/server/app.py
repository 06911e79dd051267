"""The application: finds the path, recognises the caller, asks the endpoint, answers, and writes
down what it answered. Whatever is raised below becomes problem details here."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping, Sized
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import Route as Path
from starlette.routing import Router

from fencepost.clock import SECOND, Clock, to_rfc3339
from fencepost.handle import Handle
from fencepost.issues import FencepostError, InvalidRequest, Unauthenticated
from fencepost.log import Log
from fencepost.server.answers import (
    Answer,
    Fault,
    digest_header,
    of_error,
    of_fault,
)
from fencepost.server.asked import Asked, Receive, Scope
from fencepost.server.callers import not_counting, unknown
from fencepost.server.limits import full
from fencepost.server.logs import Lines
from fencepost.server.routes import ROUTES, Route
from fencepost.server.service import Service
from fencepost.server.settings import ServerSettings

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
log = Log("fencepost.server")
MALFORMED = (400, 415)


class Application:
    """An ASGI application over one open store. It does not close the store."""

    def __init__(
        self, fp: Handle, settings: ServerSettings, clock: Clock, lines: Lines | None = None
    ) -> None:
        self._fp, self._settings, self._clock = fp, settings, clock
        self._lines = lines
        self._service: Service | None = None
        self.connections: Sized = ()  # those that are open; whoever runs the application knows
        paths = [
            Path(route.path, _Endpoint(self, route), methods=[route.method]) for route in ROUTES
        ]
        self._router = Router(paths, redirect_slashes=False, default=_nowhere)

    def begin(self) -> None:
        """Called in the loop that serves, before the first request."""
        self._service = Service(self._fp, self._settings, self._clock)

    @property
    def service(self) -> Service:
        """What the endpoints share."""
        if self._service is None:
            self.begin()
            assert self._service is not None
        return self._service

    def stop(self) -> None:
        """No more claims and no more waiting. Called in the loop."""
        if self._service is not None:
            self._service.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is served")
        exchange = _Exchange(self, scope, send)
        try:
            scope["exchange"], scope["app"] = exchange, self
            if len(self.connections) > self._settings.max_connections and scope["path"] != "/livez":
                raise full(self._settings.max_connections)
            await self._router(scope, receive, send)
        except HTTPException as error:  # the router's own: a method that the path does not have
            allowed = ((b"allow", str((error.headers or {}).get("Allow", "")).encode()),)
            await exchange.answer(
                of_fault(Fault(error.status_code, "this path has other methods", headers=allowed))
            )
        except Fault as fault:
            await exchange.answer(of_fault(fault))
        except Unauthenticated:
            await exchange.answer(of_fault(not_counting()))
        except FencepostError as error:
            await exchange.answer(of_error(error))
        except Exception:  # the caller is told that it is ours, and no more
            log.exception("an endpoint met an error of its own")
            ours = Fault(500, "this is a fault of the service; it is in its log", "internal")
            await exchange.answer(of_fault(ours))

    def written(self, exchange: _Exchange, answer: Answer, size: int) -> None:
        """Count and write down one answer."""
        seconds = (self._clock.steady() - exchange.began) / SECOND
        route = exchange.route
        path = "" if route is None else route.path
        self.service.meters.answered(path or "unknown", answer.status, answer.code, seconds)
        if self._lines is None:
            return
        caller = None if exchange.asked is None else exchange.asked.caller
        self._lines.line(
            "info", "answered", request_id=exchange.request_id, method=exchange.method,
            route=path or "unknown", status=answer.status, code=answer.code,
            scope=caller and caller.scope, token_id=caller and caller.token,
            verb=route and route.verb, seconds=round(seconds, 6), bytes=size,
        )  # fmt: skip

    def now(self) -> bytes:
        """The service's wall clock, for whoever wants to know how far his own is off."""
        return to_rfc3339(self._clock.wall()).encode()

    def steady(self) -> int:
        """For how long an answer took."""
        return self._clock.steady()


class _Exchange:
    """One request and its answer."""

    def __init__(self, app: Application, scope: Scope, send: Send) -> None:
        self.app, self.send = app, send
        self.began = app.steady()
        self.request_id = os.urandom(8).hex()
        self.method: str = scope["method"]
        self.route: Route | None = None
        self.asked: Asked | None = None
        self._answered = False

    async def answer(self, answer: Answer) -> None:
        """Send it, once. A stream that was begun can only be ended."""
        if self._answered:
            return
        self._answered = True
        body = answer.body
        headers = [
            (b"content-type", answer.media),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            (b"fencepost-time", self.app.now()),
            (b"request-id", self.request_id.encode()),
            *answer.headers,
        ]
        if answer.stream is None and answer.status != HTTPStatus.NOT_MODIFIED:
            headers += [  # HEAD: the length of what GET has, the digest of what is sent (RFC 9530)
                (b"content-length", str(len(body)).encode()),
                (b"content-digest", digest_header(b"" if self.method == "HEAD" else body)),
            ]
        await self.send({"type": "http.response.start", "status": answer.status,
                         "headers": headers})  # fmt: skip
        size = len(body)
        if answer.stream is not None:
            async for part in answer.stream:
                size += len(part)
                await self.send({"type": "http.response.body", "body": part, "more_body": True})
            body = b""
        await self.send({"type": "http.response.body", "body": body})
        self.app.written(self, answer, size)


class _Endpoint:
    """One path: who may come in, then what it does."""

    def __init__(self, app: Application, route: Route) -> None:
        self._app, self._route = app, route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: _Exchange = scope["exchange"]
        exchange.route = self._route
        asked = exchange.asked = Asked(scope)
        service = self._app.service
        if self._route.open:
            await exchange.answer(await self._route.run(service, asked, receive))
            return
        asked.caller = await service.callers.recognise(asked)
        try:
            answer = await self._route.run(service, asked, receive)
        except (InvalidRequest, Fault) as error:
            # rule 1 goes before rule 2: who may not ask is not told what was wrong
            if not isinstance(error, Fault) or error.status in MALFORMED:
                await service.bridge.read(service.handle(asked).scope)
            raise
        finally:
            service.limits.let_go(asked)
        await exchange.answer(answer)


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    raise unknown()


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
