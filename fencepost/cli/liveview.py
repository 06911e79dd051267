"""How the demo looks in a terminal: its lines in colour, its progress as one line drawn over."""

from __future__ import annotations

import sys

from fencepost.cli.terminal import Progress, clean, colour_allowed, paint
from fencepost.clock import SECOND, SystemClock


class LiveView:
    """The view (see operate/demo/view.py) of the command line."""

    def say(self, text: str, style: str | None = None) -> None:
        """A line on stdout. Colour repeats what the words say."""
        line = clean(text)
        if style is not None:
            line = paint(line, style, colour_allowed(sys.stdout))
        print(line, flush=True)

    def fault(self, text: str) -> None:
        """A line on stderr."""
        print(clean(text), file=sys.stderr, flush=True)

    def progress(self, label: str, total: int) -> Progress:
        """Progress on stderr."""
        clock = SystemClock()
        return Progress(label, total, out=sys.stderr, steady=lambda: clock.steady() / SECOND)
