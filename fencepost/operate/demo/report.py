"""The table and the checks, for people (the number first, then what it counts) and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fencepost.issues import ISSUES, in_order
from fencepost.operate.demo.checks import Check, Run
from fencepost.operate.demo.view import View, counted, plural

SHOWN = 3  # of the complaints that a check may have


def table(run: Run) -> Iterator[tuple[str, int, str]]:
    """(name in JSON, number, what it counts). A refusal's code stands below their sum."""
    seen, tally = run.seen, run.tally
    tasks, killed, stopped = len(tally.enqueued), len(seen.killed), len(seen.stopped)
    refused = sum(seen.refusals.values())
    receipts, owed = (sum(map(len, m.values())) for m in (tally.completions, tally.obligations))
    kills, stops = (counted(sum(held), "lease") for held in (seen.killed, seen.stopped))
    yield "tasks", tasks, f"{plural(tasks, 'task')}, one for each source file"
    yield "results", tally.results, f"{plural(tally.results, 'result')} accepted"
    yield "receipts", receipts, f"{plural(receipts, 'receipt')} of completions"
    yield "obligations", owed, f"{plural(owed, 'message')} in the outbox, one for each result"
    yield "killed", killed, f"{plural(killed, 'worker')} killed with SIGKILL, holding {kills}"
    yield (
        "stopped", stopped,
        f"{plural(stopped, 'worker')} stopped with SIGSTOP, holding {stops}, and woken too late",
    )  # fmt: skip
    yield "refused", refused, f"late {plural(refused, 'completion')} refused, by code:"
    for code in in_order(seen.refusals):
        yield f"refused.{code}", seen.refusals[code], f"  {code}: {ISSUES[code].meaning}"
    yield "losers", seen.losers, f"{plural(seen.losers, 'worker')} lost the answer to a commit"
    yield "replays", len(seen.replays), "same bytes sent again, same receipt got (replays)"
    yield "leases", tally.claims, "leases given by claims"
    yield "reclaims", tally.reclaims, "  of them after another worker's lease had lapsed"
    yield "entries", tally.entries, "journal entries"


def show_table(view: View, run: Run) -> None:
    view.say("")
    view.say("What happened", "strong")
    for _, number, what in table(run):
        view.say(f"{number:>9,}  {what}")


def show_check(view: View, check: Check) -> None:
    """One line, and below it the first things that speak against it."""
    verdict, style = ("holds", "good") if check.holds else ("FAILED", "bad")
    view.say(f"   {verdict:6}  {check.sentence} ({check.extent})", style)
    for complaint in check.complaints[:SHOWN]:
        view.say(f"           {complaint}", style)
    if len(check.complaints) > SHOWN:
        view.say(f"           and {len(check.complaints) - SHOWN:,} more", style)


def as_json(run: Run, checks: Sequence[Check], **facts: Any) -> dict[str, Any]:
    """The whole run as one object; `status` is accepted or failed."""
    return {
        "status": "accepted" if all(check.holds for check in checks) else "failed",
        **facts,
        "counts": {name: number for name, number, _ in table(run)},
        "checks": [
            {
                "check": check.sentence, "holds": check.holds, "extent": check.extent,
                "complaints": list(check.complaints),
            }
            for check in checks
        ],
    }  # fmt: skip
