"""`fencepost offline ...`: tasks taken along, worked on without a network, and brought back."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fencepost import offline
from fencepost.cli import inputs
from fencepost.cli.output import Out, again, preview
from fencepost.cli.store import open_store
from fencepost.issues import InvalidRequest, NotFound
from fencepost.model import Outcome

if TYPE_CHECKING:
    from fencepost.handle import Handle
    from fencepost.remote import RemoteHandle

DEFAULT = "offline.db"
INCOMPLETE = 3


def _path(args: Namespace) -> str:
    found: str = args.outbox or os.environ.get("FENCEPOST_OUTBOX") or DEFAULT
    return found


def opened(args: Namespace, *, create: bool = False) -> offline.Outbox:
    """The outbox that the flags name; its scope is that of --scope where one is given."""
    said = "scope" in args.given or os.environ.get("FENCEPOST_SCOPE")
    box = offline.open(
        _path(args), create=create, scope=args.scope if said else None,
        worker_id=getattr(args, "worker", None), allow_filesystem=args.allow_filesystem,
    )  # fmt: skip
    args.scope = box.scope
    return box


def _store(args: Namespace) -> Handle | RemoteHandle:
    """The store, whatever this machine's clock says: nothing here is counted by it."""
    return open_store(args, any_clock=True)


@contextmanager
def _interruptible(what: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(what) from None


def take(args: Namespace, out: Out) -> int:
    new = not os.path.exists(_path(args))
    if new and args.worker is None:
        raise InvalidRequest("offline take: a new outbox belongs to one worker: give --worker W")
    if new:
        with _store(args) as fp:  # before a file is made for nothing
            fp.scope()
    with (
        _interruptible("what was claimed is kept or asked for again by the next take"),
        opened(args, create=new) as box,
        _store(args) as fp,
    ):
        found = box.take(fp, args.queue, limit=args.limit, lease_seconds=args.lease_seconds)
        first = box.status()["first_lease_ends"]
    if out.json:
        told = {"status": "accepted", "task_ids": found, "first_lease_ends": first}
        out.data(told)
    elif not found:
        out.say(f"nothing to take: {args.queue}")
    else:
        out.say(
            f"{len(found)} tasks in {_path(args)}; the first lease ends {first}",
            f"then: {_again(args, 'next')}",
        )
    return 0


def _again(args: Namespace, *words: str) -> str:
    flags = ["--outbox", args.outbox] if args.outbox else []
    return again(args, "offline", *words, *flags)


def next_task(args: Namespace, out: Out) -> int:
    with opened(args) as box:
        kept = box.next()
    if kept is None:
        message = (
            f"every task in {_path(args)} has a result; with a network: {_again(args, 'sync')}"
        )
        raise NotFound(Outcome("failed", ("not_found",), message))
    if out.json:
        out.data(kept.to_json())
        return 0
    shown = kept.to_json()
    out.say(
        f"{kept.task_id}{f' ({kept.key})' if kept.key else ''} from {kept.queue}",
        f"  fence {kept.fence}, revision {kept.base_revision}, attempt {kept.attempt} of "
        f"{kept.max_attempts}, until {shown['lease_expires_at']}",
        f"  payload {preview(kept.payload)}",
        f"  then    {_again(args, 'record', kept.task_id, 'RESULT')}",
    )
    return 0


def record(args: Namespace, out: Out) -> int:
    if args.result is None and not args.end:
        raise InvalidRequest("offline record: give a RESULT, or --end to close the task without")
    if args.row and args.end:
        raise InvalidRequest("offline record: --row keeps the task open, --end closes it")
    result = inputs.optional_value(args.result, "result", text=args.text)
    with (
        _interruptible("the result is kept or not: record it again, which is recognised"),
        opened(args) as box,
    ):
        kept = box.task(args.task)
        done = box.record(
            kept.task_id, result, close=not args.row, **inputs.remark(args),
            followups=inputs.followups(args.followups),
        )  # fmt: skip
    if out.json:
        out.data({"status": "accepted", **done.to_json()})
    elif done.new:
        out.say(f"{done.task_id}: {'a row is kept' if args.row else 'kept, and closed'}")
    else:
        out.say(f"{done.task_id}: recorded before; nothing was done now")
    return 0


def give_back(args: Namespace, out: Out) -> int:
    with opened(args) as box:
        found = box.give_back([box.task(name).task_id for name in args.tasks])
    if out.json:
        out.data({"status": "accepted", "task_ids": found})
    elif found:
        out.say(f"{len(found)} tasks are given back by the next sync: {_again(args, 'sync')}")
    else:
        out.say("every task has a result: nothing is given back")
    return 0


@contextmanager
def _shown(out: Out, total: int) -> Iterator[Callable[[int], None]]:
    """How far a sync has come, for the person at a terminal who waits."""
    from fencepost.cli.liveview import LiveView
    from fencepost.cli.terminal import can_rewrite

    if out.json or not total or not can_rewrite(sys.stderr):
        yield lambda done: None
        return
    with LiveView().progress("sync", total) as line:
        yield lambda done: line.add(done - line.count)


def sync(args: Namespace, out: Out) -> int:
    with (
        _interruptible("what was sent is noted; run it again for the rest"),
        opened(args) as box,
        _store(args) as fp,
    ):
        if args.again is not None:
            box.again(fp, box.task(args.again).task_id)
        try:
            with _shown(out, box.counts()["to_send"]) as show:
                report = box.sync(fp, show)
        finally:
            told = box.report.to_json()
            if not out.json:
                out.say(_summary(told))
    if out.json:
        out.data({**told, "issues": report.issues})
    for left in told["waiting"] if not out.json else ():
        out.say(f"waits: {left['task_id']} {left['code']}")
    if told["conflicts"]:
        out.note(f"{told['conflicts']} tasks have moved on: {_again(args, 'conflicts')}")
    return INCOMPLETE if told["status"] == "incomplete" else 0


def _summary(told: dict[str, Any]) -> str:
    return (
        f"{told['accepted']} accepted, {told['recognised']} recognised, {told['claimed']} claimed "
        f"again, {told['moot']} needed no more, {len(told['waiting'])} waiting, "
        f"{told['conflicts']} in conflict"
    )


def status(args: Namespace, out: Out) -> int:
    with opened(args) as box:
        told = box.status()
    if out.json:
        out.data(told)
        return 0
    for name, value in told.items():
        if name != "waits" and value is not None:
            out.say(f"{name:<18}{value}")
    for left in told["waits"]:
        out.say(f"waits: {left['task_id']} {left['code']}")
    return 0


def conflicts(args: Namespace, out: Out) -> int:
    with opened(args) as box:
        if args.theirs is not None:
            box.theirs(box.task(args.theirs).task_id)
        seen = False
        for each in box.conflicts(every=args.all):
            seen = True
            told = each.to_json()
            if out.json:
                out.data(told)
                continue
            out.say(f"{each.task_id} ({each.label})  {each.code}: {each.message}")
            for ours in each.ours:
                if "verdict" in ours:
                    out.say(f"  ours    {ours['verdict']}: {preview(ours['reason'])}")
                else:
                    out.say(f"  ours    {preview(ours['value'])}")
            _theirs(each, out)
            if each.decided is None:
                out.say(
                    f"  to send ours all the same: {_again(args, 'sync', '--again', each.task_id)}"
                )
                theirs = _again(args, "conflicts", "--theirs", each.task_id)
                out.say(f"  to let theirs stand:       {theirs}")
            else:
                out.say(f"  decided: {each.decided}")
    if not seen:
        out.note("no conflict")
    return 0


def _theirs(each: offline.Conflict, out: Out) -> None:
    task = each.theirs["task"]
    if task is None:
        out.say("  theirs  no such task")
        return
    out.say(
        f"  theirs  {task['state']} at revision {task['revision']}, fence {task['fencing_token']}, "
        f"worker {task['worker_id']}, policy {each.theirs['policy_version']}"
    )
    for result in each.theirs["results"]:
        kept = preview(result["value"]) if result["kept"] else f"sha256 {result['result_sha256']}"
        out.say(f"          revision {result['revision']}: {kept}")


def verify(args: Namespace, out: Out) -> int:
    with opened(args) as box:
        found = box.verify(args.head)
    if out.json:
        out.data({"status": "accepted", **found.to_json()})
    else:
        out.say(
            f"{found.links} links, {found.results} results and {found.commands} commands are right",
            f"head {found.head}",
        )
    return 0
