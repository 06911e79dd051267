"""A primary and its standbys on this machine, to be killed, stalled, promoted and wound back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from helpers.pg_side import until
from helpers.postgres import Server, as_user, binaries

# A standby has a copy of its own; nothing has to outlive this machine.
SETTINGS = (
    "fsync=off", "shared_buffers=16MB", "max_connections=60", "wal_log_hints=on",
    "wal_keep_size=256MB", "hot_standby=on", "wal_receiver_status_interval=1s",
    "wal_retrieve_retry_interval=100ms", "timezone=Asia/Kathmandu",
)  # fmt: skip


class Cluster:
    """Servers by name; `a` is the first primary."""

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self.stalled: list[int] = []

    def __getitem__(self, name: str) -> Server:
        return self.servers[name]

    def primary(self) -> Server:
        server = self.servers["a"] = Server(SETTINGS).start()
        return server

    def copy(self, name: str, of: str = "a", *, standby: bool) -> Server:
        """A base backup of a running server, started: to follow it, or as a server of its own."""
        server = self.backup(name, of)
        if standby:
            self.follow(name, of)
        return server.start()

    def backup(self, name: str, of: str = "a") -> Server:
        """A base backup of a running server, not started yet."""
        folder = _folder()
        _run(
            "pg_basebackup", "-D", str(folder / "data"), "--checkpoint=fast", "--no-sync",
            "-d", _conninfo(self[of]),
        )  # fmt: skip
        server = self.servers[name] = Server(SETTINGS, folder=folder)
        return server

    def cold_copy(self, name: str, of: str = "a") -> Server:
        """The files of a server that has been shut down, not started yet."""
        folder = _folder()
        subprocess.run(["cp", "-a", str(self[of].data), str(folder / "data")], check=True)
        server = self.servers[name] = Server(SETTINGS, folder=folder)
        return server

    def follow(self, name: str, of: str) -> None:
        """Have a server that does not run follow another at its next start."""
        data = self[name].data
        told = f"{_conninfo(self[of])} application_name={name}"
        with (data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{told}'\n")
        (data / "standby.signal").touch()

    def synchronous(self, names: str, of: str = "a") -> None:
        """Which standbys have to have a commit before it is acknowledged; none: ''."""
        with psycopg.connect(self[of].url(), autocommit=True) as admin:
            admin.execute(f"alter system set synchronous_standby_names = '{names}'")
            admin.execute("select pg_reload_conf()")
            shown = "select current_setting('synchronous_standby_names')"
            until(lambda: admin.execute(shown).fetchone() == (names,), "the setting")

    def streaming(self, *names: str, of: str = "a") -> None:
        """Return when these follow and have all that has been written."""
        sql = (
            "select count(*) from pg_stat_replication where state = 'streaming' "
            "and application_name = any(%s) and replay_lsn = pg_current_wal_lsn()"
        )
        with psycopg.connect(self[of].url(), autocommit=True) as admin:
            until(lambda: admin.execute(sql, [[*names]]).fetchone() == (len(names),), "standbys")

    def stall(self, name: str, of: str = "a") -> None:
        """This standby hears nothing more: the process that sends to it is stopped."""
        sql = "select pid from pg_stat_replication where application_name = %s"
        with psycopg.connect(self[of].url(), autocommit=True) as admin:
            ((pid,),) = admin.execute(sql, [name]).fetchall()
        os.kill(pid, signal.SIGSTOP)
        self.stalled.append(pid)

    def kill(self, name: str) -> None:
        """As a node that is gone: the server and whatever of it was stopped."""
        self[name].kill()
        for pid in self.stalled:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.stalled.clear()

    def promote(self, name: str) -> Server:
        """Make a standby a primary; returns when it takes writes."""
        with psycopg.connect(self[name].url(), autocommit=True) as admin:
            admin.execute("select pg_promote(true, 60)")
            sql = "select pg_is_in_recovery()"
            until(lambda: admin.execute(sql).fetchone() == (False,), "the promotion")
        return self[name]

    def rewind(self, name: str, to: str) -> Server:
        """Wind a server that was killed back to where the other has left it, and follow that."""
        self[name].start().stop()  # it has to have been shut down
        with psycopg.connect(self[to].url(), autocommit=True) as admin:
            admin.execute("checkpoint")  # else its files tell the timeline of before
        _run(
            "pg_rewind", "-D", str(self[name].data), f"--source-server={_conninfo(self[to])}",
            "--no-sync",
        )  # fmt: skip
        self.follow(name, to)
        return self[name].start()

    def close(self) -> None:
        for pid in self.stalled:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for server in self.servers.values():
            server.close()


@contextmanager
def cluster(*standbys: str) -> Iterator[Cluster]:
    """A primary `a` and standbys that follow it."""
    made = Cluster()
    try:
        made.primary()
        for name in standbys:
            made.copy(name, standby=True)
        made.streaming(*standbys)
        yield made
    finally:
        made.close()


def dumped(server: Server, to: Server, database: str) -> None:
    """The store of `postgres` there, taken out and put into another database here."""
    text = _run("pg_dump", "-d", server.url())
    with psycopg.connect(to.url(), autocommit=True) as admin:
        admin.execute(f"create database {database}")
    _run("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", to.url(database), given=text)


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fencepost-pg-"))
    if as_user()[:1] == ("setpriv",):
        shutil.chown(folder, 65534, 65534)
    return folder


def _conninfo(server: Server) -> str:
    return f"host={server.folder} port={server.port} user=postgres dbname=postgres"


def _run(program: str, *arguments: str, given: str | None = None) -> str:
    command: Sequence[Any] = [*as_user(), str(binaries() / program), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{program}: {done.stderr}"
    return done.stdout
