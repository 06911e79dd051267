"""Stands between the worker and one command, so that no process of the command outlives its lease.

A program of its own, one process a task: `python -I -S shim.py MARK LIFELINE STATUS`, three file
descriptors (MARK is -1 for none). Every orphan of the command becomes its child (it is a child
subreaper), and it ends when the kernel says that it has no child left. Started for each task, it
loads as little as it can: nothing of ours, and of the standard library only what loads quickly.

LIFELINE is a pipe from the worker. First comes what to run (see `Spec`), then lines:
    E<microseconds>   the local deadline, on the clock of `now`: sent after each successful renewal
    K<seconds>        the lease is lost: end the tree, after so long a grace
and its end means that the worker has died. STATUS is a pipe to the worker:
    P<pid>            the command runs
    F<errno>          it could not be started
    X<why> <code>     the command has ended, told at once; a negative code is a signal
    L<why> <count>    so many resist SIGKILL (a disk that hangs, another user's); it goes on
    D<count>          the whole tree is gone; so many were killed
    !<text>           a fault of this program
"""

import os
import select
import sys
import time

TYPE_CHECKING = False  # `typing` is not worth its start-up time here, nor is the enum of `signal`
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
    from typing import NoReturn
else:
    import _signal as signal

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SECOND = 1_000_000
LONGEST_WAIT_MS = 1_000  # what waits stands still in suspend, and the deadline does not
STUBBORN_SECONDS = 5.0
SOFT_PAUSE_MS, LONGEST_PAUSE_MS, GROUP_PATIENCE_MS = 2, 50, 500
ASKED_TO_END = frozenset({"SIGTERM", "SIGINT", "SIGHUP"})


def now() -> int:
    """Microseconds on the clock of fencepost/clock.py, `SystemClock.steady`: it counts suspend."""
    if LINUX:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000


def prctl(option: int, value: int) -> bool:
    """prctl(2), without the half of `ctypes` that takes time to load. False where it fails."""
    try:
        import _ctypes

        address = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        return bool(_ctypes.call_function(address, (option, value, 0, 0, 0)) == 0)
    except (ImportError, AttributeError, OSError):
        return False


def children(pid: int) -> list[int]:
    """The process's children now, of all its threads. Empty where /proc cannot tell."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
            return _by_parent(pid)
    return found


def _by_parent(parent: int) -> list[int]:
    """The same from /proc/*/stat, for a kernel built without lists of children."""
    found: list[int] = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        try:
            with open(f"/proc/{int(name)}/stat") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == parent:
                    found.append(int(name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, parents first. Who forks meanwhile may be missed."""
    found, todo = dict[int, None](), [pid]
    while todo:
        for child in children(todo.pop()):
            if child not in found:
                found[child] = None
                todo.append(child)
    return list(found)


def send(pids: "Iterable[int]", number: int) -> None:
    """The signal to each; who is gone or is not ours to signal is left."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def strike(pids: list[int]) -> None:
    """Freeze all, then kill all: who is frozen forks nobody while the others die."""
    send(pids, signal.SIGSTOP)
    send(pids, signal.SIGKILL)


class Spec:
    """What to run, as bytes that NUL separates; before them their length and a new line."""

    def __init__(self, block: bytes) -> None:
        parts = block.split(b"\0")
        head, rest = parts[:8], parts[8:]
        self.deadline = int(head[0])  # microseconds
        self.grace = float(head[1])  # seconds between SIGTERM and SIGKILL
        self.tidy = float(head[2])  # the same for what a command leaves behind when it ends
        self.limits = [int(part) if part else None for part in head[3].split(b",")]
        self.folder, self.group = head[4], head[5].decode()  # the group: a cgroup, or nothing
        self.wrapped = head[6] == b"1"  # what we start wraps the command: it gets no SIGTERM
        count = int(head[7])
        self.argv = rest[:count]
        self.environment = dict(pair.split(b"=", 1) for pair in rest[count:])


class Shim:
    """One command and all that comes of it."""

    def __init__(self, mark: int, lifeline: int, status: int) -> None:
        self.mark, self.lifeline, self.status = mark, lifeline, status
        self.rest, self.why = b"", ""
        self.command = self.killed = 0
        self.code: int | None = None

    def tell(self, line: bytes) -> None:
        """A line to the worker, if there is one still."""
        try:
            os.write(self.status, line + b"\n")
        except OSError:
            return

    def run(self) -> None:
        """From the first byte of the lifeline to the end of the last process."""
        block = self.receive()
        if block is None:
            return
        self.spec = Spec(block)
        if LINUX and not prctl(PR_SET_CHILD_SUBREAPER, 1):
            self.tell(b"!no child subreaper: orphans can escape")
        self.listen()
        self.begin()
        self.watch()
        self.end(self.spec.tidy if self.why == "exit" else self.spec.grace)
        self.tell(b"D%d" % self.killed)

    def receive(self) -> "bytes | None":
        """What to run; None if the worker died before it had said so."""
        have = b""
        while True:
            size, line, block = have.partition(b"\n")
            if line and len(block) >= int(size):
                self.rest = block[int(size) :]
                return block[: int(size)]
            more = os.read(self.lifeline, 65_536)
            if not more:
                return None
            have += more

    def listen(self) -> None:
        """Signals become bytes in a pipe, so that one call waits for all there is."""
        self.wake, into = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(into, False)
        signal.set_wakeup_fd(into, warn_on_full_buffer=False)
        for name in (*ASKED_TO_END, "SIGCHLD"):
            signal.signal(getattr(signal, name), _nothing)
        self.numbers = {int(getattr(signal, name)) for name in ASKED_TO_END}
        self.polled = select.poll()
        self.polled.register(self.wake, select.POLLIN)
        self.polled.register(self.lifeline, select.POLLIN)

    def begin(self) -> None:
        """Start the command. Signals wait meanwhile: one that came between fork and exec would
        come out of the pipe that both share as if it had been meant for this process."""
        every = signal.valid_signals()
        signal.pthread_sigmask(signal.SIG_BLOCK, every)
        shim = os.getpid()
        pid = os.fork()
        if pid == 0:
            become(self.spec, self.mark, self.status, shim)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, every)
        self.command = pid
        self.tell(b"P%d" % pid)
        self.let_go()

    def let_go(self) -> None:
        """The ends of the task's pipes belong to the task alone, or nobody would see them close."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for own in {0, 1, 2, self.mark} - {-1}:
            os.dup2(nothing, own, inheritable=False)
        os.chdir("/")

    def watch(self) -> None:
        """Until there is a reason to end, which `why` names then."""
        self.hear(b"")
        while not self.why:
            left = self.spec.deadline - now()
            if self.reap() and self.code is None and left <= 0:
                self.why = "deadline"
            elif self.code is None:
                self.wait(min(left // 1_000 + 1, LONGEST_WAIT_MS))

    def wait(self, milliseconds: int) -> None:
        """Until something happens, or so long."""
        for found, _ in self.polled.poll(milliseconds):
            if found == self.wake:
                if self.numbers.intersection(_drained(self.wake)):
                    self.why = self.why or "signal"
                continue
            data = os.read(self.lifeline, 4_096)
            if not data:
                self.polled.unregister(self.lifeline)
                self.why = self.why or "worker_gone"
            self.hear(data)

    def hear(self, data: bytes) -> None:
        """What the worker says."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line[:1] == b"E":
                self.spec.deadline = int(line[1:])
            elif line[:1] == b"K":
                self.spec.grace = float(line[1:])
                self.why = self.why or "killed"

    def reap(self) -> bool:
        """Bury who is dead. False if there is no child left at all, which only the kernel knows."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.command:
                self.code = os.waitstatus_to_exitcode(status)
                self.why = self.why or "exit"
                self.tell(b"X%b %d" % (self.why.encode(), self.code))

    def tree(self) -> list[int]:
        """Every process of the command that can be found now; its process group where trees cannot
        be told. While nobody has buried the command, nobody else can have its number."""
        return descendants(os.getpid()) or ([-self.command] if self.code is None else [])

    def end(self, grace: float) -> None:
        """SIGTERM to all, the grace, then SIGKILL until no child is left."""
        until = now() + int(grace * SECOND)
        if grace > 0 and self.reap():
            found = [pid for pid in self.tree() if not self.spec.wrapped or pid != self.command]
            send(found, signal.SIGTERM)
            send(found, signal.SIGCONT)  # who is stopped would not see the first
        while self.reap() and (left := until - now()) > 0:
            self.wait(min(left // 1_000 + 1, LONGEST_WAIT_MS))
            if self.spec.grace == 0:  # told to hurry meanwhile
                break
        self.kill()

    def kill(self) -> None:
        """Freeze and kill what can be found, bury it, look again: until there is nobody."""
        pause, told, since = SOFT_PAUSE_MS, False, now()
        hurry = select.poll()
        hurry.register(self.wake, select.POLLIN)
        seen: set[int] = set()
        while self.reap():
            kill_group(self.spec.group)
            found = self.tree()
            strike(found)
            seen.update(found)
            self.killed = len(seen)
            if not told and now() - since > STUBBORN_SECONDS * SECOND:
                self.tell(b"L%b %d" % (self.why.encode(), len(found)))
                told, pause = True, LONGEST_PAUSE_MS
            hurry.poll(pause)
            _drained(self.wake)
        kill_group(self.spec.group, GROUP_PATIENCE_MS)


def become(spec: Spec, mark: int, status: int, shim: int) -> "NoReturn":
    """In the new process: turn into the command, or tell why not."""
    try:
        os.setsid()
        if LINUX:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a bonus: exec of a setuid program clears it
            if os.getppid() != shim:
                os._exit(127)
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        if mark >= 0:
            os.dup2(mark, 3, inheritable=True)
            os.set_inheritable(3, True)
        if spec.group:
            with open(f"{spec.group}/cgroup.procs", "w") as file:
                file.write("0")
        limit(spec.limits)
        if spec.folder:
            os.chdir(spec.folder)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        execute(spec)
    except OSError as error:
        os.write(status, b"F%d\n" % (error.errno or 5))
    except BaseException as error:  # noqa: BLE001  whatever it is: no second shim may run on
        os.write(status, b"!%b\nF22\n" % repr(error).encode(errors="replace"))
    os._exit(127)


def limit(limits: "list[int | None]") -> None:
    """Memory, processor seconds, open files and bytes a file; never a core dump, which would hold
    the task's content. Never above what this process may set."""
    import resource

    kinds = resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE
    for kind, most in ((resource.RLIMIT_CORE, 0), *zip(kinds, limits, strict=True)):
        if most is not None:
            _, hard = resource.getrlimit(kind)
            soft, most = most, most + (kind == resource.RLIMIT_CPU)  # SIGXCPU, then SIGKILL
            if hard != resource.RLIM_INFINITY:
                soft, most = min(soft, hard), min(most, hard)
            resource.setrlimit(kind, (soft, most))


def execute(spec: Spec) -> None:
    """exec, by the PATH of the command's own environment. Raises OSError."""
    name = spec.argv[0]
    if b"/" in name:
        os.execve(name, spec.argv, spec.environment)  # noqa: S606
    worst = FileNotFoundError(2, "no such command")
    for folder in spec.environment.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin").split(b":"):
        try:
            os.execve((folder or b".") + b"/" + name, spec.argv, spec.environment)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:  # another of this name may stand later in PATH
            worst = error  # type: ignore[assignment]
    raise worst


def kill_group(folder: str, patience_ms: int = 0) -> None:
    """SIGKILL to a whole cgroup, by the kernel, whoever forks meanwhile; gone once it is empty. Who
    is killed leaves it a little after his files are closed: for so long he is waited for."""
    until = now() + patience_ms * 1_000
    while os.path.exists(folder):
        try:
            with open(f"{folder}/cgroup.kill", "w") as file:
                file.write("1")
            os.rmdir(folder)
        except OSError:
            if now() >= until:
                return
            time.sleep(0.002)


def _drained(pipe: int) -> bytes:
    try:
        return os.read(pipe, 4_096)
    except BlockingIOError:
        return b""


def _nothing(_number: int, _frame: object) -> None:
    """A handler must be there for a signal to reach the pipe."""


def main() -> "NoReturn":
    """The program. It always ends the tree before it ends itself."""
    mark, lifeline, status = map(int, sys.argv[1:4])
    for own in (mark, lifeline, status):
        if own >= 0:
            os.set_inheritable(own, False)
    shim = Shim(mark, lifeline, status)
    try:
        shim.run()
    except Exception as error:  # noqa: BLE001  it is told, and nothing may be left behind
        shim.tell(b"!" + repr(error).encode(errors="replace")[:500])
        shim.why = shim.why or "shim_died"
        if shim.command:
            shim.kill()
        os._exit(70)
    os._exit(0)


if __name__ == "__main__":
    main()
