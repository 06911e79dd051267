"""`python3 -m fencepost demo [DIR]`: the promise held on real files by workers that are not spared.

Every source file becomes a task. Several processes compute; some are killed, some stopped past
their lease, some never hear that their completion was committed. Afterwards everything that the
store has accepted is held against a direct computation and against the journal.
"""

from fencepost.operate.demo.command import main

__all__ = ["main"]
