"""A completion brings about further work and owes a message, all in its own transaction.

    python3 examples/followups.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

import fencepost
from fencepost import Followup


def main() -> None:
    with TemporaryDirectory() as folder, fencepost.open(f"{folder}/work.db", create=True) as fp:
        fp.queue_set("scan", destinations=["outbox"])
        fp.enqueue("scan", {"book": "A Handbook of Fences"})
        (lease,) = fp.claim("scan", worker_id="scanner")
        pages = [
            Followup({"page": 1}, key="page-1", queue="recognise"),
            Followup({"page": 2}, key="page-2", queue="recognise"),
        ]
        receipt = lease.complete({"pages": 2}, followups=pages)
        print(f"One completion, one receipt (entry {receipt.number}), and in it:")
        for item in receipt.entry["tasks"]:
            task = fp.task(item["task_id"])
            print(f"  {item.get('role', 'the task itself')}: {task.queue}, {task.state}")

        print("Sent again, with the same arguments, it enqueues nothing twice:")
        again = lease.complete({"pages": 2}, followups=pages)
        print(f"  the same receipt? {again.body == receipt.body}")
        for queue in ("recognise", "outbox"):
            print(f"  tasks on {queue}: {len(list(fp.tasks(queue)))}")


if __name__ == "__main__":
    main()
