"""Fixtures that many test modules share."""

from __future__ import annotations

import pytest
from helpers.lab import Lab

from fencepost.engine import writer

# A writer thread with nothing to do seals. In a store in memory it would do so on the one
# connection, at a moment when a test looks at it, tampers with it or has a transaction open there.
# tests/test_idle_sealing.py holds what it does.
writer.IDLE_SECONDS = 3_600


@pytest.fixture
def lab(tmp_path):
    """A store on a file whose accepted results owe a message to the queue `outbox`."""
    lab = Lab(tmp_path / "work.db")
    yield lab
    lab.close()
