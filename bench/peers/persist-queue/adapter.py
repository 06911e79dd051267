"""persist-queue's SQLiteAckQueue: get, work, ack in a loop; SQLite's own settings (WAL, FULL).

The acknowledgement is an unconditional UPDATE: nothing refuses one that comes too late.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from adapting import Handled, main


def about() -> dict[str, Any]:
    import persistqueue
    from persistqueue import SQLiteAckQueue

    assert SQLiteAckQueue is not None
    return {
        "version": persistqueue.__version__,
        "durability": "fsync at get and at ack",
        "fenced": False,
        "receipt": False,
    }


def drain(folder: Path, tasks: int, payload: dict[str, Any]) -> dict[str, Any]:
    from persistqueue import Empty, SQLiteAckQueue

    queue = SQLiteAckQueue(str(folder / "queue"), multithreading=True, auto_resume=False)
    for n in range(tasks):
        queue.put({**payload, "n": n})
    handled = Handled()
    while True:
        try:
            item = queue.get(block=False, raw=True)
        except Empty:
            break
        handled(item["data"])
        queue.ack(id=item["pqid"])
    answer = handled.answer(tasks, queue.size + queue.unack_count())
    queue.close()
    return answer


if __name__ == "__main__":
    sys.exit(main(about, drain))
