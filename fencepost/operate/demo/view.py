"""How the demo speaks. The command line hands in a view of its own, with colour and a bar."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self, TextIO


class Progress(Protocol):
    """How far the work has come."""

    def add(self, count: int = 1) -> None:
        """So many more are done."""

    def note(self, text: str) -> None:
        """Something worth a line of its own."""


class View(Protocol):
    """Where the demo's lines go."""

    def say(self, text: str, style: str | None = None) -> None:
        """One line. `style` is good, bad, dim or strong, and only repeats what the words say."""

    def fault(self, text: str) -> None:
        """One line that says why it cannot go on, on stderr."""

    def progress(self, label: str, total: int) -> AbstractContextManager[Progress]:
        """The progress of `total` steps, until its block ends."""


class PlainView:
    """Plain lines, without colour. What a terminal could obey is escaped."""

    def say(self, text: str, style: str | None = None) -> None:
        write(sys.stdout, text)

    def fault(self, text: str) -> None:
        write(sys.stderr, text)

    def progress(self, label: str, total: int) -> PlainProgress:
        return PlainProgress(label, total)


class JsonView(PlainView):
    """For programs: nothing for people on stdout."""

    def say(self, text: str, style: str | None = None) -> None:
        pass


class PlainProgress:
    """A line for every tenth of the way."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total, self.count = label, total, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def add(self, count: int = 1) -> None:
        before = self.count * 10 // self.total
        self.count += count
        if self.count * 10 // self.total > before:
            self.note(f"{self.count:,} of {self.total:,} {self.label}")

    def note(self, text: str) -> None:
        write(sys.stderr, f"  {text}")


def counted(number: int, what: str) -> str:
    """ "1 lease", "1,200 leases"."""
    return f"{number:,} {plural(number, what)}"


def plural(number: int, what: str) -> str:
    return what if number == 1 else f"{what}s"


def write(out: TextIO, text: str) -> None:
    """A line that any stream can carry."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    encoding = out.encoding or "ascii"
    out.write(shown.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    out.flush()
