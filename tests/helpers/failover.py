"""What becomes of acknowledged writes when a PostgreSQL server is lost, and how it is noticed: one
function an event, each with servers of its own. What it finds is a row of a table; what must hold
whatever the event, is asserted here:

- no (epoch, fence) that was acknowledged before is given again, unless by a sibling copy;
- who holds a lease from before a raised floor is refused as `stale_epoch` and changes nothing;
- what is lost is not lost in silence: a writer that was not known has a new epoch in the lineage;
- the store that lives on is sound.

`judged` says of a row what else must not be: a loss where commits wait for a standby, or one in
silence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import psycopg

import fencepost
from fencepost.handle import Handle, Lease
from fencepost.issues import NotFound, StaleEpoch
from fencepost.storage.postgres import commit as committing
from fencepost.storage.postgres import store as stores
from helpers.lab import QUEUE, SCOPE
from helpers.pg_cluster import Cluster, cluster, dumped
from helpers.pg_load import Load
from helpers.postgres import Server


class Row(NamedTuple):
    """One line of the table. `detected` is what the survivor's lineage says."""

    event: str
    mode: str
    acknowledged: int
    lost: int
    detected: str
    leases: str


class Place(Protocol):
    """Whatever has a URL: a server, or several."""

    def url(self) -> str: ...


def held(server: Place, count: int = 2) -> list[Lease]:
    """Leases that somebody holds for a long time."""
    fp = fencepost.open(server.url(), scope=SCOPE)
    for n in range(count):
        fp.enqueue("held", n)
    return fp.claim("held", worker_id="holder", limit=count, lease_seconds=600)


def lost(fp: Handle, load: Load) -> int:
    """How many acknowledged writes are not there, byte for byte."""
    sql = "select key, body from fencepost_entry where key is not null"
    with fp._store._reading:  # type: ignore[attr-defined]
        there = dict(fp._store._read.execute(sql).fetchall())  # type: ignore[attr-defined]
    return sum(there.get(key) != body for key, body in load.acknowledged.items())


def carry_on(server: Server, leases: list[Lease], load: Load, *, database: str = "postgres") -> Any:
    """Work at the survivor as everybody else will: (handle, what became of leases of before)."""
    fp = fencepost.open(server.url(database), scope=SCOPE)
    fp.enqueue(QUEUE, "after")
    (new,) = fp.claim(QUEUE, worker_id="after")
    assert (new.grant.epoch, new.fence) not in load.tokens, "a fence of before was given again"
    told = [late(fp, lease) for lease in leases]
    new.complete({"after": True})
    assert fp.verify().problems == ()
    return fp, ", ".join(sorted(set(told))) or "none"


def late(fp: Handle, lease: Lease) -> str:
    again = fp.lease(lease.task_id, worker_id=lease.worker_id, fence=lease.fence)
    try:
        again.complete({"late": True})
    except StaleEpoch:
        assert fp.task(lease.task_id).state != "done"
        return "stale_epoch"
    except NotFound:
        return "not_found"
    return "go on"


def lineage(fp: Handle) -> str:
    """The last writer that was recognised, and the epochs."""
    with fp._store._reading:  # type: ignore[attr-defined]
        ((why, epoch, floor),) = fp._store._read.execute(  # type: ignore[attr-defined]
            "select w.why, s.epoch, s.floor from fencepost_writer w, fencepost_store s "
            "order by w.epoch desc limit 1"
        ).fetchall()
    raised = "raised" if floor == epoch else "kept"
    return f"{why}: epoch {epoch}, floor {raised}"


def _row(
    event: str, mode: str, load: Load, survivor: Server, leases: list[Lease],
    database: str = "postgres",
) -> Row:  # fmt: skip
    fp, told = carry_on(survivor, leases, load, database=database)
    with fp:
        return Row(event, mode, len(load.acknowledged), lost(fp, load), lineage(fp), told)


@contextmanager
def loaded(made: Cluster, of: str = "a") -> Iterator[tuple[Load, list[Lease]]]:
    """A store on this server with somebody at work, and leases that are held."""
    fencepost.open(made[of].url(), create=True).close()
    leases = held(made[of])
    load = Load(made[of], "load")
    try:
        yield load, leases
    finally:
        load.end()
        load.handle.close()
        leases[0]._verbs.close()  # type: ignore[attr-defined]


def revive(server: Server) -> None:
    """Start a server that was killed, as soon as the last of its children has seen it."""
    told = ""
    for _ in range(200):
        try:
            server.start()
            return
        except AssertionError as error:
            told = str(error)
            server.stop()
            if "shared memory" not in told and "lock file" not in told:
                raise
        threading.Event().wait(0.1)
    raise AssertionError(told)


@contextmanager
def short_waits(seconds: float = 1.0) -> Iterator[None]:
    """Commits that nobody answers are given up sooner than in earnest."""
    before = committing.COMMIT_SECONDS, stores.UNDECIDED_SECONDS
    committing.COMMIT_SECONDS, stores.UNDECIDED_SECONDS = seconds, 0.3
    try:
        yield
    finally:
        committing.COMMIT_SECONDS, stores.UNDECIDED_SECONDS = before


# -- events


def killed_and_started_again() -> Row:
    with cluster() as made, loaded(made) as (load, leases):
        load.begin()
        made["a"].kill()
        load.end()
        revive(made["a"])
        return _row("server killed (-9) and started again", "one server", load, made["a"], leases)


def standby_promoted(*, synchronous: bool) -> Row:
    mode = "synchronous, any 1 of 2" if synchronous else "asynchronous"
    with cluster("b", "c") as made, loaded(made) as (load, leases):
        made.synchronous("ANY 1 (b, c)" if synchronous else "")
        load.begin()
        load.end()
        made.streaming("b", "c")
        made.kill("a")
        return _row(
            "primary killed, a standby that had all is promoted", mode, load, made.promote("b"),
            leases,
        )  # fmt: skip


def lagging_standby_promoted() -> Row:
    """The sender to both is stopped; what is acknowledged from then on is nowhere else."""
    with cluster("b") as made, loaded(made) as (load, leases):
        load.begin(20)
        made.stall("b")
        load.more(60)
        made.kill("a")
        load.end()
        row = _row(
            "primary killed, a standby that lags is promoted", "asynchronous", load,
            made.promote("b"), leases,
        )  # fmt: skip
        assert row.lost > 0, "nothing was lost: the standby did not lag"
        return row


def lagging_standby_synchronous() -> Row:
    """One of two lags; each commit waits for the other, and that is promoted."""
    with cluster("b", "c") as made, loaded(made) as (load, leases):
        made.synchronous("ANY 1 (b, c)")
        load.begin(20)
        made.stall("c")
        load.more(60)
        made.kill("a")
        load.end()
        return _row(
            "primary killed while one standby lags, the other is promoted",
            "synchronous, any 1 of 2", load, made.promote("b"), leases,
        )  # fmt: skip


def no_standby_answers() -> Row:
    """All standbys lag: commits are not answered, and nothing is acknowledged that they lack."""
    with short_waits(), cluster("b") as made, loaded(made) as (load, leases):
        made.synchronous("b")
        load.begin(20)
        made.stall("b")
        load.end_of_answers()
        made.kill("a")
        return _row(
            "no standby answers, then the primary is killed",
            "synchronous", load, made.promote("b"), leases,
        )  # fmt: skip


def two_primaries() -> Row:
    """The old primary lives on, with a client on its side, and is wound back later."""
    with cluster("b") as made, loaded(made) as (load, leases):
        load.begin(20)
        made.stall("b")
        new = made.promote("b")
        load.more(60)
        load.end()
        made.kill("a")
        made.rewind("a", to="b")
        row = _row(
            "old primary lives on beside a promoted standby, then is wound back", "asynchronous",
            load, new, leases,
        )  # fmt: skip
        made.streaming("a", of="b")
        made.kill("b")
        with fencepost.open(made.promote("a").url(), scope=SCOPE) as fp:
            fp.enqueue(QUEUE, "wound back and promoted")
            assert lineage(fp).startswith("another timeline")
        return row


def two_primaries_synchronous() -> Row:
    """The same where a commit needs the standby: nothing more is acknowledged on the old side."""
    with short_waits(), cluster("b") as made, loaded(made) as (load, leases):
        made.synchronous("b")
        load.begin(20)
        new = made.promote("b")
        load.end_of_answers()
        return _row(
            "old primary lives on beside a promoted standby", "synchronous", load, new, leases
        )


def restarted_unheard() -> Row:
    """The primary was started anew, and so has a new epoch, of which the standby never heard."""
    with cluster("b") as made, loaded(made) as (load, leases):
        load.begin(20)
        load.end()
        made.streaming("b")
        made["b"].stop()  # hears nothing from here on
        made["a"].stop()
        made["a"].start()
        second = Load(made["a"], "second")
        second.begin(20)
        second.end()
        second.handle.close()
        load.acknowledged.update(second.acknowledged)
        load.tokens |= second.tokens
        made.kill("a")
        made["b"].start()
        return _row(
            "primary started anew and lost, a standby that has not heard of it is promoted",
            "asynchronous", load, made.promote("b"), leases,
        )  # fmt: skip


def cold_copy() -> Row:
    """Both start: neither can know of the other. Both begin the same epoch, as writers of different
    incarnations, so that whoever hears of both can tell."""
    with cluster() as made, loaded(made) as (load, leases):
        load.begin(20)
        load.end()
        made["a"].stop()
        made.cold_copy("b")
        made["a"].start()
        made["b"].start()
        event = "files of a stopped server copied, both started"
        row = _row(event, "copy", load, made["b"], leases)
        apart(made["a"], made["b"])
        return row


def hot_copy() -> Row:
    """A base backup that nobody told to follow."""
    with cluster() as made, loaded(made) as (load, leases):
        load.begin(20)
        load.end()
        made.copy("b", standby=False)
        row = _row("base backup started as a server of its own", "copy", load, made["b"], leases)
        apart(made["a"], made["b"])
        return row


def template_copy() -> Row:
    with cluster() as made, loaded(made) as (load, leases):
        load.begin(20)
        load.end()
        load.handle.close()
        leases[0]._verbs.close()  # type: ignore[attr-defined]
        with psycopg.connect(made["a"].url("template1"), autocommit=True) as admin:
            admin.execute("create database copied template postgres")
        return _row("create database … template", "copy", load, made["a"], leases, "copied")


def dump_restored() -> Row:
    with cluster() as made, loaded(made) as (load, leases):
        load.begin(20)
        load.end()
        other = made.servers["b"] = Server().start()
        dumped(made["a"], other, "restored")
        return _row("dump restored in another cluster", "copy", load, other, leases, "restored")


def apart(first: Server, second: Server) -> None:
    """Both have a writer that the other does not know."""
    told = []
    for server in (first, second):
        with fencepost.open(server.url(), scope=SCOPE) as fp:
            fp.enqueue(QUEUE, "apart")
            sql = "select incarnation from fencepost_store"
            told.append(fp._store._read.execute(sql).fetchall())  # type: ignore[attr-defined]
    assert told[0] != told[1]


EVENTS: dict[str, Callable[[], Row]] = {
    "killed_and_started_again": killed_and_started_again,
    "standby_promoted": lambda: standby_promoted(synchronous=False),
    "standby_promoted_synchronous": lambda: standby_promoted(synchronous=True),
    "lagging_standby_promoted": lagging_standby_promoted,
    "lagging_standby_synchronous": lagging_standby_synchronous,
    "no_standby_answers": no_standby_answers,
    "two_primaries": two_primaries,
    "two_primaries_synchronous": two_primaries_synchronous,
    "restarted_unheard": restarted_unheard,
    "cold_copy": cold_copy,
    "hot_copy": hot_copy,
    "template_copy": template_copy,
    "dump_restored": dump_restored,
}


def judged(row: Row) -> list[str]:
    """What must not be, whatever the event. (The rest is asserted while it happens.)"""
    wrong = []
    if row.lost and row.mode != "asynchronous":
        wrong.append(f"{row.event}, {row.mode}: {row.lost} acknowledged writes are lost")
    if row.lost and "raised" not in row.detected:
        wrong.append(f"{row.event}, {row.mode}: writes are lost in silence")
    return wrong
