"""The arguments of restore, adopt and erasures."""

from __future__ import annotations

from argparse import ArgumentParser

from fencepost.cli.parser import whole


def restore(parser: ArgumentParser) -> None:
    parser.add_argument("backup", metavar="BACKUP", help="a file made by: fencepost backup")
    parser.add_argument(
        "--to", required=True, metavar="STORE", help="the new store's file; it must not be there"
    )
    _both(parser)


def adopt(parser: ArgumentParser) -> None:
    _both(parser)
    parser.add_argument(
        "--folder", metavar="DIR", help="where what is remembered of the run lies (default: beside "
        "the file; for a server the current folder)",
    )  # fmt: skip


def _both(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--min-epoch", type=whole, default=0, metavar="N",
        help="the new writer's epoch is above this one",
    )  # fmt: skip
    parser.add_argument(
        "--take-over", action="store_true",
        help="replace the writer that a receiver knows, although this copy does not follow it",
    )
    parser.add_argument(
        "--adopt-secret-file", metavar="FILE",
        help="what a taking over is signed with, where the receiver wants a secret of its own",
    )
    parser.add_argument(
        "--override", action="append", default=[], metavar="SCOPE/QUEUE",
        help="deliver there although its receiver was not heard; needs --reason",
    )
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; stands in the receipt")
    parser.add_argument(
        "--erasures", metavar="FILE|-", help="erase these again; made by: fencepost erasures"
    )
    parser.add_argument(
        "--secrets-out", metavar="FILE",
        help="the destinations' new secrets (default: beside the store, for you alone)",
    )
    parser.add_argument(
        "--receipt", metavar="FILE", help="the restore receipt (default: beside the store)"
    )
