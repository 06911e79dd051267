"""The tamperings of `tamperings.py` in PostgreSQL's words: the same edits of the same rows.

There an entry is named by its place in the tree, from 1, and a task by how many were made before
it: numbers have gaps here. What the edit itself has to be another is `OTHERS`, with the reason.
"""

from __future__ import annotations

import re

from helpers.tamperings import TAMPERINGS

ENTRY = "(select number from fencepost_node where level = 0 and position = {})"
TASK = "(select id from fencepost_task order by id offset {} limit 1)"
WORDS: list[tuple[str, str]] = [
    (r"\s+", " "),
    (r"cast\(body as text\)", "convert_from(body, 'UTF8')"),
    (r"cast\(('[^']*'|replace\(.*\)|'fencepost/other' .*\)\)\)) as blob\)",
     r"convert_to(\1, 'UTF8')"),
    (r"zeroblob\(32\)", f"'\\\\x{'00' * 32}'::bytea"),
    (r"x'([0-9a-f]+)'", r"'\\x\1'::bytea"),
    (r"json_set\(settings, '\$\.(\w+)', (?:json\('(true)'\)|(9))\)",
     r"jsonb_set(settings::jsonb, '{\1}', '\2\3')::text"),
    (r"char\(10\)", "chr(10)"),
    (r"instr\(", "strpos("),
]  # fmt: skip
# (statement, the codes that are found, place that must be named)
NEXT = "the first place behind the tree"
Tampering = tuple[str, set[str], str | None]
ADDED = """
    insert into fencepost_entry (number, body) select nextval('fencepost_entry_number'), body
    from fencepost_entry where number = 6
"""
OTHERS: dict[str, Tampering] = {
    # what waits to be sealed is told apart: an entry that does not is nobody's
    "an added entry": (ADDED, {"stray"}, "stray_entries"),
}
# What only this store has: which entry a leaf is of, and what waits to be sealed.
HERE: dict[str, Tampering] = {
    "an added entry that waits to be sealed": (
        f"""
        with added as ({ADDED} returning number)
        insert into fencepost_unsealed (number) select number from added
        """,
        {"opening_missing", "epoch", "transition", "row_edited"}, NEXT,
    ),
    "two leaves that say another entry": (
        f"""
        update fencepost_node n set number = -n.number
        where number in ({ENTRY.format(5)}, {ENTRY.format(14)})
        """,
        {"entry_missing", "task_unknown", "stray", "row_edited"}, "entry 6",
    ),
    "an entry that waits to be sealed once more": (
        """
        insert into fencepost_unsealed (number) select number from fencepost_entry
        where number = 15
        """,
        {"transition", "epoch", "row_edited"}, NEXT,
    ),
    "a number that waits for an entry that is not there": (
        "insert into fencepost_unsealed (number) select max(number) + 1 from fencepost_entry",
        {"entry_missing"}, NEXT,
    ),
}  # fmt: skip


def in_postgres(sql: str) -> str:
    """The same statement for the store of PostgreSQL."""
    for old, new in WORDS:
        sql = re.sub(old, new, sql)
    sql = re.sub(r"\b(number|entry) = (\d+)\b", _entry, sql)
    return re.sub(r"\b(id|task) = (\d+)\b", _task, sql)


def _entry(found: re.Match[str]) -> str:
    return f"{found[1]} = {ENTRY.format(int(found[2]) - 1)}"


def _task(found: re.Match[str]) -> str:
    return f"{found[1]} = {TASK.format(int(found[2]) - 1)}"


def of(name: str) -> Tampering:
    """What is done, and what must be found."""
    if name in TAMPERINGS and name not in OTHERS:
        statement, codes, place = TAMPERINGS[name]
    else:
        statement, codes, place = {**OTHERS, **HERE}[name]
    return in_postgres(statement), codes, place
