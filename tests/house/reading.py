"""Read a package without running it: its modules, what they import, name and say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from house.plan import NAME


@dataclass(frozen=True)
class Module:
    """One parsed Python file of the package."""

    path: str  # relative to the package, with slashes
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The dotted name, without the package's own."""
        parts = self.path.removesuffix(".py").split("/")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def room(self) -> str:
        """The top-level file or folder it lives in."""
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def is_package(self) -> bool:
        """Whether relative imports start here and not one up."""
        return self.path.endswith("__init__.py")

    @cached_property
    def type_only_lines(self) -> set[int]:
        """Lines under `if TYPE_CHECKING`."""
        found: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                last = node.body[-1]
                found |= set(range(node.body[0].lineno, (last.end_lineno or last.lineno) + 1))
        return found

    def lies_in(self, prefixes: Iterable[str]) -> bool:
        """Whether one of the prefixes covers this file: a folder "x/", a file, or "x" for both."""
        return any(
            self.path == p or self.path.startswith(p if p.endswith("/") else (p + "/", p + "."))
            for p in prefixes
        )


@dataclass(frozen=True)
class House:
    """A package folder: its Python modules and its SQL files."""

    folder: Path

    def files(self, suffix: str) -> Iterator[tuple[str, str]]:
        """(relative path, text) of each file with that suffix."""
        for path in sorted(self.folder.rglob("*" + suffix)):
            yield path.relative_to(self.folder).as_posix(), path.read_text(encoding="utf-8")

    @cached_property
    def modules(self) -> list[Module]:
        return [Module(path, text, ast.parse(text, path)) for path, text in self.files(".py")]

    @cached_property
    def names(self) -> set[str]:
        """Dotted names of all modules and packages; "" is the package root."""
        found = {""}
        for module in self.modules:
            parts = module.name.split(".") if module.name else []
            found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
        return found


def imports(module: Module) -> Iterator[tuple[str, str, int]]:
    """(module, member or "", line) of every import in the file, wherever it stands."""
    package = [NAME, *(module.name.split(".") if module.name else [])]
    if not module.is_package:
        package.pop()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((target, alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func).split(".")[-1]
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                name = node.args[0].value
                yield (NAME + name if name.startswith(".") else name), "", node.lineno


def inner_imports(house: House, module: Module) -> Iterator[tuple[str, int]]:
    """(dotted name of our module that is imported, line); "" is the package root."""
    for target, member, line in imports(module):
        if target == NAME or target.startswith(NAME + "."):
            inner = target.removeprefix(NAME).lstrip(".")
            deeper = f"{inner}.{member}".lstrip(".")
            yield (deeper if deeper in house.names else inner), line


def references(module: Module) -> Iterator[tuple[str, int]]:
    """(full dotted name, line) of each use of an imported name, whatever it is called locally."""
    known: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                full = alias.name if alias.asname else alias.name.split(".")[0]
                known[alias.asname or full] = full
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}", node.lineno
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, dot, rest = ast.unparse(node).partition(".")
            if first in known:
                yield known[first] + dot + rest, node.lineno


def texts(tree: ast.Module) -> Iterator[tuple[str, bool, int]]:
    """(text, is it an f-string, line) of each string but docstrings; sums are taken together."""

    def fold(node: ast.AST) -> str:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else " x "
        if isinstance(node, ast.JoinedStr):
            return "".join(fold(part) for part in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return fold(node.left) + fold(node.right)
        return " x "

    def visit(node: ast.AST) -> Iterator[tuple[str, bool, int]]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.JoinedStr | ast.Constant | ast.BinOp):
            line = getattr(node, "lineno", 1)
            yield fold(node), any(isinstance(n, ast.JoinedStr) for n in ast.walk(node)), line
        if not isinstance(node, ast.JoinedStr | ast.Constant):
            for child in ast.iter_child_nodes(node):
                yield from visit(child)

    return visit(tree)


def without_comments(sql: str) -> str:
    """The statements with comments blanked out, line numbers kept."""
    return re.sub(
        r"--[^\n]*|/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), sql, flags=re.DOTALL
    )


def public_names(tree: ast.Module) -> dict[str, int]:
    """Public names that the root binds, with lines: its own and those imported from the package."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):  # also under `if TYPE_CHECKING`, where lazy names are declared
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level or (node.module or "").split(".")[0] == NAME:
            found |= {alias.asname or alias.name: node.lineno for alias in node.names}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found[node.name] = node.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {t.id: node.lineno for t in targets if isinstance(t, ast.Name)}
    return {name: line for name, line in found.items() if not name.startswith("_")}


def listed_names(tree: ast.Module) -> tuple[list[str] | None, int]:
    """What `__all__` says and where; None where there is none or it is not a plain list."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            value = node.value  # type: ignore[attr-defined]
            if isinstance(value, ast.List | ast.Tuple):
                return [ast.literal_eval(item) for item in value.elts], node.lineno
    return None, 1
