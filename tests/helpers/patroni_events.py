"""What becomes of acknowledged writes when Patroni has another node lead, or one that should not
leads on: one function an event, each with three nodes of its own. What it finds is a row of a
table; `judged` says of a row what must not be."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import fencepost
from fencepost.handle import Handle, Lease
from fencepost.issues import OutcomeUnknown, Refused
from helpers.failover import held, late, lineage, short_waits
from helpers.lab import QUEUE, SCOPE
from helpers.patroni import ASYNCHRONOUS, SYNCHRONOUS, Endpoint, Lab, patroni_lab, wait
from helpers.patroni_load import Load, Told, seconds
from helpers.patroni_net import NODES

UNKNOWN = OutcomeUnknown.code


class Row(NamedTuple):
    """One line of the table. `beside` was acknowledged by the old leader after the event, `wait`
    are the seconds from the event to the first write that the new one acknowledged; `unknown` are
    commits whose outcome was not told at first. `same` are acknowledged writes whose bytes, sent
    to the survivor again, get the same receipt; `anew` those that get another, of a later epoch;
    `refused` the rest. `twice` are results beyond one for a task's revision at the survivor."""

    event: str
    mode: str
    acknowledged: int
    beside: int
    lost: int
    unknown: int
    wait: float
    detected: str
    leases: str
    same: int
    anew: int
    refused: int
    twice: int
    wrong: tuple[str, ...] = ()


class Scene:
    """A lab with a store, leases that somebody holds, and clients at work by the URL that names
    all nodes. `old` leads; what happens, happens at `at`."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.old = lab.leader()
        # the old leader stands first: where two take writes, a client that looks finds that one
        self.all = Endpoint(self.old, *(node for node in NODES if node != self.old))
        self.loads: list[Load] = []
        self.leases: list[Lease] = []
        self.at = 0.0
        self.gone = math.inf  # since when the old leader is known to be no more

    def begin(self) -> None:
        """Returns when all are at work."""
        fencepost.open(self.all.url(), create=True).close()
        self.leases = held(self.all)
        self.far = self.load("far")
        self.epoch = max(told.epoch for told in self.far.told.values())

    def join(self, name: str) -> Load:
        """Clients, on the host where this thread is, that do not work yet."""
        load = Load(self.all.url(), name)
        self.loads.append(load)
        return load

    def load(self, name: str) -> Load:
        """Clients at work, on the host where this thread is."""
        load = self.join(name)
        load.begin()
        return load

    def happens(self) -> None:
        """From here on it counts."""
        self.at = seconds()

    def by_old(self, told: Told, since: float | None = None) -> bool:
        """Acknowledged by the old leader after the event (or another moment)."""
        return not self.by_new(told) and told.at > (self.at if since is None else since)

    def by_new(self, told: Told) -> bool:
        """By its epoch. Where that does not tell, as it must, nobody else is left."""
        return told.epoch > self.epoch or told.at > self.gone

    def moved(self) -> int:
        """Returns the new leader when all clients work by it."""
        found = self.lab.led_by_another(self.old)
        if not self.lab.net.pids(self.old):
            self.gone = seconds()
        for load in self.loads:
            load.more(20, self.by_new, "writes that the new leader acknowledged")
        return found

    def end(self) -> None:
        for load in self.loads:
            load.end()

    def close(self) -> None:
        """Nobody begins anything more, however it ended."""
        for load in self.loads:
            load.stop()
        for lease in self.leases[:1]:
            lease._verbs.close()  # type: ignore[attr-defined]


# -- events: each returns who leads in the end


def kill_postgres(scene: Scene) -> int:
    scene.happens()
    scene.lab.kill_postgres(scene.old)
    return scene.moved()


def switch_over(scene: Scene) -> int:
    scene.happens()
    scene.lab.switch_over(scene.old)
    return scene.moved()


def kill_node(scene: Scene) -> int:
    scene.happens()
    scene.lab.kill_node(scene.old)
    return scene.moved()


def stall_and_kill_node(scene: Scene) -> int:
    """The standbys hear nothing more for a while, then the node is gone. Who comes meanwhile has
    no row that an unanswered commit holds."""
    late = scene.join("late")
    scene.lab.stall(scene.old)
    late.begin(0)
    if scene.lab.mode == ASYNCHRONOUS:
        late.more(60, lambda told: True, "writes that no standby has")
    else:
        late.until(
            lambda: late.answers[UNKNOWN] > 0 or bool(late.told),
            "commits whose outcome nobody tells",
        )
    scene.happens()
    scene.lab.kill_node(scene.old)
    return scene.moved()


def cut_off(scene: Scene) -> int:
    """Its cable is out, with clients on its side; later it is mended."""
    with scene.lab.net.inside(scene.old):
        near = scene.load("near")
    scene.happens()
    scene.lab.net.cut(scene.old)
    scene.lab.led_by_another(scene.old)
    scene.far.more(20, scene.by_new, "writes that the new leader acknowledged")
    assert not near.count(scene.by_new)
    scene.lab.net.heal(scene.old)
    wait(lambda: scene.lab.follows(scene.old), "the old leader, which follows now", scene.lab.told)
    return scene.moved()


def kill_patroni(scene: Scene) -> int:
    """The server lives on with nobody to end it, until Patroni is started again there."""
    scene.happens()
    scene.lab.kill_patroni(scene.old)
    scene.lab.led_by_another(scene.old)
    both = seconds()
    if scene.lab.mode == ASYNCHRONOUS:  # who comes now is taken in by the old one too
        late = scene.load("late")
        assert late.count(lambda told: scene.by_old(told, both)) >= 40
    scene.far.until(
        lambda: (
            scene.far.count(lambda told: scene.by_old(told, both)) >= 60
            or (scene.lab.mode == SYNCHRONOUS and scene.far.answers[UNKNOWN] > 0)
        ),
        "writes beside the new leader, or commits whose outcome nobody tells",
    )
    assert scene.lab.writable(scene.old), "the old leader did not live on"
    scene.lab.patroni(scene.old)
    wait(lambda: scene.lab.follows(scene.old), "the old leader, which follows now", scene.lab.told)
    return scene.moved()


STALLED = "standbys hear nothing for a while, then the leader's node is killed"
ALONE = "Patroni of the leader killed (-9), PostgreSQL lives on"
EVENTS: dict[str, Callable[[Scene], int]] = {
    "PostgreSQL of the leader killed (-9)": kill_postgres,
    "planned switchover": switch_over,
    "the leader's node killed": kill_node,
    STALLED: stall_and_kill_node,
    "the leader's link cut, with clients on its side": cut_off,
    ALONE: kill_patroni,
}
# Here an asynchronous leader acknowledges what no standby has: it must show, or nothing was tried.
LOSES = {STALLED, ALONE}


def happened(name: str, mode: str) -> Row:
    """One event, from three new nodes to a row."""
    with short_waits(), patroni_lab(mode) as lab, a_scene(lab) as scene:
        leader = EVENTS[name](scene)
        scene.end()
        return found(name, scene, leader)


@contextmanager
def a_scene(lab: Lab) -> Iterator[Scene]:
    scene = Scene(lab)
    try:
        scene.begin()
        yield scene
    finally:
        scene.close()


# -- what is found at the survivor


def found(name: str, scene: Scene, leader: int) -> Row:
    told = {lookup: one for load in scene.loads for lookup, one in load.told.items()}
    tokens = [token for load in scene.loads for token in load.tokens]
    first = min(one.at for one in told.values() if scene.by_new(one))
    with fencepost.open(Endpoint(leader).url(), scope=SCOPE) as fp:
        lost = missing(fp, told)
        fp.enqueue(QUEUE, "after")
        (new,) = fp.claim(QUEUE, worker_id="after")
        tokens.append((new.grant.epoch, new.fence))
        leases = ", ".join(sorted({late(fp, lease) for lease in scene.leases}))
        new.complete({"after": True})
        again = Counter(sent_again(fp, one) for lookup, one in told.items())
        wrong = [f"{n} writes were {what}" for what, n in again.items() if what not in FINE]
        if doubled := [token for token, n in Counter(tokens).items() if n > 1]:
            wrong.append(f"{len(doubled)} tokens were given twice, {doubled[0]} first")
        wrong += map(str, fp.verify().problems)
        return Row(
            name, scene.lab.mode, len(told), sum(map(scene.by_old, told.values())), len(lost),
            sum(load.answers[UNKNOWN] for load in scene.loads), first - scene.at, lineage(fp),
            leases, again["same"], again["anew"], again["refused"], twice(fp), tuple(wrong),
        )  # fmt: skip


def missing(fp: Handle, told: dict[str, Told]) -> list[str]:
    """What was acknowledged and is not there, byte for byte."""
    there = dict(_asked(fp, "select key, body from fencepost_entry where key is not null"))
    return [lookup for lookup, one in told.items() if there.get(lookup) != one.body]


FINE = {"same", "anew", "refused"}


def sent_again(fp: Handle, one: Told) -> str:
    """What the survivor answers to the same bytes: the same receipt; or, where it has never heard
    of them, a new one, or a refusal."""
    try:
        body = one.again(fp).body
    except Refused:
        return "refused"
    if body == one.body:
        return "same"
    later = json.loads(body)["epoch"] > one.epoch
    return "anew" if later else "answered by another receipt of the same epoch"


def twice(fp: Handle) -> int:
    """Accepted results beyond one for a task's revision, as the journal has them."""
    rows = _asked(fp, "select body from fencepost_entry where result_sha256 is not null")
    accepted = Counter(
        (task["task_id"], task["revision"])
        for (body,) in rows for task in json.loads(body)["tasks"]
    )  # fmt: skip
    assert accepted, "no result was accepted at all"
    return sum(count - 1 for count in accepted.values())


def _asked(fp: Any, sql: str) -> Sequence[Any]:
    with fp._store._reading:
        return list(fp._store._read.execute(sql).fetchall())


def judged(row: Row) -> list[str]:
    """What must not be, whatever the event."""
    wrong = [*row.wrong]
    if row.lost and row.mode != ASYNCHRONOUS:
        wrong.append(f"{row.lost} acknowledged writes are lost")
    if not row.detected.startswith("another timeline") or not row.detected.endswith("raised"):
        wrong.append(f"another leader is not noticed ({row.detected}), {row.lost} writes are lost")
    if row.leases != "stale_epoch":
        wrong.append(f"leases of before: {row.leases}")
    if row.same + row.lost != row.acknowledged:
        wrong.append(f"{row.same} of {row.acknowledged} have the same receipt, {row.lost} are lost")
    if row.twice:
        wrong.append(f"{row.twice} results beyond one for a revision")
    if row.mode == ASYNCHRONOUS and row.event in LOSES and not row.lost:
        wrong.append("nothing was lost: the event did not happen as it should")
    return [f"{row.event}, {row.mode}: {what}" for what in wrong]


# -- what the table must see


def without_guard(patch: Callable[[Any, str, Any], None]) -> None:
    """Whoever writes is taken for the one who wrote before."""
    from fencepost.model import StoreState
    from fencepost.storage.postgres import writer
    from fencepost.storage.postgres.store import OwnTransaction

    patch(OwnTransaction, "state", lambda _, row: StoreState(*row[:-1]))
    patch(writer, "recognise", lambda connection, wall: None)


def without_doubt(patch: Callable[[Any, str, Any], None]) -> None:
    """A commit that was not answered in time is told as a success."""
    from fencepost.storage.postgres import transaction

    honest = transaction.commit

    def believing(connection: Any) -> None:
        try:
            honest(connection)
        except Exception as error:
            if "not answered in time" not in str(error):
                raise

    patch(transaction, "commit", believing)


# name: (what is planted, event, mode, a piece of what must be said of it)
PLANTS: dict[str, tuple[Callable[[Callable[[Any, str, Any], None]], None], str, str, str]] = {
    "the guard is off": (without_guard, STALLED, ASYNCHRONOUS, "is not noticed"),
    "a commit without an answer is a success": (
        without_doubt, STALLED, SYNCHRONOUS, "acknowledged writes are lost"
    ),
}  # fmt: skip
