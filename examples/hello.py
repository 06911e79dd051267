"""The whole of it in a few lines: open, enqueue, claim, complete, and the receipt that proves it.

    python3 examples/hello.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

import fencepost


def main() -> None:
    with TemporaryDirectory() as folder, fencepost.open(f"{folder}/work.db", create=True) as fp:
        task_id = fp.enqueue("pages", {"page": 17}, key="page-17").task_id
        print(f"Enqueued page 17; its state is {fp.task(task_id).state}.")

        again = fp.enqueue("pages", {"page": 17}, key="page-17").task_id
        print(f"Enqueued under the same key again: the same task? {again == task_id}.")

        (lease,) = fp.claim("pages", worker_id="laptop-3", lease_seconds=60)
        print(f"laptop-3 has claimed it: attempt {lease.attempt}, fence {lease.fence}.")

        receipt = lease.complete({"text": f"the text of page {lease.payload['page']}"})
        print(f"Completed; its state is {fp.task(task_id).state}.")
        print(f"The receipt is entry {receipt.number} of the journal: {receipt.entry['verb']}.")

        (result,) = fp.results(task_id)
        print(f"Result of revision {result.revision}: {result.value['text']}.")
        print(f"A person has not looked at it yet: its commitment is {result.commitment}.")


if __name__ == "__main__":
    main()
