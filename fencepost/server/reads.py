"""What can be read, each on a snapshot of what is committed, in a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost import canonical, fields
from fencepost.handle import Handle
from fencepost.handle.places import stats_json
from fencepost.journal.checkpoint import Checkpoint
from fencepost.model import Task
from fencepost.server.answers import Answer, digest_header, told
from fencepost.server.asked import Asked, Receive, whole
from fencepost.server.paging import DEFAULT_PAGE, FEW_LONG, MAX_ENTRIES, MAX_PAGE, Cursors
from fencepost.server.service import Service

BIG = fields.MAX_INTEGER
Page = tuple[list[Any], int]


async def _told(service: Service, asked: Asked, look: Callable[[Handle], Any]) -> Answer:
    handle = service.handle(asked)
    return await service.bridge.read(lambda: told(look(handle)))


async def _page(
    service: Service,
    asked: Asked,
    name: str,
    look: Callable[[Handle, int, int, dict[str, str]], Page],
    *filters: str,
    start: str = "",
    most: int = MAX_PAGE,
) -> Answer:
    """One page of a list. `start` names a number of the query that the first page begins behind;
    `most` bounds the page where one item may be long, so that an answer never grows beyond use."""
    given = asked.ask("page_size", "page_token", *filters, *([start] if start else ()))
    size = min(whole(given.get("page_size"), "page_size", 0, BIG, 0) or DEFAULT_PAGE, most)
    handle = service.handle(asked)
    first = whole(given.get(start), start, 0, BIG, 0)
    question = (name, handle.caller.scope, sorted(asked.params.items()),
                [given.get(each) for each in filters])  # fmt: skip

    def read() -> Answer:
        cursors = Cursors(service.fp.page_secret())
        after = cursors.read(given.get("page_token"), *question) or first
        items, after = look(handle, after, size, given)
        return told({name: [_shown(item) for item in items],
                     "next_page_token": cursors.write(after, *question)})  # fmt: skip

    return await service.bridge.read(read)


def _shown(item: Any) -> Any:
    return item.text().decode() if isinstance(item, Checkpoint) else item.to_json()


# -- tasks


async def scope(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The scope: policy version, revocation, retention."""
    asked.ask()
    return await _told(service, asked, lambda fp: fp.scope().to_json())


async def stats(service: Service, asked: Asked, receive: Receive) -> Answer:
    """Tasks by queue and state."""
    asked.ask()
    return await _told(service, asked, lambda fp: stats_json(fp.stats()))


async def tasks(service: Service, asked: Asked, receive: Receive) -> Answer:
    """Tasks in the order of their enqueueing, without their content."""

    def look(fp: Handle, after: int, size: int, given: dict[str, str]) -> Page:
        return fp.tasks_page(given.get("queue"), given.get("state"), after, size)

    return await _page(service, asked, "tasks", look, "queue", "state")


async def task(service: Service, asked: Asked, receive: Receive) -> Answer:
    """One task with its payload, progress and log."""
    asked.ask()
    return await _tagged(service, asked, lambda fp: fp.task(asked.params["task_id"]))


async def task_by_key(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The task that bears this key on the queue."""
    asked.ask()
    names = asked.params
    return await _tagged(service, asked, lambda fp: fp.task_by_key(names["queue"], names["key"]))


async def _tagged(service: Service, asked: Asked, look: Callable[[Handle], Task]) -> Answer:
    """A task under a strong tag of its very bytes: whatever has changed shows in it."""
    handle = service.handle(asked)
    found = await service.bridge.read(lambda: look(handle))
    body = canonical.dumps(found.to_json())
    tag = b'"' + digest_header(body)[len(b"sha-256=:") : -1] + b'"'
    headers = ((b"etag", tag),)
    if {"*", tag.decode()} & _tags(asked.header(b"if-none-match")):
        return Answer(304, headers=headers)
    return Answer(200, body, headers=headers)


def _tags(text: str | None) -> set[str]:
    return {part.strip().removeprefix("W/") for part in (text or "").split(",")}


async def results(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The accepted results of a task by revision."""

    def look(fp: Handle, after: int, size: int, given: dict[str, str]) -> Page:
        return fp.results_page(asked.params["task_id"], after, size)

    return await _page(service, asked, "results", look, most=FEW_LONG)


async def refused(service: Service, asked: Asked, receive: Receive) -> Answer:
    """Late results that were refused and kept aside."""

    def look(fp: Handle, after: int, size: int, given: dict[str, str]) -> Page:
        return fp.refused_page(asked.params["task_id"], after, size)

    return await _page(service, asked, "refused", look, most=FEW_LONG)


async def history(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The entries whose target is this task."""

    def look(fp: Handle, after: int, size: int, given: dict[str, str]) -> Page:
        return fp.history_page(asked.params["task_id"], after, size)

    return await _page(service, asked, "entries", look, most=MAX_ENTRIES)


async def receipt(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The receipt of the command that had this key."""
    actor = asked.ask("actor").get("actor")
    return await _told(
        service, asked, lambda fp: fp.receipt(asked.params["key"], actor=actor).to_json()
    )


async def queues(service: Service, asked: Asked, receive: Receive) -> Answer:
    """All queues of the scope and their settings."""
    asked.ask()
    return await _told(service, asked, lambda fp: {
        "queues": [row.to_json() for row in fp.queue_rows()], "next_page_token": "",
    })  # fmt: skip


async def queue(service: Service, asked: Asked, receive: Receive) -> Answer:
    """One queue and its settings."""
    asked.ask()
    name = asked.params["queue"]
    return await _told(service, asked, lambda fp: fp.queue_row(name).to_json())


async def destinations(service: Service, asked: Asked, receive: Receive) -> Answer:
    """All destinations of the scope that have an address."""
    asked.ask()
    return await _told(service, asked, lambda fp: {
        "destinations": [each.to_json() for each in fp.destinations()], "next_page_token": "",
    })  # fmt: skip


async def destination(service: Service, asked: Asked, receive: Receive) -> Answer:
    """Where the obligations on one queue go."""
    asked.ask()
    name = asked.params["queue"]
    return await _told(service, asked, lambda fp: fp.destination(name).to_json())


# -- the journal


async def entries(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The journal by number. Of another scope's entries the leaf hash is shown."""

    def look(fp: Handle, after: int, size: int, given: dict[str, str]) -> Page:
        return fp.entries_page(after, size)

    return await _page(service, asked, "entries", look, start="after", most=MAX_ENTRIES)


async def proof(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The proof that an entry is in the journal."""
    asked.ask()
    number = whole(asked.params["number"], "number", 1, BIG, 1)
    return await _told(service, asked, lambda fp: fp.prove(number).to_json())


async def consistency(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The proof that the journal goes on from the checkpoint of `size` entries."""
    size = whole(asked.ask("size").get("size"), "size", 1, BIG, 1)
    return await _told(service, asked, lambda fp: fp.prove_consistency(size).to_json())


async def checkpoints(service: Service, asked: Asked, receive: Receive) -> Answer:
    """All checkpoints, the smallest first, as their texts."""

    def look(fp: Handle, after: int, size: int, given: dict[str, str]) -> Page:
        return fp.checkpoints_page(after, size)

    return await _page(service, asked, "checkpoints", look)


async def seal(service: Service, asked: Asked, receive: Receive) -> Answer:
    """Put all that is committed into the tree; answers the checkpoint."""
    asked.ask()
    return await _told(service, asked, lambda fp: {"checkpoint": _shown(fp.seal())})


async def about(service: Service, asked: Asked, receive: Receive) -> Answer:
    """What the store stands on. For operators and auditors of every scope."""
    asked.ask()
    return await _told(service, asked, lambda fp: fp.about())


async def writers(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The writers of the store that were recognised, the oldest first. For operators, dispatchers
    and auditors."""
    asked.ask()
    return await _told(service, asked, lambda fp: {
        "writers": [writer.to_json() for writer in fp.writers()], "next_page_token": "",
    })  # fmt: skip


async def issued(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The tokens of the scope, without their secrets."""
    asked.ask()
    return await _told(service, asked, lambda fp: {
        "tokens": [token.to_json() for token in fp.tokens()], "next_page_token": "",
    })  # fmt: skip
