"""The mutants of a file, as mutmut makes them, and what each of them changes.

mutmut writes each function's original and its mutants side by side; here they are taken apart, so
that `planting.py` can set one of them into the running program.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# What is said to people: no test asks for the words, and the code beside them is what counts.
SAYS = frozenset({
    "ValueError", "InvalidRequest", "JournalBroken", "tell", "doubt", "_doubt", "_match",
    "_integer", "_text", "_number",
})  # fmt: skip
WORDS = frozenset({"message", "plain", "missing"})
CONFIGURATION = '[tool.mutmut]\nsource_paths = ["."]\n'  # mutmut wants one, and reads no more of it


class Mutant(NamedTuple):
    """`name` is mutmut's own; `change` tells function and lines, whatever the numbering; `code` is
    the function as it is changed, with its class around it; `wording`: only what is said differs,
    to people or (an assert) to the type checker. `lines` of `file` are the changed statement."""

    name: str
    change: str
    wording: bool
    code: str
    file: str
    lines: tuple[int, int]


def mutants(root: Path, rooms: tuple[str, ...]) -> list[Mutant]:
    """All mutants of these folders of the package, in the order of files and lines."""
    from mutmut.mutation.file_mutation import mutate_file_contents  # type: ignore[import-not-found]

    found: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("pyproject.toml").write_text(CONFIGURATION, encoding="utf-8")
        for path in sorted(path for room in rooms for path in (root / room).glob("*.py")):
            text = path.read_text(encoding="utf-8")
            made = mutate_file_contents(str(path), text)
            found += _of_file(path.relative_to(root.parent), text, made.code)
    return found


def _of_file(path: Path, text: str, code: str) -> Iterator[Mutant]:
    module = ".".join(path.with_suffix("").parts)
    functions, real, written = _functions(ast.parse(code)), named(ast.parse(text)), code.split("\n")
    originals: dict[str, tuple[list[str], str]] = {}
    for name, mutant in functions.items():
        mangled, _, number = name.rpartition("__mutmut_")
        if number.isdigit():
            original = functions[f"{mangled}__mutmut_orig"]
            if mangled not in originals:
                lines = _lines(original)
                originals[mangled] = lines, _without_words(lines)
            (before, plain), after = originals[mangled], _lines(mutant)
            place = _first_other(written, original, mutant)
            yield Mutant(
                f"{module}.{name}", _change(module, mangled, before, after),
                plain == _without_words(after), _code(mangled, after), str(path),
                statement(real[owner_and_name(mangled)], place),
            )  # fmt: skip


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def named(tree: ast.Module) -> dict[tuple[str, str], ast.FunctionDef]:
    """The functions of a file by class and name."""
    places: list[tuple[str, ast.Module | ast.ClassDef]] = [("", tree)]
    places += [(node.name, node) for node in tree.body if isinstance(node, ast.ClassDef)]
    return {
        (owner, node.name): node
        for owner, place in places
        for node in place.body
        if isinstance(node, ast.FunctionDef)
    }


def _first_other(written: list[str], original: ast.FunctionDef, mutant: ast.FunctionDef) -> int:
    """How many lines below its `def` a mutant begins to differ."""
    both = [
        [line.replace(node.name, "f") for line in written[node.lineno - 1 : node.end_lineno]]
        for node in (original, mutant)
    ]
    return next((n for n, (a, b) in enumerate(zip(*both, strict=False)) if a != b), 0)


def statement(function: ast.FunctionDef, below: int) -> tuple[int, int]:
    """First and last line of the statement (of what has a body, of its head) that has the line so
    far below the `def`; the whole body for the head of the function."""
    line, found = function.lineno + below, function.body[0].lineno
    if line < found:
        return found, function.end_lineno or found
    whole = (found, function.end_lineno or found)
    for node in ast.walk(function):  # the inner ones come later
        if isinstance(node, ast.stmt) and node is not function:
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno
            if node.lineno <= line <= max(last or 0, node.lineno):
                whole = node.lineno, max(last or 0, node.lineno)
    return whole


def owner_and_name(mangled: str) -> tuple[str, str]:
    """`xǁFrontierǁroot` is the method `root` of `Frontier`, `x_root` the function `root`."""
    if mangled.startswith("xǁ"):
        _, owner, name = mangled.split("ǁ")
        return owner, name
    return "", mangled.removeprefix("x_")


def _code(mangled: str, lines: list[str]) -> str:
    owner, name = owner_and_name(mangled)
    named = [lines[0].replace("def f(", f"def {name}(", 1), *lines[1:]]
    return "\n".join([f"class {owner}:", *(f" {line}" for line in named)] if owner else named)


def _lines(function: ast.FunctionDef) -> list[str]:
    """The function's code without its name, so that two mutants can be compared."""
    body = ast.unparse(ast.Module(function.body, []))
    return [f"def f({ast.unparse(function.args)}):", *(f" {line}" for line in body.split("\n"))]


def _change(module: str, mangled: str, before: list[str], after: list[str]) -> str:
    """`journal.tree.root: if a < b: => if a <= b:`"""
    name = ".".join(filter(None, owner_and_name(mangled)))
    lines = [line for line in difflib.ndiff(before, after) if line[0] in "-+"]
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

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """It tells the type checker what the lines before have made sure of."""
        return ast.Pass()

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """`message = …`"""
        if ast.unparse(node.targets[0]) in WORDS:
            node.value = ast.Constant("")
        return self.generic_visit(node)


def _without_words(lines: list[str]) -> str:
    return ast.dump(_WithoutWords().visit(ast.parse("\n".join(lines))))
