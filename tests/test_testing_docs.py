"""docs/testing.md is held against the code: its own text is run, and typed."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections import defaultdict
from dataclasses import fields
from pathlib import Path

import pytest
from helpers.shell import environment
from test_docs import blocks, rows

from fencepost.testing import Kit, Run

PAGE = "docs/testing.md"
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def folder(tmp_path):
    """The files of the page, as its reader has them."""
    files = defaultdict(str)
    for block in blocks(PAGE, "python"):
        name, text = block.removeprefix("# ").split("\n", 1)
        files[name] += text + "\n\n"
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert sorted(files) == ["pages.py", "test_pages.py"]
    return tmp_path


def run(folder, *words):
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment(PYTHONPATH=str(ROOT)), check=False,
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_tests_of_the_page_run_and_pass(folder):
    code, said = run(folder, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert (code, re.findall(r"(\d+) passed", said)) == (0, ["8"]), said


@pytest.mark.timeout(300)
def test_the_files_of_the_page_are_typed_strictly_and_a_wrong_use_is_found(folder):
    wrong = "from pages import read_page\nfrom fencepost.testing import Kit\n"
    wrong += 'Kit().run_one("pages", read_page).assert_verdict("completed")\nKit().run_one(1, 2)\n'
    (folder / "wrong.py").write_text(wrong, encoding="utf-8")
    code, said = run(folder, "-m", "mypy", "--strict", ".")
    found = re.findall(r"^(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", said, re.MULTILINE)
    assert (code, found) == (1, [("wrong.py", "3", "arg-type"), ("wrong.py", "4", "arg-type"),
                                 ("wrong.py", "4", "arg-type")]), said  # fmt: skip


def test_a_failing_assertion_says_what_the_page_shows(folder):
    pages = runpy.run_path(str(folder / "pages.py"))
    (shown,) = blocks(PAGE, "text")
    with Kit() as kit:
        pages["order"](kit.fp, 17)
        kit.run_one("pages", pages["read_page"])
        with pytest.raises(AssertionError) as caught:
            kit.assert_enqueued("index", {"page": 18})
    assert f"AssertionError: {caught.value}\n" == shown


def names(heading):
    cells = [row[0] for row in rows(PAGE, heading)]
    return {name for cell in cells for name in re.findall(r"`(\w+)", cell)}


def test_the_tables_of_the_page_name_all_that_there_is():
    with Kit() as kit:
        there = {name for name in dir(kit) if not name.startswith("_")}
    assert names("## What there is") | {"close"} == there
    after = {field.name for field in fields(Run)}
    assert names("`assert_not_enqueued(queue, …)`") == after
