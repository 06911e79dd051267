"""Says what a store stands on, what is wrong with it, and what to do about it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator

from fencepost.clock import BEHIND_MARK, SECOND, to_rfc3339
from fencepost.handle import Handle
from fencepost.issues import Unavailable
from fencepost.operate import doctor_postgres
from fencepost.operate.finding import LEVELS, MIB, Facts, Finding, Level
from fencepost.storage.sqlite.place import UNKNOWN, is_refused
from fencepost.storage.sqlite.store import WAL_BYTES
from fencepost.worker.containment import not_covered

WAL_RESET_FIXED = (3, 51, 3)
TURN_SECONDS = 2.0
LONG_WAIT = 0.5
UNSEALED = 50_000
LOW_DISK = 256 * 1024 * 1024


def doctor(handle: Handle) -> list[Finding]:
    """All findings. Looks only: the one thing that it takes, for a moment, is the turn."""
    facts = handle.examined()
    of_a_server = "server" in facts
    looks = (*((*doctor_postgres.LOOKS, _schema) if of_a_server else OF_A_FILE), *OF_EVERY_STORE)
    found = [finding for look in looks for finding in look(facts)]
    found += () if of_a_server else _turn(handle)
    return [*found, *_clock(handle, facts), *_destinations(handle)]


def worst(findings: list[Finding]) -> Level:
    """The gravest level among the findings."""
    return max((finding.level for finding in findings), key=LEVELS.index, default="ok")


def _sqlite(facts: Facts) -> Iterator[Finding]:
    version = facts["sqlite_version"]
    if tuple(int(part) for part in version.split(".")[:3]) >= WAL_RESET_FIXED:
        yield Finding("ok", "sqlite", f"SQLite {version}")
        return
    yield Finding(
        "note", "sqlite",
        f"SQLite {version} can damage a file when two connections write or checkpoint at the same "
        "moment (mended in 3.51.3). Fencepost's processes do both in turns only, so they are safe",
        "do not write this file, and do not run a checkpoint on it, with another program",
    )  # fmt: skip


def _journal_mode(facts: Facts) -> Iterator[Finding]:
    mode = facts["journal_mode"]
    if mode == "wal":
        yield Finding("ok", "journal_mode", "write-ahead logging")
    elif mode == "memory" and facts["path"] == ":memory:":
        yield Finding("note", "journal_mode", "a store in memory: it ends with its process")
    else:
        yield Finding(
            "bad", "journal_mode", f"the journal mode is {mode}, not wal: readers and writers "
            "keep each other waiting", "see which program has changed it, and open the store again",
        )  # fmt: skip


def _synchronous(facts: Facts) -> Iterator[Finding]:
    value = facts["synchronous"]
    if value in ("full", "extra"):
        yield Finding("ok", "synchronous", f"{value}: what is acknowledged is on the disk")
    else:
        yield Finding(
            "bad", "synchronous", f"synchronous is {value}: a power cut can lose acknowledged work",
            "report it: Fencepost sets full and reads it back on every connection",
        )  # fmt: skip


def _wal(facts: Facts) -> Iterator[Finding]:
    size = facts["wal_bytes"]
    text = f"the log has {size / MIB:.1f} MiB"
    if size > 4 * WAL_BYTES:
        yield Finding(
            "warn", "wal", text, "a reader keeps it from being shortened: look for a long "
            "backup, verify or transaction, or a process that is stopped",
        )  # fmt: skip
    else:
        yield Finding("ok", "wal", text)


def _scrub(facts: Facts) -> Iterator[Finding]:
    if facts["scrub_pending"]:
        yield Finding(
            "warn", "scrub", "erased bytes may still lie in the file or its log",
            "end what reads for long; the next commands go on with it",
        )  # fmt: skip
    else:
        yield Finding("ok", "scrub", "no erasure is waiting to be finished")


def _file_system(facts: Facts) -> Iterator[Finding]:
    kind = facts["filesystem"]
    if kind == "memory":
        return
    if kind == UNKNOWN:
        yield Finding(
            "note", "filesystem", "the type of the file system cannot be told here",
            "make sure that it is a local disk",
        )  # fmt: skip
    elif is_refused(kind):
        yield Finding(
            "warn", "filesystem", f"{kind} was allowed by name; SQLite's locks and shared memory "
            "cannot be relied on there", "use it from one machine only, or move to a local disk",
        )  # fmt: skip
    else:
        yield Finding("ok", "filesystem", kind)
    free = shutil.disk_usage(os.path.dirname(facts["path"])).free
    if free < LOW_DISK:
        yield Finding(
            "warn", "disk", f"{free / MIB:.0f} MiB are free", "make room: a full disk refuses work"
        )
    else:
        yield Finding("ok", "disk", f"{free / MIB:,.0f} MiB are free")


def _permissions(facts: Facts) -> Iterator[Finding]:
    if facts["path"] == ":memory:":
        return
    if not facts["writable"]:
        yield Finding(
            "warn", "permissions", "this user cannot write the file: the store is read-only",
            "make the file and its folder writable, if this user is to work with it",
        )  # fmt: skip
        return
    mode = stat.S_IMODE(os.stat(facts["path"]).st_mode)
    if os.name == "posix" and mode & stat.S_IWOTH:
        yield Finding(
            "warn", "permissions", f"every user of the machine may write the file ({mode:04o})",
            f"chmod o-w {facts['path']}",
        )  # fmt: skip
    else:
        yield Finding("ok", "permissions", f"{mode:04o}")


def _identity(facts: Facts) -> Iterator[Finding]:
    found = facts.get("identity")
    if found is None:
        return
    readable = [name for name in ("handle", "born", "machine", "boot") if name in found["readable"]]
    known_by = " and ".join([", ".join(readable), "the sidecar"] if readable else ["the sidecar"])
    if found["unrecognised"]:
        yield Finding(
            "warn", "identity", f"this is a copy that nobody has recognised: "
            f"{found['unrecognised']}", "whoever may write it begins a new epoch by opening it",
        )  # fmt: skip
    elif not {"handle", "born"} & set(readable):
        yield Finding(
            "note", "identity", f"a copy is known by {known_by}: neither the file's handle nor its "
            "birth can be read here", "never copy the store together with its sidecar",
        )  # fmt: skip
    else:
        yield Finding("ok", "identity", f"a copy is known by {known_by}")


def _schema(facts: Facts) -> Iterator[Finding]:
    version, changed = facts["schema_version"], facts["schema_changed"]
    if changed is None:
        yield Finding(
            "note", "schema", f"version {version}; whether somebody has changed it cannot be seen: "
            "this role may make no temporary table", "grant temporary on the database, look again",
        )  # fmt: skip
    elif changed:
        yield Finding(
            "bad", "schema", f"version {version}, but somebody has changed: {', '.join(changed)}",
            "undo it, or take a backup, make a new store and move the tasks over",
        )  # fmt: skip
    else:
        yield Finding("ok", "schema", f"version {version}, as this program has it")


def _journal(facts: Facts) -> Iterator[Finding]:
    number = facts["unsealed"]
    text = f"{number:,} of {facts['entries']:,} entries are not sealed yet"
    if number > UNSEALED:
        yield Finding(
            "warn", "journal", text, "run: fencepost seal (no process has had the time)"
        )
    else:
        yield Finding("note" if number else "ok", "journal", text)


def _leases(facts: Facts) -> Iterator[Finding]:
    number = facts["lapsed"]
    if number:
        yield Finding(
            "note", "leases", f"{number:,} leases have ended and are not settled yet",
            "the next claims settle them; fencepost sweep does it at once",
        )  # fmt: skip
    else:
        yield Finding("ok", "leases", "no lease has lapsed")


def _turn(handle: Handle) -> Iterator[Finding]:
    try:
        waited = handle.probe_turn(TURN_SECONDS)
    except Unavailable as error:
        yield Finding(
            "bad", "turn", str(error), "see whether that process is stopped; end it, if it is"
        )
        return
    text = f"the turn to write came after {waited * 1000:.0f} ms"
    if waited > LONG_WAIT:
        yield Finding("warn", "turn", text, "look for long transactions or a slow disk")
    else:
        yield Finding("ok", "turn", text)


def _destinations(handle: Handle) -> Iterator[Finding]:
    """Where obligations of this scope go. Nothing is said where none have an address."""
    found = handle.destinations()
    stopped = [one for one in found if one.stopped is not None]
    for one in stopped:
        yield Finding(
            "warn", "destination", f"nothing is delivered to {one.queue}: {one.stopped}",
            f"see to that, then: fencepost destination start {one.queue}",
        )  # fmt: skip
    if found and not stopped:
        yield Finding("ok", "destination", f"{len(found)} with an address, none stopped")


def _clock(handle: Handle, facts: Facts) -> Iterator[Finding]:
    wall = handle.clock.wall()
    ahead = facts["mark"] - wall
    for jump in handle.stats()["clock_jumps"]:
        yield Finding(
            "warn", "clock", f"the wall clock jumped by {jump.seconds:+.1f} s at "
            f"{to_rfc3339(jump.at)}", "see what sets the clock of this machine",
        )  # fmt: skip
    if ahead > BEHIND_MARK:
        yield Finding(
            "warn", "clock", f"the store's time is {ahead / SECOND:.1f} s ahead of the wall clock",
            "mend the clock; if the store's time is the wrong one: fencepost clock-reset, which "
            "ends all leases",
        )  # fmt: skip
    else:
        yield Finding("ok", "clock", f"the wall clock says {to_rfc3339(wall)}")


def _writer(facts: Facts) -> Iterator[Finding]:
    writers = facts["writers"]
    last = writers[-1]
    yield Finding(
        "ok", "writer", f"epoch {last.epoch} ({last.why}, {to_rfc3339(last.recognised_at)}), "
        f"incarnation {last.incarnation[:8]}; {len(writers)} so far",
    )  # fmt: skip


def _containment(_facts: Facts) -> Iterator[Finding]:
    for sentence in not_covered():
        yield Finding(
            "note", "containment", sentence, "let tasks start no daemons, or run workers on Linux"
        )
    if not not_covered():
        yield Finding("ok", "containment", "a task's whole process tree ends with its lease")


OF_A_FILE: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _sqlite, _schema, _journal_mode, _synchronous, _file_system, _permissions, _wal, _scrub,
    _identity,
)  # fmt: skip
OF_EVERY_STORE: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _journal, _leases, _writer, _containment,
)  # fmt: skip
