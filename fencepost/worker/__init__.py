"""Workers: claim, work, settle, stop. Here is what the package exports."""

from __future__ import annotations

from fencepost.worker.handlers import Work
from fencepost.worker.verdicts import Block, GiveUp, HandBack, Retry
from fencepost.worker.worker import Worker

__all__ = ["Block", "GiveUp", "HandBack", "Retry", "Work", "Worker"]
