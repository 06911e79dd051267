"""One JSON line for each answer, made from an allow-list of fields.

No token, payload, result, key or path is among them: a path is told as its template. What other
parts of the program log goes through `Shown`, which hides whatever looks like a token.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from contextlib import suppress
from typing import TextIO

from fencepost.clock import Clock, to_rfc3339

FIELDS = (
    "time", "level", "event", "request_id", "method", "route", "status", "code", "scope",
    "token_id", "verb", "seconds", "bytes", "message",
)  # fmt: skip
TOKEN = re.compile(r"fp_[0-9A-Za-z]{8,}")


class Lines:
    """Writes the lines. Anything not in FIELDS is a fault of ours, and is refused."""

    def __init__(self, clock: Clock, sink: TextIO | None = None) -> None:
        self._clock = clock
        self._sink = sys.stderr if sink is None else sink

    def line(self, level: str, event: str, **values: object) -> None:
        """One line. Values that are None or empty are left out."""
        given = {"time": to_rfc3339(self._clock.wall()), "level": level, "event": event, **values}
        unknown = set(given) - set(FIELDS)
        assert not unknown, f"not a field of the log: {unknown}"
        told = {name: given[name] for name in FIELDS if given.get(name) not in (None, "")}
        with suppress(OSError):  # a disk that is full: there is no other place to tell it
            self._sink.write(json.dumps(told, separators=(",", ":")) + "\n")
            self._sink.flush()


class Shown(logging.Handler):
    """What the library and the server below log, as lines of ours."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            # the kind and the place; an exception's own words may quote what a caller sent
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = "?" if trace is None else f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}"
            text = f"{text} ({record.exc_info[0].__name__} at {place})"
        self._lines.line(record.levelname.lower(), record.name, message=TOKEN.sub("fp_…", text))
