"""What a person reads: safe, aligned, understandable without colour, UTF-8 whatever the locale."""

from __future__ import annotations

import io
import os
import re
import struct
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.cli import terminal

ROOT = Path(__file__).resolve().parent.parent
COLOUR = re.compile(r"\x1b\[\d+m")


class Stream(io.StringIO):
    """A stream that is, or is not, a terminal."""

    def __init__(self, tty: bool) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


class Steady:
    """Seconds that stand still until told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("tty", "environ", "mode", "expected"),
    [
        (True, {}, "auto", True),
        (False, {}, "auto", False),
        (True, {"TERM": "dumb"}, "auto", False),
        (True, {"NO_COLOR": "1"}, "auto", False),
        (True, {"NO_COLOR": ""}, "auto", True),
        (False, {"FORCE_COLOR": "1"}, "auto", True),
        (True, {"FORCE_COLOR": "0"}, "auto", False),
        (False, {"FORCE_COLOR": ""}, "auto", False),
        (True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False),
        (True, {"FORCE_COLOR": "1", "TERM": "dumb"}, "auto", True),
        (False, {"NO_COLOR": "1"}, "always", True),
        (True, {"FORCE_COLOR": "1"}, "never", False),
    ],
)
def test_colour_follows_flag_then_environment_then_stream(tty, environ, mode, expected):
    assert terminal.colour_allowed(Stream(tty), mode, environ) is expected


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain text, 100 %", "plain text, 100 %"),
        ("日本語 é ✓", "日本語 é ✓"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("\x00\x7f\x08", "\\x00\\x7f\\x08"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),  # C1: CSI and NEL in one character
        ("pay\u202etxt.exe\u2066", "pay\\u202etxt.exe\\u2066"),
        ("a\u200bb\u200d\ufeff\u00ad", "a\\u200bb\\u200d\\ufeff\\xad"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\ud800x\udfff", "\\ud800x\\udfff"),
        ("a\u00a0b\u3000", "a\\xa0b\\u3000"),
        ("\u3164\u2800\ufe0f\U000e0041\U000e0100",
         "\\u3164\\u2800\\ufe0f\\U000e0041\\U000e0100"),
        ("\ue000\U0010ffff", "\\ue000\\U0010ffff"),
        ("C:\\new", "C:\\new"),
        (17, "17"),
    ],
)  # fmt: skip
def test_what_would_act_or_hide_is_shown_by_number(raw, shown):
    assert terminal.clean(raw) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_clean_text_holds_no_character_that_acts(text):
    shown = terminal.clean(text)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    shown.encode()
    assert terminal.clean(shown) == shown


@pytest.mark.parametrize(
    ("text", "cells"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("\uff57", 2), ("กี", 1), ("", 0)]
)
def test_width_counts_cells_and_not_characters(text, cells):
    assert terminal.width(text) == cells


@given(st.text().map(terminal.clean), st.integers(0, 12))
@example("\u0300ab", 1)  # a mark with no letter below it takes no cell
def test_clipped_text_fits_and_says_that_it_was_cut(text, cells):
    clipped = terminal.clip(text, cells)
    assert terminal.width(clipped) <= cells
    if cells and clipped != text:
        assert clipped.endswith("…")
        assert text.startswith(clipped[:-1])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"), (0.9, "now"), (-0.9, "now"), (1, "1s ago"), (59.9, "59s ago"),
        (60, "1m ago"), (3599, "59m ago"), (3600, "1h ago"), (86399, "23h ago"),
        (86400, "1d ago"), (-1, "in 1s"), (-300, "in 5m"), (4e7, "462d ago"),
    ],
)  # fmt: skip
def test_an_age_is_told_in_its_largest_whole_unit(seconds, text):
    assert terminal.ago(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (59.9, "59s"), (185, "3m 05s"), (7200, "2h 00m"), (86400 * 5 - 1, "4d 23h")],
)
def test_a_duration_is_told_in_its_two_largest_units(seconds, text):
    assert terminal.duration(seconds) == text


def test_a_table_is_aligned_by_cells_and_its_numbers_to_the_right():
    text = terminal.table(["task", "fence"], [["日本", 7], ["ab", 123]], right={1})
    assert text.split("\n") == ["TASK  FENCE", "日本      7", "ab      123"]


def test_a_table_shows_nothing_as_a_dash_and_escapes_what_comes_from_outside():
    text = terminal.table(["a", "b", "c"], [[None, True, "\x1b[2Jx\ny"]])
    assert text.split("\n")[1] == "-  yes  \\x1b[2Jx\\ny"


def test_a_table_without_rows_is_its_head():
    assert terminal.table(["state", "age"], []) == "STATE  AGE"


def test_a_fitted_table_takes_from_its_widest_columns():
    text = terminal.table(["id", "payload", "note"], [["17", "p" * 50, "n" * 20]], cells=40)
    lines = text.split("\n")
    assert max(map(terminal.width, lines)) == 40
    assert lines[1].startswith("17  ppp")
    assert lines[1].count("…") == 2


def test_a_table_gets_no_column_narrower_than_can_be_read():
    row = terminal.table(["a", "b"], [["x" * 30, "y" * 30]], cells=5).split("\n")[1]
    assert row == "x" * 7 + "…  " + "y" * 7 + "…"


def test_a_table_for_a_program_is_neither_cut_nor_coloured(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    out = Stream(tty=False)
    terminal.print_table(out, ["state"], [["dead " * 20]], styles={"dead": "bad"})
    assert out.getvalue() == "STATE\n" + ("dead " * 20).rstrip() + "\n"


def test_colour_adds_nothing_that_the_words_do_not_say():
    rows = [["dead", 1], ["done", 2]]
    styles = {"dead": "bad", "done": "good"}
    plain = terminal.table(["state", "n"], rows, styles=styles, colour=False)
    painted = terminal.table(["state", "n"], rows, styles=styles, colour=True)
    assert "\x1b[31mdead" in painted
    assert COLOUR.sub("", painted) == plain


def test_the_width_is_that_of_columns_or_eighty():
    out = Stream(tty=True)
    assert terminal.columns(out, {"COLUMNS": "33"}) == 33
    assert terminal.columns(out, {"COLUMNS": "0"}) == 80
    assert terminal.columns(out, {"COLUMNS": "wide"}) == 80


def test_the_width_is_asked_of_the_stream_itself():
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    try:
        first, second = os.openpty()
    except OSError as error:
        pytest.skip(f"no pseudo-terminals here: {error}")
    try:
        fcntl.ioctl(second, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 57, 0, 0))
        with open(second, "w", closefd=False, encoding="utf-8") as stream:
            assert terminal.columns(stream, {}) == 57
    finally:
        os.close(first)
        os.close(second)


def test_progress_on_a_terminal_draws_over_one_line_and_leaves_the_last():
    out, steady = Stream(tty=True), Steady()
    with terminal.Progress("import", 300, out=out, steady=steady) as progress:
        for _ in range(300):
            steady.now += 0.01
            progress.add()
    drawn = out.getvalue().split(terminal.CLEAR_LINE)
    assert out.getvalue().count("\n") == 1
    assert 20 < len(drawn) < 40  # every tenth of a second, not every step
    assert "150/300 (100/s)  1s left" in out.getvalue()
    assert drawn[-1] == "import done: 300/300 (100/s) in 3s\n"


def test_progress_never_wraps_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    out, steady = Stream(tty=True), Steady()
    with terminal.Progress("日本語 " * 8, 10, out=out, steady=steady) as progress:
        for _ in range(9):
            steady.now += 1
            progress.add()
    for line in out.getvalue().split(terminal.CLEAR_LINE)[1:-1]:
        assert terminal.width(COLOUR.sub("", line)) < 30


def test_progress_can_be_read_without_colour(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out, steady = Stream(tty=True), Steady()
    with terminal.Progress("import", 4, out=out, steady=steady) as progress:
        steady.now += 1
        progress.add()
    assert "━" * 10 + "─" * 30 + " import 1/4 (1/s)  3s left" in out.getvalue()
    assert not COLOUR.search(out.getvalue())


@pytest.mark.parametrize(("tty", "term"), [(False, "xterm"), (True, "dumb")])
def test_progress_in_a_log_is_a_plain_line_every_ten_seconds(monkeypatch, tty, term):
    monkeypatch.setenv("TERM", term)
    out, steady = Stream(tty), Steady()
    with terminal.Progress("import", 25, out=out, steady=steady) as progress:
        for _ in range(25):
            steady.now += 1
            progress.add()
    assert out.getvalue().split("\n") == [
        "import 10/25 (1/s)  15s left",
        "import 20/25 (1/s)  5s left",
        "import done: 25/25 (1/s) in 25s",
        "",
    ]


@pytest.mark.parametrize("tty", [True, False])
def test_progress_says_where_it_stopped(tty):
    out, steady = Stream(tty), Steady()

    def interrupted():
        with terminal.Progress("import", 5, out=out, steady=steady) as progress:
            progress.add(2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert out.getvalue().endswith("import stopped: 2/5 in 0s\n")


@pytest.mark.parametrize("tty", [True, False])
def test_what_had_not_begun_leaves_no_line(tty):
    out = Stream(tty)
    progress = terminal.Progress("restore", None, out=out, steady=Steady())
    with pytest.raises(KeyboardInterrupt), progress:
        raise KeyboardInterrupt
    assert not out.getvalue() or out.getvalue().endswith(terminal.CLEAR_LINE)
    assert "stopped" not in out.getvalue()


def test_progress_works_without_a_total_and_with_an_empty_one():
    for total, text in ((None, "scan done: 0 in 0s\n"), (0, "scan done: 0/0 in 0s\n")):
        out = Stream(tty=True)
        with terminal.Progress("scan", total, out=out, steady=Steady()) as progress:
            progress.add(0)
        assert out.getvalue().endswith(text)


def test_a_note_stays_above_the_progress_line_and_both_are_clean():
    out = Stream(tty=True)
    with terminal.Progress("im\x1bport", 5, out=out, steady=Steady(), mode="never") as progress:
        progress.note("line 3: \x1b[2J")
    line = "─" * 40 + " im\\x1bport 0/5"
    last = "im\\x1bport done: 0/5 in 0s\n"
    parts = out.getvalue().split(terminal.CLEAR_LINE)
    assert parts == ["", line, "line 3: \\x1b[2J\n", line, last]


def test_output_is_utf8_even_where_the_locale_is_not():
    program = (
        "import sys; from fencepost.cli import terminal as t; t.use_utf8(sys.stdout, sys.stderr);"
        r"print('\xe9\u2026\u65e5\ud800'); print('\u2026', file=sys.stderr)"
    )
    environ = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PATH": os.defpath}
    environ["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "é…日\\ud800"
    assert done.stderr.decode().strip() == "…"


def test_a_stream_that_cannot_change_its_encoding_is_left_alone():
    terminal.use_utf8(io.StringIO())
