"""Fixtures that many test modules share."""

from __future__ import annotations

import pytest
from helpers.lab import Lab


@pytest.fixture
def lab(tmp_path):
    """A store on a file whose accepted results owe a message to the queue `outbox`."""
    lab = Lab(tmp_path / "work.db")
    yield lab
    lab.close()
