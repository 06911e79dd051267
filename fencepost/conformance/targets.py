"""What a command line can name as a target, and the adapter for it."""

from __future__ import annotations

import os
import shlex
import sys

from .adapters import Stdio, Unusable
from .cases.store import Adapter
from .http_target import HERE, Bare, Served

POSTGRES = ("postgresql", "postgres")
CONFORM_URL = "FENCEPOST_CONFORM_URL"  # the name of a variable, read by product_postgres.py


def reach(target: str, seconds: float, seed: int) -> Adapter:
    """The adapter for what a command line names. Raises Unusable."""
    kind, _, rest = target.partition(":")
    if rest.startswith("//"):  # a URL as it stands
        if kind in POSTGRES:
            return on_postgres(target, seconds, seed)
        return Bare(target, seconds)
    if target == "reference":
        from .sqlite_reference import Reference

        made: Adapter = Reference()
        return made
    if kind == "broken":
        from .broken import BROKEN

        if rest not in BROKEN:
            raise Unusable(f"there is no broken queue {rest!a}; there are {', '.join(BROKEN)}")
        return BROKEN[rest]()
    if target == "sqlite":
        argv = [sys.executable, str(HERE / "product.py"), str(seed)]
        return Stdio(argv, seconds, environment())
    if kind == "postgres":
        return on_postgres(rest, seconds, seed)
    if kind == "http":
        return Bare(rest, seconds) if rest else Served(seconds, seed, environment())
    if kind == "stdio":
        argv = shlex.split(rest)
        if not argv:
            raise Unusable("stdio: needs a command, as in stdio:python3 my_target.py")
        return Stdio(argv, seconds)
    raise Unusable(f"{target!a} is no target; there are sqlite, postgres:URL, http, http:URL, "
                   "reference, broken:NAME and stdio:COMMAND")  # fmt: skip


def backend_of(target: str) -> str:
    """What keeps the data, as the verification names it."""
    kind = target.partition(":")[0]
    return "postgresql" if kind in POSTGRES else kind


def on_postgres(url: str, seconds: float, seed: int) -> Stdio:
    """The product on the server that this URL names; its password goes into no argument."""
    if not url.startswith(tuple(f"{kind}://" for kind in POSTGRES)):
        raise Unusable("postgres: needs a URL, as in postgres:postgresql://USER@HOST/DATABASE")
    argv = [sys.executable, str(HERE / "product_postgres.py"), str(seed)]
    return Stdio(argv, seconds, {**environment(), CONFORM_URL: url})


def environment() -> dict[str, str]:
    """Where the kit lies in the product's package, the very product beside it is the one tested."""
    package = HERE.parent
    if not (package / "machine").is_dir():
        return dict(os.environ)
    paths = [str(package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
