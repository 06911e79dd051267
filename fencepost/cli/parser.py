"""Reads the command line: global flags, the verb, and then only that verb's own arguments.

Two small parsers are built, never one a verb, so that a command starts quickly. Whatever is
wrong is raised as InvalidRequest, which names the argument.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from fencepost.cli.terminal import columns
from fencepost.issues import InvalidRequest

if TYPE_CHECKING:
    from fencepost.cli.subcommands import Subcommand

DEFAULTS = {"store": "fencepost.db", "scope": "default", "actor": "local"}
EVERYWHERE = {*DEFAULTS, "json", "allow_filesystem", "help"}
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
"""A decimal integer as Python and JSON write it; longer ones are out of every range."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Fitted to the terminal by our own measure: argparse would load shutil for it, each start."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, width=columns(sys.stdout) - 2, **options)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        """Without the flags of every verb: they would hide its own, and are listed below."""
        own = [action for action in actions if action.dest not in EVERYWHERE]
        super().add_usage(usage, own, groups, prefix)


class Parser(argparse.ArgumentParser):
    """argparse that begins its help with examples and raises instead of ending the program."""

    def __init__(self, examples: Sequence[str] = (), **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        super().__init__(formatter_class=Formatter, **options)
        self.examples = examples

    def format_help(self) -> str:
        """Examples first, then what argparse says."""
        head = "".join(f"  {line}\n" for line in self.examples)
        return (f"examples:\n{head}\n" if head else "") + super().format_help()

    def error(self, message: str) -> NoReturn:
        """Bad usage. Raises InvalidRequest with what argparse found wrong."""
        if "unrecognized" in message or "expected" in message:
            message += " (a value that begins with - is taken for a flag; no name may begin so)"
        raise InvalidRequest(f"{message}; see: {self.prog} --help")


def whole(text: str) -> int:
    """A decimal integer: no sign but -, no leading zero, no point, no space."""
    if WHOLE.fullmatch(text) is None:
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise argparse.ArgumentTypeError(f"{shown!r} is not an integer in decimal digits")
    return int(text)


def seconds_or_forever(text: str) -> int | None:
    """Whole seconds, or `forever`."""
    return None if text == "forever" else whole(text)


def global_flags() -> argparse.ArgumentParser:
    """The flags that stand before or after the verb. Only those that were given are set."""
    parser = argparse.ArgumentParser(
        add_help=False, argument_default=argparse.SUPPRESS, formatter_class=Formatter
    )
    group = parser.add_argument_group("flags of every verb, before or after it")
    group.add_argument(
        "--store",
        metavar="PATH|URL",
        help="the store: a file, a PostgreSQL URL, or a service's URL and FENCEPOST_TOKEN "
        "(FENCEPOST_STORE; default ./fencepost.db)",
    )
    group.add_argument("--scope", metavar="S", help="scope (FENCEPOST_SCOPE; default: default)")
    group.add_argument(
        "--actor", metavar="A", help="who sends the command (FENCEPOST_ACTOR; default: local)"
    )
    group.add_argument("--json", action="store_true", help="one JSON object a line on stdout")
    group.add_argument(
        "--allow-filesystem", metavar="TYPE",
        help="use a store on this network file system although SQLite is not safe there "
        "(FENCEPOST_ALLOW_FILESYSTEM)",
    )  # fmt: skip
    return parser


def top_parser(version: str, verbs: Mapping[str, Subcommand]) -> Parser:
    """Reads what stands before the verb; `rest` holds what follows it."""
    listed = "\n".join(f"  {name:<18}{verb.help}" for name, verb in verbs.items())
    parser = Parser(
        prog="fencepost",
        parents=[global_flags()],
        usage="fencepost [--store PATH] [--scope S] [--actor A] [--json] VERB ...",
        description=f"verbs (fencepost VERB --help says more):\n{listed}",
        examples=(
            "fencepost init                                    create ./fencepost.db",
            "fencepost enqueue pages '{\"page\": 17}'            put a task on a queue",
            "fencepost claim pages --worker laptop-3           take it, with a fence",
            "fencepost complete TASK --worker laptop-3 --fence F '{\"ok\": true}'",
            "fencepost demo                                    see it hold under failures",
        ),
        epilog="exit codes: 0 accepted or replayed, 2 bad usage or request, 3 refused, "
        "4 not found,\n5 schema or version, 6 store unavailable or outcome unknown, "
        "7 journal broken, 130 Ctrl-C",
    )
    parser.add_argument("--version", action="version", version=f"fencepost {version}")
    parser.add_argument("verb", metavar="VERB", help=argparse.SUPPRESS)
    rest = parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    rest.required = False  # until Python 3.12 it would be named beside VERB where that is missing
    return parser


def verb_parser(name: str, verb: Subcommand, *, raw: bool) -> Parser:
    """The parser of one verb; with `raw` it takes a whole command from --request instead."""
    parser = Parser(
        prog=f"fencepost {name}",
        parents=[global_flags()],
        description=verb.help,
        examples=verb.examples,
    )
    fill(parser, verb, raw=raw)
    return parser


def whole_parser(verbs: Mapping[str, Subcommand]) -> argparse.ArgumentParser:
    """All verbs in one parser: what completion files are made of."""
    parser = argparse.ArgumentParser(prog="fencepost", parents=[global_flags()])
    parser.add_argument("--version", action="store_true", help="print the version")
    added = parser.add_subparsers(metavar="VERB")
    for name, verb in verbs.items():
        flags = [] if verb.forwards else [global_flags()]
        fill(added.add_parser(name, help=verb.help, parents=flags), verb)
    return parser


def fill(parser: argparse.ArgumentParser, verb: Subcommand, *, raw: bool = False) -> None:
    """Add the arguments of a verb."""
    if not raw:
        verb.arguments(parser)
    if verb.sends:
        parser.add_argument(
            "--key", metavar="K",
            help="idempotency key: the same command sent again under it gets the same receipt",
        )  # fmt: skip
        parser.add_argument(
            "--request", metavar="FILE|-", required=raw,
            help="send these bytes as the command, exactly as they are, in place of arguments",
        )  # fmt: skip


def parse(
    argv: Sequence[str],
    version: str,
    verbs: Mapping[str, Subcommand],
    environ: Mapping[str, str],
) -> argparse.Namespace:
    """The arguments, with flags over environment over defaults. Raises InvalidRequest."""
    top = top_parser(version, verbs)
    args = top.parse_args(argv)
    args.verb = normal(args.verb)
    if args.rest and (both := f"{args.verb}-{args.rest[0]}") in verbs:  # `token create`
        args.verb, args.rest = both, args.rest[1:]
    verb = verbs.get(args.verb)
    if verb is None:
        if args.rest in (["--help"], ["-h"]) and (group := _group(args.verb, verbs)):
            print(group)
            raise SystemExit(0)
        top.error(f"there is no verb {args.verb!r}{_meant(args.verb, verbs)}")
    if not verb.forwards:
        rest = _after_verb(argv, args.rest)
        if verb.runs and "--" in rest:
            place = rest.index("--")
            rest, args.command = rest[:place], rest[place + 1 :]
        rest, args.rest = _shielded(rest), []
        raw = verb.sends and any(token.split("=")[0] == "--request" for token in rest)
        # intermixed: RESULT may stand after flags, as in `complete TASK --fence 7 RESULT`
        verb_parser(args.verb, verb, raw=raw).parse_intermixed_args(rest, args)
        _unshield(args)
    args.given = frozenset(name for name in DEFAULTS if name in args)
    for name, default in DEFAULTS.items():
        if name not in args:
            value = environ.get(f"FENCEPOST_{name.upper()}") or default
            setattr(args, name, value)
    allowed = environ.get("FENCEPOST_ALLOW_FILESYSTEM") or None
    for name, absent in (("json", False), ("allow_filesystem", allowed)):
        if name not in args:
            setattr(args, name, absent)
    return args


def _after_verb(argv: Sequence[str], rest: list[str]) -> list[str]:
    """What follows the verb, with the `--` that argparse takes off where it stands first."""
    before = len(argv) - len(rest) - 1
    return ["--", *rest] if argv[before] == "--" else rest


def _shielded(rest: list[str]) -> list[str]:
    """The same without `--`; what follows it is no flag, though it may begin with a hyphen.

    parse_intermixed_args forgets `--` between its two passes, so such a word gets a NUL before
    it, which no word of a command line can hold.
    """
    if "--" not in rest:
        return rest
    place = rest.index("--")
    after = (f"\0{word}" if word.startswith("-") else word for word in rest[place + 1 :])
    return [*rest[:place], *after]


def _unshield(args: argparse.Namespace) -> None:
    for name, value in vars(args).items():
        if isinstance(value, str):
            setattr(args, name, value.removeprefix("\0"))
        elif isinstance(value, list):
            setattr(args, name, [word.removeprefix("\0") for word in value])


def normal(verb: str) -> str:
    """How a command's verb is spelled here: `queue.set` is also `queue-set` (and `queue set`)."""
    return verb.replace(".", "-").replace("_", "-")


def _group(word: str, verbs: Mapping[str, Subcommand]) -> str:
    """What `offline --help` shows: the verbs that begin so. Empty if there are none."""
    found = [(name, verb) for name, verb in verbs.items() if name.startswith(f"{word}-")]
    lines = (f"  {word} {name.removeprefix(f'{word}-'):<12}{verb.help}" for name, verb in found)
    return "\n".join([f"verbs (fencepost {word} VERB --help says more):", *lines] if found else [])


def _meant(verb: str, verbs: Mapping[str, Subcommand]) -> str:
    from difflib import get_close_matches

    more = [name.removeprefix(f"{verb}-") for name in verbs if name.startswith(f"{verb}-")]
    if more:
        return f"; it goes on with one of: {', '.join(more)}"
    close = get_close_matches(verb, verbs, n=1)
    return f"; did you mean {close[0]}?" if close else ""
