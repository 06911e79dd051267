"""What `doctor` looks at where the store is in PostgreSQL: the server, and who is in its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fencepost.operate.finding import MIB, Facts, Finding

OLD_SNAPSHOT_SECONDS = 60
OLD_SNAPSHOT_AGE = 1_000_000
FULL = 0.8
MANY_DEAD = 50_000
WRAPAROUND = 1_000_000_000
DANGEROUS = {
    "fsync": "a crash of the machine can lose acknowledged work and damage the database",
    "full_page_writes": "a crash of the machine can leave torn pages: damage that nobody notices",
}
NEEDED = {
    "autovacuum": "dead rows are never taken away, and claims become slower and slower",
    "track_counts": "autovacuum does not learn where there is work for it",
}


def _server(facts: Facts) -> Iterator[Finding]:
    version = facts["server"]["version"]
    yield Finding("ok", "postgres", f"PostgreSQL {version // 10_000}.{version % 10_000}")


def _settings(facts: Facts) -> Iterator[Finding]:
    settings = facts["server"]["settings"]
    for name, why in DANGEROUS.items():
        if settings.get(name) == "off":
            yield Finding("bad", name, f"{name} is off: {why}", f"set {name} = on, and restart")
    for name, why in NEEDED.items():
        if settings.get(name) == "off":
            yield Finding("warn", name, f"{name} is off: {why}", f"set {name} = on, and reload")
    if settings.get("idle_in_transaction_session_timeout") == "0":
        yield Finding(
            "note", "settings", "no bound is set to a session that idles inside a transaction; one "
            "that is forgotten keeps every dead row since then",
            "set idle_in_transaction_session_timeout = '60s' (or so)",
        )  # fmt: skip


def _commit(facts: Facts) -> Iterator[Finding]:
    settings = facts["server"]["settings"]
    value = settings.get("synchronous_commit")
    weak = value in ("off", "local", "remote_write")
    told = f"{value} by default; Fencepost's own transactions wait for the disk" if weak else value
    if settings.get("synchronous_standby_names"):
        yield Finding("ok", "commit", f"{told}, and for a synchronous standby")
    else:
        yield Finding(
            "note", "commit", f"{told}. No standby is waited for: a fail-over to one can lose what "
            "was acknowledged last (it is noticed then: a new epoch)",
            "name synchronous_standby_names, if there is a standby to fail over to",
        )  # fmt: skip


def _connections(facts: Facts) -> Iterator[Finding]:
    server = facts["server"]
    used, most = server["connections"] + 1, server["max_connections"]
    text = f"{used} of {most} connections are in use; each process of ours has two"
    if used > FULL * most:
        yield Finding(
            "warn", "connections", text, "raise max_connections, or put a pooler before it "
            "(?pooled=1)",
        )  # fmt: skip
    else:
        yield Finding("ok", "connections", text)
    if server["idle_inside"]:
        yield Finding(
            "warn", "idle", f"{server['idle_inside']} sessions idle inside a transaction since a "
            "minute or longer", "find them in pg_stat_activity, and mend what left them so",
        )  # fmt: skip
    if server["hidden"]:
        yield Finding(
            "note", "hidden", f"what {server['hidden']} sessions of other roles do cannot be seen",
            "grant pg_read_all_stats to this role, and look again",
        )  # fmt: skip


def _pinned(facts: Facts) -> Iterator[Finding]:
    """Who keeps dead rows: the most dangerous number of a queue in PostgreSQL."""
    for what, who, age, seconds in facts["server"]["pinned"][:1]:
        since = "" if seconds is None else f", since {seconds:,} s"
        text = f"dead rows of the last {age:,} transactions are kept by {what} {who}{since}"
        old = age > OLD_SNAPSHOT_AGE or (seconds or 0) > OLD_SNAPSHOT_SECONDS
        if old or (what == "replication slot" and who.endswith("not in use")):
            yield Finding("warn", "oldest_xmin", text, "end it: it slows down every claim")
        else:
            yield Finding("ok", "oldest_xmin", text)
        return
    yield Finding("ok", "oldest_xmin", "nobody keeps dead rows from being taken away")


def _prepared(facts: Facts) -> Iterator[Finding]:
    for gid, owner, seconds in facts["server"]["prepared"]:
        yield Finding(
            "warn", "prepared", f"transaction {gid} of {owner} is prepared since {seconds:,} s: "
            "it keeps its locks and all dead rows, also over a restart",
            "commit or roll it back (commit prepared, rollback prepared)",
        )  # fmt: skip


def _tables(facts: Facts) -> Iterator[Finding]:
    tables = facts["server"]["tables"]
    size = sum(row[1] for row in tables) / MIB
    live, dead = sum(row[2] for row in tables), sum(row[3] for row in tables)
    largest = ", ".join(f"{row[0]} {row[1] / MIB:,.0f}" for row in tables[:3])
    text = f"{size:,.1f} MiB ({largest}); {live:,} rows, {dead:,} dead ones"
    heavy = [row[0] for row in tables if row[3] > max(MANY_DEAD, row[2])]
    if heavy:
        yield Finding(
            "warn", "tables", f"{text}; more dead than live in {', '.join(heavy)}",
            "see oldest_xmin, and whether autovacuum keeps up; then: vacuum",
        )  # fmt: skip
    else:
        yield Finding("ok", "tables", text)
    for name, _, _, _, age, off in tables:
        if off:
            yield Finding(
                "warn", "autovacuum", f"autovacuum is off for {name}",
                f"alter table {name} reset (autovacuum_enabled)",
            )  # fmt: skip
        if age > WRAPAROUND:
            yield Finding(
                "warn", "wraparound", f"{name} was not frozen for {age:,} transactions; at "
                "2,000,000,000 the server stops taking writes", f"vacuum (freeze) {name}",
            )  # fmt: skip


def _indexes(facts: Facts) -> Iterator[Finding]:
    server = facts["server"]
    if server["invalid_indexes"]:
        names = ", ".join(server["invalid_indexes"])
        yield Finding("bad", "indexes", f"not valid: {names}", "run: reindex index concurrently")
    if server["collation"] is not None:
        made, here = server["collation"]
        yield Finding(
            "bad", "collation", f"text was sorted by collation version {made}, and {here} is here: "
            "an index may not find what is there, a key may be taken twice",
            "reindex the database, then: alter database … refresh collation version",
        )  # fmt: skip


def _rights(facts: Facts) -> Iterator[Finding]:
    missing = facts["server"]["missing_rights"]
    if missing:
        yield Finding(
            "bad", "rights", f"this role may not use: {', '.join(missing)}",
            "grant it what docs/postgres.md says",
        )  # fmt: skip
    else:
        yield Finding("ok", "rights", "this role may do all that a store needs")


def _erased(facts: Facts) -> Iterator[Finding]:
    yield Finding(
        "note", "erase", "erased bytes are gone for every reader at once; on the disk they stay in "
        "dead rows until a vacuum, in the write-ahead log until it is recycled, and in every "
        "backup, archive and standby of before",
        "if they have to be gone there too: vacuum full our tables, and bound how long log and "
        "backups are kept",
    )  # fmt: skip


LOOKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _server, _settings, _commit, _connections, _pinned, _prepared, _tables, _indexes, _rights,
    _erased,
)  # fmt: skip
