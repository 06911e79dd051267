"""Whether what several saw at the same time could have happened one after the other.

The search of Wing and Gong with Lowe's memo: take any operation that may come next, that is one
which began before any that is still open had ended; go on from there; never try the same set of
operations in the same state twice. A step may lead to several states (the outcome of a killed
caller, an instant known only to lie between two others): the search carries all of them along.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

MOST_STEPS = 400_000  # of one history; then the search gives up, and that is a failure


class Event(NamedTuple):
    """One operation, and the two instants between which it has taken effect."""

    call: int
    back: int
    op: Any


class Verdict(NamedTuple):
    """`holds` is None where the search gave up. `order` are the places of the longest line that
    was found, `stuck` those of which none could follow it, `states` what it led to."""

    holds: bool | None
    steps: int
    order: tuple[int, ...]
    stuck: tuple[int, ...] = ()
    states: tuple[Hashable, ...] = ()


Step = Callable[[Any, Any], Iterable[Hashable]]
# how many from the start are done, which of the others are (a bit each), the states that may be
Place = tuple[int, int, frozenset[Hashable]]


def check(
    history: Sequence[Event], first: Hashable, step: Step, most_steps: int = MOST_STEPS
) -> Verdict:
    """Look for an order that keeps the order of what did not overlap and that `step` allows.

    `step(state, op)` gives the states after the operation, none where it could not have been.
    """
    events = sorted(history, key=lambda event: event[:2])
    start: Place = (0, 0, frozenset([first]))
    seen: set[Place] = {start}
    path: list[int] = []
    trail = [(start, iter(_next(events, 0, 0)))]
    best: tuple[tuple[int, ...], Place] = ((), start)
    steps = 0
    while trail:
        (low, done, states), choices = trail[-1]
        if low == len(events):
            return Verdict(True, steps, tuple(path))
        for place in choices:
            steps += 1
            op = events[place].op
            after = frozenset(new for state in states for new in step(state, op))
            if after and (there := (*_marked(low, done, place), after)) not in seen:
                seen.add(there)
                path.append(place)
                trail.append((there, iter(_next(events, there[0], there[1]))))
                if len(path) > len(best[0]):
                    best = tuple(path), there
                break
        else:
            trail.pop()
            if path:
                path.pop()
        if steps > most_steps:
            return _ended(None, steps, best, events)
    return _ended(False, steps, best, events)


def _ended(
    holds: bool | None, steps: int, best: tuple[tuple[int, ...], Place], events: Sequence[Event]
) -> Verdict:
    order, (low, done, states) = best
    return Verdict(holds, steps, order, tuple(_next(events, low, done)), tuple(states))


def _next(events: Sequence[Event], low: int, done: int) -> list[int]:
    """The places of those that may come next: begun before any that is not done had ended.
    What ended first is tried first."""
    found: list[tuple[int, int]] = []
    soonest = None
    for place in range(low, len(events)):
        call, back, _ = events[place]
        if soonest is not None and call > soonest:
            break
        if not done >> (place - low) & 1:
            found.append((back, place))
            soonest = back if soonest is None else min(soonest, back)
    return [place for _, place in sorted(found)]


def _marked(low: int, done: int, place: int) -> tuple[int, int]:
    """The same with one more done; what is done without a gap from the start is counted off."""
    done |= 1 << (place - low)
    while done & 1:
        done >>= 1
        low += 1
    return low, done
