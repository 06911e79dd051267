"""Under continuous integration (CI=true) nothing is left out in silence: a test that would be
skipped fails, unless the reason is one of those that cannot be done away with there."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

MAY_BE_SKIPPED = (
    "autocommit came with Python 3.12",  # an older Python is tested too
    "root may write everything",  # the same is tested as root, in another way
    "not built yet",  # rooms of the house that later work builds
    "no such isolation may be made on this machine",  # a container without namespaces, cgroups
    "made with shtab",  # another version draws other completions
)


def judged(report: Any) -> Any:
    """The report of a test or of a module, failed where it may not be skipped."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return report
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    if not any(known in reason for known in MAY_BE_SKIPPED):
        report.outcome, report.longrepr = "failed", f"skipped although CI=true: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """See judged."""
    return judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """See judged."""
    return judged((yield))
