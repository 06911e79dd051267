"""Care of a store: create it, migrate it, copy it, look after it, take it away."""

from __future__ import annotations

import sys
from argparse import Namespace

from fencepost.cli.output import Out, again
from fencepost.cli.store import open_here, refuse_remote
from fencepost.cli.terminal import Progress, clean, colour_allowed, follow, paint
from fencepost.clock import SECOND, SystemClock
from fencepost.issues import InvalidRequest, Unavailable
from fencepost.operate import care
from fencepost.storage.address import is_postgres, without_password

STYLES = {"ok": "good", "note": "dim", "warn": "warn", "bad": "bad"}


def init(args: Namespace, out: Out) -> int:
    if args.into is not None and "store" in args.given:
        raise InvalidRequest("init: --into names the store itself; leave --store out")
    if args.into is None:
        refuse_remote(args)
    path = args.into or args.store
    made = care.init(
        path, args.into is not None, args.force, allow_filesystem=args.allow_filesystem
    )
    if out.json:
        out.data(made)
        return 0
    what = "created" if made["created"] else "is a store already; nothing was changed"
    args.store, args.given = path, args.given | ({"store"} if args.into else set())
    out.say(f"{made['path']}: {what}", f"enqueue: {again(args, 'enqueue', 'QUEUE', 'PAYLOAD')}")
    return 0


def migrate(args: Namespace, out: Out) -> int:
    refuse_remote(args)
    if args.show:
        return _pending(args, out)
    done = care.migrate(args.store, allow_filesystem=args.allow_filesystem)
    if out.json:
        out.data(done)
    elif not done["applied"]:
        out.say(f"{done['path']}: schema {done['to']} already; nothing was changed")
    else:
        out.say(
            f"{done['path']}: schema {done['from']} to {done['to']}: {', '.join(done['applied'])}"
        )
        if done["backup"]:
            out.say(f"as it was before: {done['backup']}")
    return 0


def _pending(args: Namespace, out: Out) -> int:
    found = care.pending(args.store, allow_filesystem=args.allow_filesystem)
    if out.json:
        out.data(found)
        return 0
    if not found["pending"]:
        out.say(f"{found['path']}: schema {found['to']} already; nothing is to be done")
    for step in found["pending"]:
        out.say(f"-- {step['name']}, sha256 {step['sha256']}", *step["sql"].splitlines())
    return 0


def uninstall(args: Namespace, out: Out) -> int:
    refuse_remote(args)
    if not args.force:
        raise InvalidRequest(
            f"uninstall: every task, result and receipt in {without_password(args.store)} would be "
            "gone; make a backup, then say --force"
        )
    done = care.uninstall(args.store, allow_filesystem=args.allow_filesystem)
    if out.json:
        out.data(done)
    else:
        out.say(f"{done['path']}: dropped {', '.join(done['dropped'])}")
        if not is_postgres(args.store):
            out.say("the file stays")
    return 0


def backup(args: Namespace, out: Out) -> int:
    from fencepost.operate.backup import backup as copy

    clock = SystemClock()
    with (
        open_here(args) as fp,
        Progress("backup", None, out=sys.stderr, steady=lambda: clock.steady() / SECOND) as line,
    ):
        facts = copy(fp, args.target, follow(line, "backup"), args.force)
    if out.json:
        out.data(facts)
        return 0
    out.say(
        f"{args.target}: {facts['entries']} entries, {facts['tasks']} tasks, "
        f"{facts['bytes']} bytes, checked against its journal",
        f"sha256 {facts['sha256']}",
        f"manifest {args.target}.manifest.json",
    )
    return 0


def copy(args: Namespace, out: Out) -> int:
    from fencepost.operate.moving import copy as move

    target = args.target or args.store
    clock = SystemClock()
    with Progress("copy", None, out=sys.stderr, steady=lambda: clock.steady() / SECOND) as line:
        facts = move(
            args.source, target, follow(line, "copy"), allow_filesystem=args.allow_filesystem
        )
    if out.json:
        out.data(facts)
        return 0
    out.say(
        f"{facts['path']}: {facts['entries']} entries, {facts['tasks']} tasks, "
        f"{facts['results']} results, checked on both sides",
        f"root {facts['root']}",
        f"epoch {facts['epoch']}: leases of before have ended; use {args.source} no more",
    )
    return 0


def doctor(args: Namespace, out: Out) -> int:
    from fencepost.operate import doctor as looks

    with open_here(args) as fp:
        findings = looks.doctor(fp)
    colour = colour_allowed(sys.stdout)
    for finding in findings:
        if out.json:
            out.data(finding.to_json())
            continue
        level = paint(f"{finding.level:<5}", STYLES[finding.level], colour)
        print(f"{level} {finding.name:<13}{clean(finding.message)}")
        if finding.advice:
            out.say(f"{'':<19}-> {finding.advice}")
    if looks.worst(findings) != "bad":
        return 0
    names = ", ".join(finding.name for finding in findings if finding.level == "bad")
    return out.complain(Unavailable.code, f"the store is not fit to be used: {names}")
