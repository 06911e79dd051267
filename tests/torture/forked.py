"""Every way for a store to fork, both owners at work, before one receiver.

Makes docs/forks.md of what it found, with the date.
"""

from __future__ import annotations

import logging
import platform
import sqlite3
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from helpers.fork_files import FILES
from helpers.fork_receiver import program
from helpers.fork_servers import SERVERS
from helpers.fork_table import KINDS, Row, Way, cell, judged, rows
from helpers.postgres import binaries
from helpers.scratch import scratch

from fencepost.version import VERSION

PAGE = Path(__file__).resolve().parents[2] / "docs" / "forks.md"
WAYS: dict[str, Way] = {**FILES, **SERVERS}
HEAD = """# Two owners, one receiver

Made by `python3 tests/torture.py --only forks` on {date}, with Fencepost {product},
Python {python}, SQLite {sqlite}, PostgreSQL {postgres}. Do not edit it by hand; run the command.

Copy a store, have both go on, and both accept results for the same task: an epoch says nothing to
who does not hear of it. That is the seed's counter-example, and it stands in the column *without a
receiver* (`tests/test_seed_receipt_lab_limits.py`). Only where effects meet can one of the two be
refused. So here each fork has its two owners deliver to one receiver of the kit, over HTTP, with
everything as in earnest: stores, dispatchers, results for the same tasks and for different ones.
Before the fork one result was delivered and one was not yet.

## What a store sees by itself

*Recognised* is what has become another writer, and its epoch; of the original, where it is not the
copy alone. *Stopped* are destinations that deliver nothing until a person says so: here somebody
has said it of each. *Outcome* names what came of it, in the next table.

| fork | recognised | stopped | without a receiver | outcome |
|---|---|---|---|---|
"""
MIDDLE = """
## Who has effects at the receiver

Both owners have three turns: they work, and what is owed is delivered. *Original first*: two turns
of the original, two of the copy, then one each. Of two copies whose original is lost, one stands
for it. Where something older was put back the original had its turns before. *Greets*: what was
owed before the fork is delivered before anything new is done, so that the copy hears first what the
receiver has; else it has done the same tasks in another way by then. *New tasks* are such as the
other has never heard of. *Adopted*: `fencepost adopt --take-over` before the copy does anything.
After a semicolon: what has stopped an owner's deliveries, or, where nothing has, what has blocked
single ones.

| outcome | contact | unordered destination | ordered destination |
|---|---|---|---|
"""
FOOT = """
How to read it:

- **One lineage has effects.** Either one owner alone; or first the one, then the other, who follows
  it: his lineage holds the writer that was there, and he took up what it had done (`original, then
  copy`). The other is refused from then on (`old_epoch`).
- **`fork`**: two that began the same epoch apart, or, in an ordered stream, two that are the same
  writer in every word. The first to come has the stream, the other is stopped, whichever of them is
  the right one. A person decides: `fencepost adopt --take-over`.
- **`import_needed`**: the copy was let in, and is told of results that contradict its own: it has
  worked before it has heard. It delivers nothing then, and the original is refused already: nothing
  more happens there until a person says so. A copy that greets before it works, or is adopted, goes
  on; what was done of tasks that it does not know, it is told, and says so.
- **`effect_conflict`**: the same result's name with other content. The first one stays.
- **both**: what nothing but an ordered stream can tell. Everything by which a store could know that
  it is another one was put back or cloned with it, so both are the same writer in every word. An
  *unordered* destination takes what each of them sends: never an operation twice, but results of
  two histories, until one of them is told of the other's by chance. An **ordered** one has a chain
  over all that was delivered: whoever does not know what came before has to ask, and hears of
  effects under its own name that it has never owed. Where a disk or a machine may be cloned under
  you, say `ordered`, or adopt the clone before it works.
- **No operation had a second effect**, in any row.
- All of it is about one receiver. Two that never speak to each other may each trust another copy.
- A memory clone is told in PostgreSQL by setting what the store remembers of its server to what it
  reads there; no virtual machine was cloned.
"""


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Round after round, every fork once in each; which comes first the seed says. The page is made
    of whole rounds alone: one takes some minutes."""
    end = time.monotonic() + seconds
    names = [*WAYS][seed % len(WAYS) :] + [*WAYS][: seed % len(WAYS)]
    found: dict[str, list[Row]] = {}
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    while not counts["forks"] or time.monotonic() < end:
        with scratch() as folder, program(folder) as receiver:
            for number, name in enumerate(names):
                if counts["forks"] and time.monotonic() >= end:
                    break
                counts["forks"] += 1
                try:
                    with _quiet():
                        found[name] = rows(WAYS[name], receiver, folder / str(number))
                except (Exception, pytest.skip.Exception) as error:  # noqa: BLE001  it is told
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    wrong.append(f"{name}: {error!r} in {where.name}")
                    continue
                wrong += [each for row in found[name] for each in judged(row)]
                counts["contacts"] += len(KINDS) * len(found[name])
                counts["effects"] += sum(
                    len(step.effects) for row in found[name] for steps in row.steps.values()
                    for step in steps
                )  # fmt: skip
    if not wrong and len(found) == len(WAYS):
        PAGE.write_text(page({name: found[name] for name in WAYS}), encoding="utf-8")
    return {**counts, "failures": [{"name": what} for what in wrong]}


@contextmanager
def _quiet() -> Iterator[None]:
    """What is refused is logged, a thousand times."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def page(found: Mapping[str, Sequence[Row]]) -> str:
    """All of it. Forks of which the same has come share an outcome."""
    outcomes: dict[tuple[tuple[str, ...], ...], str] = {}
    first = []
    for name, there in found.items():
        came = tuple((row.order, *(cell(row, kind) for kind in KINDS)) for row in there)
        letter = outcomes.setdefault(came, chr(ord("A") + len(outcomes)))
        beside = "both accept" if there[0].beside else "—"
        first.append(_line(name, there[0].recognised, there[0].stopped, beside, letter))
    second = [_line(letter, *line) for came, letter in outcomes.items() for line in came]
    said = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, check=True)
    head = HEAD.format(
        date=datetime.now(UTC).strftime("%Y-%m-%d"), product=VERSION,
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version, postgres=said.stdout.decode().split()[-1],
    )  # fmt: skip
    return "".join([head, *first, MIDDLE, *second, FOOT])


def _line(*cells: str) -> str:
    return "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |\n"
