"""Opens the store that the flags name: a file here, or a service."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from fencepost.handle import Handle, open_handle
from fencepost.issues import InvalidRequest
from fencepost.model import Kind
from fencepost.opening import is_remote

if TYPE_CHECKING:
    from fencepost.remote import RemoteHandle  # loaded for a URL: it brings http and ssl along


def open_store(
    args: Namespace, *, kind: Kind = "operator", any_clock: bool = False,
    seconds: float | None = None,
) -> Handle | RemoteHandle:
    """The handle for --store, --scope and --actor. Whoever can open the file is its operator; at
    a service the token (FENCEPOST_TOKEN) says who sends and what he may. `any_clock` lets a machine
    claim whose clock is wrong: for what does not count leases by it. `seconds` bounds what
    is asked of a service, all tries together (60)."""
    if not is_remote(args.store):
        return open_here(args, kind=kind)
    if "actor" in args.given:
        raise InvalidRequest("--actor: at a service the token says who you are; leave it out")
    from fencepost.remote.handle import (
        DEADLINE_SECONDS,
        MAX_SKEW_SECONDS,
        TRY_SECONDS,
        open_remote,
    )

    skew = None if any_clock else MAX_SKEW_SECONDS
    bound = DEADLINE_SECONDS if seconds is None else seconds
    return open_remote(
        args.store, scope=args.scope, max_skew_seconds=skew, deadline_seconds=bound,
        try_seconds=min(bound, TRY_SECONDS),
    )  # fmt: skip


def open_here(args: Namespace, *, kind: Kind = "operator") -> Handle:
    """The same for what is done on the file itself. Raises InvalidRequest for a service."""
    refuse_remote(args)
    return open_handle(
        args.store,
        scope=args.scope,
        actor=args.actor,
        kind=kind,
        allow_filesystem=args.allow_filesystem,
    )


def refuse_remote(args: Namespace) -> None:
    """Raises InvalidRequest where --store names a service and the verb needs the file."""
    if is_remote(args.store):
        raise InvalidRequest(
            f"{args.verb} works on the store's file: run it on the service's own machine"
        )
