"""`fencepost conform` and the kit carried off: what is written, what is said, how it ends."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.kit import EXAMPLE, KIT, stores_in_memory
from helpers.shell import Shell

from fencepost.conformance.fault_injection_tests import CASES

BOUNDARY = "the_exact_expiry_boundary_rejects_a_completion"
EXAMPLE_TARGET = f"stdio:{sys.executable} {EXAMPLE}"


@pytest.fixture(scope="module", autouse=True)
def _in_memory():
    with stores_in_memory():
        yield


@pytest.fixture
def conform(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    monkeypatch.chdir(tmp_path)
    return lambda *words: shell("conform", *words)


def test_one_case_runs_alone_writes_nothing_and_ends_with_its_own_code(conform, tmp_path):
    ran = conform(EXAMPLE_TARGET, "--case", BOUNDARY)
    assert (ran.code, list(tmp_path.glob("*.json"))) == (0, [])
    assert ran.out.splitlines()[0] == f"passed      {BOUNDARY}"
    assert f"incomplete: 1 passed, {len(CASES) - 1} skipped" in ran.out
    assert conform(f"{EXAMPLE_TARGET} --careless", "--case", BOUNDARY).code == 3
    lacking = conform(EXAMPLE_TARGET, "--case", CASES[0].name)
    assert lacking.code == 3 and "the target offers no controls threads" in lacking.out


def test_the_verification_is_written_and_never_overwritten_unasked(conform, tmp_path):
    ran = conform(EXAMPLE_TARGET, "--junit", "junit.xml")
    assert ran.code == 3 and "\nincomplete: " in ran.out
    file = tmp_path / "verification.json"
    found = json.loads(file.read_text(encoding="utf-8"))
    assert (found["status"], found["target"]["name"]) == ("incomplete", "example")
    assert len(ElementTree.parse(tmp_path / "junit.xml").getroot()) == len(CASES)  # noqa: S314
    file.write_text('{"an": "earlier run"}', encoding="utf-8")
    again = conform(EXAMPLE_TARGET)
    assert (again.code, again.out) == (2, "")
    assert "verification.json is there already; --force overwrites it" in again.err
    assert json.loads(file.read_text(encoding="utf-8")) == {"an": "earlier run"}
    assert conform(EXAMPLE_TARGET, "--force").code == 3
    assert json.loads(file.read_text(encoding="utf-8"))["cases"] == found["cases"]


def test_a_failed_run_says_which_law_and_which_code(conform):
    ran = conform(f"{EXAMPLE_TARGET} --careless")
    assert ran.code == 3 and "\nfailed: " in ran.out
    assert f"failed      {BOUNDARY}\n" in ran.out
    assert "expected 'failed: lease_expired', observed 'accepted' [lease_expired]" in ran.out
    assert "law: The exact expiry boundary rejects new completion" in ran.out
    assert "a pass grants nobody authority" in ran.out


def test_a_target_that_cannot_be_started_blocks_the_run(conform, tmp_path):
    ran = conform("stdio:/nowhere/at-all")
    assert ran.code == 6 and "\nblocked: " in ran.out
    found = json.loads((tmp_path / "verification.json").read_text(encoding="utf-8"))
    assert (found["status"], found["issues"]) == ("blocked", ["target_unusable"])
    assert "'/nowhere/at-all' cannot be started" in found["cases"][0]["why"]


def test_nothing_that_a_target_says_reaches_the_terminal_raw(conform, tmp_path):
    text = """
import json, sys
nasty = "\x1b[2J\x07\u202e"
for line in sys.stdin:
    number = json.loads(line)["id"]
    told = {"name": nasty, "version": nasty, "controls": ["fresh", "clock"],
            "operations": ["enqueue", "claim", "complete"], "principals": ["operator", "worker"]}
    answer = {"ok": told} if number == 1 else {"unavailable": nasty}
    print(json.dumps({"id": number, **answer}), flush=True)
"""
    (tmp_path / "nasty.py").write_text(text, encoding="utf-8")
    ran = conform(f"stdio:{sys.executable} nasty.py", "--junit", "junit.xml")
    assert ran.code == 3 and "fresh: \\u001b[2J" in ran.out
    junit = (tmp_path / "junit.xml").read_text(encoding="utf-8")
    written = (tmp_path / "verification.json").read_text(encoding="utf-8")
    assert all(text.replace("\n", "").isprintable() for text in (ran.out, junit, written))


def test_an_interrupted_run_ends_its_target_and_writes_nothing(conform, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fencepost.conformance.verification.Run.judge", interrupted)
    ran = conform(EXAMPLE_TARGET)
    assert (ran.code, list(tmp_path.glob("*.json"))) == (130, [])
    assert "interrupted; nothing was written" in ran.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "name a TARGET"),
        (("mysql",), "'mysql' is no target"),
        (("http://example.invalid",), "in the clear; use https"),
        (("http:https://example.invalid",), "needs a token in FENCEPOST_TOKEN"),
        (("http:example.invalid",), "is no URL"),
        (("stdio:",), "needs a command"),
        (("sqlite", "reference"), "one TARGET at a time"),
        (("sqlite", "--case", "no_such_law"), "there is no case 'no_such_law'"),
        (("sqlite", "--timeout", "0"), "--timeout has to be above 0"),
        (("sqlite", "--output", "no/such/folder/v.json"), "there is no folder"),
        (("sqlite", "--seed", "x"), "--seed"),
        (("sqlite", "--wat"), "--wat"),
        (("broken:nothing",), "there is no broken queue 'nothing'"),
    ],
)
def test_bad_usage_runs_nothing_and_exits_with_two(conform, tmp_path, words, told):
    ran = conform(*words)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err and list(tmp_path.glob("*.json")) == []


def test_the_cases_are_listed_with_their_laws(conform):
    ran = conform("--list")
    assert ran.code == 0
    assert ran.out.splitlines()[::2] == [case.name for case in CASES]
    assert f"    {CASES[0].law}" in ran.out


def test_the_guide_to_adopt_one_case_names_cases_that_there_are():
    page = (Path(__file__).parents[1] / "docs" / "conformance.md").read_text(encoding="utf-8")
    guide = page.partition("## Adopt one case")[2].partition("\n## ")[0]
    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+){3,}\b", guide.replace("def test_", "")))
    assert len(named) >= 2 and named <= {case.name for case in CASES}


def test_help_begins_with_examples(conform):
    ran = conform("--help")
    assert ran.code == 0 and ran.out.startswith("examples:\n  fencepost conform sqlite\n")


def test_json_prints_the_verification_and_nothing_else(conform):
    ran = conform(EXAMPLE_TARGET, "--case", BOUNDARY, "--json")
    document = json.loads(ran.out)
    assert (ran.code, document["status"]) == (0, "incomplete")
    found = [case for case in document["cases"] if case["verdict"] != "skipped"]
    assert [(case["case"], case["verdict"]) for case in found] == [(BOUNDARY, "passed")]


# -- the folder alone


# Not this environment's Python, in which the product may be installed.
BARE = getattr(sys, "_base_executable", None) or sys.executable


@pytest.fixture
def carried_off(tmp_path):
    """A copy of the folder under another name, run by a bare Python that has nothing installed."""
    folder = tmp_path / "some kit-1"
    shutil.copytree(KIT, folder, ignore=shutil.ignore_patterns("__pycache__"))

    def run(*words):
        program = str(folder / "fault_injection_tests.py")
        return subprocess.run(
            [BARE, "-I", "-S", program, *words], cwd=tmp_path, capture_output=True,
            text=True, timeout=55, check=False,
        )  # fmt: skip

    return run


def test_the_copied_folder_accepts_the_reference_with_nothing_installed(carried_off, tmp_path):
    ran = carried_off("reference")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    found = json.loads((tmp_path / "verification.json").read_text(encoding="utf-8"))
    assert (found["status"], len(found["cases"])) == ("accepted", len(CASES))


def test_the_copied_folder_runs_a_target_on_stdio(carried_off):
    ran = carried_off(EXAMPLE_TARGET, "--case", BOUNDARY)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_copied_folder_says_that_the_product_is_not_there(carried_off, tmp_path):
    ran = carried_off("sqlite", "--case", BOUNDARY)
    assert ran.returncode == 6 and "No module named" in ran.stdout
