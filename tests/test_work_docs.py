"""docs/work.md is held against the code."""

from __future__ import annotations

from test_docs import blocks, rows

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
