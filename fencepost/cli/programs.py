"""demo, bench, drill, conform and completion: what has its own arguments, or touches no store."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from pathlib import Path

from fencepost.cli.output import Out
from fencepost.cli.subcommands import SUBCOMMANDS
from fencepost.storage.address import is_postgres


def demo(args: Namespace, out: Out) -> int:
    from fencepost.cli.liveview import LiveView

    if is_postgres(args.store) and "--store" not in args.rest:
        args.rest = [*args.rest, "--store", args.store]
    return _program("demo", args, out, LiveView())


def bench(args: Namespace, out: Out) -> int:
    return _program("bench", args, out)


def drill(args: Namespace, out: Out) -> int:
    return _program("drill", args, out)


def conform(args: Namespace, out: Out) -> int:
    """The kit has a command line of its own, since it also runs where nothing is installed."""
    from fencepost.conformance.fault_injection_tests import main

    return main([*args.rest, *_json(args, out)])


def _program(name: str, args: Namespace, out: Out, *views: object) -> int:
    if not {"-h", "--help"}.isdisjoint(args.rest):
        print("examples:", *(f"  {line}" for line in SUBCOMMANDS[name].examples), "", sep="\n")
    program = import_module(f"fencepost.operate.{name}")
    code: int = program.main([*args.rest, *_json(args, out)], *views)
    return code


def _json(args: Namespace, out: Out) -> list[str]:
    return ["--json"] if out.json and "--json" not in args.rest else []


def completion(args: Namespace, out: Out) -> int:
    """Print what shtab made of this very table at development time."""
    file = Path(__file__).with_name("completions") / f"fencepost.{args.shell}"
    print(file.read_text(encoding="utf-8"), end="")
    return 0
