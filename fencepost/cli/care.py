"""Care of a store: create it, migrate it, copy it, look after it, take it away."""

from __future__ import annotations

from argparse import Namespace

from fencepost.cli.output import Out
from fencepost.handle import open_handle


def init(args: Namespace, out: Out) -> int:
    with open_handle(args.store, create=True, allow_filesystem=args.allow_filesystem):
        out.say(f"{args.store} is a store")
    return 0
