"""Completion files: what is committed is what the table of subcommands says today."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from importlib.metadata import version

import pytest
from helpers.completing import FOLDER, MADE_WITH, SHELLS, completion
from helpers.shell import Shell

from fencepost.cli.parser import whole_parser
from fencepost.cli.subcommands import SUBCOMMANDS


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_is_given_the_file_that_is_committed(shell, tmp_path, capsys, monkeypatch):
    ran = Shell(tmp_path, capsys, monkeypatch)("completion", shell)
    assert (ran.code, ran.out) == (0, (FOLDER / f"fencepost.{shell}").read_text(encoding="utf-8"))


@pytest.mark.parametrize("shell", SHELLS)
def test_the_committed_file_knows_every_verb_and_every_flag(shell):
    text = (FOLDER / f"fencepost.{shell}").read_text(encoding="utf-8")
    parser = whole_parser(SUBCOMMANDS)
    flags = {flag for action in parser._actions for flag in action.option_strings}
    for verb in SUBCOMMANDS.values():
        sub = type(parser)()
        verb.arguments(sub)
        flags |= {flag for action in sub._actions for flag in action.option_strings}
    wanted = {flag.lstrip("-") for flag in flags} | set(SUBCOMMANDS)
    assert {word for word in wanted if word not in text} == set()


@pytest.mark.skipif(importlib.util.find_spec("shtab") is None, reason="shtab is not installed")
@pytest.mark.parametrize("shell", SHELLS)
def test_the_committed_file_is_what_shtab_makes_today(shell):
    if version("shtab") != MADE_WITH:
        pytest.skip(f"made with shtab {MADE_WITH}, here is {version('shtab')}")
    made = completion(shell)
    assert made == (FOLDER / f"fencepost.{shell}").read_text(encoding="utf-8"), (
        "run: python tests/helpers/completing.py"
    )


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_a_verb_and_the_words_of_a_flag():
    script = (
        f'source "{FOLDER}/fencepost.bash"\n'
        "complete_line() { COMP_WORDS=(fencepost $1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1));\n"
        "  COMPREPLY=(); _shtab_fencepost; echo ${COMPREPLY[@]}; }\n"
        "complete_line 'enq'\ncomplete_line 'list --state de'\n"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["enqueue", "dead"]
