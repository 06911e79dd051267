"""Runs the phases, repetition by repetition, and writes the report."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

from fencepost.cli import terminal
from fencepost.issues import FencepostError
from fencepost.operate.bench import machine, options, peers, pg_peers, report
from fencepost.operate.bench.callers import callers
from fencepost.operate.bench.deliveries import deliveries
from fencepost.operate.bench.drain import drain
from fencepost.operate.bench.growth import growth
from fencepost.operate.bench.http import http
from fencepost.operate.bench.journal import journal
from fencepost.operate.bench.lab import CheckFailed, Lab, Measuring, NotHere
from fencepost.operate.bench.options import Options
from fencepost.operate.bench.pg import postgres
from fencepost.operate.bench.pg_long import growth as pg_growth
from fencepost.operate.bench.pg_long import held
from fencepost.operate.bench.pg_long import latency as pg_latency
from fencepost.operate.bench.pg_long import slow as pg_slow
from fencepost.operate.bench.processes import latency, memory, processes
from fencepost.operate.bench.slow import slow
from fencepost.operate.bench.start import start
from fencepost.operate.bench.work import work
from fencepost.operate.ending import ended_tidily

MEASURES: Mapping[str, Callable[[Lab], Measuring]] = {
    "drain": drain, "callers": callers, "slow": slow, "growth": growth, "processes": processes,
    "latency": latency, "journal": journal, "start": start, "memory": memory, "http": http,
    "work": work, "deliveries": deliveries, "postgres": postgres,
    "postgres-latency": pg_latency, "postgres-held": held, "postgres-growth": pg_growth,
    "postgres-slow": pg_slow,
}  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Measure and report. 0; 1 if a check failed, or with --check if a target was missed."""
    chosen = options.read(argv, [*peers.known(), *pg_peers.known()])
    terminal.use_utf8(sys.stdout, sys.stderr)
    return ended_tidily("bench", lambda: _run(chosen), _fault)


def _fault(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _run(chosen: Options) -> int:
    with _folder(chosen.folder) as folder:
        found = Found(machine.about(folder))
        lab = Lab(
            folder, chosen.sizes, _peers(chosen, found), chosen.slow_ms, postgres=chosen.postgres
        )
        with lab.stack, terminal.Progress(
            "bench", chosen.reps * len(chosen.phases), out=sys.stderr, steady=perf_counter
        ) as progress:
            _measure(lab, chosen, found, progress)
    lines = report.lines(chosen.phases, found.repetitions, lab.missing, found.refused)
    _write(chosen, found, lines)
    missed = any(line.verdict == "missed" for line in lines)
    return int(bool(found.refused) or (chosen.check and missed))


@dataclass(slots=True)
class Found:
    """What a run has found so far. `refused`: phase → the check that failed; `seconds` that a
    phase took in all, setting up and checking included."""

    machine: dict[str, Any]
    peers: dict[str, dict[str, Any]] = field(default_factory=dict)
    repetitions: list[report.Repetition] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@contextmanager
def _folder(place: Path) -> Iterator[Path]:
    """A work folder on the disk that is to be measured, gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="fencepost-bench-", dir=place.resolve()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _peers(chosen: Options, found: Found) -> tuple[str, ...]:
    """The peers to run; what can be imported is told in the head of the report."""
    wanted: list[str] = []
    for phase, kind in (("drain", peers), ("postgres", pg_peers)):
        if phase in chosen.phases:
            named = [n for n in kind.known() if chosen.peers is None or n in chosen.peers]
            wanted += named
            for name in named:
                try:
                    found.peers[name] = kind.about(name)
                except NotHere as why:
                    found.peers[name] = {"unavailable": str(why)}
    return tuple(wanted)


def _measure(lab: Lab, chosen: Options, found: Found, progress: terminal.Progress) -> None:
    """Every phase in every repetition; a phase that fails or ends is not asked again."""
    running = {name: MEASURES[name](lab) for name in chosen.phases}
    try:
        for repetition in range(1, chosen.reps + 1):
            values: report.Repetition = {}
            for name in chosen.phases:
                progress.note(f"{name}, repetition {repetition} of {chosen.reps}")
                began = perf_counter()
                figures = _ask(name, running, lab, found)
                taken = found.seconds.get(name, 0.0) + perf_counter() - began
                found.seconds[name] = round(taken, 1)
                values.update({(name, figure): value for figure, value in figures.items()})
                progress.add()
            found.repetitions.append(values)
    finally:
        for measuring in running.values():
            measuring.close()
        found.machine.update({f"postgres_{k}": v for k, v in lab.told.items()})


def _ask(
    name: str, running: dict[str, Any], lab: Lab, found: Found
) -> Mapping[str, float]:
    """The figures of one phase in one repetition; none where it cannot be measured."""
    if name not in running:
        return {}
    try:
        figures: Mapping[str, float] = next(running[name], {})
        return figures
    except NotHere as why:
        lab.missing[name, ""] = str(why)
    except (CheckFailed, FencepostError, OSError) as error:
        found.refused[name] = str(error)
    del running[name]
    return {}


def _write(chosen: Options, found: Found, lines: Sequence[report.Line]) -> None:
    told = _warnings(chosen, found)
    if chosen.json is not None:
        text = json.dumps(_document(chosen, found, lines, told), indent=2, ensure_ascii=False)
        if chosen.json == "-":
            sys.stdout.write(text + "\n")
            return
        Path(chosen.json).write_text(text + "\n", encoding="utf-8")
    _head(sys.stdout, found, chosen)
    terminal.print_table(
        sys.stdout, report.HEAD, report.table_rows(lines), right=(2,), styles=report.STYLES
    )
    for text in (*report.reasons(lines), *told):
        sys.stdout.write(f"! {terminal.clean(text)}\n")


def _head(out: TextIO, found: Found, chosen: Options) -> None:
    about = found.machine
    out.write(
        f"fencepost {about['fencepost']}, Python {about['python']}, SQLite {about['sqlite']}\n"
        f"{about['cpu']}, {about['cores']} cores; {about['system']}; {about['filesystem']}, "
        f"{about['syncs_per_second']:,} fdatasync/s; load {about['load_before']}\n"
        f"profile {chosen.profile}, {chosen.reps} repetitions; ratios within a repetition\n"
    )
    server = {k: v for k, v in about.items() if k.startswith("postgres_")}
    if server:
        out.write("; ".join(f"{k.removeprefix('postgres_')} {v}" for k, v in server.items()) + "\n")
    for name, peer in found.peers.items():
        facts = terminal.clean("; ".join(f"{key}: {value}" for key, value in peer.items()))
        out.write(f"{name}: {facts}\n")
    out.write("\n")


def _is_slow(chosen: Options) -> bool:
    return bool({"slow", "postgres-slow"} & set(chosen.phases))


def _warnings(chosen: Options, found: Found) -> list[str]:
    told = machine.warnings(found.machine)
    if _is_slow(chosen):
        told.append(
            f"the slow disk is simulated: {chosen.slow_ms:g} ms are slept after each real fsync"
        )
    return told


def _document(
    chosen: Options, found: Found, lines: Sequence[report.Line], told: list[str]
) -> dict[str, Any]:
    return {
        "machine": found.machine,
        "peers": found.peers,
        "profile": chosen.profile,
        "repetitions": chosen.reps,
        "phases": list(chosen.phases),
        "slow_fsync_ms": chosen.slow_ms if _is_slow(chosen) else None,
        "slow_fsync_simulated": True if _is_slow(chosen) else None,
        "phase_seconds": found.seconds,
        "rows": [line.to_json() for line in lines],
        "reasons": report.reasons(lines),
        "warnings": told,
    }
