"""What the verbs that look after a store say with --json is what the contract says, all of it."""

from __future__ import annotations

import json
import shutil

import pytest
from helpers.contract import DEFS, assert_told, fits
from helpers.lab import START, raw
from helpers.shell import Shell
from helpers.tamperings import TAMPERINGS
from helpers.workload import SCOPE, every_verb, opened

from fencepost.clock import FakeClock
from fencepost.journal.problems import TOLD_OF_A_KIND, Findings, Verification
from fencepost.operate.backup import manifest_of
from fencepost.operate.doctor import LEVELS
from fencepost.storage import reading

pytestmark = pytest.mark.usefixtures("same_disk")


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A closed store that has lived through every verb; its last entries are not sealed."""
    path = tmp_path_factory.mktemp("history") / "work.db"
    clock = FakeClock(START)
    with opened(path, clock) as fp:
        every_verb(fp, clock)
        fp.seal()
        fp.enqueue("more", 1)
    return path


@pytest.fixture
def shell(history, tmp_path, capsys, monkeypatch):
    """The command line on a copy of that store."""
    shutil.copyfile(history, tmp_path / "fencepost.db")
    run = Shell(tmp_path, capsys, monkeypatch)
    return lambda *words: run(*words, "--json", "--scope", SCOPE)


def test_a_clean_verification_of_the_journal_is_as_the_contract_says(shell):
    ran = shell("verify")
    assert ran.code == 0
    assert_told("journal_check", ran.json)
    assert (ran.json["status"], ran.json["problems"]) == ("clean", [])
    assert min(ran.json[name] for name in ("entries", "purged", "sealed", "unsealed")) > 0


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_broken_one_too_whatever_was_done_to_the_store(name, history, tmp_path):
    path = tmp_path / "copy.db"
    shutil.copyfile(history, path)
    with raw(path) as connection:
        connection.executescript(TAMPERINGS[name][0])
    with opened(path) as fp:
        found = fp.verify().to_json()
    assert_told("journal_check", found)
    assert found["status"] == "broken"


def test_the_line_that_counts_what_is_not_listed_is_one_of_the_contract():
    findings = Findings()
    for number in range(TOLD_OF_A_KIND + 2):
        findings.tell("entry_edited", f"entry {number}", "its bytes are others")
    found = Verification(1, 0, 0, 0, 1, 0, bytes(32), findings.all()).to_json()
    assert_told("journal_check", found)
    assert found["problems"][-1]["place"] == ""


@pytest.mark.parametrize("wrong", [
    {"status": "clean"}, {"problems": []}, {"root": "0"}, {"entries": -1},
    {"problems": [{"code": "A", "place": "", "message": "m"}]},
    {"problems": [{"code": "a", "place": ""}]},
])  # fmt: skip
def test_a_verification_that_says_two_things_is_none(wrong):
    problem = {"code": "a", "place": "store", "message": "m"}
    counts = dict.fromkeys(("entries", "purged", "tasks", "results", "sealed", "unsealed"), 0)
    right = {"status": "broken", **counts, "root": "0" * 64, "problems": [problem]}
    assert fits("journal_check", right)
    assert not fits("journal_check", {**right, **wrong})


def test_stats_findings_and_a_backup_are_as_the_contract_says(shell, tmp_path):
    stats = shell("stats").json
    assert_told("stats", stats)
    assert {row["since"] is None for row in stats["queues"]} == {True, False}
    assert DEFS["stats_row"]["properties"]["state"]["enum"] == list(reading.PLACE_NAMES)
    findings = shell("doctor").lines
    assert len(findings) > 5
    for finding in findings:
        assert_told("finding", finding)
    assert DEFS["finding"]["properties"]["level"]["enum"] == list(LEVELS)
    target = tmp_path / "copy.db"
    backup = shell("backup", target).json
    assert_told("backup", backup)
    assert json.loads(manifest_of(target).read_text(encoding="utf-8")) == backup
    assert backup["checkpoint"] is not None


def test_an_empty_store_says_the_same_things(tmp_path, capsys, monkeypatch):
    run = Shell(tmp_path, capsys, monkeypatch)
    run("init")
    for words, name in (
        (["verify"], "journal_check"), (["stats"], "stats"), (["backup", "copy.db"], "backup"),
    ):  # fmt: skip
        assert_told(name, run(*words, "--json").json)
