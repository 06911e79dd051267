"""Servers of PostgreSQL killed, stalled, promoted, wound back and copied, with somebody at work.

Makes the first half of docs/postgres-failover.md of what it found, with the date.
"""

from __future__ import annotations

import subprocess
import time
import traceback
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from helpers.failover import EVENTS, Row, judged
from helpers.postgres import binaries

PAGE = Path(__file__).resolve().parents[2] / "docs" / "postgres-failover.md"
SECOND = "\n## Under Patroni\n"  # begins what torture/patroni.py makes
HEAD = """# What becomes of acknowledged writes when a PostgreSQL server is lost

Made by `python3 tests/torture.py --only postgres_failover` on {date}, with PostgreSQL {version}
on one machine, {rounds} round{s}. Do not edit it by hand; run the command. Each event has servers
of its own and four threads that enqueue, claim and complete. *Acknowledged* are writes whose
receipt was told; *lost* are those that the survivor does not have, byte for byte. *Detected* is
what the first command at the survivor wrote into the lineage (`fencepost doctor` shows it): why it
is another writer, its epoch, and whether the floor was raised. *Leases* are what becomes of those
from before.

| event | mode | acknowledged | lost | detected | leases of before |
|---|---|---:|---:|---|---|
"""
FOOT = """
How to read it:

- **asynchronous** replication loses what the standby has not heard of, and whoever was told of
  it is not told again. The new epoch and the raised floor say that it may have happened: every
  lease of before is refused as `stale_epoch`, and no fence is given twice, not even those that
  were lost.
- **synchronous** replication loses nothing that was acknowledged. Where no standby answers, a
  commit is *unknown* and not a success; a receipt is told again only when a standby has it.
- An old primary that lives on with clients on its side goes on acknowledging, unless commits
  need a standby. Nothing in a database can tell it; fencing it off is the work of what promotes
  (Patroni, a watchdog).
- **A server started anew** keeps its leases: it has a new epoch, and the floor stays.
- **Copies.** Files that were copied, or a base backup that nobody told to follow, cannot be
  told from a server that was started anew: the older leases go on in both, and both begin the
  same epoch, as writers of different incarnations. Whoever hears of both can tell; do not use
  both. An older data directory put back in place of a newer looks the same: restore it as
  PostgreSQL's manual says, with a `recovery.signal`, and it has another timeline, or end all
  leases with `fencepost clock-reset`.
"""


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Round after round, one at least; every event once in each."""
    end = time.monotonic() + seconds
    sums: dict[tuple[str, str], Row] = {}
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    while not counts["rounds"] or time.monotonic() < end:
        for name, event in EVENTS.items():
            if counts["rounds"] and time.monotonic() >= end:
                break
            try:
                row = event()
            except Exception as error:  # noqa: BLE001  whatever it is, it is told
                where = traceback.extract_tb(error.__traceback__)[-1]
                wrong.append(f"{name}: {error!r} in {where.name}")
                continue
            wrong += judged(row)
            counts["events"] += 1
            counts["acknowledged"] += row.acknowledged
            asynchronous = row.mode == "asynchronous"
            counts["lost, asynchronous" if asynchronous else "lost, other"] += row.lost
            sums[row.event, row.mode] = added(sums.get((row.event, row.mode)), row)
        counts["rounds"] += 1
    if not wrong:
        put(PAGE, first=page([*sums.values()], counts["rounds"]))
    return {**counts, "failures": [{"name": what} for what in wrong]}


def added(before: Row | None, row: Row) -> Row:
    """The sums of two rounds; what was detected and what became of leases is the last one's."""
    if before is None:
        return row
    return row._replace(
        acknowledged=before.acknowledged + row.acknowledged, lost=before.lost + row.lost
    )


def put(path: Path, *, first: str | None = None, second: str | None = None) -> None:
    """Write one of the two halves of the page; the other stays as it is."""
    there = path.read_text(encoding="utf-8") if path.exists() else ""
    before, mark, after = there.partition(SECOND)
    halves = (before if first is None else first, mark + after if second is None else second)
    path.write_text("".join(halves), encoding="utf-8")


def page(rows: list[Row], rounds: int) -> str:
    """Its half of the page."""
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    s = "" if rounds == 1 else "s"
    said = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, check=True)
    version = said.stdout.decode().split()[-1]
    head = HEAD.format(date=date, version=version, rounds=rounds, s=s)
    lines = (
        f"| {r.event} | {r.mode} | {r.acknowledged:,} | {r.lost:,} | {r.detected} | {r.leases} |\n"
        for r in rows
    )
    return head + "".join(lines) + FOOT
