"""The arguments of the verbs about destinations."""

from __future__ import annotations

from argparse import ArgumentParser

from fencepost.cli.parser import whole


def one_destination(parser: ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE", help="the queue of the obligations")


def destination_set(parser: ArgumentParser) -> None:
    one_destination(parser)
    parser.add_argument(
        "address", nargs="?", metavar="ADDRESS|-",
        help="https://..., command:[\"PROGRAM\"], postgresql://...#TABLE, sqlite:/FILE#TABLE, "
        "s3://BUCKET/PREFIX or directory:/PATH; - reads it from standard input",
    )  # fmt: skip
    parser.add_argument(
        "--class", dest="class_", metavar="fenced|cas|idempotent|unfenced",
        help="what stands there can refuse (docs/deliveries.md)",
    )  # fmt: skip
    parser.add_argument(
        "--option", dest="options", action="append", metavar="NAME=VALUE",
        help="JSON, or text as it stands; null: the default. May be given several times",
    )  # fmt: skip


def destination_secret(parser: ArgumentParser) -> None:
    one_destination(parser)
    parser.add_argument(
        "--secret-file", metavar="FILE|-", help="one of your own, on the first line of this file"
    )
    parser.add_argument(
        "--keep-seconds", type=whole, default=86_400, metavar="N",
        help="so long what was before is signed with too (default: a day)",
    )  # fmt: skip


def destination_stop(parser: ArgumentParser) -> None:
    one_destination(parser)
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, for people")
    parser.set_defaults(key=None)


def destination_start(parser: ArgumentParser) -> None:
    one_destination(parser)
    parser.set_defaults(key=None)


def destination_advance(parser: ArgumentParser) -> None:
    one_destination(parser)
    parser.add_argument("--expected-sequence", type=whole, required=True, metavar="N")
    parser.add_argument("--sequence", type=whole, required=True, metavar="N")
    parser.add_argument("--head", metavar="HEX", help="the hash at the new sequence")
    parser.add_argument("--heard", type=whole, metavar="N", help="the receiver's own position")
    parser.add_argument("--announced", metavar="UUID", help="the writer it was told of")
