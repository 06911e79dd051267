"""Eleven ways for a store on PostgreSQL to fork, each with servers of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg

from helpers.fork_table import Meanwhile, Pair, Way
from helpers.pg_cluster import Cluster, dumped
from helpers.pg_side import until
from helpers.postgres import Server

PITR = """
restore_command = 'false'
recovery_target = 'immediate'
recovery_target_action = 'promote'
"""
CLONED = (
    "update fencepost_store set started_at = pg_postmaster_start_time(), "
    "system_identifier = (select system_identifier from pg_control_system())"
)
Fork = Callable[[Cluster, Meanwhile], Pair]


def _standby(made: Cluster, name: str) -> None:
    made.copy(name, standby=True)
    made.streaming(name)


def two_standbys(made: Cluster, meanwhile: Meanwhile) -> Pair:
    _standby(made, "b")
    _standby(made, "c")
    made.streaming("b", "c")
    made.kill("a")
    return Pair(made.promote("c").url(), made.promote("b").url())


def old_leader_lives(made: Cluster, meanwhile: Meanwhile) -> Pair:
    _standby(made, "b")
    made.stall("b")
    return Pair(made.promote("b").url(), made["a"].url())


def failed_over_twice(made: Cluster, meanwhile: Meanwhile) -> Pair:
    """The original is the second heir, of the first one's line."""
    _standby(made, "b")
    _standby(made, "c")
    made.streaming("b", "c")
    made.kill("a")
    made.promote("b")
    _recognise(made["b"].url())
    made.copy("d", of="b", standby=True)
    made.streaming("d", of="b")
    made.kill("b")
    return Pair(made.promote("c").url(), made.promote("d").url())


def cold_copy(made: Cluster, meanwhile: Meanwhile) -> Pair:
    made["a"].stop()
    made.cold_copy("b").start()
    return Pair(made["b"].url(), made["a"].start().url())


def base_backup(made: Cluster, meanwhile: Meanwhile) -> Pair:
    return Pair(made.copy("b", standby=False).url(), made["a"].url())


def two_restores(made: Cluster, meanwhile: Meanwhile) -> Pair:
    """The same base backup restored twice, as the manual says it; the server itself is gone."""
    made.backup("b")
    made.cold_copy("c", of="b")
    made.kill("a")
    for name in ("b", "c"):
        data = made[name].data
        with (data / "postgresql.auto.conf").open("a") as settings:
            settings.write(PITR)
        (data / "recovery.signal").touch()
        made[name].start()
        _promoted(made[name])
    return Pair(made["c"].url(), made["b"].url())


def _promoted(server: Server) -> None:
    with psycopg.connect(server.url(), autocommit=True) as admin:
        sql = "select pg_is_in_recovery()"
        until(lambda: admin.execute(sql).fetchone() == (False,), "the end of the recovery")


def dump_elsewhere(made: Cluster, meanwhile: Meanwhile) -> Pair:
    other = made.servers["b"] = Server().start()
    dumped(made["a"], other, "restored")
    return Pair(other.url("restored"), made["a"].url())


def dump_beside(made: Cluster, meanwhile: Meanwhile) -> Pair:
    dumped(made["a"], made["a"], "restored")
    return Pair(made["a"].url("restored"), made["a"].url())


def template(made: Cluster, meanwhile: Meanwhile) -> Pair:
    with psycopg.connect(made["a"].url("template1"), autocommit=True) as admin:
        admin.execute("create database copied template postgres")
    return Pair(made["a"].url("copied"), made["a"].url())


def rolled_back(made: Cluster, meanwhile: Meanwhile) -> Pair:
    """An older data directory in the place of the newer."""
    old = made["a"]
    old.stop()
    made.cold_copy("kept")
    old.start()
    meanwhile()
    old.stop()
    shutil.rmtree(old.data)
    subprocess.run(["cp", "-a", str(made["kept"].data), str(old.data)], check=True)
    return Pair(old.start().url())


def memory_clone(made: Cluster, meanwhile: Meanwhile) -> Pair:
    """A virtual machine resumed twice: all that the store reads of its server is the same in both.
    Here a cold copy is told that it had been started when and where it was."""
    made["a"].stop()
    made.cold_copy("b")
    places = [made[name].start().url() for name in ("b", "a")]
    for place in places:
        with psycopg.connect(place, autocommit=True) as admin:
            admin.execute(CLONED)
    return Pair(*places)


def _recognise(url: str) -> None:
    import fencepost

    with fencepost.open(url) as fp:
        fp.enqueue("elsewhere", 1)


@contextmanager
def _stage(fork: Fork, folder: Path) -> Iterator[tuple[str, Callable[[Meanwhile], Pair]]]:
    made = Cluster()
    try:
        made.primary()
        yield made["a"].url(), partial(fork, made)
    finally:
        made.close()


FORKS: dict[str, Fork] = {
    "two standbys, each promoted": two_standbys,
    "the old leader lives on beside a promoted standby": old_leader_lives,
    "failed over twice on the one side, once on the other": failed_over_twice,
    "files of a stopped server copied, both started": cold_copy,
    "base backup started as a server of its own": base_backup,
    "a base backup restored twice, each promoted": two_restores,
    "dump restored in another cluster": dump_elsewhere,
    "dump restored in the same cluster": dump_beside,
    "create database … template": template,
    "an older data directory put back": rolled_back,
    "a live clone, memory and all (identical readings)": memory_clone,
}
SERVERS = {
    name: Way(name, partial(_stage, fork), blind=fork is memory_clone, put_back=fork is rolled_back)
    for name, fork in FORKS.items()
}
