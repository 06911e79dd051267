"""The list of mutants that nothing can tell apart speaks of code that is there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from torture.equivalent import SAME

PACKAGE = Path(__file__).resolve().parent.parent / "fencepost"


def functions(tree, owner=""):
    """(name, code) of every function; of a method with its class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield owner + node.name, ast.unparse(node)
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{node.name}.")


@pytest.mark.parametrize("change", SAME)
def test_a_change_that_is_said_to_make_no_difference_starts_from_a_line_of_the_code(change):
    place, _, lines = change.partition(": ")
    room, module, name = place.split(".", 2)
    path = PACKAGE / room / f"{module}.py"
    code = dict(functions(ast.parse(path.read_text(encoding="utf-8"))))[name]
    assert lines.split(" => ")[0] in code
    assert len(SAME[change]) > 20  # a reason, not a word
