"""demo, bench and completion: what brings its own arguments, or none that touch a store."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from pathlib import Path

from fencepost.cli.output import Out
from fencepost.cli.subcommands import SUBCOMMANDS


def demo(args: Namespace, out: Out) -> int:
    from fencepost.cli.liveview import LiveView

    return _program("demo", args, out, LiveView())


def bench(args: Namespace, out: Out) -> int:
    return _program("bench", args, out)


def _program(name: str, args: Namespace, out: Out, *views: object) -> int:
    if not {"-h", "--help"}.isdisjoint(args.rest):
        print("examples:", *(f"  {line}" for line in SUBCOMMANDS[name].examples), "", sep="\n")
    flags = ["--json"] if out.json and "--json" not in args.rest else []
    code: int = import_module(f"fencepost.operate.{name}").main([*args.rest, *flags], *views)
    return code


def completion(args: Namespace, out: Out) -> int:
    """Print what shtab made of this very table at development time."""
    file = Path(__file__).with_name("completions") / f"fencepost.{args.shell}"
    print(file.read_text(encoding="utf-8"), end="")
    return 0
