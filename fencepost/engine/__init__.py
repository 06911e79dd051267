"""Group commit: concurrent callers' commands share one transaction and one sync.

`transact.py` is load → machine → save → commit for one batch. `writer.py` is the one thread
that does it, again and again, and seals the journal when it is idle. `within.py` does the same
inside a caller's own transaction. `draw.py` is all the chance there is.
"""

from fencepost.engine.call import Call
from fencepost.engine.draw import SystemDraw
from fencepost.engine.within import Within
from fencepost.engine.writer import Writer

__all__ = ["Call", "SystemDraw", "Within", "Writer"]
