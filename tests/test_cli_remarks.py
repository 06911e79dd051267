"""What a worker leaves on its way, from the command line: --progress and --log."""

from __future__ import annotations

import pytest
from helpers.shell import Shell

NASTY = "\x1b[2J\x1b]0;owned\x07\u202eright\u2028\x9b31m\ttab\rover"


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    assert shell("init").code == 0
    return shell


@pytest.mark.parametrize("verb", ["renew", "fail", "release"])
def test_progress_and_log_are_shown_and_the_next_claim_is_given_the_progress(shell, verb):
    lease = shell.lease()
    shell.json(verb, *lease, "--progress", '{"line": 40}', "--log", "half way")
    shown = shell.json("show", lease[0])
    assert (shown["progress"], shown["log"]) == ({"line": 40}, "half way")
    if verb == "release":
        (grant,) = shell.json("claim", "q", "--worker", "v")["leases"]
        assert (grant["task_id"], grant["progress"]) == (lease[0], {"line": 40})


def test_a_claim_tells_people_what_the_earlier_attempt_has_left(shell):
    lease = shell.lease()
    assert "progress" not in shell("show", lease[0]).out
    shell("release", *lease, "--progress", '{"line":40}')
    assert '  progress {"line": 40}' in shell("claim", "q", "--worker", "v").out


@pytest.mark.parametrize(("verb", "words"), [("submit", ("1",)), ("complete", ("1",))])
def test_who_hands_in_a_result_leaves_a_log_and_no_progress(shell, verb, words):
    lease = shell.lease()
    shell.json(verb, *lease, *words, "--log", "said")
    assert shell.json("show", lease[0])["log"] == "said"
    assert shell(verb, *lease, *words, "--progress", "1").code == 2


def test_of_a_log_in_a_file_the_end_is_kept_and_at_minus_is_standard_input(shell):
    lease = shell.lease()
    (shell.folder / "stderr.txt").write_text("begin " + "é" * 70_000 + " end", encoding="utf-8")
    shell.json("renew", *lease, "--log", "@stderr.txt")
    log = shell.json("show", lease[0])["log"]
    assert log.startswith("…é") and log.endswith("é end")
    assert 16_384 - 3 <= len(log.encode()) <= 16_384
    shell.json("renew", *lease, "--log", "@-", stdin=b"piped \xff")
    assert shell.json("show", lease[0])["log"] == "piped \ufffd"


def test_what_cannot_be_kept_is_refused_and_nothing_is_changed(shell):
    lease = shell.lease()
    for words in (
        ("--progress", "null"), ("--progress", "{"), ("--progress", '"' + "x" * 65_535 + '"'),
        ("--log", "x" * 16_385), ("--log", "@missing.txt"), ("--log", "@."),
    ):  # fmt: skip
        ran = shell("renew", *lease, *words)
        assert (ran.code, "invalid_request" in ran.err) == (2, True), words
    shown = shell.json("show", lease[0])
    assert (shown["progress"], shown["log"]) == (None, None)


def test_a_log_that_is_shown_moves_no_cursor_and_hides_nothing(shell):
    lease = shell.lease()
    shell("renew", *lease, "--log", f"first\n{NASTY}\nlast", "--progress", '"\\u001b[2J"')
    told = shell("show", lease[0]).out
    assert all(character.isprintable() or character == "\n" for character in told)
    assert "  first\n" in told and "  last\n" in told and "\\u001b[2J" in told
    assert "\u202e" not in told and "\u2028" not in told
    assert shell.json("show", lease[0])["log"] == f"first\n{NASTY}\nlast"
