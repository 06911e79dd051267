"""The shape of the house, held by a test: who may import whom, who asks the time, where SQL stands.

The plan is in `house/plan.py`, the rules in `house/rules.py`. Each rule is shown to bite: `BROKEN`
gives it tiny packages that break it and says what complaint must come.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from house.plan import EXTRAS, FLOOR, NAME, NEEDS_EXTRA
from house.reading import House
from house.rules import RULES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = House(ROOT / NAME)
LATER = "TODO"
LONG_FUNCTION = "def f():\n" + "    pass\n" * 60

# rule, files of a package that breaks it, what the complaint starts with and what it mentions
BROKEN: list[tuple[str, dict[str, str], str, str]] = [
    ("imports_point_down", {"model.py": "import fencepost.engine", "engine.py": ""},
     "model.py:1:", "`engine`, which is not below"),
    ("imports_point_down", {"rules/fence.py": "def f():\n    from ..journal import tree",
                            "journal/tree.py": ""},
     "rules/fence.py:2:", "`journal`, which is not below"),
    ("imports_point_down", {"model.py": "from fencepost import __version__", "__init__.py": ""},
     "model.py:1:", "`__init__`, which is not below"),
    ("imports_point_down", {"model.py": "import importlib\nimportlib.import_module('.cli')",
                            "cli.py": ""},
     "model.py:2:", "`cli`"),
    ("imports_point_down", {"__init__.py": "from .storage import port", "storage/port.py": ""},
     "__init__.py:1:", "the root imports `storage`"),
    ("imports_point_down", {"issues.py": "from fencepost.model import x", "model.py": ""},
     "issues.py:1:", "`model`, which is not below"),
    ("imports_point_down", {"attic.py": ""}, "attic.py:1:", "no floor"),
    ("imports_make_no_circle", {"rules/a.py": "from . import b", "rules/b.py": "",
                                "rules/c.py": "import fencepost.rules.d",
                                "rules/d.py": "\nfrom .c import x"},
     "rules/d.py:2:", "circle rules.c -> rules.d -> rules.c"),
    ("only_the_clock_asks_the_time", {"engine.py": "from time import monotonic as steady"},
     "engine.py:1:", "time.monotonic"),
    ("only_the_clock_asks_the_time", {"engine.py": "import time as t\nnow = t.time_ns()"},
     "engine.py:2:", "time.time_ns"),
    ("only_the_clock_asks_the_time", {"cli/show.py": "import datetime\ndatetime.datetime.now()"},
     "cli/show.py:2:", "datetime.datetime.now"),
    ("only_the_clock_asks_the_time", {"cli/show.py": "from datetime import datetime as d\nd.now()"},
     "cli/show.py:2:", "datetime.datetime.now"),
    ("only_the_clock_asks_the_time", {"operate/bench.py": "import time\ntime.time()"},
     "operate/bench.py:2:", "time.time"),
    ("pure_rooms_stay_pure", {"machine/fold.py": "import os.path"},
     "machine/fold.py:1:", "os.path"),
    ("pure_rooms_stay_pure", {"rules.py": "def f():\n    from random import random"},
     "rules.py:2:", "random"),
    ("pure_rooms_stay_pure", {"journal/seal.py": "open('x')"}, "journal/seal.py:1:", "open()"),
    ("sqlite_stays_in_storage", {"cli/show.py": "import sqlite3"}, "cli/show.py:1:", "sqlite3"),
    ("third_parties_stay_in_their_extra", {"handle.py": "import requests"},
     "handle.py:1:", "requests"),
    ("third_parties_stay_in_their_extra", {"handle.py": "import psycopg.rows"},
     "handle.py:1:", "[postgres]"),
    ("the_oracle_shares_nothing",
     {"conformance/sqlite_reference.py": "from fencepost.canonical import x", "canonical.py": ""},
     "conformance/sqlite_reference.py:1:", "without it"),
    ("the_oracle_shares_nothing",
     {"receiver/rules.py": "from fencepost.canonical import x", "canonical.py": ""},
     "receiver/rules.py:1:", "copies the folder"),
    ("the_oracle_shares_nothing",
     {"receiver/rules.py": "import fencepost.receiver.wire\nfrom .. import model",
      "receiver/wire.py": "", "model.py": ""},
     "receiver/rules.py:2:", "copies the folder"),
    ("sql_stands_in_sql_files", {"cli/show.py": "q = 'SELECT a ' \\\n    'FROM t'"},
     "cli/show.py:1:", "SQL in Python"),
    ("sql_stands_in_sql_files", {"engine.py": "q = 'DELETE ' + 'FROM t'"}, "engine.py:1:", "SQL"),
    ("sql_stands_in_sql_files", {"engine.py": "def f(t):\n    return f'UPDATE {t} SET a = 1'"},
     "engine.py:2:", "f-string"),
    ("sql_stands_in_sql_files", {"engine.py": "q = 'insert into t values (1)'"},
     "engine.py:1:", "SQL in Python"),
    ("sql_stands_in_sql_files", {"engine.py": "q = 'CREATE UNIQUE INDEX i ON t (a)'"},
     "engine.py:1:", "SQL in Python"),
    ("sql_never_asks_the_time", {"storage/a.sql": "-- now()\nSELECT unixepoch()"},
     "storage/a.sql:2:", "unixepoch("),
    ("sql_never_asks_the_time", {"storage/a.sql": "SELECT date('now')"},
     "storage/a.sql:1:", "'now'"),
    ("sql_never_asks_the_time", {"storage/a.sql": "SELECT now ()"}, "storage/a.sql:1:", "now ("),
    ("sql_never_asks_the_time", {"storage/a.sql": "a INT DEFAULT CURRENT_TIMESTAMP"},
     "storage/a.sql:1:", "CURRENT_TIMESTAMP"),
    ("sql_never_asks_the_time", {"storage/a.sql": "SELECT clock_timestamp();",
                                 "storage/b.sql": "/*\n*/ SELECT clock_timestamp();"},
     "storage/b.sql:2:", "second"),
    ("files_and_functions_are_short", {"model.py": "x = 1\n" * 401}, "model.py:400:", "401 lines"),
    ("files_and_functions_are_short", {"model.py": LONG_FUNCTION}, "model.py:1:", "f() has 61"),
    ("files_and_functions_are_short", {"a.sql": "\n" * 251}, "a.sql:250:", "divide"),
    ("most_files_are_small", {"model.py": "x = 1\n" * 151, "rules/__init__.py": ""},
     "model.py:151:", "divide"),
    ("nothing_is_left_for_later", {"a.sql": f"\n-- {LATER}: x"}, "a.sql:2:", "do it now"),
    ("the_root_lists_its_names", {"__init__.py": "__all__ = ['b', 'a']"},
     "__init__.py:1:", "sorted()"),
    ("the_root_lists_its_names", {"__init__.py": "from .model import Task\n__all__ = []"},
     "__init__.py:1:", "`Task`"),
]  # fmt: skip

# What must pass: each lies close to a rule and does not break it.
SOUND: list[tuple[str, dict[str, str]]] = [
    ("imports_point_down", {"engine/a.py": "from fencepost.engine import b\nimport fencepost.model",
                            "engine/b.py": "", "model.py": ""}),
    ("imports_point_down", {"issues.py": "if TYPE_CHECKING:\n    from fencepost.model import x",
                            "model.py": "import fencepost.issues"}),
    ("imports_make_no_circle", {"a.py": "if TYPE_CHECKING:\n    from .b import x",
                                "b.py": "from fencepost.a import y"}),
    ("imports_make_no_circle", {"engine/__init__.py": "from . import name_of_its_own"}),
    ("imports_make_no_circle", {"engine/__init__.py": "from .a import x",
                                "engine/a.py": "from fencepost.engine import b",
                                "engine/b.py": ""}),
    ("only_the_clock_asks_the_time", {"clock.py": "import time\nnow = time.time_ns",
                                      "operate/bench/rates.py": "import time\ntime.perf_counter()",
                                      "engine.py": "import time\ntime.sleep(1)\nself.time.time()"}),
    ("sqlite_stays_in_storage", {"storage/sqlite/driver.py": "import sqlite3"}),
    ("third_parties_stay_in_their_extra", {"storage/postgres/driver.py": "import psycopg",
                                           "model.py": "import json\nimport fencepost.issues"}),
    ("the_oracle_shares_nothing",
     {"conformance/sqlite_reference.py": "from .reference_bytes import x",
      "conformance/reference_bytes.py": ""}),
    ("most_files_are_small", {"model.py": "x = 1\n" * 10, "rules/a.py": "x = 1\n" * 290}),
    ("sql_stands_in_sql_files", {"cli/show.py": '"""SELECT a FROM t."""\nx = "Select one from it"\n'
                                                "y = 'PRAGMA user_version'"}),
    ("sql_never_asks_the_time", {"a.sql": "SELECT due_at <= :now (1), t.now -- CURRENT_DATE\n"
                                          "FROM x WHERE a = clock_timestamp()"}),
]  # fmt: skip


def build(folder: Path, files: dict[str, str]) -> House:
    """A package of these files."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return House(folder)


def rule_named(name: str):
    return next(rule for rule in RULES if rule.__name__ == name)


def test_there_is_a_package_to_hold_the_rules_against():
    assert PACKAGE.modules, f"no Python file below {PACKAGE.folder}"


def test_every_room_of_the_plan_is_built():
    missing = sorted(set(FLOOR) - {module.room for module in PACKAGE.modules})
    if missing:
        pytest.skip(f"not built yet, so the rules say nothing of: {', '.join(missing)}")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps(rule):
    complaints = list(rule(PACKAGE))
    assert not complaints, "\n" + "\n".join(f"{NAME}/{line}" for line in complaints)


@pytest.mark.parametrize(("rule", "files", "start", "mention"), BROKEN)
def test_a_broken_rule_is_named_with_file_and_line(tmp_path, rule, files, start, mention):
    complaints = list(rule_named(rule)(build(tmp_path, files)))
    assert len(complaints) == 1, complaints
    assert complaints[0].startswith(start)
    assert mention in complaints[0]


@pytest.mark.parametrize(("rule", "files"), SOUND)
def test_what_only_looks_like_a_breach_passes(tmp_path, rule, files):
    assert list(rule_named(rule)(build(tmp_path, files))) == []


def test_every_rule_is_shown_to_bite():
    assert {rule for rule, *_ in BROKEN} == {rule.__name__ for rule in RULES}


def test_every_extra_of_the_plan_is_one_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == []
    assert {extra for extra, _ in EXTRAS.values()} == set(project["optional-dependencies"])


def test_every_public_name_can_be_had():
    root = importlib.import_module(NAME)
    missing = [name for name in getattr(root, "__all__", []) if not hasattr(root, name)]
    assert not missing, f"{NAME}/__init__.py: __all__ names what is not there: {missing}"


def test_the_core_imports_without_any_third_party_package():
    modules = [m for m in PACKAGE.modules if not m.lies_in(NEEDS_EXTRA) and m.room != "__main__"]
    names = [f"{NAME}.{module.name}".rstrip(".") for module in modules]
    program = f"import sys, importlib\nsys.path.insert(0, {str(ROOT)!r})\n" + "".join(
        f"importlib.import_module({name!r})\n" for name in names
    )
    bare = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
