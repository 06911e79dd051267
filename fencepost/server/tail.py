"""The journal as it grows: Server-Sent Events, one an entry, resumed by `Last-Event-ID`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from fencepost import canonical, fields
from fencepost.handle import Handle
from fencepost.issues import FencepostError
from fencepost.server.answers import Answer
from fencepost.server.asked import Asked, Receive, whole
from fencepost.server.asked import gone as disconnected
from fencepost.server.service import Service, caller_of

PAGE = 100
COMMENT_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 5.0
BIG = fields.MAX_INTEGER
HEADERS = ((b"x-accel-buffering", b"no"),)


async def events(service: Service, asked: Asked, receive: Receive) -> Answer:
    """Every entry behind `after` (or Last-Event-ID), then each new one as it is committed."""
    given = asked.ask("after")
    last = asked.header(b"last-event-id")
    after = whole(last or given.get("after"), "Last-Event-ID" if last else "after", 0, BIG, 0)
    # the first page is read before the answer begins, so that a refusal is an answer of its own
    handle = service.handle(asked)
    first = await service.bridge.read(partial(_page, handle, after))
    if asked.scope["method"] == "HEAD":  # what a stream is told with, and none is held open
        return Answer(200, media=b"text/event-stream", headers=HEADERS, stream=_nothing())
    service.limits.enter_stream(caller_of(asked))
    return Answer(
        200, media=b"text/event-stream", headers=HEADERS,
        stream=_stream(service, asked, receive, after, first),
    )  # fmt: skip


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def _page(handle: Handle, after: int) -> list[tuple[int, bytes]]:
    """In a thread: a hundred entries may be megabytes, and the loop has others to serve."""
    return [_event(view) for view in handle.entries_page(after, PAGE)[0]]


def _event(view: object) -> tuple[int, bytes]:
    shown = view.to_json()  # type: ignore[attr-defined]
    number = shown["number"]
    return number, b"id: %d\nevent: entry\ndata: %s\n\n" % (number, canonical.dumps(shown))


async def _stream(
    service: Service, asked: Asked, receive: Receive, after: int, page: list[tuple[int, bytes]]
) -> AsyncIterator[bytes]:
    handle = service.handle(asked)
    gone = asyncio.ensure_future(disconnected(receive))
    seen = asyncio.Event()
    loop = asyncio.get_running_loop()
    told = loop.time()
    try:
        yield b"retry: 3000\n\n"
        while not (service.stopping.is_set() or gone.done()):
            if page:
                after, told = page[-1][0], loop.time()
                yield b"".join(event for _, event in page)
            else:
                await service.news.entry(seen, LOOK_AGAIN_SECONDS)
                # not all that is committed leaves an entry: a renewal wakes, and has none
                if loop.time() - told >= COMMENT_SECONDS:
                    told = loop.time()
                    yield b":\n\n"
            seen.clear()
            # whoever may not read any more has the stream ended by this reading
            page = await service.bridge.read(partial(_page, handle, after))
    except FencepostError:
        yield b"event: end\ndata: {}\n\n"
    finally:
        gone.cancel()
        service.limits.leave_stream(caller_of(asked))
