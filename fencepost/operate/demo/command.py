"""The demo as a command: its arguments, its files, its order of things, its exit code."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory

from fencepost.handle import Handle, open_handle
from fencepost.issues import FencepostError
from fencepost.operate.demo import plan
from fencepost.operate.demo.checks import Check, Run, all_checks
from fencepost.operate.demo.crew import Crew
from fencepost.operate.demo.director import DemoFailed, Director
from fencepost.operate.demo.files import sources, standard_library, to_key, to_name
from fencepost.operate.demo.report import as_json, show_check, show_table
from fencepost.operate.demo.tally import read
from fencepost.operate.demo.view import JsonView, PlainView, View, counted, write
from fencepost.operate.demo.worker import DESTINATION, QUEUE, SCOPE
from fencepost.operate.ending import ended_tidily
from fencepost.storage.address import is_postgres, psycopg_here, without_password

MIN_WORKERS, MAX_WORKERS = 2, 32  # one worker alone has nobody to take over from it
SEEDS = 10**6
SCHEMA = "fencepost_demo"
EXIT_FAILED, EXIT_USAGE = 1, 2


class Unusable(Exception):
    """What was asked for cannot be done; the message says why."""


def main(argv: Sequence[str], view: View | None = None) -> int:
    """Run the demo. 0 if every check holds, 1 if one does not, 2 for what cannot be run."""
    view = view or PlainView()
    try:
        options = parser().parse_args(argv)
        if options.json:
            view = JsonView()
        left = f"the store stays in {options.keep}" if options.keep else ""
        return ended_tidily("demo", lambda: run(options, view), view.fault, left)
    except Unusable as error:
        view.fault(f"fencepost demo: {error}")
        return EXIT_USAGE
    except (DemoFailed, FencepostError) as error:
        view.fault(f"fencepost demo: the run did not come to its end: {error}")
        return EXIT_FAILED
    except SystemExit as end:  # argparse has said why
        return end.code if isinstance(end.code, int) else EXIT_USAGE


def parser() -> argparse.ArgumentParser:
    """The arguments of `fencepost demo`."""
    made = argparse.ArgumentParser(
        prog="fencepost demo",
        description="Hash every source file under DIR with workers that are killed, stopped and "
        "cut off on the way; then check all that was accepted. Exits 0 only if all holds.",
    )
    made.add_argument(
        "folder", metavar="DIR", nargs="?", type=Path,
        help="folder with *.py files (default: this Python's standard library)",
    )  # fmt: skip
    made.add_argument("--workers", metavar="N", type=int, default=4, help="2 to 32 (default 4)")
    made.add_argument(
        "--seed", metavar="N", type=int, help="order of the misfortunes (default: drawn, printed)"
    )
    made.add_argument("--keep", metavar="FILE", type=Path, help="keep the store in a new file")
    made.add_argument(
        "--store", metavar="URL",
        help="in a PostgreSQL database, in a schema of its own that is dropped at the end",
    )  # fmt: skip
    made.add_argument("--json", action="store_true", help="the whole as one JSON object")
    return made


def run(options: argparse.Namespace, view: View) -> int:
    """The demo from its first line to its last."""
    began = time.monotonic()
    folder, paths = usable(options)
    seed = SystemRandom().randrange(SEEDS) if options.seed is None else options.seed
    facts = {"folder": to_name(str(folder)), "workers": options.workers, "seed": seed}
    view.say(f"{counted(len(paths), 'source file')} under {folder}", "strong")
    view.say(f"{options.workers} workers, --seed {seed}", "dim")
    if options.store is not None:
        view.say(f"in {without_password(options.store)}, in a schema of its own", "dim")
    with ExitStack() as stack:
        notes = Path(stack.enter_context(TemporaryDirectory(prefix="fencepost-demo-")))
        store = stack.enter_context(place(options, notes))
        fp = stack.enter_context(opened(store))
        names = enqueue(fp, paths)
        with Crew(store, folder, notes) as crew, view.progress("files", len(names)) as progress:
            batch = plan.batch_size(len(names), options.workers)
            misfortunes = plan.misfortunes(len(names), options.workers, seed)
            director = Director(crew, len(names), batch, misfortunes, fp.now, progress)
            seen = director.run(options.workers)
        done = Run(fp, folder, names, seen, read(fp.entries()))
        checks = judge(done, view)
    seconds = round(time.monotonic() - began, 1)
    if options.json:
        write(sys.stdout, json.dumps(as_json(done, checks, **facts, seconds=seconds)))
    if options.keep:
        view.say(f"The store is kept in {options.keep}")
    if failed := [check.sentence for check in checks if not check.holds]:
        view.say(f"FAILED after {seconds} s. Not true: {'; '.join(failed)}", "bad")
        view.say(f"To look closer: --seed {seed} --workers {options.workers} --keep FILE")
        return EXIT_FAILED
    view.say(f"All of it holds, after {seconds} s.", "good")
    return 0


def usable(options: argparse.Namespace) -> tuple[Path, list[str]]:
    """The folder and its source files. Raises Unusable."""
    if not hasattr(signal, "SIGSTOP"):
        raise Unusable(f"it stops processes with SIGSTOP, which {sys.platform} does not have")
    if not MIN_WORKERS <= options.workers <= MAX_WORKERS:
        raise Unusable(f"--workers {options.workers}: give {MIN_WORKERS} to {MAX_WORKERS}")
    if options.store is not None and not is_postgres(options.store):
        raise Unusable("--store is a PostgreSQL URL; for a file give --keep")
    if options.store is not None and options.keep:
        raise Unusable("--keep: what the demo does in a database goes with its schema")
    if options.keep and os.path.lexists(options.keep):
        raise Unusable(f"--keep {options.keep}: it exists, and nothing is overwritten")
    if options.keep and not options.keep.absolute().parent.is_dir():
        raise Unusable(f"--keep {options.keep}: there is no folder {options.keep.parent}")
    folder = (options.folder or standard_library()).absolute()
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "there is no such folder"
        raise Unusable(f"{folder}: {what}")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise Unusable(f"{folder}: the folder may not be read")
    paths = list(sources(folder))
    if not paths:
        raise Unusable(f"{folder}: no *.py file in it; give a folder that has some")
    return folder, paths


@contextmanager
def place(options: argparse.Namespace, notes: Path) -> Iterator[str]:
    """Where the new store is to be: a file, or a schema of its own that is dropped at the end."""
    if options.store is None:
        yield str(options.keep or notes / "demo.db")
        return
    with psycopg_here():
        from fencepost.storage.postgres.upkeep import room
    with room(options.store, f"{SCHEMA}_{SystemRandom().randrange(16**8):08x}") as url:
        yield url


def opened(store: str) -> Handle:
    """The new store. Raises Unusable, as where the file system is none for SQLite."""
    try:
        return open_handle(store, scope=SCOPE, create=True)
    except FencepostError as error:
        raise Unusable(f"{without_password(store)}: {error}") from error


def enqueue(fp: Handle, paths: Sequence[str]) -> dict[str, str]:
    """One task a file, on a queue whose results owe a message. Task id → name, in order."""
    fp.queue_set(QUEUE, destinations=[DESTINATION], max_attempts=20)
    names = [to_name(path) for path in paths]
    tasks = ({"payload": {"path": name}, "key": to_key(name)} for name in names)
    receipts = fp.enqueue_many(QUEUE, tasks)
    task_ids = (task_id for receipt in receipts for task_id in receipt.task_ids)
    return dict(zip(task_ids, names, strict=True))


def judge(run: Run, view: View) -> list[Check]:
    """Show the table, then each check as it is made."""
    show_table(view, run)
    view.say("")
    view.say("What was checked", "strong")
    checks = []
    for check in all_checks(run):
        show_check(view, check)
        checks.append(check)
    return checks
