"""`fencepost serve`: the store of the command line, over HTTP, until a signal."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from fencepost import log
from fencepost.cli.output import Out, exit_code
from fencepost.cli.store import open_here
from fencepost.clock import SystemClock
from fencepost.handle import Handle
from fencepost.issues import InvalidRequest
from fencepost.storage.address import without_password

if TYPE_CHECKING:
    import socket

    from fencepost.server.serve import Server
    from fencepost.server.settings import ServerSettings

INSTALL = "pip install 'fencepost[server]'"
CLOSE_SECONDS = 0.7


def serve(args: Namespace, out: Out) -> int:
    try:
        from fencepost.server import serve as running
        from fencepost.server.logs import Lines
        from fencepost.server.settings import ServerSettings, checked
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("fencepost"):
            raise
        raise InvalidRequest(f"serve needs {error.name}: {INSTALL}") from None
    settings = checked(
        ServerSettings(
            host=args.host,
            port=args.port,
            dev=args.dev,
            certfile=args.certfile,
            keyfile=args.keyfile,
            behind_proxy=args.behind_proxy,
        )
    )
    running.check_tls(settings)
    with running.listen(settings) as listener:
        fp = open_here(args)
        lines = Lines(clock := SystemClock())
        log.prepare.clear()  # what is logged from here on are the service's own lines
        running.watched_logs(lines)
        _told(args, out, fp, settings, listener)
        try:
            server = running.server(fp, settings, clock, lines)
            with _delivering(args, fp, server):
                running.run(server, listener)
        finally:
            closed = running.close(fp, CLOSE_SECONDS)
    if not closed:
        _leave(out)
    return 0


@contextmanager
def _delivering(args: Namespace, fp: Handle, server: Server) -> Iterator[None]:
    if not args.deliver:
        yield
        return
    from fencepost.cli.deliver import delivering
    from fencepost.deliveries.meters import Meters

    meters = Meters()
    server.counts_too(meters.families)
    with delivering(fp, meters):
        yield


def _told(
    args: Namespace, out: Out, fp: Handle, settings: ServerSettings, listener: socket.socket
) -> None:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    url = f"{'https' if settings.tls else 'http'}://{shown}:{port}"
    out.note(f"serving {without_password(args.store)} at {url}; Ctrl-C ends it")
    if settings.dev:
        out.note("--dev: nobody needs a token, and everybody is the operator of every scope")
    elif not fp.any_token():
        store = ["--store", without_password(args.store), "--scope", args.scope]
        words = ["fencepost", *store, "token", "create"]
        out.note("there is no token yet, so nobody can come in; make one in another terminal:")
        out.note(shlex.join([*words, "laptop-3", "--kind", "worker"]))
    if out.json:
        out.data({"url": url, "host": host, "port": port})
        sys.stdout.flush()  # whoever started it reads it now, from a pipe


def _leave(out: Out) -> NoReturn:
    """Threads that wait for the turn cannot be ended but with the process."""
    out.note(
        "store_unavailable: another process held the turn to write until the end; what still "
        "waited for it was not carried out, and nobody was told that it was"
    )
    os._exit(exit_code("store_unavailable"))
