"""A short story of a store, told call by call, for a disk that fails at some call of it.

The commands do not rest on one another, so that each has one true answer whatever happened to the
others: what it has on a good disk, or that the store is unavailable (and then nothing was done),
or that the outcome is unknown. `live` tells what it was answered; `judge` opens what is left, in
another process, and says what of it is not true.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fencepost
from fencepost import commands as c
from fencepost.handle import Handle
from fencepost.storage.sqlite.copying import integrity
from helpers.lab import QUEUE, raw
from helpers.workload import opened

Tell = Callable[[dict[str, Any]], None]
Known = dict[str, tuple[str, str]]  # name → (bytes of the request, its key)
UNAVAILABLE, UNKNOWN = "store_unavailable", "outcome_unknown"
TRIES = 3
LEASED = ("submit", "complete", "fail", "release")
WHOLE = ("cancel", "erase", "claim")


def prepare(path: Path) -> None:
    """The store as the story finds it: for each command a task of its own, leased where due."""
    with opened(path, seed=1) as fp:  # each process draws numbers of its own
        fp.queue_set(QUEUE, destinations=["outbox"], max_attempts=5)
        for name in (*LEASED, *WHOLE):
            fp.enqueue(QUEUE, {"for": name}, key=name)
        for name in LEASED:
            task_id = fp.task_by_key(QUEUE, name).task_id
            (_,) = fp.claim(worker_id="w1", task_id=task_id, lease_seconds=600)
    with raw(path) as own:
        own.execute("create table mine (n integer)")


def requests(fp: Handle) -> dict[str, c.Request]:
    """The commands by name, in their order."""
    tasks = {name: fp.task_by_key(QUEUE, name) for name in (*LEASED, *WHOLE) if name != "erase"}
    bound = {name: (tasks[name].task_id, "w1", tasks[name].fence) for name in LEASED}
    follow = (c.Followup("more", queue="next"),)
    big = {"rows": ["x" * 500] * 12}
    commands: dict[str, c.Command] = {
        "enqueue": c.Enqueue(QUEUE, (c.NewTask(big, "new"), c.NewTask(2))),
        "claim": c.Claim("w2", None, tasks["claim"].task_id),
        "submit": c.Submit(*bound["submit"], result={"row": 1}),
        "complete": c.Complete(*bound["complete"], result=big, followups=follow),
        "fail": c.Fail(*bound["fail"], reason="no luck"),
        "release": c.Release(*bound["release"]),
        "cancel": c.Cancel(tasks["cancel"].task_id),
        "settings": c.QueueSet(QUEUE, {"max_attempts": 4}),
    }
    return {name: c.Request.of(command, f"key-{name}") for name, command in commands.items()}


def ask(fp: Handle, request: c.Request) -> dict[str, Any]:
    """What a command is answered; the code stands for an error that was raised."""
    try:
        (outcome,) = fp.execute([request])
    except fencepost.FencepostError as error:
        return {"issues": [error.code], "replayed": False, "entry": None}
    receipt = outcome.receipt
    entry = None if receipt is None else receipt.body.decode()
    return {"issues": list(outcome.issues), "replayed": outcome.replayed, "entry": entry}


def begin(path: Path, known: Known, tell: Tell) -> None:
    """Create a store, send what there is to be sent, close."""
    fp = _opened(path, tell)
    if fp is not None:
        for name, (body, key) in known.items():
            _send(fp, name, c.Request.read(body.encode(), key), tell)
        _try("close", tell, fp.close)


def live(path: Path, known: Known, tell: Tell) -> None:
    """Open, send each command until it is answered (three times at most), seal, read, work in an
    application's transaction, erase, close."""
    fp = _opened(path, tell)
    if fp is None:
        return
    for name, (body, key) in known.items():
        request = c.Request.read(body.encode(), key)
        _send(fp, name, request, tell)
        if name == "complete":
            _try("seal", tell, fp.seal)
            _try("read", tell, lambda: [task.state for task in fp.tasks(QUEUE)])
            _within(fp, path, tell)
    erased = _try("read", tell, lambda: fp.task_by_key(QUEUE, "erase").task_id)
    if erased is not None:
        _send(fp, "erase", c.Request.of(c.Erase(erased), "key-erase"), tell)
    _try("verify", tell, lambda: _clean(fp))
    _try("close", tell, fp.close)


def _opened(path: Path, tell: Tell) -> Handle | None:
    for _ in range(TRIES):
        fp = _try("open", tell, lambda: opened(path, seed=2))
        if fp is not None:
            tell({"opened": True})
            return fp
    return None


def _send(fp: Handle, name: str, request: c.Request, tell: Tell) -> None:
    for _ in range(TRIES):
        tell({"sent": name})
        answer = ask(fp, request)
        tell({"answered": name, **answer})
        if not {UNAVAILABLE, UNKNOWN} & {*answer["issues"]}:
            return


def _try(what: str, tell: Tell, call: Callable[[], Any]) -> Any:
    """What the call gives. Only errors in our own words may come instead."""
    try:
        return call()
    except fencepost.FencepostError as error:
        tell({"did not": what, "issues": [error.code]})
    except Exception as error:  # noqa: BLE001  this is what is looked for
        tell({"leaked": what, "error": f"{type(error).__name__}: {error}"[:200]})
    return None


def _clean(fp: Handle) -> None:
    found = fp.verify()
    if not found.clean:
        raise AssertionError(f"verify: {found.problems[0]}")


def _within(fp: Handle, path: Path, tell: Tell) -> None:
    """Both rows or neither: the application's and ours."""
    tell({"sent": "within"})
    try:
        with raw(path) as own, fp.within(own) as tx:
            own.execute("insert into mine values (1)")
            tx.enqueue(QUEUE, "inside", key="inside")
    except fencepost.FencepostError as error:
        tell({"answered": "within", "issues": [error.code], "replayed": False, "entry": None})
    except sqlite3.Error:  # of the application's own statement, on its own connection
        tell({"answered": "within", "issues": [UNKNOWN], "replayed": False, "entry": None})
    else:
        tell({"answered": "within", "issues": [], "replayed": False, "entry": None})


# -- afterwards


def judge(path: Path, known: Known, told: list[dict[str, Any]]) -> list[str]:
    """What was told and is not true of the store that is left."""
    wrong = [f"{t['leaked']} let through {t['error']}" for t in told if "leaked" in t]
    with opened(path, seed=3) as fp:
        with fp._store.snapshot() as read:
            wrong += [f"damaged pages: {line}" for line in integrity(read)[:1]]
        wrong += [f"verify: {p.code} at {p.place}" for p in fp.verify().problems[:1]]
        for name, (body, key) in known.items():
            request = c.Request.read(body.encode(), key)
            answers = [t for t in told if t.get("answered") == name]
            wrong += [f"{name}: {what}" for what in _untrue(fp, request, answers)]
        wrong += [] if len(known) == 1 else _untrue_rest(fp, path, told)
        wrong += [f"verify in the end: {p.code} at {p.place}" for p in fp.verify().problems[:1]]
    return wrong


def _untrue_rest(fp: Handle, path: Path, told: list[dict[str, Any]]) -> Iterator[str]:
    yield from _untrue_within(fp, path, [t for t in told if t.get("answered") == "within"])
    yield from _untrue_erase(fp, [t for t in told if t.get("answered") == "erase"])
    yield from _ending(fp)


def _untrue(fp: Handle, request: c.Request, answers: list[dict[str, Any]]) -> Iterator[str]:
    first, second = ask(fp, request), ask(fp, request)
    if first["issues"] or second["issues"] or not second["replayed"]:
        yield f"sent again: {first['issues']}, then {second['issues']}"
    if first["entry"] != second["entry"]:
        yield "sent again twice: two receipts"
    undone = bool(answers)  # all that was told: nothing was done
    for answer in answers:
        issues = answer["issues"]
        if issues == []:
            if answer["entry"] != first["entry"]:
                yield "the receipt that was told is not the one that is found"
            if undone and answer["replayed"]:
                yield "nothing was done, it was told, but it was"
        elif issues not in ([UNAVAILABLE], [UNKNOWN]):
            yield f"refused: {issues}"
        undone = undone and issues == [UNAVAILABLE]
    if undone and first["replayed"]:
        yield "nothing was done, it was told, but it was"


def _untrue_within(fp: Handle, path: Path, answers: list[dict[str, Any]]) -> Iterator[str]:
    with raw(path) as own:
        ((mine,),) = own.execute("select count(*) from mine").fetchall()
    ours = sum(task.key == "inside" for task in fp.tasks(QUEUE))
    if mine != ours:
        yield f"within: {mine} rows of the application, {ours} of ours"
    for answer in answers:
        if answer["issues"] == [] and not ours:
            yield "within: it was told as committed and is not there"
        if answer["issues"] not in ([], [UNAVAILABLE], [UNKNOWN]):
            yield f"within: {answer['issues']}"
        if answer["issues"] == [UNAVAILABLE] and ours:
            yield "within: nothing was done, it was told, but it was"


def _untrue_erase(fp: Handle, answers: list[dict[str, Any]]) -> Iterator[str]:
    try:
        there = fp.task_by_key(QUEUE, "erase").payload is not None
    except fencepost.FencepostError:
        there = False
    for answer in answers:
        if answer["issues"] == [] and there:
            yield "erase: accepted, but the payload is there"
        if answer["issues"] not in ([], [UNAVAILABLE], [UNKNOWN], ["receipt_erased"]):
            yield f"erase: {answer['issues']}"
    if answers and all(a["issues"] == [UNAVAILABLE] for a in answers) and not there:
        yield "erase: nothing was done, it was told, but it was"


def _ending(fp: Handle) -> Iterator[str]:
    """All has been sent again: the same end as on a good disk."""
    states = {task.key: task.state for task in fp.tasks(QUEUE) if task.key}
    expected = {"submit": "leased", "complete": "done", "fail": "ready", "release": "ready",
                "cancel": "cancelled", "claim": "leased", "new": "ready"}  # fmt: skip
    for name, state in expected.items():
        if states.get(name) != state:
            yield f"the task of {name} is {states.get(name)}, not {state}"


def known_of(path: Path) -> Known:
    """The requests of `requests` as they are sent, for a store that `prepare` made."""
    with opened(path) as fp:
        made = requests(fp)
    return {name: (request.body.decode(), request.key or "") for name, request in made.items()}
