"""The run of the demo: who works on, whom misfortune befalls, and what was seen of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.operate.demo.crew import Crew, Member, Report
from fencepost.operate.demo.plan import LEASE_SECONDS, Misfortune
from fencepost.operate.demo.view import Progress, counted

TICK_SECONDS = 0.05
PATIENCE_SECONDS = 40.0  # longer than a lease
HUSH_MICROSECONDS = 150_000


class DemoFailed(Exception):
    """The run could not be brought to its end."""


@dataclass(slots=True)
class Seen:
    """What the run has shown, as the workers and their end reported it."""

    settled: set[str] = field(default_factory=set)
    answers: list[dict[str, Any]] = field(default_factory=list)
    lost: dict[str, dict[str, Any]] = field(default_factory=dict)
    replays: list[dict[str, Any]] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    late_accepted: int = 0
    killed: list[int] = field(default_factory=list)  # leases that each one held
    stopped: list[int] = field(default_factory=list)
    losers: int = 0


@dataclass(slots=True)
class Sleeper:
    """A stopped worker, its tasks, and the end of its leases (microseconds, store's time)."""

    member: Member
    tasks: list[str]
    until: int
    sleeps_long: bool


class Director:
    """Gives an order to every worker that is free, until all tasks are settled."""

    def __init__(
        self, crew: Crew, tasks: int, batch: int, plan: list[Misfortune],
        now: Callable[[], int], progress: Progress,
    ) -> None:  # fmt: skip
        self.crew = crew
        self.tasks = tasks
        self.batch = batch
        self.plan = plan
        self.now = now
        self.progress = progress
        self.seen = Seen()
        self.free: list[Member] = []
        self.idle: list[Member] = []
        self.sleepers: list[Sleeper] = []
        self.woken: dict[Member, Sleeper] = {}
        self.asking: set[Member] = set()  # who lost an answer and has not yet got it again
        self.victim: tuple[Member, Misfortune] | None = None
        self.ticked = self.moved = time.monotonic()

    def run(self, workers: int) -> Seen:
        """The whole run. Raises DemoFailed if a worker ends unasked or nothing moves."""
        for _ in range(workers):
            self.crew.hire()
        while not self.is_over():
            told = self.crew.next_report(TICK_SECONDS)
            if told is not None:
                self.hear(*told)
            self.tick()
            self.give_orders()
        self.dismiss()
        return self.seen

    def tick(self) -> None:
        """What time brings about: sleepers wake, and who found nothing may look again."""
        now = time.monotonic()
        if now - self.ticked < TICK_SECONDS:
            return
        self.ticked = now
        self.free, self.idle = self.idle + self.free, []
        self.wake_sleepers()
        if now - self.moved > PATIENCE_SECONDS:
            raise DemoFailed(f"nothing has moved for {PATIENCE_SECONDS:g} s")

    def is_over(self) -> bool:
        settled = len(self.seen.settled) == self.tasks
        waited_for = self.plan or self.victim or self.sleepers or self.woken or self.asking
        return settled and not waited_for

    # -- orders

    def give_orders(self) -> None:
        """One order to each free worker. While a victim has not yet claimed, the others wait:
        with few files they might leave nothing to it."""
        if self.is_hushed():
            return
        while self.free and self.victim is None:
            member = self.free.pop()
            if self.plan and len(self.seen.settled) >= self.plan[0].after:
                chosen = self.plan.pop(0)
                self.victim = member, chosen
                member.order(chosen.kind, self.batch, chosen.lease_seconds)
            else:
                member.order("work", self.batch, LEASE_SECONDS)

    def is_hushed(self) -> bool:
        """Whether nobody is to claim now, so that a worker which is to wake at the end of its
        leases is refused although nobody has taken over from it."""
        near = self.now() + HUSH_MICROSECONDS if self.sleepers else 0
        waking = any(not s.sleeps_long and s.until <= near for s in self.sleepers)
        return waking or not all(s.sleeps_long for s in self.woken.values())

    def dismiss(self) -> None:
        for member in self.crew.members:
            if member.process.returncode is None and not member.dismiss():
                raise DemoFailed(f"{member.worker_id} ended badly: {member.last_words()}")

    # -- reports

    def hear(self, member: Member, report: Report) -> None:
        """One report; the handlers are named as reports are."""
        if report is None:
            if member.process.returncode is None:
                raise DemoFailed(f"{member.worker_id} ended unasked: {member.last_words()}")
            return  # it was killed, as it should be
        if report["what"] != "idle":
            self.moved = time.monotonic()
        getattr(self, f"on_{report['what']}")(member, report)

    def on_ready(self, member: Member, report: dict[str, Any]) -> None:
        self.free.append(member)

    def on_idle(self, member: Member, report: dict[str, Any]) -> None:
        """Nothing to claim now: others hold what is left, or nothing is left."""
        if self.victim is not None and self.victim[0] is member:
            self.plan.insert(0, self.victim[1])
            self.victim = None
        self.idle.append(member)

    def on_holding(self, member: Member, report: dict[str, Any]) -> None:
        self.victim = None
        if not member.kill():
            raise DemoFailed(f"{member.worker_id} was to be killed and ended otherwise")
        held = len(report["tasks"])
        self.seen.killed.append(held)
        self.progress.note(f"{member.worker_id} killed (SIGKILL), holding {counted(held, 'lease')}")
        self.crew.hire()

    def on_stopping(self, member: Member, report: dict[str, Any]) -> None:
        self.victim = None
        if not member.wait_until_stopped():
            raise DemoFailed(f"{member.worker_id} was to stop and ended")
        held = len(report["tasks"])
        long = len(self.seen.stopped) % 2 == 0
        self.sleepers.append(Sleeper(member, report["tasks"], report["until"], long))
        self.seen.stopped.append(held)
        told = f"{member.worker_id} stopped (SIGSTOP), holding {counted(held, 'lease')}"
        self.progress.note(told)

    def wake_sleepers(self) -> None:
        """Every other one at the end of its leases, the rest when others have done their work:
        the two meet different refusals."""
        for sleeper in [s for s in self.sleepers if s.until <= self.now()]:
            if sleeper.sleeps_long and not self.seen.settled.issuperset(sleeper.tasks):
                continue
            self.sleepers.remove(sleeper)
            self.woken[sleeper.member] = sleeper
            sleeper.member.wake()

    def on_lost(self, member: Member, report: dict[str, Any]) -> None:
        """The answer that the worker is never to know."""
        self.victim = None
        self.asking.add(member)
        self.seen.losers += 1
        self.seen.lost.update((answer["task_id"], answer) for answer in report["answers"])
        self.settle(report["answers"])

    def settle(self, answers: list[dict[str, Any]]) -> None:
        """The tasks that the store has acknowledged, whether or not their worker knows."""
        new = {answer["task_id"] for answer in answers if not answer["issues"]}
        self.progress.add(len(new - self.seen.settled))
        self.seen.settled |= new

    def on_answered(self, member: Member, report: dict[str, Any]) -> None:
        answers = report["answers"]
        codes = Counter(answer["issues"][0] for answer in answers if answer["issues"])
        taken = [answer for answer in answers if not answer["issues"]]
        self.settle(answers)
        self.asking.discard(member)
        self.seen.refusals += codes
        self.seen.answers += taken
        replays = [answer for answer in taken if answer["replayed"]]
        self.seen.replays += replays
        if member in self.woken:
            del self.woken[member]
            self.seen.late_accepted += len(taken)
            told = ", ".join(f"{code} {number}" for code, number in sorted(codes.items()))
            late = counted(codes.total(), "late completion")
            self.progress.note(f"{member.worker_id} woken past its leases: {late} refused ({told})")
        if replays:
            lost, again = counted(len(answers), "answer"), counted(len(replays), "replay")
            told = f"{member.worker_id} lost {lost}; sent the same bytes again: {again}"
            self.progress.note(told)
        self.free.append(member)
