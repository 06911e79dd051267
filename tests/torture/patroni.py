"""Leaders under Patroni killed, cut off and left alone, with clients of ours at work.

Makes the section on Patroni of docs/postgres-failover.md of what it found, with the date.
"""

from __future__ import annotations

import random
import traceback
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from time import monotonic
from typing import Any
from unittest import mock

from helpers.patroni import ASYNCHRONOUS, SYNCHRONOUS, needed, versions
from helpers.patroni_events import EVENTS, PLANTS, Row, happened, judged
from helpers.patroni_net import NotRun, missing

from torture.failover import PAGE, SECOND, put

MODES = (ASYNCHRONOUS, SYNCHRONOUS)
HEAD = """
Made by `python3 tests/torture.py --only postgres_patroni` on {date},
with {versions}, {rounds} round{s}. Do not edit it by hand;
run the command. Each event has three nodes of its own (etcd, Patroni, PostgreSQL), each on a host
of its own (a network namespace), and three or more threads that enqueue, claim and complete by
`postgresql://postgres@A,B,C/postgres?target_session_attrs=read-write` and, not answered, ask again
with the same bytes until they are. Patroni has `ttl: 20` (its least), `loop_wait: 2`, `retry_timeout: 3`, `primary_start_timeout: 0`
and no watchdog; synchronous is `synchronous_mode: true`. A commit is given up after 1 s in place
of 20 s. *By the old leader* is what it acknowledged after the event. *Unknown* are commits whose
outcome was not told at first. *Answers after* is the longest time from the event to the first
write that the new leader acknowledged. *Sent again*: all acknowledged bytes, to the new leader:
how many get the same receipt, a new one of the new epoch, a refusal. *Twice* are results beyond
one for a task's revision.

| event | mode | acknowledged | by the old leader | lost | unknown | answers after | detected | leases of before | sent again | twice |
|---|---|---:|---:|---:|---:|---:|---|---|---|---:|
"""  # noqa: E501
FOOT = """
How to read it:

- **asynchronous**: what the standbys have not heard of is lost, without a limit where a server
  lives on that Patroni has lost hold of. Then both take writes: a connection that stands is never
  asked again where it leads, and whoever connects anew by a URL that names the old one first is
  taken in by it as well. The new leader's first command notices: epoch and floor rise, leases of
  before are refused, and what was granted on the old side has a lower epoch than all that comes
  later. Who sends acknowledged bytes again learns that they were lost by a receipt of the new
  epoch or by a refusal.
- **synchronous**: nothing acknowledged was lost. A leader that was cut off, or left alone, goes on
  acknowledging only what its standby has, so nothing once that one is out of reach or leads itself:
  the commit is given up, its connection dropped, and it is told as `outcome_unknown`; the same
  bytes, sent again, are answered by whoever leads then.
- What was planted is seen: with the guard off a loss is not noticed; where a commit without an
  answer is told as a success, it is lost in synchronous mode.

To run Fencepost under Patroni:

- `synchronous_mode: true`, and `synchronous_node_count` for as many standbys as may be lost
  together with the leader. Where no standby is left Patroni lets commits go on without one; with
  `synchronous_mode_strict: true` they wait. `synchronous_commit: on` is enough; where it is less,
  our transactions raise it.
- `watchdog: {mode: required}`: it ends a server that Patroni has lost hold of. Without one the
  last event can happen, and only synchronous mode bounds what it costs. (No watchdog was tried
  here.)
- Name every node in the URL, `postgresql://queue@A,B,C/work`; `target_session_attrs=read-write`
  is added. After a fail-over our connections find the new leader by themselves: nothing has to be
  started anew. Whose network has gone notices it after half a minute; `tcp_user_timeout` (ms),
  `keepalives_*` and `connect_timeout` in the URL make that sooner.
- Behind an address that follows the leader (HAProxy, a virtual address) name that one; with a
  pooler in transaction mode add `pooled=1`. The guard stands in each transaction, wherever it
  goes.
- Leases of before end with each fail-over, a planned one too. Workers go on with new ones.
"""


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Round after round, in an order of the seed, one case at least; as many as there is time for.
    The page is made anew only by whole rounds that found nothing wrong."""
    cases = [*((name, mode) for name in EVENTS for mode in MODES), *((name, "") for name in PLANTS)]
    if what := missing() or needed():
        said = f"NOT RUN: no event under Patroni was tried, for want of {', '.join(what)}"
        return {"not run": len(cases), "failures": [{"name": said}]}
    end = monotonic() + seconds
    rng = random.Random(seed)
    sums: dict[tuple[str, str], Row] = {}
    whole: dict[tuple[str, str], Row] = {}
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    left: list[tuple[str, str]] = []
    while not counts["cases"] or monotonic() < end:
        left = rng.sample(cases, len(cases))
        while left and (not counts["cases"] or monotonic() < end):
            name, mode = left.pop()
            counts["cases"] += 1
            wrong += tried(name, mode, sums, counts)
        if not left:
            counts["rounds"] += 1
            whole = {**sums}
    if whole and not wrong:
        put(PAGE, second=section(whole, counts["rounds"]))
    told: dict[str, Any] = {**counts, "failures": [{"name": what} for what in wrong]}
    if not counts["rounds"]:
        names = "; ".join(sorted(f"{name} {mode}".strip() for name, mode in left))
        told["not run"] = len(left)
        told["noted"] = [{"name": f"NOT RUN, the time was over: {names}", "replay": AGAIN}]
    return told


AGAIN = "python3 tests/torture.py --only postgres_patroni --minutes 20"


def tried(
    name: str, mode: str, sums: dict[tuple[str, str], Row], counts: Counter[str]
) -> list[str]:
    """One case; what is wrong."""
    case = f"{name}, {mode}" if mode else name
    try:
        if name in PLANTS:
            counts["planted"] += 1
            said = planted(name)
            counts["planted seen"] += not said
            return said
        row = happened(name, mode)
    except NotRun as error:
        counts["not run"] += 1
        return [f"{case}: {error}"]
    except Exception as error:  # noqa: BLE001  whatever it is, it is told
        traceback.print_exc()
        return [
            f"{name}, {mode}: {error!r} in {traceback.extract_tb(error.__traceback__)[-1].name}"
        ]
    print(row, flush=True)
    counts["events"] += 1
    counts["acknowledged"] += row.acknowledged
    counts[f"lost, {mode}"] += row.lost
    sums[name, mode] = added(sums.get((name, mode)), row)
    return judged(row)


def planted(name: str) -> list[str]:
    """A client that is broken in one way must be seen: what is wrong if it is not."""
    plant, event, mode, piece = PLANTS[name]
    with ExitStack() as stack:
        plant(lambda owner, of, new: stack.enter_context(mock.patch.object(owner, of, new)))
        said = judged(happened(event, mode))
    print(name, said, flush=True)
    return [] if any(piece in what for what in said) else [f"planted and not seen: {name}: {said}"]


def added(before: Row | None, row: Row) -> Row:
    """The sums of two rounds; the longest wait; what was detected is the last one's."""
    if before is None:
        return row
    summed = ("acknowledged", "beside", "lost", "unknown", "same", "anew", "refused", "twice")
    sums = {name: getattr(before, name) + getattr(row, name) for name in summed}
    return row._replace(**sums, wait=max(before.wait, row.wait))


def section(sums: dict[tuple[str, str], Row], rounds: int) -> str:
    """Its half of the page, the rows in the order of the events."""
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    made_of = ", ".join(f"{name} {version}" for name, version in versions().items())
    head = HEAD.format(date=date, versions=made_of, rounds=rounds, s="" if rounds == 1 else "s")
    rows = [sums[name, mode] for name in EVENTS for mode in MODES if (name, mode) in sums]
    return SECOND + head + "".join(map(line, rows)) + FOOT


def line(row: Row) -> str:
    again = f"same {row.same:,}, new {row.anew:,}, refused {row.refused:,}"
    return (
        f"| {row.event} | {row.mode} | {row.acknowledged:,} | {row.beside:,} | {row.lost:,} "
        f"| {row.unknown:,} | {row.wait:.1f} s | {row.detected} | {row.leases} | {again} "
        f"| {row.twice} |\n"
    )
