"""Which path a command goes to, and which commands go together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from fencepost.commands import Claim, Enqueue, Request
from fencepost.fields import MAX_BATCH, MAX_BATCH_CLAIMS

MAX_BATCH_BYTES = 8 * 1024 * 1024


def segment(text: str) -> str:
    """One segment of a path, so quoted that nobody on the way takes it for more than one."""
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe=":@")


def of_scope(scope: str, *rest: str) -> str:
    """The path below a scope; every part is quoted."""
    return "/".join(("/v1", segment(scope), *map(segment, rest)))


def of_command(scope: str, request: Request) -> str:
    """Where one command is sent."""
    command = request.command
    if isinstance(command, Enqueue):
        return of_scope(scope, "queues", command.queue, "tasks")
    if isinstance(command, Claim):
        if command.queues is not None and len(command.queues) == 1:
            return of_scope(scope, "queues", command.queues[0], "claims")
        return of_scope(scope, "claims")
    task_id = getattr(command, "task_id", None)
    if task_id is not None:
        return of_scope(scope, "tasks", task_id, command.verb)
    return of_scope(scope, command.verb)


# A command without key or lease that does no harm when it is carried out twice: what lapsed would
# have been settled by any claim. A purge might remove twice its limit, a claim take twice as many.
HARMLESS_AGAIN = frozenset({"sweep"})


def repeatable(request: Request) -> bool:
    """Whether the same bytes may be sent again when no answer came: the key or the lease makes
    the second a replay."""
    command = request.command
    return request.key is not None or command.self_keyed or command.verb in HARMLESS_AGAIN


def slices(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """The requests in their order, cut into what goes in one piece. What stands alone goes to the
    path of its verb."""
    piece: list[Request] = []
    size = claimed = 0
    for request in requests:
        alone = not _joins(request)
        length = len(request.body) + 300
        claims = request.command.limit if isinstance(request.command, Claim) else 0
        full = len(piece) == MAX_BATCH or size + length > MAX_BATCH_BYTES
        if piece and (alone or full or claimed + claims > MAX_BATCH_CLAIMS):
            yield piece
            piece, size, claimed = [], 0, 0
        piece.append(request)
        size, claimed = size + length, claimed + claims
        if alone:
            yield piece
            piece, size, claimed = [], 0, 0
    if piece:
        yield piece


def _joins(request: Request) -> bool:
    """Whether its bytes stay what they are inside a batch: space around them would get lost. And
    what must not be sent again would forbid it to all others of its batch."""
    body = request.body
    return body[:1] == b"{" and body[-1:] == b"}" and repeatable(request)


def batch_body(requests: Sequence[Request]) -> bytes:
    """The bytes of a batch: each command as it is, its key beside it."""
    items = []
    for request in requests:
        key = b"" if request.key is None else b',"key":"' + request.key.encode() + b'"'
        items.append(b'{"command":' + request.body + key + b"}")
    return b'{"commands":[' + b",".join(items) + b"]}"
