"""`fencepost work` on a real job, and all that can befall a worker, once each: every task has one
result, of a command whose lease was live as it was accepted; no process outlives its lease by more
than the grace, which is counted; and nothing is left at the end.

The same by the hundred, and all at once, is the torture part `work_job`.
"""

from __future__ import annotations

import pytest
from helpers import job_troubles as troubles
from helpers.counting import SECOND, outliving
from helpers.job import Job
from helpers.job_plants import PLANTS

pytestmark = pytest.mark.timeout(300)  # each wait has a bound of its own, and says what for
SEED = 20261130
TASKS = 20


def done(folder, *befalls, planted="", number=TASKS):
    """What is wrong with a job when this has befallen it."""
    service = bool({troubles.cut, troubles.serve_again} & set(befalls))
    job = Job(folder, number, SEED, service=service, planted=planted)
    if troubles.fill_disk in befalls:
        troubles.small_disks(job)
    with job:
        if befalls:
            troubles.befall(job, *befalls)
        wrong = job.end()
    print(f"seed {SEED}: {job.counts}")
    return wrong


@pytest.mark.parametrize(
    "trouble",
    [
        troubles.kill, troubles.stand_still, troubles.suspend, troubles.cut,
        troubles.serve_again, troubles.fill_disk,
    ],
    ids=lambda trouble: trouble.__name__,
)  # fmt: skip
def test_whatever_befalls_a_worker_each_task_has_one_result_and_no_process_outlives_its_lease(
    tmp_path, trouble
):
    assert done(tmp_path, trouble) == []


def test_a_worker_that_is_killed_on_a_full_disk_begins_again_when_there_is_room(tmp_path):
    assert done(tmp_path, troubles.kill, troubles.fill_disk) == []


@pytest.mark.parametrize("name", PLANTS)
def test_a_worker_that_is_broken_is_found(tmp_path, name):
    plant = PLANTS[name]()
    wrong = done(tmp_path, *plant.troubles, planted=plant.planted, number=12)
    assert any(plant.said in each for each in wrong), wrong


def counted(*, last, wakes=(), stalls=(), grace=500_000, fence=7):
    """How many outlive a lease that ends at 10 s, when one process of it is seen until `last`."""
    found = {"seen": [[fence, 123, "command", 0, last]], "wakes": wakes, "stalls": stalls}
    return len(outliving(found, {7: 10 * SECOND}, grace)[0])


def test_who_is_alive_after_the_grace_is_counted_and_who_is_not_is_not():
    assert counted(last=10 * SECOND + 500_000) == 0
    assert counted(last=10 * SECOND + 500_001) == 1
    assert counted(last=3 * SECOND, grace=0) == 0
    assert counted(last=1, fence=8) == 1  # of a lease that nobody has won


def test_a_machine_that_slept_or_stood_still_is_given_what_it_took_and_not_more():
    hour = 3_600 * SECOND
    assert counted(last=hour, wakes=[hour - SECOND]) == 0
    assert counted(last=hour, wakes=[hour - 2 * SECOND]) == 1
    assert counted(last=hour, wakes=[9 * SECOND]) == 1
    assert counted(last=12 * SECOND, stalls=[(12 * SECOND, 2 * SECOND)]) == 0
    assert counted(last=13 * SECOND, stalls=[(12 * SECOND, 2 * SECOND)]) == 1
    assert counted(last=12 * SECOND, stalls=[(7 * SECOND, 5 * SECOND)]) == 1
    assert counted(last=12 * SECOND, stalls=[(20 * SECOND, 7 * SECOND)]) == 1
