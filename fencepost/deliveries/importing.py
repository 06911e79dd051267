"""Results that a receiver has accepted and that this store does not know: recorded, so that nobody
works on them again. Only an operator may say so of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.commands import Import
from fencepost.deliveries.hello import receipt_text
from fencepost.issues import InvalidRequest

if TYPE_CHECKING:
    from fencepost.deliveries.stream import StoreHandle

AT_ONCE = 100


def imported(fp: StoreHandle, receipts: Sequence[Mapping[str, Any]]) -> str:
    """Record them all, in the order in which they were accepted: why not, or nothing. What stands
    before the first that is refused is recorded."""
    for start in range(0, len(receipts), AT_ONCE):
        some = receipts[start : start + AT_ONCE]
        try:
            commands = [command_of(receipt) for receipt in some]
        except (InvalidRequest, KeyError, TypeError) as error:
            return f"it cannot be read ({type(error).__name__})"
        for command, outcome in zip(commands, fp.execute(commands), strict=True):
            if not outcome.accepted:
                return f"task {command.task_id}: {outcome.issues[0]}"
    return ""


def command_of(receipt: Mapping[str, Any]) -> Import:
    """The command that records what this receipt, told with its event, says. Raises InvalidRequest,
    KeyError or TypeError for what says nothing."""
    event = receipt["event"]
    command = Import(
        event["task_id"], event["revision"], event["epoch"], event["fencing_token"],
        event["final"], {"receipt": receipt_text(receipt)}, event["result"], at=event["at"],
    )  # fmt: skip
    if command.result_digest().hex() != event["result_sha256"]:
        raise InvalidRequest("import: the result is not the one that its digest tells of")
    return command
