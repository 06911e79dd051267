"""A real job: a store, perhaps behind a service and a cable, workers that are `fencepost work` in
processes of their own, and some hundred commands, of which some do not want to die.

Each run of a command draws a mark of its own and says it with its fence, so that a result tells
which run it came from. What is done to the job stands in job_troubles.py, what is looked at all the
time in counting.py, what must have come of it in `Job.judged`.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import fencepost
from fencepost.worker.held import pace
from fencepost.worker.memory import digest_of
from helpers import counting
from helpers.cable import Cable
from helpers.children import result_of, start
from helpers.counting import SECOND
from helpers.job_judging import judged
from helpers.jumping import shim
from helpers.lab import raw
from helpers.service import Service
from helpers.shell import environment

LEASE_SECONDS = 3
GRACE = pace(LEASE_SECONDS * SECOND).grace
PATIENCE = 60.0  # seconds; nothing is waited for so long unless it does not come at all
KINDS = ("hash",) * 6 + ("deaf", "deaf", "bare", "file", "fail", "slow")
# What a payload names: `deaf` does not listen to SIGTERM and leaves two daemons, `bare` one with no
# environment at all; `fail` fails at first, `file` writes its result to the file, `slow` says how
# far it has come. All hold still while the file `hold` is there.
SCRIPT = """
read -r payload; n=${payload##*:}; n=${n%\\}}; kind=${payload#*:\\"}; kind=${kind%%\\"*}
read -r mark < /proc/sys/kernel/random/uuid
echo "$FENCEPOST_FENCE $mark" >> "$OUT/begun"
[ "$kind" = deaf ] && trap '' TERM
[ "$kind" = deaf ] && for one in 1 2; do ( setsid sleep 120 & ) ; done
[ "$kind" = bare ] && ( setsid env -i "$PYTHON" -I -S -c 'import time; time.sleep(120)' \\
  "job:$JOB_MARK:$FENCEPOST_FENCE" & )
[ "$kind" = fail ] && [ "$FENCEPOST_ATTEMPT" = 1 ] && exit 75
[ -e "$OUT/hold" ] && echo "$FENCEPOST_FENCE $FENCEPOST_WORKER" >> "$OUT/held"
while [ -e "$OUT/hold" ]; do sleep 0.1; done
[ "$kind" = slow ] && { echo '"half"' >&3; sleep 0.4; }
sum=$(printf %s "$n" | sha256sum); sum=${sum%% *}
echo "task $n, mark $mark" >&2
text='{"fence":%s,"mark":"%s","n":%s,"pad":"%01500d","sum":"%s"}'
[ "$kind" = file ] && exec > "$FENCEPOST_RESULT"
printf "$text" "$FENCEPOST_FENCE" "$mark" "$n" 0 "$sum"
"""
# The worker as its users start it; what its shims load is what it loads itself, so that all
# processes of a machine have one clock. Then what is planted.
PROGRAM = """
import sys
from fencepost.worker import containment
containment.LOADER += ("LD_PRELOAD", "CLOCKSHIM_FILE")
{planted}
from fencepost.cli import main
sys.exit(main())
"""


def wanted(n: int) -> dict[str, Any]:
    """What every result of this payload must hold."""
    return {"n": n, "pad": "0" * 1_500, "sum": hashlib.sha256(str(n).encode()).hexdigest()}


class Worker:
    """`fencepost work` under one name, life after life."""

    def __init__(self, job: Job, name: str, flags: tuple[object, ...] = ()) -> None:
        self.job, self.name, self.flags = job, name, flags
        self.disk = job.folder / f"disk-{name}"
        self.state, self.temp = self.disk / "state", self.disk / "tmp"
        self.errors = job.folder / f"{name}.err"
        self.token = ""
        self.child: subprocess.Popen[bytes] | None = None
        self.lives = 0

    @property
    def cookie(self) -> str:
        store = self.job.url or os.path.realpath(self.job.path)
        identity = {"store": store, "scope": "default", "worker": self.name}
        return digest_of({**identity, "state": os.path.realpath(self.state)})

    def start(self) -> None:
        """The next life."""
        job, self.lives = self.job, self.lives + 1
        words = [
            sys.executable, "-c", PROGRAM.format(planted=job.planted), "--store",
            job.url or job.path, "--json", "work", "q", "--worker", self.name, "--state",
            self.state, *self.flags, "--", "sh", "-c", SCRIPT,
        ]  # fmt: skip
        variables = {
            **job.clocks, "OUT": str(job.folder), "JOB_MARK": job.mark, "PYTHON": sys.executable,
            "TMPDIR": str(self.temp), "FENCEPOST_TOKEN": self.token,
        }  # fmt: skip
        self.temp.mkdir(parents=True, exist_ok=True)
        with self.errors.open("ab") as errors:
            self.child = subprocess.Popen(
                [str(word) for word in words], cwd=job.folder, env=environment(**variables),
                stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
            )  # fmt: skip

    def listens(self) -> bool:
        """Whether it has begun so far that SIGTERM ends it well."""
        assert self.child is not None
        told = Path(f"/proc/{self.child.pid}/status").read_text().partition("SigCgt:")[2]
        return bool(int(told.split()[0], 16) >> (signal.SIGTERM - 1) & 1)

    def signal(self, number: int) -> None:
        assert self.child is not None
        os.kill(self.child.pid, number)

    def ends(self, *signals: int) -> int:
        """Its exit code, once it has been sent these."""
        assert self.child is not None
        for number in signals:
            self.signal(number)
        self.child.communicate(timeout=PATIENCE)
        code, self.child = self.child.returncode, None
        return code

    def died(self) -> str:
        """What became of one that nobody has ended; empty while it lives. One that cannot begin on
        a full disk is started again, as whoever looks after it would do."""
        if self.child is None or self.child.poll() is None:
            return ""
        if self.child.returncode == 2 and "No space left" in self.said().splitlines()[-1]:
            self.ends()
            self.start()
            return ""
        return f"worker {self.name} ended with {self.child.returncode}: {self.said()[-400:]}"

    def said(self) -> str:
        return self.errors.read_text(errors="replace") if self.errors.exists() else ""


class Job:
    """`with Job(folder, 30, seed) as job: …; wrong = job.end()`. Nothing of it lives on."""

    def __init__(
        self, folder: Path, number: int, seed: int, *, service: bool = False, names: str = "ab",
        flags: tuple[object, ...] = ("-j", 3), planted: str = "",
    ) -> None:  # fmt: skip
        self.folder, self.planted = folder, planted
        self.draw = random.Random(seed)
        self.mark = secrets.token_hex(8)
        self.path, self.asleep, self.number = folder / "work.db", folder / "asleep", 0
        self.asleep.write_bytes(bytes(8))
        library = shim(folder)
        self.clocks: dict[str, str] = {}
        if library is not None:
            self.clocks = {"LD_PRELOAD": str(library), "CLOCKSHIM_FILE": str(self.asleep)}
        self.url: str | None = None
        self.service: Service | None = None
        self.cable: Cable | None = None
        self.workers = [Worker(self, name, flags) for name in names]
        self.counts: dict[str, int] = {}
        self.wrong: list[str] = []
        self.more(number)
        self._stack = ExitStack()
        if service:
            self._connect()
        self._stop = folder / "stop-watching"

    def _connect(self) -> None:
        with fencepost.open(self.path) as fp:
            for each in self.workers:
                each.token = fp.token_create(each.name, "worker")[1]
        self.serve()
        assert self.service is not None
        self.cable = self._stack.enter_context(Cable(self.service.port))
        self.url = f"http://127.0.0.1:{self.cable.port}"

    def serve(self) -> None:
        """Start the service, the second time on the port that it had."""
        if self.cable is None:
            self.service = Service(self.folder, **self.clocks).__enter__()
            return
        for _ in range(20):  # a connection may have been given that port for its own end
            service = Service(self.folder, "--port", str(self.cable.upstream), **self.clocks)
            with suppress(AssertionError):
                self.service = service.__enter__()
                return
            service.__exit__()
        raise AssertionError(f"the service does not start again: {service.said()}")

    def __enter__(self) -> Self:
        cookies = [each.cookie for each in self.workers]
        clock = str(self.asleep) if self.clocks else None
        self._watching = start(
            counting.watch, str(self.path), self.mark, cookies, clock, str(self._stop)
        )
        begun = Path(f"{self._stop}.begun")
        self.wait(lambda: begun.exists() or self._watching.poll(), "somebody watches")
        for each in self.workers:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._stop.touch()
        for each in self.workers:
            if each.child is not None:
                each.child.kill()
                each.child.communicate()
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.service is not None:
            self.service.__exit__()
        self._stack.close()
        self._watching.communicate(timeout=PATIENCE)

    # -- the work

    def more(self, number: int) -> None:
        """So many tasks more, of every kind as far as it goes."""
        numbers = range(self.number, self.number + number)
        kinds = [kind for _ in range(0, number, len(KINDS)) for kind in self._kinds()]
        with fencepost.open(self.path, create=True) as fp:
            if not self.number:
                fp.queue_set("q", backoff_seconds=0, max_attempts=1_000,
                             lease_seconds=LEASE_SECONDS)  # fmt: skip
            fp.enqueue_many("q", ({"payload": {"kind": kinds.pop(), "n": n}} for n in numbers))
        self.number += number

    def _kinds(self) -> list[str]:
        return self.draw.sample(KINDS, len(KINDS))

    def enough(self, number: int = 12) -> None:
        """At least so many tasks are not done yet."""
        if (left := self.number - self.done()) < number:
            self.more(number - left)

    def now(self) -> int:
        """The machines' time."""
        return time.time_ns() // 1_000 + counting.slept(self.asleep)

    def sleep(self, seconds: int) -> None:
        """The machines sleep for so long, and wake as one."""
        asleep = counting.slept(self.asleep) // SECOND + seconds
        with self.asleep.open("r+b", buffering=0) as file:
            file.write(asleep.to_bytes(8, sys.byteorder))

    def on_exit(self, what: Callable[[], object]) -> None:
        self._stack.callback(what)

    def rows(self, sql: str, *given: object) -> list[Any]:
        with raw(self.path) as connection:
            return connection.execute(sql, given).fetchall()

    def done(self) -> int:
        return int(self.rows("select count(*) from fencepost_task where place = 4")[0][0])

    def leased(self) -> list[int]:
        """Fences of leases that are not over."""
        sql = "select fence from fencepost_task where place = 2 and lease_expires_at > ?"
        return [fence for (fence,) in self.rows(sql, self.now())]

    def lines(self, name: str) -> list[list[str]]:
        """What commands have said, the words of each line."""
        file = self.folder / name
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def processes(self, fences: set[int] | None = None) -> list[int]:
        """Processes of the job's commands that are alive, or of these leases."""
        found = counting.processes(self.mark, [each.cookie for each in self.workers])
        return [pid for pid, _, fence, _ in found if fences is None or fence in fences]

    def wait(self, what: Callable[[], object], why: str) -> None:
        """Until this comes about. AssertionError if it does not."""
        until = time.monotonic() + PATIENCE
        while not what():
            dead = [told for each in self.workers if (told := each.died())]
            assert not dead, dead
            assert time.monotonic() < until, f"it has not come about: {why}\n{self._said()}"
            time.sleep(0.03)

    def _said(self) -> str:
        now = self.now()
        sql = "select place, worker_id, fence, (lease_expires_at - ?) / 1000, attempt from "
        rows = self.rows(f"{sql} fencepost_task where place <> 4", now)
        told = [f"(place, worker, fence, ms left, attempt): {rows}", f"held: {self.lines('held')}"]
        told += [f"{each.name}: {each.said()[-800:]}" for each in self.workers]
        if self.service is not None:
            told.append(f"service: {self.service.said()[-800:]}")
        return "\n".join(told)

    def goes_on(self, number: int = 3) -> None:
        """So many tasks are done from now on."""
        self.enough(number)
        until = self.done() + number
        self.wait(lambda: self.done() >= until, f"{number} tasks more are done")

    @contextmanager
    def holding(self) -> Iterator[dict[int, str]]:
        """Commands of every worker stand still with their leases in hand: fence and worker of all
        that do."""
        self.enough(4 * len(self.workers))
        (self.folder / "held").unlink(missing_ok=True)
        (self.folder / "hold").touch()

        def held() -> dict[int, str]:
            said = {int(line[0]): line[1] for line in self.lines("held") if len(line) == 2}
            live = set(self.leased())
            return {fence: name for fence, name in said.items() if fence in live}

        try:
            names = {each.name for each in self.workers}
            self.wait(lambda: set(held().values()) == names, "commands of all hold still")
            yield held()
        finally:
            self.release()

    def release(self) -> None:
        (self.folder / "hold").unlink(missing_ok=True)

    # -- the end

    def end(self) -> list[str]:
        """Let all tasks be done, end all, and judge. What is wrong, a sentence each."""
        self.wait(lambda: self.done() == self.number, "all tasks are done")
        self.wait(lambda: all(each.listens() for each in self.workers), "all have begun")
        for each in self.workers:
            if code := each.ends(signal.SIGTERM):
                self.wrong.append(f"worker {each.name} ended with {code}: {each.said()[-400:]}")
        self._stop.touch()
        found = result_of(self._watching)
        if self.service is not None and self.service.ended()[0] != 0:
            self.wrong.append("the service did not end well")
        wrong, counts = judged(self, found)
        self.counts.update(counts)
        return self.wrong + wrong
