"""Recomputes an outbox: the chain from its first step, then every row that it speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from fencepost import canonical
from fencepost.commands import Request
from fencepost.issues import FencepostError, JournalBroken
from fencepost.offline import chain
from fencepost.offline.file import File
from fencepost.offline.notes import Notes
from fencepost.offline.recording import followups_of
from fencepost.offline.values import Verified
from fencepost.offline.working import content_of


def verify(file: File, notes: Notes, head: str | None) -> Verified:
    """See Outbox.verify."""
    with file.as_it_is():
        return _verify(file, notes, head)


def _verify(file: File, notes: Notes, head: str | None) -> Verified:
    damage = [str(row[0]) for row in file.rows("integrity") if row[0] != "ok"]
    if damage or file.rows("strangers"):
        _broken(f"the file is damaged: {damage[0] if damage else 'a row belongs to nothing'}")
    player = chain.Player()
    links = 0
    seen = head in (None, chain.GENESIS)
    for number, step, kept in _links(file):
        links += 1
        if number != links:
            _broken(f"link {links} is missing: {number} comes next")
        try:
            found = player.step(step)
        except ValueError:
            _broken(f"link {number} ({step[:80]}): no outbox writes such a step")
        if found != kept:
            _broken(f"link {number} ({step[:80]}): its hash is {found}, and {kept} is written")
        seen = seen or kept == head
    if not seen:
        _broken(f"{head} is the hash of no link: the chain has been cut or written anew")
    if player.state() != notes.state():
        _broken(f"after link {links} the tasks and rows are not what the chain says: "
                f"{_difference(player, file)}")  # fmt: skip
    return Verified(links, _results(file, player), _commands(file, player), player.hash)


def _broken(message: str) -> NoReturn:
    raise JournalBroken(message)


def _links(file: File) -> Iterator[tuple[int, str, str]]:
    after = 0
    while page := file.rows("links", after=after):
        yield from page
        after = page[-1][0]


def _difference(player: chain.Player, file: File) -> str:
    """The first task or row that differs, by name."""
    leases = {label: fence for label, fence, _ in file.rows("leases")}
    for label in sorted({*leases, *player.leases}):
        if leases.get(label) != player.leases.get(label):
            there, said = leases.get(label), player.leases.get(label)
            return f"task {label} has fence {there}, and {said} in the chain"
    rows, known = sorted(file.rows("rows")), sorted(player.rows)
    odd = next((row for row in rows if rows.count(row) != known.count((row[0], row[1]))), None)
    label, digest = odd or next(row for row in known if known.count(row) != rows.count(row))
    return f"row {digest} of task {label}"


def _each(file: File, name: str) -> Iterator[tuple[Any, ...]]:
    """One row at a time: results may be long."""
    after = 0
    while (row := file.one(name, after=after)) is not None:
        yield row
        after = row[0]


def _results(file: File, player: chain.Player) -> int:
    count = 0
    for _, label, sha256, digest, content, _ in _each(file, "every_result"):
        count += 1
        if canonical.sha256(content) != sha256:
            _broken(f"a result of task {label} has other bytes than were recorded ({digest})")
        value = canonical.loads(content, max_bytes=len(content), what="result")
        if chain.digest_of(value) != digest or (label, digest) not in player.recorded:
            _broken(f"result {digest} of task {label}: the chain knows of no such recording")
    return count


def _commands(file: File, player: chain.Player) -> int:
    count = 0
    for row in _each(file, "every_command"):
        _, label, task_id, key, body, sha256, digest, verb, verdict, fence = row
        count += 1
        try:
            request = Request.read(body)
        except FencepostError as error:
            _broken(f"a command of task {label} cannot be read: {error}")
        command: Any = request.command
        bound = command.verb, command.members.get("task_id"), request.result_sha256
        if request.sha256.hex() != key or bound != (verb, f'"{task_id}"'.encode(), sha256):
            _broken(f"a command of task {label} has other bytes than were fixed for it")
        if command.fence != fence:
            _broken(f"a command of task {label} names fence {command.fence}, not {fence}")
        if not _known(command, label, digest or chain.NO_RESULT, verdict, player):
            _broken(f"the chain knows nothing of what a {verb} of task {label} says")
    return count


def _known(
    command: Any, label: str, digest: str, verdict: str | None, player: chain.Player
) -> bool:
    """Whether the chain has what a command says beside its result."""
    if verdict is not None:
        what = getattr(command, "then", command.verb)
        return what == verdict and (label, content_of(command)) in player.recorded
    return command.verb != "complete" or (label, digest, followups_of(command)) in player.closings
