"""The members of a batch as raw slices: a command's bytes are what was sent, never a copy that was
written anew from what had been understood."""

from __future__ import annotations

import json
import re

from fencepost.issues import InvalidRequest

SPACE = re.compile(r"[ \t\n\r]*").match
_scan = json.JSONDecoder().raw_decode
SHAPE = '{"commands": [{"command": {…}, "key": "…"}, …]}'


class _Text:
    """A place in the text, and what may stand there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self._skip()

    def _skip(self) -> None:
        found = SPACE(self.text, self.place)
        assert found is not None
        self.place = found.end()

    def at(self, char: str) -> bool:
        """Step over the character, if it is the next."""
        if not self.text.startswith(char, self.place):
            return False
        self.place += 1
        self._skip()
        return True

    def need(self, char: str) -> None:
        if not self.at(char):
            raise InvalidRequest(f"batch: {char!r} is expected at character {self.place}; {SHAPE}")

    def value(self) -> tuple[object, str]:
        """The next value and its slice. What is in it, the command's own reading judges."""
        start = self.place
        try:
            value, self.place = _scan(self.text, start)
        except (RecursionError, ValueError) as error:
            raise InvalidRequest(f"batch: no JSON at character {start}: {error}") from None
        raw = self.text[start : self.place]
        self._skip()
        return value, raw

    def name(self, known: tuple[str, ...], seen: set[str]) -> str:
        """The name of an object's next member, and its colon."""
        found, _ = self.value()
        if not isinstance(found, str) or found not in known:
            raise InvalidRequest(f"batch: the members are {' and '.join(known)}; {SHAPE}")
        if found in seen:
            raise InvalidRequest(f"batch: {found} stands twice in one object")
        seen.add(found)
        self.need(":")
        return found


def members(body: bytes, limit: int) -> list[tuple[bytes, str | None]]:
    """(the command's bytes, its key) of each member. InvalidRequest for anything else."""
    try:
        text = _Text(body.decode())
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"batch is not UTF-8 at byte {error.start}") from None
    found: list[tuple[bytes, str | None]] = []
    text.need("{")
    text.name(("commands",), set())
    text.need("[")
    if not text.at("]"):
        while True:
            found.append(_member(text, len(found)))
            if len(found) > limit:
                raise InvalidRequest(f"batch: more than {limit} commands; send it in parts")
            if text.at("]"):
                break
            text.need(",")
    text.need("}")
    if text.place != len(text.text):
        raise InvalidRequest(f"batch: text after the object, at character {text.place}")
    if not found:
        raise InvalidRequest(f"batch: give at least one command; {SHAPE}")
    return found


def _member(text: _Text, number: int) -> tuple[bytes, str | None]:
    seen: set[str] = set()
    raw, key = b"", None
    text.need("{")
    while True:
        name = text.name(("command", "key"), seen)
        value, written = text.value()
        if name == "command":
            raw = written.encode("utf-8", "surrogatepass")
        elif isinstance(value, str):
            key = value
        else:
            raise InvalidRequest(f"batch: commands/{number}/key: give text, or leave it out")
        if text.at("}"):
            break
        text.need(",")
    if not raw:
        raise InvalidRequest(f"batch: commands/{number} has no command")
    return raw, key
