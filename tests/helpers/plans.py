"""What SQLite means to do for a statement, as EXPLAIN QUERY PLAN tells it."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from typing import Any

from fencepost import commands as c
from fencepost.storage.sqlite.driver import STATEMENTS
from helpers.stand import Stand

LISTS = {
    "names": ["s"], "keys": ["s local k"], "ids": [1, 2], "requests": [[1, 2]], "numbers": [1, 2],
}  # fmt: skip
PAIRS = {("queues_by_name", "names"): [["s", "q"]], ("tasks_by_key", "keys"): [[1, "k"]]}


def parameters(name: str) -> Any:
    """Something to bind to every parameter of the statement: lists as JSON, nulls elsewhere."""
    sql = re.sub(r"--.*", "", STATEMENTS[name])
    named = set(re.findall(r":(\w+)", sql))
    if named:
        lists = {n: json.dumps(PAIRS.get((name, n), LISTS[n])) for n in named & LISTS.keys()}
        return {n: lists.get(n) for n in named}
    numbered = [int(n) for n in re.findall(r"\?(\d+)", sql)]
    return (None,) * (max(numbered) if numbered else sql.count("?"))


def plan(connection: sqlite3.Connection, name: str) -> list[str]:
    """The steps of the plan."""
    rows = connection.execute("explain query plan " + STATEMENTS[name], parameters(name))
    return [row[3] for row in rows.fetchall()]


def fill(stand: Stand, tasks: int = 3_000) -> None:
    """Rows of every kind on two queues, in several states, with keys, results and children."""
    draws = random.Random(5)
    fp = stand.fp
    fp.queue_set("q", destinations=["out"], keep_refused=3)
    for part in range(0, tasks, 250):
        new = tuple({"payload": part + n, "key": f"k{part + n}"} for n in range(250))
        queue = "q" if part % 500 else "other"
        fp.execute([c.Request.of(c.Enqueue(queue, new), f"K{part}")])
    for lease in fp.claim("q", worker_id="w", limit=100) * 3:
        choice = draws.random()
        binding = (lease.task_id, lease.worker_id, lease.fence)
        if choice < 0.5:
            fp.execute([c.Complete(*binding, result={"n": draws.randrange(10)})])
        elif choice < 0.7:
            fp.execute([c.Submit(*binding, result=choice)])
        else:
            fp.execute([c.Fail(*binding, then="block" if choice < 0.8 else "retry")])
    for task in list(fp.tasks("out"))[:5]:
        fp.erase(task.task_id)
        fp.seal()  # a few heads: of a table of one or two rows SQLite says that it walks it
