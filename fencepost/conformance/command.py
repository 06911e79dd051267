"""The command line of the kit: what was asked for, what is written where, what is said."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from .adapters import Unusable
from .cases.law import AnyCase, Case
from .cases.store import Json
from .receiver_run import ReceiverRun
from .receiver_run import cases as receiver_cases
from .receiver_target import key_of, read_secret
from .receiver_target import reach as reach_receiver
from .targets import backend_of, reach
from .verification import Run, reason, visible

RECEIVER = "receiver:"
EXIT = {"accepted": 0, "failed": 3, "incomplete": 3, "blocked": 6}
BAD_USAGE, UNWRITTEN, INTERRUPTED = 2, 6, 130
EXAMPLES = """examples:
  fencepost conform sqlite
  fencepost conform postgres:postgresql://postgres@127.0.0.1/postgres
  fencepost conform http
  FENCEPOST_TOKEN=fp_... fencepost conform http:http://127.0.0.1:8470
  fencepost conform reference --junit junit.xml
  fencepost conform stdio:"python3 my_target.py" --output mine.json
  fencepost conform sqlite --case the_exact_expiry_boundary_rejects_a_completion
  fencepost conform receiver:http://127.0.0.1:8788 --secret-file secret
"""
CODES = """exit codes: 0 accepted, 2 bad usage, 3 failed or incomplete, 6 the target is unusable;
with --case that of the chosen cases alone"""


class Usage(Exception):
    """The command line cannot be followed."""


class Parser(ArgumentParser):
    """argparse that begins its help with examples and raises what is wrong."""

    def format_help(self) -> str:
        return f"{EXAMPLES}\n{super().format_help()}"

    def error(self, message: str) -> NoReturn:
        raise Usage(message)


def parser() -> Parser:
    """The kit's arguments."""
    made = Parser(
        prog="fencepost conform", epilog=CODES, formatter_class=RawDescriptionHelpFormatter,
        description="put a queue through the cases of the conformance kit", allow_abbrev=False,
    )  # fmt: skip
    made.add_argument("target", nargs="*", metavar="TARGET",
                      help="sqlite, postgres:URL, http, http:URL, reference, broken:NAME "
                           "or stdio:COMMAND ...; receiver:URL or receiver:stdio:COMMAND for "
                           "who receives deliveries")  # fmt: skip
    made.add_argument("--case", action="append", default=[], metavar="NAME",
                      help="run this case only; may be given again")  # fmt: skip
    made.add_argument("--list", action="store_true", help="print the cases, run nothing")
    made.add_argument("--output", metavar="FILE",
                      help="default: verification.json; with --case none")  # fmt: skip
    made.add_argument("--force", action="store_true", help="overwrite what is there")
    made.add_argument("--junit", metavar="FILE", help="the verdicts as JUnit XML")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    made.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS",
                      help="how long one answer may take; default: 10")  # fmt: skip
    made.add_argument("--secret-file", metavar="FILE",
                      help="with receiver:, the secret that it has too")  # fmt: skip
    made.add_argument("--json", action="store_true", help="the verification as one line on stdout")
    return made


def run(cases: Sequence[AnyCase], argv: Sequence[str]) -> int:
    """Run a command line; returns the exit code."""
    try:
        args = parser().parse_args(argv)
        if receives(args):
            cases = receiver_cases()
        if args.list:
            for case in cases:
                print(f"{case.name}\n    {case.law}")
            return 0
        target, chosen = checked(cases, args)
        made, adapter = begun(target, cases, args)
    except SystemExit as ended:  # argparse, after --help
        return int(ended.code or 0)
    except (Usage, Unusable) as error:
        return complain(f"{error}; see --help", BAD_USAGE)
    try:
        made(adapter, chosen, lambda verdict: tell(verdict, args))
    except KeyboardInterrupt:
        return complain("interrupted; nothing was written", INTERRUPTED)
    finally:
        adapter.close()
    backend = backend_of(target)
    document = made.document(backend)
    try:
        write(args.output, json.dumps(document, indent=1, ensure_ascii=True) + "\n")
        write(args.junit, made.junit(backend))
    except OSError as error:
        return complain(f"{error.filename} cannot be written: {error.strerror}", UNWRITTEN)
    if args.json:
        print(json.dumps(document, ensure_ascii=True, separators=(",", ":")))
    else:
        conclude(made, document, args)
    return exit_code(made, args)


def receives(args: Namespace) -> bool:
    """Whether it is a receiver of deliveries that is put through its cases, and no queue."""
    return bool(args.target) and args.target[0].startswith(RECEIVER)


def begun(target: str, cases: Sequence[AnyCase], args: Namespace) -> tuple[Run, Any]:
    """The run, and what it is put to. Raises Unusable or Usage."""
    if receives(args):
        secret = read_secret(args.secret_file)
        made = ReceiverRun(cases, key_of(secret))
        return made, reach_receiver(target.removeprefix(RECEIVER), secret, args.timeout)
    if args.secret_file is not None:
        raise Usage("--secret-file is for receiver: alone")
    queues = [case for case in cases if isinstance(case, Case)]
    return Run(queues, args.seed), reach(target, args.timeout, args.seed)


def checked(cases: Sequence[AnyCase], args: Namespace) -> tuple[str, list[str]]:
    """The target and the names of the cases. Raises Usage before anything has run."""
    if not args.target:
        raise Usage("name a TARGET: sqlite, postgres:URL, http, reference or stdio:COMMAND")
    target = " ".join(args.target)
    if len(args.target) > 1 and "stdio:" not in args.target[0]:
        raise Usage(f"one TARGET at a time, not {target!a}")
    names = [case.name for case in cases]
    if unknown := [name for name in args.case if name not in names]:
        raise Usage(f"there is no case {unknown[0]!a}; --list prints all {len(names)}")
    if args.timeout <= 0:
        raise Usage("--timeout has to be above 0")
    if args.output is None and not args.case:
        args.output = "verification.json"
    for name in filter(None, (args.output, args.junit)):
        path = Path(name)
        if path.exists() and not args.force:
            raise Usage(f"{name} is there already; --force overwrites it")
        if not path.absolute().parent.is_dir():
            raise Usage(f"there is no folder for {name}")
    return target, args.case or names


def complain(message: str, code: int) -> int:
    """A message on standard error; returns the code."""
    print(f"fencepost conform: {message}", file=sys.stderr)
    return code


def write(name: str | None, text: str) -> None:
    """A document to its file, if one was asked for."""
    if name is not None:
        Path(name).write_text(text, encoding="utf-8")


def tell(verdict: Json, args: Namespace) -> None:
    """One line a case, and why it did not pass."""
    if args.json or verdict["verdict"] == "skipped":
        return
    print(f"{verdict['verdict']:<12}{verdict['case']}", flush=True)
    if verdict["verdict"] != "passed":
        code = f" [{verdict['code']}]" if verdict["code"] and verdict["verdict"] == "failed" else ""
        print(f"            {visible(reason(verdict))}{code}")
    if verdict["verdict"] == "failed":
        print(f"            law: {verdict['law']}")


def conclude(made: Run, document: Json, args: Namespace) -> None:
    """The end of what is said."""
    words = ("passed", "failed", "blocked", "unavailable", "skipped")
    counts = {word: len(made.named(word)) for word in words}
    told = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    target = f"{document['target']['name']} {document['target']['version']}"
    print(f"\n{document['status']}: {told}, of {len(made.verdicts)} cases; {visible(target)}")
    if args.output is not None:
        print(f"written to {args.output}")
    print("self-run, review pending: a pass grants nobody authority")


def exit_code(made: Run, args: Namespace) -> int:
    """Of the run; with --case the cases that were not asked for do not count."""
    status = made.status()
    only_skipped = status == "incomplete" and not made.named("unavailable")
    return 0 if args.case and only_skipped else EXIT[status]
