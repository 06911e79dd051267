"""Medians, ranges, ratios within a repetition and verdicts; as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from fencepost.operate.bench.goals import MB, MS, PER_SECOND, ROWS, SHARE, TIMES, US, Row

Repetition = dict[tuple[str, str], float]
"""What one repetition measured, by (phase, name)."""

HEAD = ("phase", "what", "median", "range", "target", "")
STYLES = {"ok": "good", "missed": "bad", "refused": "bad", "unavailable": "warn"}


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the report with what was found for it: one value a repetition, none at all where
    a check failed (`refused`) or something is not there (`missing`)."""

    row: Row
    values: tuple[float, ...]
    missing: str = ""
    refused: str = ""

    @property
    def median(self) -> float | None:
        return median(self.values) if self.values else None

    @property
    def verdict(self) -> str:
        """ok, missed, unavailable, refused, or nothing where no target stands."""
        if self.refused:
            return "refused"
        if not self.values:
            return "unavailable"
        goal = self.row.goal
        if goal is None:
            return ""
        worst = min if goal.sense == ">=" else max
        return "ok" if goal.met(worst(self.values) if goal.every else median(self.values)) else (
            "missed"
        )

    def to_json(self) -> dict[str, Any]:
        """For programs; `reason` says why a figure is not there."""
        goal = self.row.goal
        return {
            "phase": self.row.phase,
            "name": self.row.name,
            "over": self.row.over or None,
            "text": self.row.text,
            "unit": self.row.unit,
            "values": list(self.values),
            "median": self.median,
            "min": min(self.values, default=None),
            "max": max(self.values, default=None),
            "target": None if goal is None else {
                "sense": goal.sense, "bound": goal.bound, "aim": goal.aim,
            },
            "verdict": self.verdict or None,
            "reason": self.refused or self.missing or None,
        }  # fmt: skip


def lines(
    phases: Iterable[str],
    repetitions: Sequence[Repetition],
    missing: Mapping[tuple[str, str], str],
    refused: Mapping[str, str],
    rows: Sequence[Row] = ROWS,
) -> list[Line]:
    """Every row of the chosen phases. A phase whose check failed in any repetition has no value."""
    chosen = set(phases)
    return [
        Line(
            row,
            () if row.phase in refused else tuple(_values(row, repetitions)),
            _why(row, missing),
            refused.get(row.phase, ""),
        )
        for row in rows
        if row.phase in chosen
    ]


def _values(row: Row, repetitions: Sequence[Repetition]) -> Iterable[float]:
    for found in repetitions:
        value = found.get((row.phase, row.name))
        base = found.get((row.phase, row.over)) if row.over else 1.0
        if value is not None and base:
            yield value / base


def _why(row: Row, missing: Mapping[tuple[str, str], str]) -> str:
    names = (row.name, row.over, "")
    return next((missing[row.phase, n] for n in names if (row.phase, n) in missing), "")


def shown(value: float, unit: str) -> str:
    """A figure with its unit, as people read it."""
    if unit == PER_SECOND:
        return f"{value:,.0f} /s"
    if unit == TIMES:
        return f"{value:.2f}×"
    if unit == SHARE:
        return f"{value:.0%}"
    digits = {MS: 1, US: 0, MB: 0}[unit]
    return f"{value:,.{digits}f} {unit}"


def target(row: Row) -> str:
    """The target in words: `≥ 8.00× (aim 10.00×)`."""
    goal = row.goal
    if goal is None:
        return ""
    sign = "≥" if goal.sense == ">=" else "≤"
    aim = "" if goal.aim is None else f" (aim {shown(goal.aim, row.unit)})"
    return f"{sign} {shown(goal.bound, row.unit)}{aim}"


def table_rows(found: Sequence[Line]) -> list[tuple[str, ...]]:
    """The lines as cells under HEAD; the phase is named once."""
    rows: list[tuple[str, ...]] = []
    last = ""
    for line in found:
        unit, value = line.row.unit, line.median
        middle = "" if value is None else shown(value, unit)
        spread = ""
        if value is not None and len(line.values) > 1:
            spread = f"{shown(min(line.values), unit)} – {shown(max(line.values), unit)}"
        phase = line.row.phase if line.row.phase != last else ""
        last = line.row.phase
        rows.append((phase, line.row.text, middle, spread, target(line.row), line.verdict))
    return rows


def reasons(found: Sequence[Line]) -> list[str]:
    """Why figures are not there, each reason once."""
    told: dict[str, None] = {}
    for line in found:
        if line.refused:
            told[f"{line.row.phase}: REFUSED, a check failed: {line.refused}"] = None
        elif not line.values:
            named = line.row.over or line.row.name
            why = line.missing or "not measured"
            told.setdefault(f"{line.row.phase}: {named} is unavailable: {why}", None)
    return list(told)
