"""What is measured and what is promised of it, in one table. Nothing else knows a target."""

from __future__ import annotations

from dataclasses import dataclass

PHASES = (
    "drain", "callers", "slow", "growth", "processes", "latency", "journal", "start", "memory",
    "http", "work", "deliveries", "postgres", "postgres-latency", "postgres-held",
    "postgres-growth", "postgres-slow",
)  # fmt: skip
ON_POSTGRES = tuple(name for name in PHASES if name.startswith("postgres"))
PG_PEERS = ("graphile-worker", "oban", "pg-boss", "pgqueuer", "procrastinate")

PER_SECOND, MS, US, MB, SHARE, TIMES = "/s", "ms", "µs", "MB", "%", "×"


@dataclass(frozen=True, slots=True)
class Goal:
    """`>=` or `<=` and the bound that is required; `aim` is what is hoped for. `every`: the
    worst repetition decides, not the median."""

    sense: str
    bound: float
    aim: float | None = None
    every: bool = False

    def met(self, value: float) -> bool:
        return value >= self.bound if self.sense == ">=" else value <= self.bound


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: a figure, or with `over` its ratio to another of the same phase
    within the same repetition."""

    phase: str
    name: str
    text: str
    unit: str = PER_SECOND
    over: str = ""
    goal: Goal | None = None


def _ratio(
    phase: str, name: str, over: str, text: str, sense: str = "", bound: float = 0,
    aim: float | None = None,
) -> Row:  # fmt: skip
    goal = Goal(sense, bound, aim) if sense else None
    return Row(phase, name, text, TIMES, over, goal)


def _peer(name: str) -> tuple[Row, ...]:
    """A queue on PostgreSQL: its rates, and ours over them."""
    found: list[Row] = []
    for figure, text, goal in (
        ("bulk", "bulk enqueue", None),
        ("single", "single enqueues by 16 callers", 3.0),
        ("drain1", "drain, one worker process", 1.3),
        ("drain2", "drain, two worker processes", 1.3),
    ):
        base = f"{name}_{figure}"
        found.append(Row("postgres", base, f"{name}: {text}"))
        sense = ">=" if goal else ""
        found.append(_ratio("postgres", figure, base, f"{text} over it", sense, goal or 0))
    return tuple(found)


def _callers(phase: str, batched: float, threads: float) -> tuple[Row, ...]:
    """64 callers of single commands, each going enqueue → claim 1 → complete."""
    return (
        Row(phase, "naive", "naive, one commit a command: lives of a task"),
        Row(phase, "batched", "64 callers behind one batching submitter"),
        _ratio(phase, "batched", "naive", "… over naive", ">=", batched),
        Row(phase, "threads", "64 plain threads"),
        _ratio(phase, "threads", "naive", "… over naive", ">=", threads),
    )


ROWS: tuple[Row, ...] = (
    Row("drain", "commits", "limit L: commits of one row, WAL and FULL"),
    Row("drain", "enqueue", "bulk enqueue (enqueue_many)"),
    _ratio("drain", "enqueue", "commits", "… over L", ">=", 8, 15),
    Row("drain", "naive", "naive: one commit a command (claim, complete)"),
    Row("drain", "drain", "drain: claim 100, complete 100 with obligations"),
    _ratio("drain", "drain", "naive", "… over naive", ">=", 8, 10),
    Row("drain", "sealed", "drain with the journal sealed to its end"),
    Row("drain", "huey", "huey SqliteHuey (no acknowledgement, no fence)"),
    _ratio("drain", "drain", "huey", "drain over huey", ">=", 3, 5),
    Row("drain", "persist-queue", "persist-queue SQLiteAckQueue (no fence)"),
    _ratio("drain", "drain", "persist-queue", "drain over persist-queue"),
    Row("drain", "floor", "floor: the rows of 100 completions, nothing decided"),
    Row("drain", "completions", "completions in batches of 100"),
    _ratio("drain", "floor", "completions", "floor over completions", "<=", 3, 2),
    Row("drain", "floor_both", "floor of claims and completions"),
    _ratio("drain", "floor_both", "drain", "floor of both over drain"),
    *_callers("callers", 6, 3),
    *_callers("slow", 25, 10),
    Row("growth", "few_batch", "batches of 100, few done rows"),
    Row("growth", "many_batch", "batches of 100, many done rows"),
    _ratio("growth", "many_batch", "few_batch", "many over few", ">=", 0.9),
    Row("growth", "few_single", "single commands, few done rows"),
    Row("growth", "many_single", "single commands, many done rows"),
    _ratio("growth", "many_single", "few_single", "many over few", ">=", 0.9),
    Row("growth", "claim_alone", "a claim of 1", US),
    Row("growth", "claim_future", "a claim of 1 with future-due tasks before it", US),
    _ratio("growth", "claim_future", "claim_alone", "with over without", "<=", 1.3),
    Row("processes", "one", "one process: enqueue 10, claim 10, complete 10"),
    Row("processes", "eight", "eight processes on the same file, together"),
    _ratio("processes", "eight", "one", "eight over one"),
    Row("processes", "fair", "least served over most served", TIMES, goal=Goal(">=", 0.8)),
    Row("processes", "wait_p50", "wait for a turn, p50", MS),
    Row("processes", "wait_p99", "wait for a turn, p99", MS, goal=Goal("<=", 100)),
    Row("processes", "wait_max", "wait for a turn, longest", MS, goal=Goal("<=", 500, every=True)),
    Row("latency", "p50", "enqueue to start in another process, p50", MS, goal=Goal("<=", 3)),
    Row("latency", "p99", "enqueue to start in another process, p99", MS, goal=Goal("<=", 15)),
    Row("journal", "with", "a completion in a batch of 100", US),
    Row("journal", "without", "the same without its entry (and so no receipt)", US),
    Row("journal", "share", "journal's share of a completion", SHARE, goal=Goal("<=", 0.25)),
    Row("journal", "building", "of it, digests and the entry's bytes", SHARE),
    Row("journal", "writing", "of it, inserting the entry's row", SHARE),
    Row("journal", "sealing", "sealing, later and apart: entries", PER_SECOND),
    Row("journal", "sealing_share", "sealing an entry against a completion", SHARE),
    Row("start", "bare", "a bare interpreter", MS),
    Row("start", "import", "import fencepost, over bare", MS, goal=Goal("<=", 40)),
    Row("start", "version", "fencepost --version, over bare", MS, goal=Goal("<=", 60)),
    Row("start", "stats", "fencepost stats on a store, over bare", MS, goal=Goal("<=", 60)),
    Row("memory", "peak", "peak memory of a process that drains the queue", MB,
        goal=Goal("<=", 100)),
    Row("memory", "rate", "its rate"),
    Row("http", "empty", "an authenticated request that reads one row"),
    Row("http", "single", "durable single completions, 32 connections"),
    _ratio("http", "single", "empty", "… over the empty request", ">=", 0.5),
    Row("http", "embedded", "embedded: claim 100, complete 100"),
    Row("http", "batches", "over HTTP: claim 100, complete 100 in a batch"),
    _ratio("http", "batches", "embedded", "… over embedded", ">=", 0.4),
    Row("http", "wake_p50", "enqueue to the answer of a claim that waits, p50", MS),
    Row("http", "wake_p99", "enqueue to the answer of a claim that waits, p99", MS,
        goal=Goal("<=", 20)),
    Row("http", "idle", "memory of the idle service", MB, goal=Goal("<=", 60)),
    Row("work", "bare", "`sh -c true`, one after another", MS),
    Row("work", "command", "the same as a worker's command: a task", MS),
    Row("work", "overhead", "what the worker adds to it", MS, goal=Goal("<=", 40)),
    Row("work", "engine", "engine: claim 100, complete 100"),
    Row("work", "handlers", "a worker's Python handler, 100 at once"),
    _ratio("work", "handlers", "engine", "… over the engine", ">=", 0.5),
    Row("deliveries", "without", "a completion in a batch of 100 that owes nothing", US),
    Row("deliveries", "with", "the same with an obligation", US),
    Row("deliveries", "share", "what the obligation adds", SHARE, goal=Goal("<=", 0.25)),
    Row("deliveries", "rate", "one dispatcher to a fenced receiver here, not ordered",
        goal=Goal(">=", 2_000)),
    Row("deliveries", "cpu", "the dispatcher's processor time, a delivery", US),
    Row("deliveries", "beside", "the same beside a destination that is down"),
    _ratio("deliveries", "beside", "rate", "… over alone", ">=", 0.9),
    Row("postgres", "naive1", "naive fenced queue, 1 connection: drain"),
    Row("postgres", "naive8", "naive fenced queue, 8 connections: drain"),
    Row("postgres", "naive_lives", "naive fenced queue, 16 connections: lives"),
    Row("postgres", "bulk", "bulk enqueue"),
    Row("postgres", "single", "single enqueues by 16 threads"),
    Row("postgres", "drain1", "drain, one worker process: claim 100, complete 100"),
    _ratio("postgres", "drain1", "naive1", "… over naive, 1 connection", ">=", 10),
    _ratio("postgres", "drain1", "naive8", "… over naive, 8 connections"),
    Row("postgres", "drain2", "drain, two worker processes"),
    _ratio("postgres", "drain2", "naive8", "… over naive, 8 connections"),
    Row("postgres", "batched", "64 callers of single commands, batched: lives"),
    _ratio("postgres", "batched", "naive_lives", "… over naive, 16 connections", ">=", 6),
    Row("postgres", "threads", "64 plain threads: lives"),
    _ratio("postgres", "threads", "naive_lives", "… over naive, 16 connections"),
    *(row for name in PG_PEERS for row in _peer(name)),
    Row("postgres-latency", "p50", "enqueue to start in another process, p50", MS,
        goal=Goal("<=", 3)),
    Row("postgres-latency", "p99", "enqueue to start in another process, p99", MS,
        goal=Goal("<=", 15)),
    Row("postgres-latency", "wait_p50", "the same by a claim that waits, p50", MS),
    Row("postgres-latency", "wait_p99", "the same by a claim that waits, p99", MS),
    Row("postgres-held", "first", "a snapshot held open: drain of the first fifth"),
    Row("postgres-held", "last", "drain of the last fifth"),
    _ratio("postgres-held", "last", "first", "last over first", ">=", 0.8),
    Row("postgres-growth", "few", "lives in batches of 100, few done tasks"),
    Row("postgres-growth", "many", "the same with many done tasks"),
    _ratio("postgres-growth", "many", "few", "many over few", ">=", 0.9),
    Row("postgres-slow", "with", "lives of single commands, fsync made slower"),
    Row("postgres-slow", "without", "the same without entries (and so no receipts)"),
    Row("postgres-slow", "share", "journal's share of them", SHARE, goal=Goal("<=", 0.2)),
)  # fmt: skip
