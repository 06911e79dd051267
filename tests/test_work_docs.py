"""docs/work.md is held against the code."""

from __future__ import annotations

import sys

from test_docs import blocks, rows
from test_http_readme import Newcomer, block

import fencepost
from fencepost.cli.work import EXITS
from fencepost.worker.command import ADDED, ENVIRONMENT
from fencepost.worker.verdicts import EXIT_CODES, OTHER

PAGE = "docs/work.md"


def test_the_table_of_exit_codes_of_a_command_is_the_code_s():
    expected = [[str(code), row.name, row.verdict, row.meaning] for code, row in EXIT_CODES.items()]
    found = rows(PAGE, "- **Exit code**")
    assert found == [*expected, ["other", OTHER.name, OTHER.verdict, OTHER.meaning]]


def test_the_table_of_the_environment_is_the_code_s():
    told = {name: text for name, (text, _) in ENVIRONMENT.items()} | ADDED
    assert {row[0].strip("`"): row[1] for row in rows(PAGE, "## What a command is given")} == told


def test_the_table_of_exit_codes_of_a_worker_is_the_code_s():
    expected = [[str(code), text] for code, text in EXITS.values()]
    assert sorted(rows(PAGE, "## How it ends")) == sorted(expected)


def test_the_handler_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with fencepost.open("work.db", create=True) as fp:
        fp.enqueue("pages", {"page": 1})
        fp.enqueue("pages", {"page": 0})
    (program,) = blocks(PAGE, "py")
    exec(program.replace("concurrency=8", "exit_when_empty=True"), {"__name__": "page"})  # noqa: S102
    with fencepost.open("work.db") as fp:
        assert [task.state for task in fp.tasks("pages")] == ["done", "dead"]
        assert [task.state for task in fp.tasks("index")] == ["ready"]


def test_the_readme_s_command_and_function_do_what_they_say(tmp_path):
    newcomer = Newcomer(tmp_path)
    newcomer.environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    newcomer.shell("fencepost init")
    newcomer.shell(block("README.md", '{"page": 19}', "sh"))
    with fencepost.open(tmp_path / "fencepost.db") as fp:
        (task,) = fp.tasks("pages")
        assert (task.state, task.worker_id) == ("done", "laptop-3")
        assert [result.value for result in fp.results(task.task_id)] == [len('{"page":19}')]
    with fencepost.open(tmp_path / "work.db", create=True) as fp:
        task_id = fp.enqueue("pages", {"page": 20}).task_id
    python = block("README.md", "fencepost.Worker", "py")
    assert python.count("concurrency=8") == 1
    program = "import fencepost\n" + python.replace("concurrency=8", "exit_when_empty=True")
    (tmp_path / "reads.py").write_text(program, encoding="utf-8")
    newcomer.shell(f"{sys.executable} -W error reads.py")
    with fencepost.open(tmp_path / "work.db") as fp:
        assert [result.value for result in fp.results(task_id)] == [{"text": "page 20"}]
