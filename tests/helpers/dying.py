"""A client that commits and dies before it has the answer, again and again."""

from __future__ import annotations

import os
import signal
from typing import Any

from fencepost import commands as c
from fencepost.engine import writer
from helpers.work import opened


def commit_and_die(path: str, now: int, body: str, key: str | None) -> None:
    """Send one command through the writer thread; be killed after the commit, before the answer."""

    def die(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    writer._answer = die
    opened(path, now).execute([c.Request.read(body.encode(), key)])
