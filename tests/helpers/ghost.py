"""What is true of one task, kept beside the product, and the laws that each answer is held to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fencepost.model import Outcome

Rows = tuple[tuple[tuple[Any, ...], ...], ...]


@dataclass(frozen=True)
class Ghost:
    """What is true: the last fence given, who holds the lease until when, results, receipts."""

    highest: int = 0
    holder: int | None = None
    until: int = 0
    done: bool = False
    results: tuple[str, ...] = ()
    answers: tuple[tuple[str, Any], ...] = ()  # name: (bytes, number, the fence that it gave)


def check_rows(ghost: Ghost, rows: Rows) -> None:
    """What the store holds is what was answered, no more and no less."""
    (task,), (store,), results, entries = rows
    assert len(results) == len(ghost.results) == task[3], "results and revision differ"
    assert [row[1] for row in results] == list(range(1, len(results) + 1)), "a revision is off"
    assert len(entries) == len(ghost.answers) + 2, "an entry is missing or too many"
    assert [row[0] for row in entries] == list(range(1, len(entries) + 1)), "a gap in numbers"
    assert store[0] == ghost.highest, "the fence counter is not the last fence given"


def judge(
    ghost: Ghost, number: int, asked: tuple[str, str, int], outcome: Outcome, now: int,
    unchanged: bool,
) -> Ghost:  # fmt: skip
    """The laws of one answer; returns what is true after it."""
    kind, name, fence = asked
    answers = dict(ghost.answers)
    body = outcome.receipt and (outcome.receipt.body, outcome.receipt.number)
    live = ghost.holder is not None and now < ghost.until and not ghost.done
    known = answers.get(name)
    if known is not None:
        assert outcome.replayed, "the same bytes had an effect a second time"
        assert body == known[:2], "the same bytes got another receipt"
        assert unchanged, "a replay changed something"
        still = [known[2]] if live and known[2] == ghost.highest else []
        shown = [grant.fence for grant in outcome.grants]
        assert shown == still, "a replayed claim shows another lease than the one that lives"
        return ghost
    assert not outcome.replayed, "a replay of what never was accepted"
    if not outcome.accepted:
        assert unchanged, "a refusal changed something"
        assert kind != "claim", "a claim was refused"
        owner = live and ghost.holder == number and ghost.highest == fence
        assert not owner, f"the holder of the lease was refused: {outcome.issues}"
        return ghost
    gave = outcome.grants[0].fence if outcome.grants else 0
    answers[name] = (*(body or ()), gave)
    ghost = replace(ghost, answers=tuple(sorted(answers.items())))
    if kind != "claim":
        assert live and ghost.holder == number, "who had lost the lease changed something"
        assert fence == ghost.highest, "a stale fence was accepted"
        return replace(ghost, results=(*ghost.results, name), done=kind == "complete")
    assert bool(outcome.grants) == (not live and not ghost.done), "a task was claimed wrongly"
    if not outcome.grants:
        return ghost
    (grant,) = outcome.grants
    assert grant.fence > ghost.highest, "fences do not rise"
    return replace(ghost, highest=grant.fence, holder=number, until=grant.lease_expires_at)
