"""What each lookup finds, against a plain walk over all rows: exactly what it was asked for.

The machine judges what it is given, so a lookup that finds too much spoils no answer; it would
load other tasks' rows, slow every batch down and hide what was asked for behind a `limit`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fencepost import commands as c
from fencepost.storage.looking import EVER
from fencepost.storage.sqlite.driver import STATEMENTS
from helpers.stand import QUEUE, Make, Stand, binding

Row = dict[str, Any]
LOOKUPS: dict[str, Callable[[Stand], None]] = {}


def lookup(function: Callable[[Stand], None]) -> Callable[[Stand], None]:
    """Registers what a statement of that name must find."""
    LOOKUPS[function.__name__] = function
    return function


@contextmanager
def peopled(make: Make) -> Iterator[Stand]:
    """Two scopes with queues and task keys of the same names, tasks in every place, messages."""
    with make() as stand:
        for scope in ("s", "t"):
            fp = stand.fp.as_caller("local", scope=scope)
            fp.queue_set(QUEUE, destinations=["out"], keep_refused=2)
            for queue in (QUEUE, "other"):
                for number in range(8):
                    fp.enqueue(queue, number, key=f"k{number}", idempotency_key=f"{queue}{number}")
                leases = fp.claim(queue, worker_id="w", limit=7)
                for number, lease in enumerate(leases[:5]):
                    lease.submit({"row": 1})
                    lease.submit({"row": number + 2})
                ways: list[tuple[str, Row]] = [
                    ("complete", {}), ("fail", {"then": "block"}), ("fail", {"then": "give_up"}),
                    ("fail", {"then": "retry", "retry_seconds": 5}),
                ]  # fmt: skip
                for lease, (verb, more) in zip(leases, ways, strict=False):
                    stand.ask(c.COMMANDS[verb](**binding(lease), **more), "local", scope=scope)
                stand.clock.advance(3)
        yield stand


def rows(stand: Stand, table: str) -> list[Row]:
    """All rows of a table."""
    cursor = stand.connection.execute(f"select * from fencepost_{table}")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def found(stand: Stand, name: str, column: int = 0, **values: Any) -> list[Any]:
    """One column of what the statement finds, sorted."""
    bound = {n: json.dumps(v) if isinstance(v, list) else v for n, v in values.items()}
    return sorted(row[column] for row in stand.connection.execute(STATEMENTS[name], bound))


def ids(chosen: list[Row], column: str = "id") -> list[Any]:
    """Their ids, sorted."""
    return sorted(row[column] for row in chosen)


@lookup
def scopes(stand: Stand) -> None:
    assert found(stand, "scopes", names=["t", "u"]) == ["t"]


@lookup
def queues_by_name(stand: Stand) -> None:
    chosen = [q for q in rows(stand, "queue") if (q["scope"], q["queue"]) == ("t", QUEUE)]
    assert found(stand, "queues_by_name", names=[["t", QUEUE]]) == ids(chosen)


def _three_tokens(stand: Stand) -> list[str]:
    """Their digests; two are of one scope."""
    digests = [f"{n:02}" * 32 for n in range(3)]
    for scope, digest in zip("sst", digests, strict=True):
        stand.ask(c.TokenCreate(digest, "worker", "w"), scope=scope, key=digest)
    return digests


@lookup
def tokens_by_id(stand: Stand) -> None:
    _three_tokens(stand)
    second = rows(stand, "token")[1]
    assert found(stand, "tokens_by_id", ids=[second["token_id"], "no"]) == [second["token_id"]]


@lookup
def token_by_sha256(stand: Stand) -> None:
    digest = bytes.fromhex(_three_tokens(stand)[1])
    chosen = [t for t in rows(stand, "token") if t["sha256"] == digest]
    assert found(stand, "token_by_sha256", sha256=digest) == ids(chosen, "token_id")


@lookup
def tokens_of_scope(stand: Stand) -> None:
    _three_tokens(stand)
    chosen = [t for t in rows(stand, "token") if t["scope"] == "s"]
    assert len(chosen) == 2
    assert found(stand, "tokens_of_scope", scope="s") == ids(chosen, "token_id")


def _destinations(stand: Stand) -> list[Row]:
    """Where the obligations of both scopes go, and those of another queue."""
    for scope in ("s", "t"):
        fp = stand.fp.as_caller("local", scope=scope)
        fp.destination_set("out", "https://h.example", class_="fenced")
        fp.destination_set("beside", "https://h.example", class_="fenced")
    return rows(stand, "destination")


def _places(stand: Stand, chosen: list[Row]) -> list[tuple[str, str]]:
    queues = {q["id"]: (q["scope"], q["queue"]) for q in rows(stand, "queue")}
    return sorted(queues[row["queue_id"]] for row in chosen)


def _by_queue(stand: Stand, name: str) -> None:
    second = _destinations(stand)[1]
    asked = json.dumps([second["queue_id"], 999])
    got = [tuple(row[:2]) for row in stand.connection.execute(STATEMENTS[name], {"ids": asked})]
    assert got == _places(stand, [second])


@lookup
def destinations_by_queue(stand: Stand) -> None:
    _by_queue(stand, "destinations_by_queue")


@lookup
def destinations_held(stand: Stand) -> None:
    _by_queue(stand, "destinations_held")


@lookup
def destinations_of_scope(stand: Stand) -> None:
    _destinations(stand)
    got = stand.connection.execute(STATEMENTS["destinations_of_scope"], {"scope": "t"})
    assert [tuple(row[:2]) for row in got] == [("t", "beside"), ("t", "out")]


@lookup
def stop_destinations(stand: Stand) -> None:
    _destinations(stand)
    stand.fp.destination_set("out", stopped="before")
    stand.connection.execute(STATEMENTS["stop_destinations"], {"why": "copied"})
    assert sorted(row["stopped"] for row in rows(stand, "destination")) == [
        "before", "copied", "copied", "copied",
    ]  # fmt: skip


@lookup
def tasks_by_id(stand: Stand) -> None:
    third = rows(stand, "task")[2]
    assert found(stand, "tasks_by_id", ids=[third["task_id"], "no"]) == [third["id"]]


@lookup
def tasks_by_key(stand: Stand) -> None:
    chosen = [t for t in rows(stand, "task") if (t["queue_id"], t["key"]) == (1, "k3")]
    assert found(stand, "tasks_by_key", keys=[[1, "k3"]]) == ids(chosen)
    assert len(chosen) == 1


@lookup
def receipts_by_key(stand: Stand) -> None:
    chosen = [e for e in rows(stand, "entry") if e["key"] == "t local q3"]
    assert found(stand, "receipts_by_key", 1, keys=["t local q3"]) == ids(chosen, "number")
    assert len(chosen) == 1


@lookup
def receipts_by_request(stand: Stand) -> None:
    own = next(e for e in rows(stand, "entry") if e["task"] is not None)
    other = "update fencepost_entry set request_id = ? where task <> ?"  # the same bytes elsewhere
    stand.connection.execute(other, (own["request_id"], own["task"]))
    asked = [[own["task"], own["request_id"]]]
    assert found(stand, "receipts_by_request", 1, requests=asked) == [own["number"]]


@lookup
def contents(stand: Stand) -> None:
    first, second, third = rows(stand, "task")[:3]
    for task, mark in ((second, b"2"), (third, b"3")):
        stand.connection.execute(
            "insert into fencepost_remark values (?, ?, null)", (task["id"], mark)
        )
    asked = [first["task_id"], second["task_id"], "no"]
    assert found(stand, "contents", ids=asked) == sorted(asked[:2])
    assert [m for m in found(stand, "contents", 2, ids=asked[1:]) if m] == [b"2"]


@lookup
def result_entry(stand: Stand) -> None:
    for own in rows(stand, "result"):
        place = {name: own[name] for name in ("task", "round", "sha256")}
        assert found(stand, "result_entry", **place) == [own["entry"]]
        assert found(stand, "result_entry", **{**place, "round": 2}) == []


@lookup
def commitment(stand: Stand) -> None:
    stand.fp.as_caller("anna", "human").review(rows(stand, "task")[1]["task_id"], 2, "accepted")
    for own in rows(stand, "result"):
        place = {"task": own["task"], "revision": own["revision"]}
        assert found(stand, "commitment", **place) == [own["commitment"]]


def _placed(stand: Stand, queue: int, place: int, most: int | None = None) -> list[int]:
    tasks = [t for t in rows(stand, "task") if (t["queue_id"], t["place"]) == (queue, place)]
    chosen = [t for t in tasks if most is None or t["rank"] <= most]
    assert chosen or most == 0
    return ids(chosen)


@lookup
def ready_tasks(stand: Stand) -> None:
    assert found(stand, "ready_tasks", queue_id=1, limit=99) == _placed(stand, 1, 0)


@lookup
def lapsed_tasks(stand: Stand) -> None:
    for now in (0, stand.fp.now() + 58_000_000, 2**60):
        place = {"queue_id": 1, "since": EVER, "now": now, "limit": 99}
        lapsed = _placed(stand, 1, 2, now or 0)
        assert found(stand, "lapsed_tasks", **place) == lapsed
        for since in {t["rank"] for t in rows(stand, "task")}:
            later = {t["id"] for t in rows(stand, "task") if t["rank"] >= since}
            asked = {**place, "since": since}
            assert found(stand, "lapsed_tasks", **asked) == sorted(later.intersection(lapsed))


@lookup
def ended_tasks(stand: Stand) -> None:
    for place in (4, 5):
        for before in (0, 2**60):
            asked = {"queue_id": 1, "place": place, "before": before, "limit": 99}
            assert found(stand, "ended_tasks", **asked) == _placed(stand, 1, place, before)


@lookup
def promote_due(stand: Stand) -> None:
    # 2 s after the first queues' waits are over, those of scope `t` are still to come
    now = min(t["due_at"] for t in rows(stand, "task") if t["place"] == 1)
    was = {t["id"]: t["place"] for t in rows(stand, "task")}
    due = _placed(stand, 1, 1, now)
    assert due
    asked = {"queue_id": 1, "since": EVER, "now": now}
    stand.connection.execute(STATEMENTS["promote_due"], {**asked, "now": now - 1})
    stand.connection.execute(STATEMENTS["promote_due"], {**asked, "since": now + 1, "now": now + 9})
    assert {t["id"]: t["place"] for t in rows(stand, "task")} == was
    stand.connection.execute("update fencepost_task set rank = ? where place = 1", (now,))
    stand.connection.execute(STATEMENTS["promote_due"], {**asked, "since": now})
    moved = {t["id"]: t["place"] for t in rows(stand, "task")}
    assert {task for task in was if moved[task] != was[task]} == set(due)


@lookup
def obligations_of(stand: Stand) -> None:
    fp = stand.fp
    parent = rows(stand, "task")[0]
    stand.connection.execute(
        "update fencepost_task set parent = ? where queue_id <> 2 and id % 3 = 0", (parent["id"],)
    )
    destination = {q["id"] for q in rows(stand, "queue") if q["is_destination"]}
    owed = [t for t in rows(stand, "task")
            if t["parent"] == parent["id"] and t["queue_id"] in destination]  # fmt: skip
    fp.erase(owed[0]["task_id"])
    assert found(stand, "obligations_of", task=parent["id"], limit=99) == ids(owed[1:], "task_id")


@lookup
def end_leases(stand: Stand) -> None:
    stand.connection.execute("update fencepost_task set epoch = 1 where id = 6")
    before = {t["id"]: t for t in rows(stand, "task")}
    now = 1
    stand.connection.execute(STATEMENTS["end_leases"], {"now": now, "floor": 1})
    changed = {t["id"] for t in rows(stand, "task") if t != before[t["id"]]}
    assert changed == {i for i, t in before.items() if t["state"] == "leased" and t["epoch"] == 0}


@lookup
def wait_again(stand: Stand) -> None:
    timed = "update fencepost_task set due_at = due_at + 1 where place <> 1 and id % 2 = 0"
    stand.connection.execute(timed)
    before = {t["id"]: t for t in rows(stand, "task")}
    assert not any(t["due_at"] > stand.fp.now() for t in before.values() if t["place"] == 0)
    ready = [t for t in before.values() if t["place"] == 0]
    now = min(t["due_at"] for t in ready if t["due_at"] != t["created_at"])
    stand.connection.execute(STATEMENTS["wait_again"], {"now": now})
    changed = {t["id"] for t in rows(stand, "task") if t != before[t["id"]]}
    late = [t for t in ready if t["due_at"] > now]
    assert changed == {t["id"] for t in late if t["due_at"] != t["created_at"]}
    assert len(late) > len(changed)
    assert changed and all(t["rank"] == t["due_at"] for t in rows(stand, "task")
                           if t["id"] in changed)  # fmt: skip


def attempt(name: str, make: Make) -> None:
    """Check one lookup on a store with rows that it must not find."""
    with peopled(make) as stand:
        LOOKUPS[name](stand)
