"""Two owners of one store's past before one receiver: who of them has effects there.

A store has fourteen streams to the receiver: seven contact orders, each with an unordered and an
ordered destination, each fed by a queue of its own. Before the fork every queue has a result that
was delivered, one that was not yet, and tasks. After it both owners go on: with the same tasks,
with tasks that only one of them gets to, in some orders with tasks that are new to the other.
Nothing is simulated: stores, dispatchers, HTTP, the kit's receiver. `judged` says what must not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import fencepost
from fencepost.handle import Handle
from fencepost.issues import TaskDone
from fencepost.lineage import STOPS, Writer
from fencepost.operate.restore import adopt
from fencepost.operate.restoring.steps import Wishes
from helpers.delivering import Depot
from helpers.fork_receiver import At

ORIGINAL, COPY = "original", "copy"


class Order(NamedTuple):
    """Who has a turn when: work, then whatever is owed is delivered. `greets`: what is owed from
    before the fork is delivered first of all, as a fail-over does it. `new`: each does tasks too of
    which the other has never heard, `only_new`: only such. `adopted`: before it does anything the
    copy is made a store of its own by a person (`fencepost adopt --take-over`)."""

    name: str
    turns: tuple[str, ...] = (ORIGINAL, ORIGINAL, COPY, COPY, ORIGINAL, COPY)
    greets: bool = False
    new: bool = False
    only_new: bool = False
    adopted: bool = False


FIRST = Order("original first")
GOOD = Order("original first; the copy greets before it works", greets=True)
NEW = Order("original first, with new tasks; the copy greets", greets=True, new=True)
ADOPTED = Order("original first, with new tasks; the copy is adopted", new=True, adopted=True)
COPY_FIRST = Order("copy first", (COPY, COPY, ORIGINAL, ORIGINAL, COPY, ORIGINAL))
IN_TURN = Order("alternating", (ORIGINAL, COPY) * 3)
NEW_ALONE = Order("alternating, with new tasks alone", IN_TURN.turns, new=True, only_new=True)
ORDERS = (FIRST, COPY_FIRST, IN_TURN, NEW_ALONE, GOOD, NEW, ADOPTED)
"""The last is the last one: an adoption is of the whole store."""
ONE_STORE = "one store"
KINDS = ("unordered", "ordered")
TURNS = 3
BESIDE = "beside"
SCOPE = "default"
STUCK = ("blocked", "dead")


class Plan(NamedTuple):
    """What one stream is fed with. `tasks`: by (whose, turn), tasks from before the fork."""

    order: Order
    kind: str
    queue: str
    destination: str
    stream: str
    tasks: dict[tuple[str, int], str]


class Prepared(NamedTuple):
    """A store before its fork."""

    writers: tuple[Writer, ...]
    plans: tuple[Plan, ...]
    beside: str


class Step(NamedTuple):
    """One turn on one stream: the operations that got their effect in it, and why the owner's
    destination stands still after it ('' if it does not). `blocked`: why obligations wait for a
    person; `open`: how many are still to be delivered."""

    who: str
    writer: tuple[int, str]
    lineage: tuple[tuple[int, str], ...]
    effects: tuple[str, ...]
    told: str
    blocked: tuple[str, ...]
    open: int = 0
    adopted: bool = False


class Row(NamedTuple):
    """One line of the table, for one order. `twice`: effects beyond one for an operation."""

    way: Way
    recognised: str
    stopped: str
    beside: bool
    order: str
    steps: dict[str, tuple[Step, ...]]
    twice: int


def prepare(address: str, receiver: At, folder: Path, orders: Sequence[Order]) -> Prepared:
    """A fresh store whose first deliveries have been made; nobody has it open afterwards."""
    with fencepost.open(address, create=True) as fp:
        depot = Depot(fp, folder / "before")
        plans = []
        writer_id = fp.about()["writer_id"]
        for number, order in enumerate(orders):
            for kind in KINDS:
                queue, out = f"pages-{number}-{kind}", f"out-{number}-{kind}"
                depot.destination(receiver.url, queue=out, ordered=kind == "ordered")
                depot.results("delivered", queue=queue, out=out)
                tasks = {
                    (whose, turn): fp.enqueue(queue, f"{whose} {turn}").task_id
                    for turn in range(1, TURNS + 1) for whose in ("both", ORIGINAL, COPY)
                }  # fmt: skip
                stream = f"{writer_id}/{SCOPE}/{out}"
                plans.append(Plan(order, kind, queue, out, stream, tasks))
        depot.deliver()
        for plan in plans:
            assert len(receiver.effects(plan.stream)) == 1, _undelivered(fp, plan)
            pending = fp.enqueue(plan.queue, "pending").task_id
            (lease,) = fp.claim(task_id=pending, worker_id="before")
            lease.complete("pending")
        beside = fp.enqueue(BESIDE, "one task").task_id
        return Prepared(fp.writers(), tuple(plans), beside)


def _undelivered(fp: Handle, plan: Plan) -> str:
    owed = [fp.task(each.task_id) for each in fp.tasks(plan.destination)]
    told = [(task.state, task.attempt, task.reason, task.due_at - fp.wall()) for task in owed]
    return f"nothing was delivered to {fp.destination(plan.destination)}: {told}"


class Owner:
    """One of those who have the store's past."""

    def __init__(self, who: str, fp: Handle, folder: Path, receiver: At) -> None:
        self.who, self.fp, self.receiver = who, fp, receiver
        self.depot = Depot(fp, folder / who)
        self.turns: dict[str, int] = {}
        self.stopped: set[str] = set()
        self.adopted = False

    def beside(self, task_id: str) -> bool:
        """A result for a task that both have, told to nobody: whether it is accepted."""
        (lease,) = self.fp.claim(task_id=task_id, worker_id=self.who)
        lease.complete({"by": self.who})
        return self.fp.task(task_id).state == "done"

    def turn(self, plans: Sequence[Plan]) -> dict[str, Step]:
        """Work, say that deliveries may go on if this is a copy, deliver. A step a kind."""
        before = {plan.kind: set(self.receiver.effects(plan.stream)) for plan in plans}
        queues = [plan.destination for plan in plans]
        for queue in queues:
            stopped = self.fp.destination(queue).stopped
            if stopped in STOPS:
                self.stopped.add(str(stopped))
                self.fp.destination_set(queue, stopped=None)
        if plans[0].order.greets:
            self.depot.deliver(*queues)
        for plan in plans:
            self._work(plan)
        self.depot.deliver(*queues)
        return {plan.kind: self._step(plan, before[plan.kind]) for plan in plans}

    def adopt(self, queues: Sequence[str], folder: Path) -> None:
        """A person says that this store is to live, whatever any receiver has to say, and so it
        delivers here."""
        names = tuple(f"{SCOPE}/{each.queue}" for each in self.fp.destinations())
        wishes = Wishes(take_over=True, overrides=names, who="a person", reason="it is to live")
        assert adopt(self.fp, wishes, folder=folder).complete
        assert all(self.fp.destination(queue).stopped is None for queue in queues)
        self.adopted = True

    def _work(self, plan: Plan) -> None:
        turn = self.turns[plan.destination] = self.turns.get(plan.destination, 0) + 1
        whose = () if plan.order.only_new else ("both", self.who)
        tasks = [plan.tasks[each, turn] for each in whose]
        if plan.order.new:
            tasks.append(self.fp.enqueue(plan.queue, f"new, of the {self.who}").task_id)
        for task_id in tasks:
            with suppress(TaskDone):  # the receiver had it, and so it was imported
                (lease,) = self.fp.claim(task_id=task_id, worker_id=self.who)
                lease.complete({"by": self.who, "turn": turn})

    def _step(self, plan: Plan, before: set[str]) -> Step:
        lineage = tuple((w.epoch, w.incarnation) for w in self.fp.writers())
        found = [each for each in self.receiver.effects(plan.stream) if each not in before]
        told = self.fp.destination(plan.destination).stopped or ""
        owed = self.depot.obligations(plan.destination)
        blocked = {str(each.reason).partition(":")[0] for each in owed if each.state in STUCK}
        left = sum(each.state not in (*STUCK, "done") for each in owed)
        return Step(
            self.who, lineage[-1], lineage, tuple(found), told.partition(":")[0],
            tuple(sorted(blocked)), left, self.adopted,
        )  # fmt: skip


# -- a fork


class Pair(NamedTuple):
    """Where the owners are after a fork. Without `original` there is but one store now. Of two
    copies one stands for the original, which is gone."""

    copy: str
    original: str | None = None


Meanwhile = Callable[[], None]
Stage = AbstractContextManager[tuple[str, Callable[[Meanwhile], Pair]]]


class Way(NamedTuple):
    """One way for a store to fork. `stage` gives an address for a fresh store, and what forks it
    then. `blind`: nothing but a receiver's chain can tell the two. `put_back`: the original has
    its turns before, and is gone after."""

    name: str
    stage: Callable[[Path], Stage]
    blind: bool = False
    put_back: bool = False
    only: tuple[Order, ...] = ()

    @property
    def orders(self) -> tuple[Order, ...]:
        """The contact orders that there can be, or those that were asked for."""
        return self.only or ((FIRST, NEW_ALONE, GOOD, NEW, ADOPTED) if self.put_back else ORDERS)


class Trial:
    """One fork, and both owners as they go on."""

    def __init__(self, way: Way, receiver: At, folder: Path) -> None:
        self.way, self.receiver, self.folder = way, receiver, folder
        self.owners: dict[str, Owner] = {}
        self.steps: dict[Order, list[dict[str, Step]]] = {order: [] for order in way.orders}
        self.twice = receiver.twice()

    def rows(self) -> list[Row]:
        """A line for each contact order."""
        with self.way.stage(self.folder) as (address, fork), ExitStack() as opened:
            self.prepared = prepare(address, self.receiver, self.folder, self.way.orders)
            pair = fork(lambda: self._before(address))
            for who, place in ((COPY, pair.copy), (ORIGINAL, pair.original)):
                if place is not None:
                    fp = opened.enter_context(fencepost.open(place))
                    self.owners[who] = Owner(who, fp, self.folder, self.receiver)
            beside = [each.beside(self.prepared.beside) for each in self.owners.values()]
            recognised = _recognised(self.prepared, self.owners)
            two = len(self.owners) == 2
            orders = self.way.orders if two or self.way.put_back else (FIRST,)
            for order in orders:
                self._go_on(order)
            twice = self.receiver.twice() - self.twice
            return [
                Row(
                    self.way, recognised, _stopped(self.owners),
                    beside == [True, True], order.name if two or self.way.put_back else ONE_STORE,
                    {kind: tuple(step[kind] for step in self.steps[order]) for kind in KINDS},
                    twice,
                )
                for order in orders
            ]  # fmt: skip

    def _plans(self, order: Order) -> list[Plan]:
        return [plan for plan in self.prepared.plans if plan.order == order]

    def _before(self, address: str) -> None:
        """The original's turns, where it is gone afterwards."""
        with fencepost.open(address) as fp:
            old = Owner(ORIGINAL, fp, self.folder, self.receiver)
            for order in self.way.orders:
                self.steps[order] += [old.turn(self._plans(order)) for _ in range(2)]

    def _go_on(self, order: Order) -> None:
        for who in order.turns:
            if (owner := self.owners.get(who)) is None:
                continue
            if order.adopted and who == COPY and not owner.adopted:
                owner.adopt([plan.destination for plan in self._plans(order)], self.folder)
            self.steps[order].append(owner.turn(self._plans(order)))


def rows(way: Way, receiver: At, folder: Path) -> list[Row]:
    """Fork a store this way, and have both owners go on: a line for each contact order."""
    folder.mkdir()
    return Trial(way, receiver, folder).rows()


def _recognised(prepared: Prepared, owners: Mapping[str, Owner]) -> str:
    """What each store has found by itself."""
    found = []
    for who, owner in owners.items():
        new = owner.fp.writers()[len(prepared.writers) :]
        said = ", ".join(f"{writer.why}: epoch {writer.epoch}" for writer in new)
        if said:
            found.append(said if who == COPY else f"{who}: {said}")
    return "; ".join(found) or "nothing"


def _stopped(owners: Mapping[str, Owner]) -> str:
    found = [
        f"{who}: {', '.join(sorted(owner.stopped))}" for who, owner in owners.items()
        if owner.stopped
    ]  # fmt: skip
    return "; ".join(found) or "—"


# -- what came of it


def acceptors(steps: Sequence[Step]) -> list[Step]:
    """Whose work has had effects, one after another: the last step of each run of one owner."""
    found: list[Step] = []
    for step in (step for step in steps if step.effects):
        if found and found[-1].who == step.who:
            found[-1] = step
        else:
            found.append(step)
    return found


def last(steps: Sequence[Step]) -> dict[str, Step]:
    """Each owner's last turn."""
    return {step.who: step for step in steps}


def judged(row: Row) -> list[str]:
    """What must not be, whatever the fork."""
    name = f"{row.way.name}, {row.order}"
    wrong = [f"{name}: {row.twice} operations have a second effect"] if row.twice else []
    for kind, steps in row.steps.items():
        if not (row.way.blind and kind == "unordered"):
            wrong += [f"{name}, {kind}: {what}" for what in _wrong(steps, row.way.put_back)]
    return wrong


def _wrong(steps: Sequence[Step], gone: bool) -> Iterator[str]:
    found = acceptors(steps)
    if not found:
        yield "nobody has any effect"
        return
    if len(found) > 2:
        yield "two lineages have effects in turn"
    for before, after in pairwise(found):
        if before.writer not in after.lineage[:-1] and not after.adopted:
            yield f"the {after.who} has taken over from a writer that it does not follow"
    ends = last(steps)
    if gone:
        ends.pop(ORIGINAL)
    for who, step in ends.items():
        if who != found[-1].who and not step.told:
            yield f"the {who} is refused, and does not know it"
    waits = any(step.told == "import_needed" for step in ends.values())  # for a person
    holder = ends.get(found[-1].who)
    if holder is not None and holder.told and not waits:
        yield f"the {holder.who}, whose effects are there, is refused: {holder.told}"
    if holder is not None and not holder.told and (holder.blocked or holder.open):
        yield f"not all that the {holder.who} owes had its effect"


def cell(row: Row, kind: str) -> str:
    """Who has effects there, and what stops the other: for the table."""
    steps = row.steps[kind]
    found, ends = acceptors(steps), last(steps)
    if row.order == ONE_STORE:
        who = "the store"
        return who if found and not ends[COPY].told else f"nobody: {ends[COPY].told}"
    names = [step.who for step in found]
    text = ", then ".join(names) if names else "nobody"
    if len(found) > 2 or (len(found) == 2 and found[0].writer == found[1].writer):
        text = f"**both**: {text}"
    told = [
        f"{who}: {what}" for who, step in ends.items()
        if (what := step.told or ", ".join(step.blocked))
    ]  # fmt: skip
    return "; ".join([text, *told])
