"""Rehearses a restore: temporary copies, two owners that both live, receivers that are real.

The old owner works in a process of its own, goes on after the backup was taken, and goes on after
it was restored elsewhere. At the end every effect at every receiver is held against what the
restored store says.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fencepost.destinations import new_secret
from fencepost.handle import Handle, open_handle
from fencepost.issues import FencepostError
from fencepost.operate.backup import backup
from fencepost.operate.drilling import places
from fencepost.operate.drilling.checks import Check, Seen, judged
from fencepost.operate.drilling.owner import QUEUE, WORKER, Elsewhere, Owner
from fencepost.operate.drilling.places import Place
from fencepost.operate.ending import ended_tidily
from fencepost.operate.restore import restore
from fencepost.operate.restoring import erasures, receipt
from fencepost.operate.restoring.steps import Wishes

EXIT_FAILED, EXIT_USAGE = 1, 2


class Drilled(NamedTuple):
    """What came of it: the restore receipt, what the receivers did, and each check."""

    receipt: dict[str, Any]
    old_owner: dict[str, Any]
    effects: dict[str, list[str]]
    checks: list[Check]

    def to_json(self) -> dict[str, Any]:
        status = "held" if all(check.holds for check in self.checks) else "broken"
        return {
            "status": status, "receipt": self.receipt, "old_owner": self.old_owner,
            "effects": self.effects, "checks": [check.to_json() for check in self.checks],
        }  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run the drill. 0 if every check holds, 1 if one does not, 2 for bad usage."""
    parser = argparse.ArgumentParser(
        prog="fencepost drill",
        description="Rehearse a restore on temporary copies, with two live owners and real "
        "receivers. Your stores are not touched. Exits 0 only if every check holds.",
    )
    parser.add_argument("what", choices=["restore"], help="what is rehearsed")
    parser.add_argument("--json", action="store_true", help="the whole as one JSON object")
    try:
        options = parser.parse_args(argv)
    except SystemExit as end:  # argparse has said why
        return end.code if isinstance(end.code, int) else EXIT_USAGE
    return ended_tidily("drill", lambda: run(as_json=options.json), _complain)


def run(*, as_json: bool) -> int:
    """The drill in a folder of its own, which is removed."""
    try:
        with TemporaryDirectory(prefix="fencepost-drill-") as folder:
            done = drilled(Path(folder))
    except FencepostError as error:
        _complain(f"fencepost drill: it did not come to its end: {error}")
        return EXIT_FAILED
    if as_json:
        sys.stdout.write(json.dumps(done.to_json()) + "\n")
    else:
        _show(done)
    return 0 if all(check.holds for check in done.checks) else EXIT_FAILED


def drilled(folder: Path) -> Drilled:
    """The drill. Raises what goes wrong on the way to its checks."""
    secret, store, kept, new = (
        folder / name for name in ("secret", "old.db", "backup.db", "new.db")
    )
    secret.write_text(new_secret() + "\n")
    secret.chmod(0o600)
    with ExitStack() as stack:
        both = [stack.enter_context(places.web(folder, secret)), places.table(folder)]
        with open_handle(store, create=True) as fp:
            _settle(fp, both, secret)
        old = stack.enter_context(Elsewhere(store, folder))
        old("add", 12)
        old("work", 3)
        old("deliver")
        held = old("hold", 1)
        with open_handle(store) as fp:
            backup(fp, kept)

        # what the backup knows nothing of
        after = [*old("finish"), *old("work", 3)]
        foreign = old("add", 2)
        assert held[0] in after
        old("deliver")
        with open_handle(store) as fp:
            known = [each.task_id for each in fp.tasks(QUEUE) if each.task_id not in foreign]
            erased = [each for each in known if fp.task(each).state == "ready"][-1:]
            fp.erase(erased[0], reason="asked for")
            for task_id in foreign:
                _work_on(fp, task_id)
            gone = tuple(erasures.erasures(fp))
        old("deliver")
        lost = old("work", 1)

        found = restore(kept, new, Wishes(erasures=gone, who="drill"))
        told = json.loads(found.receipt)
        before = {place.name: len(place.effects()) for place in both}
        with open_handle(new if found.complete else kept) as fp:
            mine = Owner(fp, folder, "new")
            later = old("work", 2)
            old("deliver")
            mine.work(2)
            mine.deliver()
            later += old("work", 1)
            old("deliver")
            theirs = old("results")
            late = mine.late(lost[0], theirs[lost[0]][1])
            mine.work(20)
            mine.deliver()
            seen = Seen(
                told, after, foreign, theirs, mine.results(), old("owed"), late,
                fp.verify().clean, before, later, erased,
            )  # fmt: skip
        checks = judged(seen, both)
        effects = {place.name: [name for name, _ in place.effects()] for place in both}
    return Drilled(told, {"refused": seen.owed}, effects, checks)


def _settle(fp: Handle, both: Sequence[Place], secret: Path) -> None:
    """The old store: results on one queue, owed to both receivers; and a token."""
    fp.queue_set(QUEUE, destinations=[place.name for place in both])
    for place in both:
        options = {"allow_private": True} if place.name == "web" else {}
        fp.destination_set(place.name, place.address, class_="fenced", options=options)
    fp.destination_secret("web", secret.read_text().strip())
    fp.token_create(WORKER, "worker")


def _work_on(fp: Handle, task_id: str) -> None:
    (lease,) = fp.claim(task_id=task_id, worker_id=WORKER)
    lease.complete({"of": task_id, "by": "old"})


def _show(done: Drilled) -> None:
    lines = [*receipt.lines(done.receipt), ""]
    for name, each in done.old_owner["refused"].items():
        lines.append(f"old owner at {name}: {len(each['open'])} not taken; {each['stopped']}")
    for name, operations in done.effects.items():
        lines.append(f"{name}: {len(operations)} effects")
    lines.append("")
    for check in done.checks:
        mark = "holds " if check.holds else "BROKEN"
        lines.append(f"{mark}  {check.sentence}" + (f" ({check.seen})" if check.seen else ""))
    sys.stdout.write("\n".join(lines) + "\n")


def _complain(text: str) -> None:
    sys.stderr.write(text + "\n")
