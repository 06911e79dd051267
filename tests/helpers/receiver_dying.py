"""A receiver in a process of its own that kills itself at one step of one delivery.

    python -m helpers.receiver_dying KIND WHERE STEP   with headers and body, as JSON, on stdin

It writes the answer if it lives to give one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from helpers.receiving import Place

STEPS = ("before the effect", "after the effect", "after the receipt", "before the commit",
         "after the commit")  # fmt: skip


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(kind: str, where: str, step: str) -> None:
    """Take one delivery."""
    place = Place(kind, where)
    receiver = place.receiver
    store: Any = receiver.desk._store
    given = json.load(sys.stdin)
    store.open()
    commit, release = store.commit, store.release
    if step == "before the effect":
        place.before = die
    elif step == "after the effect":
        place.after = die
    elif step == "after the receipt":
        store.release = die
    elif step == "before the commit":
        store.release = lambda: (release(), setattr(store, "commit", die))
    elif step == "after the commit":
        store.commit = lambda: (commit(), die())
    store.close()
    place.now = given["now"]
    answer = receiver.handle(given["headers"], given["body"].encode())
    sys.stdout.write(answer.body.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
