"""The page on restores is held against the code, and its commands are carried out."""

from __future__ import annotations

import json
import shlex

from helpers import postgres
from helpers.restoring import world
from helpers.shell import ROOT, Shell
from test_docs import blocks, rows

import fencepost
from fencepost.cli import main

PAGE = "docs/restore.md"


def test_the_commands_of_the_page_are_carried_out_as_they_stand(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    shell("init")
    shell("enqueue", "pages", "1")
    lines = blocks(PAGE, "")[0].splitlines()
    assert lines.pop() == "fencepost drill restore"  # `test_drill.py` runs it
    for line in lines:
        ran = shell(*shlex.split(line)[1:])
        assert ran.code == 0, f"{line}: {ran.err}"
    assert "restored" in ran.out


def test_the_table_of_the_receipt_is_the_receipt(tmp_path):
    with world(tmp_path) as it:
        told = it.restore()
        table = [row[0].strip("`") for row in rows(PAGE, "## The restore receipt")]
        assert sorted(table) == sorted(told.json)
        text = next(row[1] for row in rows(PAGE, "## The restore receipt") if "receivers" in row[0])
        shown = set(told.receiver()) - {
            "destination",
            "class",
            "kind",
            "stopped_before",
            "receiver",
        }
        assert {name for name in shown if f"`{name}`" not in text} == set()


def test_each_flag_of_the_page_is_a_flag(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    told = shell("restore", "--help").out + shell("adopt", "--help").out
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    flags = {word.strip("`(),.;:") for word in page.split() if word.startswith(("`--", "(`--"))}
    flags = {flag.split("`")[0] for flag in flags}
    assert len(flags) >= 7 and {flag for flag in flags if flag not in told} == set()


def test_the_command_line_restores_says_what_is_open_and_goes_on(tmp_path, capsys, monkeypatch):
    with world(tmp_path) as it:
        it.future()
        shell = Shell(tmp_path, capsys, monkeypatch)
        it.web.close()
        ran = shell("restore", it.backup, "--to", it.target)
        assert (
            ran.code == 6 and "NOT ANSWERED" in ran.out and "run the same command again" in ran.err
        )
        it.web.listen()
        gone = tmp_path / "gone"
        gone.write_text(json.dumps({"scope": "default", "task_id": it.tasks[3]}))
        ran = shell("restore", it.backup, "--to", it.target, "--erasures", gone, "--json")
        assert ran.code == 0 and ran.json["erasures"]["applied"] == [it.tasks[3]]
        assert shell("restore", it.backup, "--to", it.target).code == 2
        assert (
            shell("restore", it.backup, "--to", it.folder / "x.db", "--override", "a/b").code == 2
        )
        assert shell("--store", it.target, "restore", it.backup, "--to", "y.db").code == 2
        ran = shell("--store", it.target, "erasures")
        assert [each["task_id"] for each in ran.lines][:1] == [it.tasks[3]]


def test_a_backup_of_a_database_says_what_to_use_instead(capsys):
    with postgres.database() as url:
        fencepost.open(url, create=True).close()
        assert main(["--store", url, "backup", "copy.db"]) == 2
        told = capsys.readouterr().err
    assert "pg_basebackup" in told and "fencepost adopt" in told
