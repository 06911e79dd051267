"""Each rule is a function from a `House` to complaints: file:line, what is wrong, what to do."""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Callable, Iterator

from house.plan import (
    CLOCK_TIMESTAMP_LIMIT,
    CLOCK_USERS,
    CLOCKS,
    EXTRAS,
    FLOOR,
    FOR_TYPES,
    IMPURE,
    LONGER_FILES,
    MAX_FILE,
    MAX_FUNCTION,
    MAX_SQL_FILE,
    MEDIAN_FILE,
    NAME,
    PURE_ROOMS,
    ROOT_MAY_IMPORT,
    SIDEWAYS,
    SQL_IN_PYTHON,
    SQLITE_USERS,
    STAND_ALONE,
    STAND_ALONE_ROOMS,
)
from house.reading import (
    House,
    imports,
    inner_imports,
    listed_names,
    public_names,
    references,
    texts,
    without_comments,
)


def imports_point_down(house: House) -> Iterator[str]:
    for module in house.modules:
        if module.room not in FLOOR:
            yield (
                f"{module.path}:1: `{module.room}` has no floor: "
                "give it one in FLOORS of tests/house/plan.py"
            )
            continue
        for target, line in inner_imports(house, module):
            room = target.split(".")[0] or "__init__"
            pair = (module.room, room)
            if room == module.room or room not in FLOOR or pair in SIDEWAYS:
                continue
            if pair in FOR_TYPES and line in module.type_only_lines:
                continue
            if module.path == "__init__.py" and room not in ROOT_MAY_IMPORT:
                allowed = ", ".join(sorted(ROOT_MAY_IMPORT))
                yield f"{module.path}:{line}: the root imports `{room}`: only {allowed} may be"
            elif FLOOR[room] >= FLOOR[module.room]:
                yield (
                    f"{module.path}:{line}: `{module.room}` imports `{room}`, which is not below "
                    "it: move what is shared to a lower floor, or pass it in"
                )


def imports_make_no_circle(house: House) -> Iterator[str]:
    edges = {
        m.name: {
            target: line
            for target, line in inner_imports(house, m)
            if target not in ("", m.name) and line not in m.type_only_lines
        }
        for m in house.modules
        if m.name
    }
    paths = {m.name: m.path for m in house.modules}
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> Iterator[str]:
        if name in trail:
            circle = trail[trail.index(name) :]
            line = edges[circle[-1]][name]
            yield (
                f"{paths[circle[-1]]}:{line}: circle {' -> '.join([*circle, name])}: "
                "move what both need into a module of its own"
            )
        elif name not in done:
            for target in edges.get(name, {}):
                yield from visit(target, [*trail, name])
            done.add(name)

    for name in edges:
        yield from visit(name, [])


def only_the_clock_asks_the_time(house: House) -> Iterator[str]:
    for module in house.modules:
        allowed = {n for p, names in CLOCK_USERS.items() if module.lies_in([p]) for n in names}
        for name, line in sorted(set(references(module))):
            if name in CLOCKS - allowed:
                yield (
                    f"{module.path}:{line}: asks {name}: take the time as an argument, or ask "
                    "fencepost/clock.py"
                )


def pure_rooms_stay_pure(house: House) -> Iterator[str]:
    for module in house.modules:
        if module.room not in PURE_ROOMS:
            continue
        for target, _, line in imports(module):
            if target.split(".")[0] in IMPURE:
                yield (
                    f"{module.path}:{line}: pure code imports {target}: what comes from outside "
                    "(time, ids, salts, rows) is an argument"
                )
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "input", "print"):
                yield (
                    f"{module.path}:{node.lineno}: pure code calls {ast.unparse(node.func)}(): "
                    "read and write outside, pass the values in"
                )


def sqlite_stays_in_storage(house: House) -> Iterator[str]:
    for module in house.modules:
        for target, _, line in imports(module):
            if target.split(".")[0] == "sqlite3" and not module.lies_in(SQLITE_USERS):
                yield (
                    f"{module.path}:{line}: imports sqlite3: go through storage, or give a "
                    "reason in SQLITE_USERS of tests/house/plan.py"
                )


def third_parties_stay_in_their_extra(house: House) -> Iterator[str]:
    for module in house.modules:
        for target, _, line in imports(module):
            top = target.split(".")[0]
            if top == NAME or top in sys.stdlib_module_names:
                continue
            extra, prefixes = EXTRAS.get(top, ("", ()))
            if not extra:
                yield f"{module.path}:{line}: imports {top}: the core has no dependency; do without"
            elif not module.lies_in(prefixes):
                yield (
                    f"{module.path}:{line}: imports {top} of the extra [{extra}] outside "
                    f"{', '.join(prefixes)}: move it there"
                )


def the_oracle_shares_nothing(house: House) -> Iterator[str]:
    for module in house.modules:
        if module.lies_in(STAND_ALONE):
            for target, line in inner_imports(house, module):
                if f"{target.replace('.', '/')}.py" in STAND_ALONE:
                    continue
                yield (
                    f"{module.path}:{line}: imports {NAME}.{target}: it checks the product and so "
                    "must be written without it"
                )
        elif module.room in STAND_ALONE_ROOMS:
            for target, line in inner_imports(house, module):
                if target.split(".")[0] != module.room:
                    why = STAND_ALONE_ROOMS[module.room]
                    yield f"{module.path}:{line}: imports {NAME}.{target}: {why}"


UPPER_SQL = re.compile(
    r"\bSELECT\b.+?\bFROM\b|\bINSERT\s+(OR\s+\w+\s+)?INTO\b|\bREPLACE\s+INTO\b"
    r"|\bUPDATE\s+[^;]{1,80}?\bSET\b|\bDELETE\s+FROM\b|\b(ALTER|TRUNCATE)\s+TABLE\b"
    r"|\bCREATE\s+(\w+\s+)*?(TABLE|INDEX|VIEW|TRIGGER|FUNCTION)\b|\bDROP\s+(TABLE|INDEX|VIEW)\b",
    re.DOTALL,
)
# Lower case only from the start of a text, so that a sentence is not taken for a statement.
LOWER_SQL = re.compile(
    r"\s*(select\s.+?\sfrom\s|insert\s+into\s|update\s+\S+\s+set\s|delete\s+from\s|create\s+table\s)",
    re.DOTALL,
)


def sql_stands_in_sql_files(house: House) -> Iterator[str]:
    for module in house.modules:
        if module.lies_in(SQL_IN_PYTHON):
            continue
        seen: set[int] = set()
        for text, is_fstring, line in texts(module.tree):
            if line not in seen and (UPPER_SQL.search(text) or LOWER_SQL.match(text)):
                seen.add(line)
                what = "SQL glued together in an f-string" if is_fstring else "SQL in Python"
                yield f"{module.path}:{line}: {what}: make it a named block in a .sql file"


SQL_CLOCK = re.compile(
    r"(?<![:@$.\w])(now|unixepoch|strftime|julianday|datetime|timeofday|(transaction|statement)"
    r"_timestamp)\s*\(|\b(current_(timestamp|date|time)|localtime(stamp)?)\b|'now'",
    re.IGNORECASE,
)


def sql_never_asks_the_time(house: House) -> Iterator[str]:
    asked = 0
    for path, text in house.files(".sql"):
        for number, line in enumerate(without_comments(text).split("\n"), 1):
            for found in SQL_CLOCK.finditer(line):
                yield (
                    f"{path}:{number}: `{found[0].strip()}`: time is a parameter, asked once after "
                    "the locks are held"
                )
            asked += len(re.findall(r"\bclock_timestamp\b", line, re.IGNORECASE))
            if asked > CLOCK_TIMESTAMP_LIMIT:
                asked = 0
                yield f"{path}:{number}: a second clock_timestamp(): ask in one place, pass it on"


def files_and_functions_are_short(house: House) -> Iterator[str]:
    for module in house.modules:
        lines, limit = len(module.text.splitlines()), LONGER_FILES.get(module.path, (MAX_FILE, ""))
        if lines > limit[0]:
            yield f"{module.path}:{limit[0]}: {lines} lines: divide it, at most {limit[0]} a file"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION:
                    yield (
                        f"{module.path}:{node.lineno}: {node.name}() has {length} lines: "
                        f"divide it, at most {MAX_FUNCTION} a function"
                    )
    for path, text in house.files(".sql"):
        if len(text.splitlines()) > MAX_SQL_FILE:
            yield f"{path}:{MAX_SQL_FILE}: divide it, at most {MAX_SQL_FILE} lines a .sql file"


def most_files_are_small(house: House) -> Iterator[str]:
    lengths = {m.path: len(m.text.splitlines()) for m in house.modules if m.text.strip()}
    if lengths and statistics.median(lengths.values()) > MEDIAN_FILE:
        longest = max(lengths, key=lambda path: lengths[path])
        yield (
            f"{longest}:{lengths[longest]}: half of the files are longer than {MEDIAN_FILE} lines: "
            "divide the longest, this one first"
        )


def nothing_is_left_for_later(house: House) -> Iterator[str]:
    for suffix in (".py", ".sql", ".html", ".md"):
        for path, text in house.files(suffix):
            for number, line in enumerate(text.splitlines(), 1):
                if found := re.search(r"\b(TODO|FIXME|XXX)\b", line):
                    yield f"{path}:{number}: {found[0]}: do it now, or file it as an issue"


def the_root_lists_its_names(house: House) -> Iterator[str]:
    root = next((m for m in house.modules if m.path == "__init__.py"), None)
    listed, line = listed_names(root.tree) if root else (None, 1)
    if root is None or listed is None:
        return
    if listed != sorted(set(listed)):
        yield f"{root.path}:{line}: __all__ is not in plain sorted() order, each name once"
    for name, where in public_names(root.tree).items():
        if name not in listed:
            yield f"{root.path}:{where}: `{name}` is not in __all__: list it or start it with _"


RULES: list[Callable[[House], Iterator[str]]] = [
    imports_point_down,
    imports_make_no_circle,
    only_the_clock_asks_the_time,
    pure_rooms_stay_pure,
    sqlite_stays_in_storage,
    third_parties_stay_in_their_extra,
    the_oracle_shares_nothing,
    sql_stands_in_sql_files,
    sql_never_asks_the_time,
    files_and_functions_are_short,
    most_files_are_small,
    nothing_is_left_for_later,
    the_root_lists_its_names,
]
