"""Results that a receiver has accepted and that this store does not know: recorded, so that nobody
works on them again. Only an operator may say so of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fencepost import canonical
from fencepost.commands import Import
from fencepost.deliveries.hello import receipt_text, task_of
from fencepost.issues import InvalidRequest
from fencepost.parts import build

if TYPE_CHECKING:
    from fencepost.deliveries.stream import StoreHandle

AT_ONCE = 100
OF_AN_EVENT = (
    "task_id", "revision", "epoch", "fencing_token", "final", "result", "result_sha256", "at",
)  # fmt: skip
OF_A_RECEIPT = {
    "revision": "revision", "epoch": "result_epoch", "fencing_token": "fence", "final": "final",
    "result_sha256": "result_sha256", "at": "at",
}  # fmt: skip
"""Member of the command -> member of the receipt."""


UNREADABLE = (InvalidRequest, KeyError, TypeError, AttributeError)
"""What `command_of` raises."""


def imported(fp: StoreHandle, receipts: Sequence[Mapping[str, Any]]) -> str:
    """Record them all, in the order in which they were accepted: why not, or nothing. What stands
    before the first that is refused is recorded."""
    for start in range(0, len(receipts), AT_ONCE):
        some = receipts[start : start + AT_ONCE]
        try:
            commands = [command_of(receipt) for receipt in some]
        except UNREADABLE as error:
            return f"it cannot be read ({type(error).__name__})"
        for command, outcome in zip(commands, fp.execute(commands), strict=True):
            if not outcome.accepted:
                return f"task {command.task_id}: {outcome.issues[0]}"
    return ""


def command_of(receipt: Mapping[str, Any]) -> Import:
    """The command that records what this receipt, told with its event, says. Raises InvalidRequest,
    KeyError, TypeError or AttributeError for what says nothing."""
    members = members_of(receipt)
    if members is None:
        raise InvalidRequest("import: this is of no result")
    said = {**agreeing(members, "import"), "evidence": {"receipt": receipt_text(receipt)}}
    return build(Import, said, "import")


def members_of(receipt: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is recorded of an effect: its event's members, or, where the receiver has dropped the
    event, the receipt's own, which know the result by its digest alone. None for other outcomes."""
    event = receipt["event"]
    if event is None:
        if receipt["type"] != "result":
            return None
        own = {name: receipt[named] for name, named in OF_A_RECEIPT.items()}
        return {"task_id": task_of(receipt), **own}
    if event.get("outcome", "result") != "result":
        return None
    return {name: event[name] for name in OF_AN_EVENT if name in event}


def agreeing(given: dict[str, Any], what: str) -> dict[str, Any]:
    """Without the digest of a result that is there, whose digest it is."""
    told = given.get("result_sha256")
    if told is None or "result" not in given:
        return given
    if canonical.sha256(canonical.dumps(given["result"])).hex() != told:
        raise InvalidRequest(f"{what}: result_sha256 is not that of the result's RFC 8785 form")
    return {name: value for name, value in given.items() if name != "result_sha256"}
