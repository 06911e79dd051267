"""Documents are held against the code, so that they cannot rot."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost import fields
from fencepost.commands import COMMANDS
from fencepost.issues import ISSUES
from fencepost.model import QueueSettings

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text(name), re.DOTALL | re.MULTILINE)


def rows(name: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading."""
    after = text(name).split(heading, 1)[1]
    table = re.search(r"(?:^\|.*\n)+", after, re.MULTILINE)
    assert table is not None, f"{name}: no table under {heading!r}"
    lines = table[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=50,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_promises_work_exactly_once(page: Path) -> None:
    for sentence in re.split(r"(?<=[.;:])\s", page.read_text(encoding="utf-8")):
        if re.search(r"exactly[- ]once", sentence, re.IGNORECASE):
            assert re.search(r"\b(never|not|no)\b", sentence, re.IGNORECASE), sentence


def test_the_table_of_queue_settings_is_the_code_s() -> None:
    table = {row[0].strip("`"): row for row in rows("docs/settings.md", "## Of a queue")}
    settings = QueueSettings().to_json()
    assert list(table) == list(settings) == list(fields.SETTINGS)
    for name, default in settings.items():
        shown = table[name][1].strip("`").replace(",", "")
        assert shown == json.dumps(default).strip('"'), name


def test_the_table_of_queue_settings_tells_the_allowed_range() -> None:
    for name, _, allowed, _ in rows("docs/settings.md", "## Of a queue"):
        found = re.search(r"([\d,]+) to ([\d,]+)", allowed)
        if found is None:
            continue
        low, high = (int(number.replace(",", "")) for number in found.groups())
        check = fields.SETTINGS[name.strip("`")]
        assert (check(low, name), check(high, name)) == (low, high)
        for outside in (low - 1, high + 1):
            with pytest.raises(fields.InvalidRequest):
                check(outside, name)


def test_the_constants_of_the_protocol_are_the_code_s() -> None:
    table = {row[0]: row[1] for row in rows("docs/settings.md", "## Constants of the protocol")}
    assert table["tasks in one enqueue"] == str(fields.MAX_TASKS_PER_COMMAND)
    assert table["tasks in one claim"] == str(fields.MAX_CLAIM)
    assert table["queues in one claim, or of one token"] == str(fields.MAX_QUEUES_PER_CLAIM)
    assert table["tasks in one sweep or purge"] == str(fields.MAX_SWEEP)
    assert table["a command"] == f"{fields.MAX_BODY_BYTES // 2**20} MiB"
    assert table["an entry"] == f"{fields.MAX_ENTRY_BYTES:,} bytes"
    assert table["`reason`"] == f"{fields.MAX_REASON_BYTES:,} bytes of UTF-8"


def test_the_table_of_issue_codes_is_the_code_s_in_its_order() -> None:
    expected = [
        [str(i.rule), f"`{code}`", i.status, f"`{i.raises.__name__}`", str(i.http), str(i.exit),
         "yes" if i.retry else "no", i.meaning, i.advice]
        for code, i in ISSUES.items()
    ]  # fmt: skip
    assert rows("docs/errors.md", "# Issue codes") == expected


def test_every_verb_stands_in_a_page_for_users() -> None:
    pages = "\n".join(text(f"docs/{page.name}") for page in ROOT.glob("docs/*.md"))
    pages += text("README.md") + text("CHANGELOG.md")
    missing = [verb for verb in COMMANDS if not re.search(rf"\b{re.escape(verb)}\b", pages)]
    assert missing == []


def test_every_place_in_where_is_exists_and_holds_the_name() -> None:
    for question, place in rows("ARCHITECTURE.md", "## Where is…?"):
        path = ""
        for name in re.findall(r"`([^`]+)`", place):
            if "/" in name:
                path = name
                assert (ROOT / path).is_file(), f"{question} {path}"
            else:
                assert name in text(path), f"{question} {name} is not in {path}"


def test_every_room_drawn_in_the_architecture_exists() -> None:
    for room, _, _ in rows("ARCHITECTURE.md", "## The rooms"):
        for name in re.findall(r"`([^`]+)`", room):
            assert (ROOT / "fencepost" / name).exists(), name


def test_the_readme_s_shell_lines_run_as_a_newcomer_types_them(tmp_path: Path) -> None:
    lines = next(block for block in blocks("README.md", "") if "init" in block).splitlines()
    task_id = ""
    answers = []
    for line in lines:
        words = shlex.split(line, comments=True)
        assert words[0] == "fencepost"
        words = [task_id if word == "TASK" else word for word in words[1:]]
        done = run([sys.executable, "-m", "fencepost", *words], tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        found = re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}", done.stdout)
        task_id = task_id or (found[0] if found else "")
        answers.append(done.stdout)
    receipts = [re.findall(r"entry (\d+)", answer) for answer in answers[3:5]]
    assert receipts[0] == receipts[1] != []


@pytest.mark.parametrize("page", ["README.md", "docs/in-your-database.md", "docs/contract.md"])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    for place, block in enumerate(blocks(page, "python")):
        if "app.db" in block:
            with sqlite3.connect(tmp_path / "app.db") as application:
                application.execute("create table orders (id)")
            application.close()
            words = [sys.executable, "-m", "fencepost", "init", "--into", "app.db"]
            assert run(words, tmp_path).returncode == 0
        script = tmp_path / f"{place}.py"
        script.write_text(block, encoding="utf-8")
        done = run([sys.executable, str(script)], tmp_path)
        assert done.returncode == 0, done.stderr


def test_exit_codes_in_the_readme_are_those_of_the_table() -> None:
    told = {int(number) for number in re.findall(r"\b(\d) [a-z]", text("README.md").split(
        "Exit codes:")[1].split("\n\n")[0])}  # fmt: skip
    assert told == {issue.exit for issue in ISSUES.values() if issue.exit < 10} | {0}


def test_the_settings_of_a_process_are_read_from_their_flag_and_their_variable() -> None:
    shown = run([sys.executable, "-m", "fencepost", "--help"], ROOT).stdout
    for _, flag, variable, _, _ in rows("docs/settings.md", "## Of a process"):
        for name in re.findall(r"`(--[a-z-]+|FENCEPOST_[A-Z_]+)`", flag + variable):
            assert name in shown, name
