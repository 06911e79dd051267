"""Workers: claim, work, settle, stop. Here is what the package exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.worker.handlers import Work
from fencepost.worker.verdicts import Block, GiveUp, HandBack, Retry
from fencepost.worker.worker import Worker

if TYPE_CHECKING:
    from fencepost.worker.offline import OfflineWorker

__all__ = ["Block", "GiveUp", "HandBack", "OfflineWorker", "Retry", "Work", "Worker"]


def __getattr__(name: str) -> Any:
    """OfflineWorker brings SQLite along: only for who asks for it."""
    if name != "OfflineWorker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fencepost.worker.offline import OfflineWorker

    return OfflineWorker
