"""A test that is left out under continuous integration is a failure there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
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
