"""`fencepost serve`: the store of the command line, over HTTP, until a signal."""

from __future__ import annotations

from argparse import Namespace

from fencepost import log
from fencepost.cli.output import Out
from fencepost.cli.store import open_here
from fencepost.clock import SystemClock
from fencepost.handle import Handle
from fencepost.issues import InvalidRequest

INSTALL = "pip install 'fencepost[server]'"


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
    clock = SystemClock()
    with running.listen(settings) as listener, open_here(args) as fp:
        lines = Lines(clock)
        log.prepare.clear()  # what is logged from here on are the service's own lines
        running.watched_logs(lines)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        url = f"{'https' if settings.tls else 'http'}://{shown}:{port}"
        out.note(f"serving {args.store} at {url}; Ctrl-C ends it")
        if settings.dev:
            out.note("--dev: nobody needs a token, and everybody is the operator of every scope")
        else:
            _first_token(args, out, fp)
        if out.json:
            out.data({"url": url, "host": host, "port": port})
        running.run(running.server(fp, settings, clock, lines), listener)
    return 0


def _first_token(args: Namespace, out: Out, fp: Handle) -> None:
    if not fp.any_token():
        out.note(
            "there is no token yet, so nobody can come in; make one in another terminal:\n"
            f"  fencepost --store {args.store} --scope {args.scope} "
            "token create laptop-3 --kind worker"
        )
