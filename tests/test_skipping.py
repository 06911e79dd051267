"""A test that is left out under continuous integration is a failure there."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest
from helpers import tools
from helpers.children import TESTS

SKIPS = {
    "a call": "import pytest\ndef test_it():\n    pytest.skip('NOT RUN: no compiler')\n",
    "a mark": "import pytest\n@pytest.mark.skipif(True, reason='no bash')\ndef test_it(): pass\n",
    "a fixture": "import pytest\n@pytest.fixture\ndef tool(): pytest.skip('no tool')\n"
    "def test_it(tool): pass\n",
    "a module": "import pytest\npytest.importorskip('no_such_module_here')\n",
}
ALLOWED = "import pytest\ndef test_it():\n    pytest.skip('root may write everything')\n"


def run(folder, text, ci):
    (folder / "test_one.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "helpers.skipping", "-p",
               "no:cacheprovider", "--rootdir", str(folder), str(folder)]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "CI": ci}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("how", SKIPS)
def test_whatever_is_skipped_fails_under_ci(tmp_path, how):
    done = run(tmp_path, SKIPS[how], "true")
    assert done.returncode in (1, 2) and "skipped although CI=true" in done.stdout


def test_elsewhere_and_for_a_known_reason_it_is_only_skipped(tmp_path):
    assert "1 skipped" in run(tmp_path, SKIPS["a call"], "").stdout
    done = run(tmp_path, ALLOWED, "true")
    assert done.returncode == 0 and "1 skipped" in done.stdout


def test_the_one_command_brings_every_program_that_a_test_asks_for():
    asked = set()
    for path in TESTS.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("need", "installed"):
                asked |= {word.value for word in call.args if isinstance(word, ast.Constant)}
    assert asked | {"ip", "nft"} == set(tools.PACKAGES)
    brought = re.findall(r"(?<= )\w+:[\w-]+", (TESTS.parent / ".ci" / "run").read_text())
    wanted = [f"{name}:{each}" for name, packages in tools.PACKAGES.items() for each in packages]
    assert sorted(brought) == sorted(wanted)


def test_root_installs_all_packages_of_a_program_that_is_missing(monkeypatch):
    ran = []
    monkeypatch.setattr(tools.os, "geteuid", lambda: 0)
    monkeypatch.setattr(tools.shutil, "which", lambda name: "apt" if name == "apt-get" else None)
    monkeypatch.setattr(tools.subprocess, "run", lambda command, **_: ran.append(command))
    assert tools.installed.__wrapped__("cc") is None
    assert [command[0] for command in ran] == ["apt-get"] * 2
    assert ran[1][-2:] == ["gcc", "libc6-dev"]
