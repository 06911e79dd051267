"""What a human is owed: every accepted result waits for a person, and no machine can close that.

    python3 examples/review.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

import fencepost


def work(fp: fencepost.Handle, text: str) -> None:
    (lease,) = fp.claim("summaries", worker_id="agent-7")
    lease.complete({"summary": text})


def show(fp: fencepost.Handle, task_id: str) -> None:
    for result in fp.results(task_id):
        print(f"  revision {result.revision}, {result.value['summary']!r}: {result.commitment}")


def main() -> None:
    with TemporaryDirectory() as folder, fencepost.open(f"{folder}/work.db", create=True) as fp:
        task_id = fp.enqueue("summaries", {"document": "minutes.txt"}).task_id
        work(fp, "Nobody came.")
        print("agent-7 is done, and a person is owed a look:")
        show(fp, task_id)

        try:
            fp.review(task_id, 1, "accepted")
        except fencepost.Refused as error:
            print(f"An operator may not close it: {error.code}.")

        ada = fp.as_caller("ada", kind="human")
        ada.review(task_id, 1, "rejected", requeue=True)
        print(f"Ada rejects revision 1 and asks for another; the task is {fp.task(task_id).state}:")
        show(fp, task_id)

        work(fp, "Four came, and two agreed.")
        ada.review(task_id, 2, "accepted")
        print("Ada accepts revision 2:")
        show(fp, task_id)


if __name__ == "__main__":
    main()
