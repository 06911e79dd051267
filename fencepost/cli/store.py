"""Opens the store that the flags name."""

from __future__ import annotations

from argparse import Namespace

from fencepost.handle import Handle, open_handle
from fencepost.model import Kind


def open_store(args: Namespace, *, kind: Kind = "operator") -> Handle:
    """The handle for --store, --scope and --actor. Whoever can open the file is its operator."""
    return open_handle(
        args.store,
        scope=args.scope,
        actor=args.actor,
        kind=kind,
        allow_filesystem=args.allow_filesystem,
    )
