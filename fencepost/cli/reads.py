"""What can be read: tasks, results, queues, counts."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from fencepost.cli.output import Out, again, preview
from fencepost.cli.store import open_store
from fencepost.cli.terminal import ago
from fencepost.clock import SECOND, to_rfc3339
from fencepost.issues import InvalidRequest
from fencepost.model import Task

if TYPE_CHECKING:
    from fencepost.handle import Handle
    from fencepost.remote import RemoteHandle

PAGE = 500


def found(fp: Handle | RemoteHandle, name: str) -> Task:
    """The task that TASK or QUEUE/KEY names. Raises NotFound."""
    queue, slash, key = name.partition("/")
    return fp.task_by_key(queue, key) if slash else fp.task(name)


def show(args: Namespace, out: Out) -> int:
    with open_store(args) as fp:
        task, now = found(fp, args.task), fp.now()
    if out.json:
        out.data(task.to_json())
        return 0
    for name, value in task.to_json().items():
        if name == "payload" or (name == "progress" and value is not None):
            out.say(f"{name:<18}{preview(value)}")
        elif value is not None and name != "log":
            out.say(f"{name:<18}{value}")
    if task.log is not None:
        out.say("log", *(f"  {line}" for line in task.log.split("\n")))
    if task.revision:
        out.say(f"results: {again(args, 'results', task.task_id)}")
    if task.state == "leased" and task.lease_expires_at <= now:
        out.say("its lease has lapsed: the next claim may take it")
    return 0


def list_tasks(args: Namespace, out: Out) -> int:
    if args.limit is not None and args.limit < 1:
        raise InvalidRequest(f"--limit: {args.limit} is less than 1")
    with open_store(args) as fp:
        tasks = islice(fp.tasks(args.queue, state=args.state), args.limit)
        if out.json:
            for task in tasks:
                out.data(task.to_json())
            return 0
        _print_tasks(out, tasks, fp.now())
    return 0


def _print_tasks(out: Out, tasks: Iterator[Task], now: int) -> None:
    head = ("task", "queue", "key", "state", "attempt", "rev", "worker", "fence", "changed")
    page = list(islice(tasks, PAGE))
    if not page:
        out.note("no tasks")
    while page:
        rows = [
            (
                t.task_id, t.queue, t.key, t.state, f"{t.attempt}/{t.max_attempts}", t.revision,
                t.worker_id, t.fence or None, ago((now - t.changed_at) / SECOND),
            )
            for t in page
        ]  # fmt: skip
        out.table(head, rows, right=(4, 5, 7))
        page = list(islice(tasks, PAGE))


def results(args: Namespace, out: Out) -> int:
    with open_store(args) as fp:
        task = found(fp, args.task)
        seen = False
        for result in fp.results(task.task_id):
            seen = True
            if out.json:
                out.data(result.to_json())
                continue
            kept = preview(result.value) if result.kept else "not kept, its digest is"
            out.say(
                f"revision {result.revision}  round {result.round}  entry {result.entry}  "
                f"review {result.commitment}",
                f"  {kept}",
                f"  sha256 {result.result_sha256 or 'erased'}",
            )
    if not seen:
        out.note("no accepted result")
    return 0


def refused(args: Namespace, out: Out) -> int:
    with open_store(args) as fp:
        task = found(fp, args.task)
        seen = False
        for result in fp.refused(task.task_id):
            seen = True
            if out.json:
                out.data(result.to_json())
                continue
            out.say(
                f"{to_rfc3339(result.refused_at)}  {result.worker_id}  fence {result.fence}  "
                f"{', '.join(result.issues)}",
                f"  {preview(result.value)}",
            )
    if not seen:
        out.note("nothing was kept aside (the queue's setting keep_refused says how many are)")
    return 0


def stats(args: Namespace, out: Out) -> int:
    with open_store(args) as fp:
        found = fp.stats()
    now, rows = found["now"], found["queues"]
    if out.json:
        from fencepost.handle.places import stats_json

        out.data(stats_json(found))
    elif not rows:
        out.say(f"scope {args.scope} is empty")
    else:
        ages = [row["since"] and ago((now - row["since"]) / SECOND) for row in rows]
        names = ("queue", "state", "tasks", "lapsed")
        lines = [[*(row[name] for name in names), age] for row, age in zip(rows, ages, strict=True)]
        out.table((*names, "first"), lines, right=(2, 3))
    return 0


def queues(args: Namespace, out: Out) -> int:
    with open_store(args) as fp:
        rows = fp.queue_rows()
    for row in rows:
        if out.json:
            out.data(row.to_json())
        else:
            settings = row.settings.to_json().items()
            told = " ".join(f"{name}={_plain(value)}" for name, value in settings)
            out.say(f"{row.queue}{' (destination)' if row.is_destination else ''}", f"  {told}")
    if not rows:
        out.note(f"scope {args.scope} has no queue")
    return 0


def writers(args: Namespace, out: Out) -> int:
    with open_store(args) as fp:
        found = fp.writers()
    if out.json:
        for writer in found:
            out.data(writer.to_json())
        return 0
    rows = [(w.epoch, w.incarnation, w.why, to_rfc3339(w.recognised_at)) for w in found]
    out.table(("epoch", "incarnation", "why", "recognised"), rows, right=(0,))
    return 0


def _plain(value: object) -> object:
    """A setting as `queue-set` takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else value
