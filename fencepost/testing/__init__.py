"""The test kit for whoever writes handlers, or code that enqueues. See docs/testing.md.

    from fencepost.testing import Kit
    with Kit() as kit:
        kit.fp.enqueue("pages", {"page": 17})
        kit.run_one("pages", read_page).assert_verdict("complete", result={"text": "..."})

The store is the real one, in memory; the clock moves when it is told to; handlers run in the
caller's thread, by the rules of `fencepost.Worker`. It is for one thread.
"""

from __future__ import annotations

from fencepost.testing.kit import Kit
from fencepost.testing.runs import ANY, Run

__all__ = ["ANY", "Kit", "Run"]
