"""An opened store belongs to the process that has opened it."""

from __future__ import annotations

import os

from fencepost.issues import Unavailable


def check_process(where: object, pid: int, closed: bool) -> None:
    """Raises Unavailable in a process forked off the one that has opened it (`pid`), and once it
    is closed."""
    if os.getpid() != pid:
        raise Unavailable(
            f"the handle of {where} was opened by process {pid}, before a fork; "
            "open the store again in the child"
        )
    if closed:
        raise Unavailable(f"the handle of {where} is closed; open the store again")
