"""The torture command and its ledger: the page says what the lines say, and a failure is told."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import run as tests_run
import torture
from helpers.children import TESTS
from torture import ledger


@pytest.fixture(scope="module")
def command():
    """tests/torture.py as a module; `torture` is the package beside it."""
    spec = importlib.util.spec_from_file_location("torture_command", TESTS / "torture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_run(**failing):
    parts = {
        "kills": {"counts": {"kills": 1_200, "seconds": 9}, "failures": []},
        "bit_flips": {"counts": {"flips": 5, "seconds": 3}, "failures": []},
    }
    for name, what in failing.items():
        parts[name]["failures"].append({"name": what, "replay": "again"})
    return {"date": "2026-01-01", "minutes": 1, "seed": 7, "product_sha256": "ab" * 32,
            "versions": {"python": "3.11.2"}, "parts": parts}  # fmt: skip


def test_the_page_is_what_the_lines_make():
    assert ledger.PAGE.read_text(encoding="utf-8") == ledger.page(ledger.lines())


def test_the_page_adds_up_the_runs_and_names_what_was_found():
    page = ledger.page([a_run(), a_run(kills="a receipt is lost")])
    assert "| kills | " in page and "kills 2,400" in page
    assert "- 2026-01-01, product abababababab, kills: a receipt is lost" in page
    known = a_run(kills="a receipt is lost")
    known["parts"]["kills"]["failures"][0]["came_to"] = "mended; tests/test_x.py"
    assert "a receipt is lost → mended; tests/test_x.py" in ledger.page([known])
    assert "Nothing in the runs" not in page and "Nothing in the runs" in ledger.page([a_run()])


def test_what_the_last_run_of_a_part_has_noted_is_told_and_is_no_failure(command, capsys):
    noted = a_run()
    noted["parts"]["kills"]["noted"] = [{"name": "a mutant lives", "replay": "like this"}]
    assert "kills: a mutant lives; again: `like this`" in ledger.page([a_run(), noted])
    assert "a mutant lives" not in ledger.page([noted, a_run()])
    assert command.show(noted) == 0
    assert "noted kills: a mutant lives\n  again: like this" in capsys.readouterr().out


def test_a_run_adds_one_line_and_makes_the_page_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "LINES", tmp_path / "lines.jsonl")
    monkeypatch.setattr(ledger, "PAGE", tmp_path / "page.md")
    ledger.append(a_run())
    ledger.append(a_run(kills="one more"))
    assert len(ledger.LINES.read_text().splitlines()) == 2
    assert "one more" in ledger.PAGE.read_text()


def test_the_digest_of_the_product_changes_with_every_file_and_with_nothing_else(tmp_path):
    (tmp_path / "a.py").write_text("1")
    first = ledger.product_sha256(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("noise")
    assert ledger.product_sha256(tmp_path) == first
    (tmp_path / "b.sql").write_text("")
    second = ledger.product_sha256(tmp_path)
    (tmp_path / "b.sql").rename(tmp_path / "c.sql")
    assert len({first, second, ledger.product_sha256(tmp_path)}) == 3


def test_every_part_says_what_must_hold_and_what_it_needs():
    parts = torture.every_part()
    assert {"power_cuts", "io_faults", "kills", "bit_flips", "clock_jumps"} <= set(parts)
    for part in parts.values():
        assert part.law and part.weight > 0, part


def test_a_failure_ends_the_command_with_1_and_tells_how_to_see_it_again(command, capsys):
    assert command.show(a_run()) == 0
    assert command.show(a_run(kills="a receipt is lost")) == 1
    assert "FAILED kills: a receipt is lost\n  again: again" in capsys.readouterr().out


def test_a_part_that_breaks_off_is_a_failure_and_not_a_silence(tmp_path):
    told = tmp_path / "told.json"
    run = [sys.executable, "-m", "torture", "no_such_part", "1", "1", str(told)]
    subprocess.run(run, env={**os.environ, "PYTHONPATH": str(TESTS)}, check=True,
                   capture_output=True)  # fmt: skip
    (failure,) = json.loads(told.read_text())["failures"]
    assert "no_such_part" in failure["name"]


def test_a_part_that_dies_without_a_word_is_a_failure(command, tmp_path, monkeypatch):
    monkeypatch.setattr(command.sys, "executable", "/bin/false")
    monkeypatch.setattr(command, "TESTS", tmp_path / "tests")
    told = command.run_part("kills", 1, 5)
    assert told["failures"][0]["name"] == "the part ended with 1 and told nothing"
    assert "--only kills --seed 5" in told["failures"][0]["replay"]


def test_a_part_that_runs_is_interrupted_with_the_command_and_puts_away_what_it_made(
    command, tmp_path, monkeypatch
):
    """It is in a session of its own, which a terminal's Ctrl-C does not reach."""
    made = tmp_path / "made"
    text = (
        f"#!{sys.executable}\nimport pathlib, signal, threading\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"made = pathlib.Path({str(made)!r})\n"
        "try:\n    made.touch()\n    threading.Event().wait(60)\nfinally:\n    made.unlink()\n"
    )
    part = tmp_path / "part"
    part.write_text(text)
    part.chmod(0o755)
    monkeypatch.setattr(command, "TESTS", tmp_path / "tests")
    monkeypatch.setattr(command.sys, "executable", str(part))
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(command.run_part, "kills", 60, 5)
        while not made.exists():
            assert not told.done(), told.result()
            threading.Event().wait(0.01)
        command.interrupt(60)
        assert "and told nothing" in told.result(60)["failures"][0]["name"]
    assert not made.exists() and not command.RUNNING


def test_a_command_that_is_interrupted_adds_nothing_to_the_ledger(command, capsys, monkeypatch):
    def interrupted(chosen):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_all", interrupted)
    monkeypatch.setattr(command.ledger, "append", lambda told: pytest.fail("a line was added"))
    assert command.main(["--seed", "3", "--inside"]) == 130
    assert "interrupted" in capsys.readouterr().out


def test_a_failure_names_no_place_of_the_machine(command):
    text = "Unavailable: '/dev/shm/power-1a/14/work.db' cannot hold 1/2 a store"
    assert command.FOLDERS.sub("", text) == "Unavailable: 'work.db' cannot hold 1/2 a store"


def test_an_unknown_part_is_bad_usage(command, capsys):
    with pytest.raises(SystemExit) as ended:
        command.arguments(["--only", "nothing"])
    assert ended.value.code == 2 and "no part nothing" in capsys.readouterr().err
    assert isinstance(command.arguments(["--seed", "3"]), argparse.Namespace)


def test_an_environment_with_other_packages_is_another_environment():
    assert tests_run.fingerprint() != tests_run.fingerprint(["apsw"])
