"""Fixtures that many test modules share."""

from __future__ import annotations

import logging
import random

import pytest
from helpers import on_postgres
from helpers.lab import Lab
from helpers.receivers import Kit
from helpers.same_file import the_same_disk
from helpers.skipping import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401

from fencepost.engine import writer
from fencepost.worker import strays

# A writer thread with nothing to do seals. In a store in memory it would do so on the one
# connection, at a moment when a test looks at it, tampers with it or has a transaction open there.
# tests/test_idle_sealing.py holds what it does.
writer.IDLE_SECONDS = 3_600


if on_postgres.asked():
    on_postgres.replace()


@pytest.fixture(autouse=True)
def _no_worker_s_process():
    """A worker that a test runs in this process makes it its own, and would kill what others start
    here: the server of the tests, a helper of the next test."""
    yield
    strays._owner = 0


@pytest.fixture
def lab(tmp_path):
    """A store on a file whose accepted results owe a message to the queue `outbox`."""
    lab = Lab(tmp_path / "work.db")
    yield lab
    lab.close()


@pytest.fixture
def same_disk():
    """What the test copies is taken for the file itself: left by a crash, or tampered with."""
    with the_same_disk():
        yield


@pytest.fixture
def quiet():
    """Nothing is logged: planted faults and tripped guards would be, each with its trace."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def kit(tmp_path):
    """A receiver made of the kit, for `Web`."""
    made = Kit(tmp_path / "receiver.db")
    yield made
    made.close()


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, metavar="SEED", help="another order of the tests")


def pytest_collection_modifyitems(config, items):
    # several processes collect the tests and must find the same names
    moving = [item.nodeid for item in items if " at 0x" in item.nodeid]
    assert not moving, f"a test's name holds an address: give ids to {moving[0]}"
    if on_postgres.asked() and (out := on_postgres.left_out(items)):
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]
    seed = config.getoption("--shuffle")
    if seed is not None:
        draw = random.Random(seed)
        order = {item.path: draw.random() for item in items}
        items.sort(key=lambda item: (order[item.path], draw.random()))
