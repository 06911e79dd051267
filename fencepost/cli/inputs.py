"""What comes in: JSON from an argument, a file or standard input, read strictly."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from fencepost import canonical, fields
from fencepost.canonical import Json
from fencepost.handle.lease import tidy_log
from fencepost.issues import InvalidRequest
from fencepost.parts import NOTHING, build

if TYPE_CHECKING:
    from argparse import Namespace

    from fencepost.commands import NewTask

WORD = re.compile(r"[a-z_]+")
LOG_PART = 64 * 1024  # bytes read at once, and kept of the end: more than any log may have


@contextmanager
def opened(name: str, what: str) -> Iterator[BinaryIO]:
    """A file to read, or standard input for `-`. Raises InvalidRequest, naming `what`."""
    if name == "-":
        if sys.stdin is None:
            raise InvalidRequest(f"{what}: standard input is closed")
        yield sys.stdin.buffer
        return
    try:
        file = open(name, "rb")  # noqa: SIM115  # closed below, where reading errors are told too
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        raise InvalidRequest(f"{what}: cannot read {name!r}: {_reason(error)}") from None
    with file:
        yield file


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def read_bytes(name: str, what: str) -> bytes:
    """All of a file, or of standard input. A byte more than any command may have is enough."""
    with opened(name, what) as file:
        try:
            return file.read(fields.MAX_BODY_BYTES + 1)
        except OSError as error:
            raise InvalidRequest(f"{what}: cannot read {name!r}: {_reason(error)}") from None


def json_of(raw: bytes | str, what: str) -> Json:
    """JSON, read strictly."""
    return canonical.loads(raw, max_bytes=fields.MAX_BODY_BYTES, what=what)


def value(given: str, what: str, *, text: bool) -> Json:
    """A value from the command line: JSON, or with `text` the words themselves; `-` is stdin."""
    raw: bytes | str = read_bytes("-", what) if given == "-" else given
    if not text:
        return json_of(raw, what)
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{what} is not UTF-8 at byte {error.start}") from None


def optional_value(given: str | None, what: str, *, text: bool) -> Any:
    """The same; NOTHING where it was left out."""
    if given is not None:
        return value(given, what, text=text)
    if text:
        raise InvalidRequest(f"--text: there is no {what} to take as text")
    return NOTHING


def remark(args: Namespace) -> dict[str, Any]:
    """Progress and log, as far as they were given. Of a log that is a file the end is kept."""
    found: dict[str, Any] = {}
    progress = getattr(args, "progress", None)
    if progress is not None:
        found["progress"] = json_of(progress, "progress")
        if found["progress"] is None:
            raise InvalidRequest("progress: null is not allowed; leave it out")
    if args.log is not None:
        found["log"] = _log(args.log)
    return found


def _log(given: str) -> str | None:
    if not given.startswith("@"):
        return given
    with opened(given[1:], "log") as file:
        tail = b""
        try:
            while part := file.read(LOG_PART):
                tail = (tail + part)[-LOG_PART:]
        except OSError as error:
            raise InvalidRequest(f"log: cannot read {given[1:]!r}: {_reason(error)}") from None
    return tidy_log(tail.decode("utf-8", "replace"))


def followups(given: str | None) -> tuple[Any, ...]:
    """Follow-ups from a JSON list or from a file that holds one."""
    if given is None:
        return ()
    listed = given.lstrip().startswith("[")
    raw: bytes | str = given if listed else read_bytes(given, "followups")
    found = json_of(raw, "followups")
    if type(found) is not list:
        raise InvalidRequest("followups: give a JSON list of objects")
    return tuple(found)


def settings(pairs: list[str]) -> dict[str, Json]:
    """NAME=VALUE pairs; a value is JSON, or a lowercase word as it stands."""
    found: dict[str, Json] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidRequest(f"settings: {pair!r} is not NAME=VALUE")
        if name in found:
            raise InvalidRequest(f"settings: {name} stands twice")
        word = WORD.fullmatch(text) and text not in ("true", "false", "null")
        found[name] = text if word else json_of(text, f"settings.{name}")
    return found


def options(pairs: list[str]) -> dict[str, Json]:
    """NAME=VALUE pairs; a value that begins as JSON does is JSON, any other is the text itself."""
    found: dict[str, Json] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name in found:
            raise InvalidRequest("option: give NAME=VALUE, each NAME once")
        begins = text[:1] in tuple('{["-0123456789') or text in ("true", "false", "null")
        found[name] = json_of(text, f"option {name}") if begins else text
    return found


def first_line(name: str, what: str) -> str:
    """The one line of a file, or of standard input, without its end."""
    raw = read_bytes(name, what)
    text = raw.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    if not text or "\n" in text:
        raise InvalidRequest(f"{what}: give it on one line")
    return text


def lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without their ends; a line that is longer than any command is cut there,
    and its reader refuses it."""
    number = 0
    while line := file.readline(fields.MAX_BODY_BYTES + 2):
        number += 1
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")


def task_of(line: bytes, what: str, *, whole: bool) -> NewTask:
    """The task that a line stands for: its payload, or with `whole` an object of its fields."""
    from fencepost.commands import NewTask

    found = json_of(line, what)
    if whole:
        return build(NewTask, found, what)
    return NewTask(found)
