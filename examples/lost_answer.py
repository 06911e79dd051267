"""A worker completes a task and never hears the answer. It asks again with the same bytes.

    python3 examples/lost_answer.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

import fencepost
from fencepost import Request, commands


def main() -> None:
    with TemporaryDirectory() as folder:
        path = f"{folder}/work.db"
        with fencepost.open(path, create=True) as fp:
            fp.enqueue("pages", {"page": 17})
            (lease,) = fp.claim("pages", worker_id="laptop-3")
            request = Request.of(
                commands.Complete(lease.task_id, lease.worker_id, lease.fence, result="text")
            )
            kept = request.body  # a careful worker writes these bytes down before it sends them
            (first,) = fp.execute([request])  # committed, but say that this answer is lost

        # The worker has crashed and started again. All that it has is the bytes.
        with fencepost.open(path) as fp:
            (second,) = fp.execute([Request.read(kept)])
            assert first.receipt is not None and second.receipt is not None
            print(f"The second answer is a replay? {second.replayed}.")
            same = first.receipt.body == second.receipt.body
            print(f"The receipts are the same, byte for byte? {same}.")
            print(f"Results of the task: {len(list(fp.results(lease.task_id)))}.")

            other = Request.of(
                commands.Complete(lease.task_id, lease.worker_id, lease.fence, result="other text")
            )
            (third,) = fp.execute([other])
            print(f"Other bytes are no retry, and are refused: {third.issues[0]}.")


if __name__ == "__main__":
    main()
