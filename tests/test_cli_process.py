"""The program as a process of its own: locale, pipes, signals, what a start loads."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest
from helpers.shell import Shell, command, environment, run

SLOW = ("fencepost.operate", "importlib.resources", "importlib.metadata")
HEAVY = ("fencepost.handle", "fencepost.engine", "sqlite3", *SLOW)
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and devices")


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    assert shell("init").code == 0
    return shell


def test_the_module_and_the_script_are_one_program(shell):
    assert run(shell.folder, "--version").out == shell("--version").out
    ran = run(shell.folder, "enqueue", "q", "1", "--json")
    assert ran.code == 0 and len(ran.json["task_ids"]) == 1
    assert run(shell.folder, "show", ran.json["task_ids"][0]).code == 0
    assert run(shell.folder, "complete").code == 2


@pytest.mark.parametrize("locale", ["C", "POSIX", "de_DE.ISO-8859-1"])
def test_output_is_utf8_whatever_the_locale(shell, locale):
    task_id = shell.task('"…é漢"')
    settings = {"LANG": locale, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    assert '"…é漢"' in run(shell.folder, "show", task_id, **settings).out


def test_an_argument_in_utf8_is_understood_under_lang_c(shell):
    ran = run(shell.folder, "enqueue", "q", '"é漢"', "--json", LANG="C", LC_ALL="C")
    assert shell.json("show", ran.json["task_ids"][0])["payload"] == "é漢"


@POSIX
@pytest.mark.parametrize("argv", [("list",), ("list", "--json"), ("journal",)])
def test_a_broken_pipe_is_quiet(shell, argv):
    shell("enqueue", "q", "--from", "-", stdin=b"1\n" * 2_000)
    with subprocess.Popen(
        command(*argv), cwd=shell.folder, env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        child.stdout.close()
        assert (child.stderr.read(), child.wait(50)) == (b"", 141)


@POSIX
def test_an_answer_that_cannot_be_written_tells_the_key(shell):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("enqueue", "q", "1"), cwd=shell.folder, env=environment(), stdout=full,
            stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert done.returncode == 6
    assert done.stderr.startswith(b"fencepost: outcome_unknown: the answer could not be written")
    key = done.stderr.split(b"--key ")[1].split()[0].decode()
    assert shell.json("enqueue", "q", "1", "--key", key)["replayed"] is True


def test_a_start_loads_no_more_than_the_verb_needs(shell):
    program = (
        "import sys\n"
        "from fencepost.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "print(sorted(sys.modules), file=sys.stderr)\n"
    )
    for argv, unwanted in (
        (["--version"], HEAVY),
        (["claim", "--help"], HEAVY),
        (["list"], SLOW),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *argv], cwd=shell.folder, env=environment(),
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        loaded = set(ast.literal_eval(done.stderr.splitlines()[-1]))
        assert loaded.isdisjoint(unwanted), (argv, loaded & set(unwanted))


@pytest.mark.parametrize("name", ["demo", "bench"])
def test_a_program_of_ours_gets_its_own_arguments(shell, monkeypatch, name):
    given = []

    def take(argv, *_):
        given.append(argv)
        return 5

    monkeypatch.setattr(f"fencepost.operate.{name}.main", take)
    assert shell(name, "DIR", "--seed", "1", "--", "-x").code == 5
    assert shell("--json", name, "--json").code == shell(name, "--help").code == 5
    assert given == [["DIR", "--seed", "1", "--", "-x"], ["--json"], ["--help"]]
    assert shell(name, "-h").out.startswith("examples:\n  fencepost ")


@POSIX
def test_a_closed_stream_takes_nothing_and_spoils_nothing(shell):
    def ran(words):
        return subprocess.run(
            ["sh", "-c", " ".join(command(*words))], cwd=shell.folder, check=False,
            env=environment(), capture_output=True,
        )  # fmt: skip

    assert ran(("enqueue", "q", "1", ">&-")).returncode == 0
    assert ran(("list", ">&-")).returncode == 0
    refused = ran(("--json", "show", "01900000-0000-7000-8000-000000000000", "2>&-"))
    assert refused.returncode == 4
    assert len(refused.stdout.splitlines()) == 1, "what is said on stderr is not on stdout"
    assert len(shell("list", "--json").out.splitlines()) == 1
