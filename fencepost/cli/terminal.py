"""Output for people, without a library: colour, safe text, fitted tables, ages, one progress line.

Data goes to stdout, progress and messages to stderr. What comes from outside (payloads, names,
results) passes through `clean` before it reaches a terminal, so that no task can move the cursor,
change the title or turn the reading direction. Colour only repeats what the words say.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self, TextIO

ColourMode = Literal["auto", "always", "never"]

STYLES = {"good": "32", "warn": "33", "bad": "31", "dim": "2", "strong": "1"}  # SGR by meaning

# Printable by Unicode's table and yet nothing to see: the grapheme joiner, Hangul fillers, Khmer
# inherent vowels, Mongolian selectors, blank Braille, variation selectors.
UNSEEN = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
UNSEEN.update(range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))

MIN_COLUMN = 8  # characters that a fitted column keeps, however narrow the terminal
MAX_BAR = 40  # characters
REWRITE_SECONDS = 0.1  # between two drawings of a progress line on a terminal
PLAIN_SECONDS = 10.0  # between two progress lines where nothing can be rewritten
CLEAR_LINE = "\r\x1b[2K"


def use_utf8(*streams: TextIO) -> None:
    """Make streams write UTF-8 whatever the locale, and escape what UTF-8 cannot say.

    Under LANG=C a "…" in a table would otherwise end the program. A stream that cannot be
    reconfigured (a test's StringIO) is left as it is.
    """
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def open_what_is_closed() -> None:
    """A stream that the caller has closed (`>&-`) is None: what is said there goes nowhere, and
    what is said on stderr not to stdout, where print would put it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # for the life of the process, and so that no file of ours gets its number
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def can_rewrite(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a line on this stream can be drawn over: a terminal that knows escape sequences."""
    return stream.isatty() and environ.get("TERM") != "dumb"


def colour_allowed(
    stream: TextIO, mode: ColourMode = "auto", environ: Mapping[str, str] = os.environ
) -> bool:
    """Whether to colour: the flag, then NO_COLOR, then FORCE_COLOR, then what the stream is.

    An empty variable counts as unset; FORCE_COLOR=0 switches colour off.
    """
    if mode != "auto":
        return mode == "always"
    if environ.get("NO_COLOR"):
        return False
    if force := environ.get("FORCE_COLOR"):
        return force not in ("0", "false")
    return can_rewrite(stream, environ)


def columns(stream: TextIO, environ: Mapping[str, str] = os.environ) -> int:
    """Width of the terminal behind this very stream; COLUMNS overrides it, 80 if unknown."""
    wanted = environ.get("COLUMNS", "")
    if wanted.isascii() and wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # not a terminal, or no file at all
        return 80


def paint(text: str, style: str, on: bool) -> str:
    """Text in a style of STYLES where colour is on. The text must be clean already."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if on and text else text


def escape(char: str) -> str:
    """A character by its number, as Python and JSON readers know it."""
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char)
    if short:
        return short
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean(text: object) -> str:
    """Text that is safe to print: what would act on the terminal or be invisible is escaped.

    That is: C0 and C1 controls, escape sequences, bidi overrides and isolates, zero-width and
    blank characters, line separators, lone surrogates, private and unassigned code points, and
    every space but the common one. A backslash stays single: the escapes are for the eye, not for
    reading back.
    """
    text = str(text)
    if text.isprintable() and text.isascii():
        return text
    return "".join(c if c.isprintable() and ord(c) not in UNSEEN else escape(c) for c in text)


def char_width(char: str) -> int:
    """Terminal cells of one clean character: 0 for a mark on the one before, 2 for a wide one."""
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me") or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def width(text: str) -> int:
    """Terminal cells of clean text."""
    return len(text) if text.isascii() else sum(map(char_width, text))


def clip(text: str, cells: int) -> str:
    """Clean text in at most so many cells; "…" stands for what was cut off."""
    if width(text) <= cells:
        return text
    if cells <= 0:
        return ""
    used = 0
    for index, char in enumerate(text):
        used += char_width(char)
        if used > cells - 1:
            return text[:index] + "…"
    return text


def pad(text: str, cells: int, right: bool = False) -> str:
    """Clean text filled with spaces to so many cells."""
    fill = " " * (cells - width(text))
    return fill + text if right else text + fill


def duration(seconds: float) -> str:
    """A span in its two largest units: "0s", "59s", "3m 05s", "2h 00m", "4d 23h"."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3_600}h {whole % 3_600 // 60:02d}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3_600:02d}h"


def ago(seconds: float) -> str:
    """An age in its largest unit: "12s ago", "3h ago"; "in 5m" for what is to come; "now"."""
    whole = int(abs(seconds))
    if whole == 0:
        return "now"
    size, unit = next(
        (size, unit)
        for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
        if whole >= size
    )
    return f"{whole // size}{unit} ago" if seconds > 0 else f"in {whole // size}{unit}"


def cell(value: object) -> str:
    """How a table shows a value: nothing as "-", yes and no as words, the rest cleaned."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean(value)


def fit(widths: Sequence[int], cells: int | None) -> list[int]:
    """Column widths that fit, taken from the widest columns; None leaves them as they are."""
    fitted = list(widths)
    over = sum(fitted) + 2 * (len(fitted) - 1) - cells if cells is not None else 0
    while over > 0 and max(fitted) > MIN_COLUMN:
        fitted[fitted.index(max(fitted))] -= 1
        over -= 1
    return fitted


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Collection[int] = (),
    styles: Mapping[str, str] | None = None,
    cells: int | None = None,
    colour: bool = False,
) -> str:
    """Rows below a head, in columns two spaces apart, without a line at the end.

    `right` names the columns that hold numbers; `styles` paints cells by their whole text, so
    that the word is there without colour too; `cells` is the width to fit into, if any.
    """
    texts = [[cell(value) for value in row] for row in rows]
    titles = [clean(title).upper() for title in head]
    grid = [titles, *texts]
    widths = fit([max(width(line[i]) for line in grid) for i in range(len(titles))], cells)

    def lay(line: Sequence[str], row_style: str | None) -> str:
        shown = []
        for index, text in enumerate(line):
            style = row_style or (styles or {}).get(text)
            last = index == len(line) - 1 and index not in right
            put = clip(text, widths[index])
            filled = put if last else pad(put, widths[index], index in right)
            shown.append(paint(filled, style, colour) if style else filled)
        return "  ".join(shown).rstrip(" ")

    return "\n".join([lay(titles, "dim"), *(lay(line, None) for line in texts)])


def print_table(
    out: TextIO,
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Collection[int] = (),
    styles: Mapping[str, str] | None = None,
    mode: ColourMode = "auto",
) -> None:
    """Write a table, fitted where a person reads it and whole where a program does."""
    cells = columns(out) if out.isatty() else None
    colour = colour_allowed(out, mode)
    text = table(head, rows, right=right, styles=styles, cells=cells, colour=colour)
    out.write(text + "\n")


class Progress:
    """How far a long command has come, for the person who waits: count, rate, time left.

    On a terminal it is one line that is drawn over; elsewhere (a log) a line every ten seconds.
    The last line always stays and says how it ended. `steady` gives seconds that never run
    backwards. For one thread.
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        *,
        out: TextIO,
        steady: Callable[[], float],
        mode: ColourMode = "auto",
    ) -> None:
        self.label, self.total, self.count = clean(label), total, 0
        self._out, self._steady = out, steady
        self._rewrites = can_rewrite(out)
        self._colour = colour_allowed(out, mode)
        self._start = self._shown = steady()
        self._begun = False

    def __enter__(self) -> Self:
        if self._rewrites:
            self._draw()
        return self

    def add(self, count: int = 1) -> None:
        """Note that so many more are done; draws only when it is time."""
        self._begun = True
        self.count += count
        now = self._steady()
        if now - self._shown >= (REWRITE_SECONDS if self._rewrites else PLAIN_SECONDS):
            self._shown = now
            self._draw()

    def note(self, text: str) -> None:
        """Say something for good while the line goes on below it."""
        if self._rewrites:
            self._out.write(CLEAR_LINE)
        self._out.write(clean(text) + "\n")
        if self._rewrites:
            self._draw()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave one last line, whether all went well or not; none where nothing had begun."""
        if kind is not None and not self._begun:
            self._out.write(CLEAR_LINE if self._rewrites else "")
            self._out.flush()
            return
        how = "done" if kind is None else "stopped"
        text = f"{self.label} {how}: {self._facts()} in {duration(self._steady() - self._start)}"
        self._out.write((CLEAR_LINE if self._rewrites else "") + text + "\n")
        self._out.flush()

    def _facts(self) -> str:
        """Count and mean rate since the start."""
        seconds = self._steady() - self._start
        rate = f" ({self.count / seconds:,.0f}/s)" if seconds > 0 else ""
        return f"{self.count}{'' if self.total is None else f'/{self.total}'}{rate}"

    def _left(self) -> str:
        """Time left at the mean rate, where it can be told."""
        seconds = self._steady() - self._start
        if not self.total or not self.count or seconds <= 0 or self.count >= self.total:
            return ""
        return f"  {duration((self.total - self.count) * seconds / self.count)} left"

    def _draw(self) -> None:
        text = f"{self.label} {self._facts()}{self._left()}"
        if self._rewrites:
            cells = columns(self._out) - 1  # the last column would wrap on some terminals
            self._out.write(CLEAR_LINE + self._bar(cells - width(text) - 1) + clip(text, cells))
        else:
            self._out.write(text + "\n")
        self._out.flush()

    def _bar(self, room: int) -> str:
        """The bar and a space, in what room the words leave; nothing where that is too little."""
        size = min(room, MAX_BAR)
        if not self.total or size < MIN_COLUMN:
            return ""
        full = size * min(self.count, self.total) // self.total
        filled, rest = paint("━" * full, "good", self._colour), "─" * (size - full)
        return filled + paint(rest, "dim", self._colour) + " "


def follow(line: Progress, label: str) -> Callable[[str, int, int], None]:
    """Puts a long job's (what, done, all) on a progress line, phase by phase."""

    def show(what: str, done: int, total: int) -> None:
        if line.total != total or line.count > done:
            line.label, line.total, line.count = f"{label} {what}", total, 0
        line.add(done - line.count)

    return show
