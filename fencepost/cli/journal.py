"""The journal from the command line: entries, receipts and proofs, checkpoints, verify."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from itertools import islice
from typing import TYPE_CHECKING

from fencepost.cli import inputs
from fencepost.cli.output import Out, again
from fencepost.cli.store import open_here, open_store
from fencepost.cli.terminal import Progress, follow
from fencepost.clock import SECOND, SystemClock
from fencepost.issues import InvalidRequest, JournalBroken
from fencepost.journal import checkpoint

if TYPE_CHECKING:
    from fencepost.handle.journal import EntryView
    from fencepost.journal.verify import Verification


def journal(args: Namespace, out: Out) -> int:
    if args.limit is not None and args.limit < 1:
        raise InvalidRequest(f"--limit: {args.limit} is less than 1")
    with open_store(args) as fp:
        if args.task is None:
            views = fp.entries(args.after)
        else:
            views = (view for view in fp.history(args.task) if view.number > args.after)
        for view in islice(views, args.limit):
            if out.json:
                out.data(view.to_json())
            else:
                out.say(_entry(view))
    return 0


def _entry(view: EntryView) -> str:
    """An entry on one line."""
    if view.body is None:
        return f"{view.number:>8}  (no bytes are kept; leaf hash {view.leaf_hash.hex()})"
    entry = json.loads(view.body)
    tasks = entry.get("tasks", ())
    first = f"  {tasks[0]['task_id']}" if tasks else ""
    more = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
    where = f"{entry['scope']}/{entry['queue']}" if "queue" in entry else entry["scope"]
    facts = (f"{view.number:>8}", entry["at"], entry["verb"], where, entry["actor"])
    return "  ".join(facts) + first + more


def receipt(args: Namespace, out: Out) -> int:
    with open_store(args) as fp:
        found = fp.receipt(args.key)
        proof = fp.prove(found) if args.prove else None
    told = found.to_json()
    if proof is not None:
        told["proof"] = proof.to_json()
    if out.json:
        out.data(told)
        return 0
    out.say(f"entry {found.number}", told["entry"])
    out.say(*(f"{name:<16}{value}" for name, value in told["opening"].items()))
    if proof is None:
        out.say(f"proof: {again(args, 'receipt', args.key, '--prove')}")
    else:
        out.say("proved under this checkpoint:", *proof.checkpoint.decode().splitlines())
        out.say(*(f"path  {step.hex()}" for step in proof.path))
    return 0


def seal(args: Namespace, out: Out) -> int:
    """Prints the checkpoint as it is kept and compared: the bytes are its text."""
    with open_store(args) as fp:
        head = fp.seal()
    text = head.text().decode()
    if out.json:
        out.data({"checkpoint": text, "size": head.size, "root": head.root.hex()})
    else:
        print(text, end="")
    return 0


def verify(args: Namespace, out: Out) -> int:
    since = None
    if args.since is not None:
        raw = inputs.read_bytes(args.since, "--since")
        try:
            since = checkpoint.parse(raw)
        except ValueError as error:
            raise InvalidRequest(f"--since: {args.since!r} is no checkpoint: {error}") from None
    clock = SystemClock()
    with (
        open_here(args) as fp,
        Progress("verify", None, out=sys.stderr, steady=lambda: clock.steady() / SECOND) as line,
    ):
        show = follow(line, "verify")
        found = fp.verify(since, lambda seen: show(seen.what, seen.done, seen.total))
        line.label, line.total, line.count = "verify", None, found.entries + found.tasks
    return _verdict(found, out)


def _verdict(found: Verification, out: Out) -> int:
    counts = (
        f"{found.entries} entries ({found.purged} purged, {found.unsealed} not sealed yet), "
        f"{found.tasks} tasks, {found.results} results"
    )
    if out.json:
        out.data(found.to_json())
    else:
        for problem in found.problems:
            out.say(f"{problem.code}  {problem.place}: {problem.message}")
        out.say(f"{'clean' if found.clean else 'broken'}: {counts}", f"root {found.root.hex()}")
    if found.clean:
        return 0
    first = found.problems[0]
    return out.complain(JournalBroken.code, f"{first.place}: {first.message}")
