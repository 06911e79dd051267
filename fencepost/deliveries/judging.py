"""What becomes of an obligation after one try: the verdict table of docs/deliveries.md.

Pure. Two questions decide: may the effect be there although nobody said so, and does the other side
see to it that a second sending is none?
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from fencepost.deliveries.places import Try
from fencepost.outward import Class
from fencepost.worker.verdicts import Verdict

UNCERTAIN = "effect_uncertain"
Flow = Literal["on", "hold", "keep", "none"]
"""What the try says of the destination: it answers; nothing may be sent there for a while; it gave
no answer; nothing, since nothing was sent."""


class Judgement(NamedTuple):
    """The verdict on the task, and what follows for its destination: `flow` and how long to wait,
    why it is to be stopped, whether it has to be greeted before the next try."""

    verdict: Verdict
    flow: Flow = "on"
    wait_seconds: float | None = None
    stop: str | None = None
    greet: bool = False


def judge(kind: Class, tried: Try) -> Judgement:
    """The verdict on one try at a destination of this class."""
    match tried.word:
        case "delivered":
            return Judgement(Verdict("complete", tried.evidence))
        case "unsent" | "later":
            return Judgement(Verdict("release"), "hold", tried.wait_seconds)
        case "unanswered" | "taken":  # what was taken may be done yet
            return _uncertain(tried, safe=kind != "unfenced")
        case "gone":
            return Judgement(Verdict("release"), "hold", stop=f"gone: {tried.told}")
        case "old_epoch" | "fork":
            return Judgement(Verdict("release"), "hold", stop=f"{tried.word}: {tried.told}")
        case "hello_needed" | "gap":
            return Judgement(Verdict("release"), greet=True)
        case "stale_result":
            return Judgement(Verdict("give_up", reason=f"stale_result: {tried.told}"))
        case "rejected":
            return Judgement(Verdict("give_up", reason=f"rejected: {tried.told}"))
        case "forgotten":  # it may have been done, and the receiver cannot tell any more
            return Judgement(Verdict("block", reason=f"{UNCERTAIN}: {tried.told}"))
        case "effect_conflict":
            return Judgement(Verdict("block", reason=f"effect_conflict: {tried.told}"))
        case "failed":
            return Judgement(Verdict("retry", reason=tried.told))


def _uncertain(tried: Try, safe: bool) -> Judgement:
    reason = f"{UNCERTAIN}: {tried.told}"
    return Judgement(Verdict("retry" if safe else "block", reason=reason), "keep")
