"""What befalls a job. A deed is done while commands hold still with their leases in hand, alone or
together with others; what it costs is waited for, then it is undone and the job goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from helpers.job import LEASE_SECONDS, Job, Worker

SLEEP_SECONDS = 3_600
DISK = "192k"
BALLAST = "ballast"
FULL = ("written down", "cannot be begun here", "No space left")
TOO_LONG = LEASE_SECONDS + 3.0  # seconds; who lives on then has outlived his lease for certain
# Where no file system can be mounted: while a file is there, nothing can be written.
NO_ROOM = """
import errno, os, tempfile
from fencepost.worker import memory
def _full(real):
    def write(*given, **more):
        if os.path.exists(os.environ["TMPDIR"] + "/../ballast"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given, **more)
    return write
memory._write_at = _full(memory._write_at)
tempfile.TemporaryFile = _full(tempfile.TemporaryFile)
"""


class Deed(NamedTuple):
    """What was done. `ends`: the workers whose commands have to end because of it. `over`: their
    leases are waited for, too. `felt`: waited for before it is undone, once the rest is."""

    undo: Callable[[], object]
    ends: tuple[Worker, ...] = ()
    over: bool = True
    felt: Callable[[], object] | None = None


def kill(job: Job) -> Deed:
    """A worker is killed with its hands full, and started again under its name."""
    worker = job.draw.choice(job.workers)
    if worker.child is not None:
        worker.ends(signal.SIGKILL)
    return Deed(lambda: worker.child or worker.start(), (worker,), over=False)


def stand_still(job: Job) -> Deed:
    """A worker is stopped, and goes on."""
    worker = job.draw.choice(job.workers)
    life = worker.lives
    if worker.child is None:
        return Deed(lambda: None)
    worker.signal(signal.SIGSTOP)

    def go_on() -> None:
        if worker.child is not None and worker.lives == life:
            worker.signal(signal.SIGCONT)

    return Deed(go_on, (worker,))


def suspend(job: Job) -> Deed:
    """The machine sleeps for an hour."""
    if not job.clocks:
        raise RuntimeError("needs a C compiler: apt-get install gcc")
    job.sleep(SLEEP_SECONDS)
    return Deed(lambda: None, tuple(job.workers))


def cut(job: Job) -> Deed:
    """The network is cut."""
    assert job.cable is not None
    job.cable.cut(silent=job.draw.random() < 0.5)
    return Deed(job.cable.mend, tuple(job.workers))


def serve_again(job: Job) -> Deed:
    """The service ends, well or not, and is started again on its port."""
    assert job.service is not None
    if job.service.child.poll() is None:
        job.service.ended(signal.SIGKILL if job.draw.random() < 0.7 else signal.SIGTERM)

    def again() -> None:
        assert job.service is not None
        if job.service.child.poll() is not None:
            job.service.__exit__()
            job.serve()

    return Deed(again)


def fill_disk(job: Job) -> Deed:
    """A worker's disk is full. One that is killed meanwhile cannot begin before there is room."""
    worker = job.draw.choice(job.workers)
    before = _told_full(worker)
    fill(worker.disk)

    def felt() -> bool:
        job.enough(6)
        fill(worker.disk)  # again: files without a name have gone with those who had them open
        return _told_full(worker) > before

    return Deed(lambda: (worker.disk / BALLAST).unlink(missing_ok=True), felt=felt)


Trouble = Callable[[Job], Deed]


def befall(job: Job, *troubles: Trouble, patient: bool = True) -> None:
    """All of these at once. `patient`: until what they must end has ended; who has not by then is
    found at the end, by who counts."""
    with job.holding() as held:
        done = [trouble(job) for trouble in troubles]
        ends = {worker.name: deed.over for deed in done for worker in deed.ends}
        if patient:
            _ended(job, {fence for fence, name in held.items() if name in ends})
            late = {fence for fence, name in held.items() if ends.get(name)}
            job.wait(lambda: not late & set(job.leased()), "the leases are over")
    _undo(job, done)


def befall_in_the_midst(job: Job, *troubles: Trouble) -> None:
    """The same at a moment of which nobody knows what is begun, claimed and settled then."""
    job.enough(30)
    job.goes_on(job.draw.randint(1, 6))
    done = []
    for trouble in troubles:
        time.sleep(job.draw.random() * 0.1)
        done.append(trouble(job))
    time.sleep(job.draw.random() * 0.5)
    _undo(job, done)


def _undo(job: Job, done: list[Deed]) -> None:
    job.draw.shuffle(done)
    for deed in sorted(done, key=lambda deed: deed.felt is not None):
        if deed.felt is not None:
            job.wait(deed.felt, "the disk is full")
        deed.undo()
    job.goes_on()


def _ended(job: Job, fences: set[int]) -> None:
    """Their processes are gone, or have had the time to be."""
    until = time.monotonic() + TOO_LONG
    job.wait(
        lambda: not job.processes(fences) or time.monotonic() > until, "the commands have ended"
    )


def _told_full(worker: Worker) -> int:
    said = worker.said()
    return sum(said.count(what) for what in FULL)


def fill(disk: Path) -> None:
    """Write until nothing more can be."""
    with (disk / BALLAST).open("ab", buffering=0) as file:
        for part in (4_096, 1) if os.path.ismount(disk) else ():
            try:
                while True:
                    file.write(bytes(part))
            except OSError:
                continue


def small_disks(job: Job) -> bool:
    """Each worker's state and temporary files lie on a small file system of its own. False where
    none can be mounted: then writing fails because the program is told so."""
    for each in job.workers:
        each.disk.mkdir(exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(each.disk)]
        try:
            subprocess.run(words, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            print("NOT RUN: no small file system can be mounted; writing fails by fault injection")
            job.planted += NO_ROOM
            return False
        job.on_exit(lambda disk=each.disk: subprocess.run(["umount", "-l", disk], check=True))
    return True
