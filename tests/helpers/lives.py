"""Lives of a store for `record`: every verb, random histories, an application's own."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from fencepost import commands as c
from fencepost.issues import FencepostError
from helpers import apsw_sqlite
from helpers.histories import History
from helpers.leftovers import LETTERS
from helpers.recorded import Stage, opened
from helpers.workload import every_verb

UNDONE = frozenset(["store_unavailable", "outcome_unknown"])


def every_kind(stage: Stage) -> None:
    """Every verb and kind of row; a seal, a closing and a new start; an erasure at the end."""
    ids = every_verb(stage.fp, stage.clock)
    stage.fp.seal()
    stage.acked()
    stage.leave()
    stage.fp.enqueue("intake", {"blob": "y" * 30_000}, key="large")
    stage.fp.erase(ids["two"])
    stage.fp.seal()
    stage.acked()


def at_random(stage: Stage) -> None:
    """A random history, with closings between."""
    rng = random.Random(stage.seed)
    leases: list[Any] = []
    tasks: list[str] = []
    for _ in range(3):
        history = History(stage.fp, stage.clock, rng)
        history.leases, history.tasks = leases, tasks
        history.live(8)
        leases, tasks = history.leases, history.tasks
        stage.fp.seal()
        stage.acked()
        stage.leave()


def patient(stage: Stage) -> None:
    """A random history of people who, told that something could not be done, ask again."""
    history = History(_until_it_works(lambda: stage.fp), stage.clock, random.Random(stage.seed))
    for turn in range(16):
        history.fp = _until_it_works(lambda: stage.fp)
        asked = history.commands()
        for _ in range(3):
            outcomes = _until_it_works(partial(history.fp.execute, asked))
            history.leases = (history.leases + [g for o in outcomes for g in o.grants])[-12:]
            history.tasks = (history.tasks + [t for o in outcomes for t in o.task_ids])[-40:]
            if UNDONE.isdisjoint(issue for o in outcomes for issue in o.issues):
                break
        if turn % 5 == 4:
            _until_it_works(stage.fp.seal)
            stage.acked()
        if turn == 9:
            stage.leave()


def accompanied(stage: Stage) -> None:
    """The same beside another who has the store open, so that its log outlives a reopening."""
    _until_it_works(lambda: stage.fp)
    with opened(stage.path, stage.clock.wall()) as other:
        assert other.stats()
        patient(stage)


def of_the_next(stage: Stage) -> None:
    """One process after the other: where the first has died, the next is asked the same again,
    tells what it finds, and goes on."""
    history = History(_until_it_works(lambda: stage.fp), stage.clock, random.Random(stage.seed))
    for turn in range(10):
        history.fp = _until_it_works(lambda: stage.fp)
        asked = history.commands()
        outcomes = _until_it_works(lambda sent=asked: stage.fp.execute(sent))
        if stage.dead:
            outcomes = _until_it_works(lambda sent=asked: stage.fp.execute(sent))
        history.leases = (history.leases + [g for o in outcomes for g in o.grants])[-12:]
        history.tasks = (history.tasks + [t for o in outcomes for t in o.task_ids])[-40:]
        if turn == 4:
            _until_it_works(stage.fp.seal)
            stage.acked()


def _until_it_works(ask: Callable[[], Any]) -> Any:
    for left in (2, 1, 0):
        try:
            return ask()
        except FencepostError:
            if not left:
                raise
    return None


def of_erasures(stage: Stage) -> None:
    """Tasks with content of many pages; some are erased, one after the other."""
    rng = random.Random(stage.seed)

    def marker() -> str:
        return "".join(rng.choices(LETTERS, k=40))

    markers = [marker() for _ in range(24)]
    tasks = [c.NewTask({"is": m, "pad": "0" * rng.choice((10, 900))}) for m in markers]
    ids = [task for r in stage.fp.enqueue_many("intake", tasks) for task in r.task_ids]
    for lease in stage.fp.claim("intake", worker_id="w", limit=12):
        lease.complete({"of": lease.payload["is"]})
    for place in rng.sample(range(24), 5):
        stage.erase(ids[place], markers[place])
    stage.leave()


def of_an_application(stage: Stage) -> None:
    """Work inside an application's own transaction."""
    fp = stage.fp
    fp.queue_set("intake", destinations=["outbox"])
    own = apsw_sqlite.Connection(f"file:{stage.path}", stage.recorder.name, stage.note)
    own.execute(f"pragma journal_mode = {stage.journal}")  # where it is not kept in the file
    for statement in ("begin immediate", "create table mine (n integer)", "commit"):
        own.execute(statement)
    for number in range(3):
        with fp.within(own) as tx:
            tx.enqueue("intake", {"number": number})
            own.execute("insert into mine values (?)", (number,))
        stage.acked()
        (lease,) = fp.claim("intake", worker_id="w")
        with fp.within(own) as tx:
            inside = tx.lease(lease.task_id, worker_id="w", fence=lease.fence)
            inside.complete({"done": number})
        stage.acked()
    own.close()
