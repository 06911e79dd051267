"""A worker sleeps past the end of its lease. Another takes over. The first can change nothing.

    python3 examples/stale_worker.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

import fencepost
from fencepost.clock import FakeClock


def main() -> None:
    clock = FakeClock(1_767_225_600_000_000)  # so that nobody has to wait: 1 January 2026
    with (
        TemporaryDirectory() as folder,
        fencepost.open(f"{folder}/work.db", create=True, clock=clock) as fp,
    ):
        fp.enqueue("pages", {"page": 17})
        (early,) = fp.claim("pages", worker_id="laptop-3", lease_seconds=60)
        print(f"laptop-3 holds the task with fence {early.fence}, and its lid is closed.")

        clock.advance(60)
        try:
            early.complete("too late")
        except fencepost.LeaseExpired as error:
            print(f"After 60 s, with nobody else about: {error.code}.")

        (late,) = fp.claim("pages", worker_id="server-1", lease_seconds=60)
        print(f"server-1 takes over with fence {late.fence}.")
        for what, attempt in (
            ("complete", lambda: early.complete("too late")),
            ("renew", early.renew),
            ("fail", lambda: early.fail("gave up")),
            ("release", early.release),
        ):
            try:
                attempt()
            except fencepost.LeaseLost as error:
                print(f"laptop-3 tries to {what}: refused, {', '.join(error.issues)}.")

        late.complete("in time")
        (result,) = fp.results(early.task_id)
        print(f"The one accepted result is: {result.value}.")


if __name__ == "__main__":
    main()
