"""Counts the processes of a job's leases all the time, and judges: none outlives its lease.

The watcher is a process of its own that looks at /proc and at the store's rows, again and again.
What it finds is written apart from what it judges: it knows the product's own cookies only where
the mark of the job cannot be (a shim).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from helpers.lab import raw

SECOND = 1_000_000
PAUSE = 0.03
STALL = 0.15  # a pass that takes longer tells of a machine that stands still for everybody
AFTER_WAKING = 1 * SECOND  # what waits in the kernel does so for a second at most, asleep or not


class Seen(NamedTuple):
    """A process of a lease, and when it was certainly alive, by the store's clock."""

    fence: int
    pid: int
    what: str
    first: int
    last: int


def slept(file: Path | None) -> int:
    """Microseconds that the machine has slept (clockshim.c)."""
    return 0 if file is None else int.from_bytes(file.read_bytes()[:8], sys.byteorder) * SECOND


def processes(mark: str, cookies: list[str]) -> Iterator[tuple[int, int, int, str]]:
    """(number, when it was born, fence, what it is) of each process of the job's commands: by its
    environment, by its arguments where it has emptied that, and each shim by its cookie."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            told = _fence(name, mark, cookies)
            if told is not None:
                stat = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                yield int(name), int(stat[19]), *told
        except OSError:  # gone
            continue


def _fence(name: str, mark: str, cookies: list[str]) -> tuple[int, str] | None:
    texts = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
    given = dict(text.split(b"=", 1) for text in texts if b"=" in text)
    if given.get(b"JOB_MARK") == mark.encode() and b"FENCEPOST_FENCE" in given:
        return int(given[b"FENCEPOST_FENCE"]), "command"
    cookie, _, fence = given.get(b"FENCEPOST_SHIM", b"").decode().rpartition(".")
    if cookie in cookies:
        return int(fence), "shim"
    for text in Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0"):
        kind, _, rest = text.decode(errors="replace").partition(":")
        if kind == "job" and rest.startswith(f"{mark}:"):
            return int(rest.rpartition(":")[2]), "without an environment"
    return None


class Watch:
    """All that was seen. `look` is one pass."""

    def __init__(self, store: str, mark: str, cookies: list[str], clock: str | None) -> None:
        self.store, self.mark, self.cookies = store, mark, cookies
        self.clock = None if clock is None else Path(clock)
        self.seen: dict[tuple[int, int], list[Any]] = {}
        self.ends: dict[int, int] = {}
        self.lapsed: dict[int, int] = {}  # seen when it was over, so that no renewal came later
        self.stalls: list[tuple[int, int]] = []
        self.wakes: list[int] = []
        self.passes = 0
        self._asleep = 0
        self._began = time.monotonic()

    def look(self, rows: Any) -> int:
        """How many processes there are now."""
        gap, self._began = time.monotonic() - self._began, time.monotonic()
        asleep = slept(self.clock)
        now = time.time_ns() // 1_000 + asleep  # before the look: who is found is alive later
        if asleep != self._asleep:
            self._asleep = asleep
            self.wakes.append(now)
        if gap > STALL + PAUSE:
            self.stalls.append((now, int(gap * SECOND)))
        number = 0
        for pid, born, fence, what in processes(self.mark, self.cookies):
            number += 1
            known = self.seen.setdefault((pid, born), [fence, pid, what, now, now])
            known[2], known[4] = what, now
        for fence, end in rows.execute(
            "select fence, lease_expires_at from fencepost_task where place = 2"
        ):
            self.ends[fence] = max(end, self.ends.get(fence, 0))
            if end < now:
                self.lapsed[fence] = end
        self.passes += 1
        return number


def watch(
    store: str, mark: str, cookies: list[str], clock: str | None, stop: str
) -> dict[str, Any]:
    """Look until the file `stop` is there, and once more; what was seen. The file `stop`.begun is
    there once it looks."""
    watching = Watch(store, mark, cookies, clock)
    with raw(Path(store)) as rows:
        ending = False
        while not ending:
            ending = os.path.exists(stop)
            left = watching.look(rows)
            Path(f"{stop}.begun").touch()
            time.sleep(0 if ending else PAUSE)
    return {
        "seen": list(watching.seen.values()), "ends": list(watching.ends.items()),
        "lapsed": list(watching.lapsed.items()),
        "stalls": watching.stalls, "wakes": watching.wakes, "passes": watching.passes, "left": left,
    }  # fmt: skip


def outliving(found: dict[str, Any], over: dict[int, int], grace: int) -> tuple[list[str], int]:
    """(a sentence for each process that was alive when its lease had been over for longer than the
    grace, the latest that one was, in microseconds against its lease's end). `over`: when the
    journal or the store says that a lease had ended at the latest, by fence. A machine that slept
    or stood still at that time is given what it took."""
    wrong, latest = [], -(1 << 60)
    for each in map(Seen._make, found["seen"]):
        end = over.get(each.fence)
        if end is None:
            wrong.append(f"process {each.pid} ({each.what}) is of fence {each.fence}, no lease")
            continue
        awake = [wake + AFTER_WAKING for wake in found["wakes"] if end <= wake <= each.last]
        latest = max(latest, each.last - max([end, *awake]))
        stood = sum(
            gap for at, gap in found["stalls"] if at >= end - 2 * SECOND and at - gap <= each.last
        )
        if each.last > max([end, *awake]) + grace + stood:
            late = f"{(each.last - end) / SECOND:.2f} s"
            wrong.append(f"{each.what} {each.pid} of fence {each.fence} outlived it by {late}")
    return wrong, latest
