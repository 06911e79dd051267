"""Looks into what mutmut has made: which mutants there are, and what each of them changes.

mutmut writes a copy of each file that holds, for each function, the original and its mutants side
by side, and beside it a `.meta` file that names them.
"""

from __future__ import annotations

import ast
import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# What is said to people: no test asks for the words, and the code beside them is what counts.
SAYS = frozenset({
    "ValueError", "InvalidRequest", "JournalBroken", "tell", "doubt", "_doubt", "_match",
    "_integer", "_text", "_number",
})  # fmt: skip
WORDS = frozenset({"message", "plain", "missing"})


class Mutant(NamedTuple):
    """`name` is mutmut's own; `change` tells function and lines, whatever the numbering."""

    name: str
    change: str
    wording: bool


def mutants(folder: Path) -> Iterator[Mutant]:
    """All mutants below the folder `mutants/` that mutmut has made."""
    for meta in sorted(folder.rglob("*.py.meta")):
        codes = json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
        functions = _functions(meta.with_suffix(""))
        module = next((key.rpartition(".")[0] for key in codes), "")
        for key in codes:
            name = key.rpartition(".")[2]
            original = functions[name.rpartition("__mutmut_")[0] + "__mutmut_orig"]
            yield Mutant(key, _change(module, original, functions[name]),
                         _same_but_for_words(original, functions[name]))  # fmt: skip


def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def _lines(function: ast.FunctionDef) -> list[str]:
    """The function's code without its name, so that two mutants can be compared."""
    body = ast.unparse(ast.Module(function.body, []))
    return [f"def f({ast.unparse(function.args)}):", *(f" {line}" for line in body.split("\n"))]


def _change(module: str, original: ast.FunctionDef, mutant: ast.FunctionDef) -> str:
    """`journal.tree.root: if a < b: => if a <= b:`"""
    name = original.name.removesuffix("__mutmut_orig").removeprefix("x_").strip("ǁ")
    name = name.removeprefix("xǁ").replace("ǁ", ".")
    lines = [line for line in difflib.ndiff(_lines(original), _lines(mutant)) if line[0] in "-+"]
    old = " ".join(line[2:].strip() for line in lines if line[0] == "-")
    new = " ".join(line[2:].strip() for line in lines if line[0] == "+")
    return f"{module.removeprefix('fencepost.')}.{name}: {old} => {new}"


class _WithoutWords(ast.NodeTransformer):
    """Blanks what is only said: sentences, and the last argument of what tells or raises."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A text with a space in it is a sentence."""
        return ast.Constant("") if isinstance(node.value, str) and " " in node.value else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """The same, where values are set into it."""
        texts = [part.value for part in node.values if isinstance(part, ast.Constant)]
        return ast.Constant("") if any(" " in str(text) for text in texts) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The last argument of `tell(code, place, message)` and of `ValueError(message)`."""
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in SAYS and node.args:
            node.args[-1] = ast.Constant("")
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """`message = …`"""
        if ast.unparse(node.targets[0]) in WORDS:
            node.value = ast.Constant("")
        return self.generic_visit(node)


def _same_but_for_words(original: ast.FunctionDef, mutant: ast.FunctionDef) -> bool:
    both = []
    for function in (original, mutant):
        copy = ast.parse("\n".join(_lines(function)))
        both.append(ast.dump(_WithoutWords().visit(copy)))
    return both[0] == both[1]
