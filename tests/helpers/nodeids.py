"""Which tests there are, found without running them, for tables that name tests."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent


def held(module: str, *names: str) -> tuple[str, ...]:
    """Node ids of tests of one module, named without `test_` and `.py`."""
    return tuple(f"test_{module}.py::test_{name}" for name in names)


@cache
def tests_in(module: str) -> frozenset[str]:
    """Names of the test functions of a file in tests/; empty if there is no such file."""
    path = TESTS / module
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return frozenset(name for name in found if name.startswith("test_"))


def missing(nodeids: list[str]) -> list[str]:
    """Those that name no test."""
    return [
        nodeid
        for nodeid in nodeids
        if nodeid.partition("::")[2] not in tests_in(nodeid.partition("::")[0])
    ]
