"""restore, adopt, erasures: a copy of a store that is to live."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fencepost.cli.output import Out, again
from fencepost.cli.store import open_here
from fencepost.cli.terminal import Progress, follow
from fencepost.clock import SECOND, SystemClock
from fencepost.issues import InvalidRequest, Unavailable
from fencepost.operate import restore as operate
from fencepost.operate.restoring import erasures as gone
from fencepost.operate.restoring import receipt
from fencepost.operate.restoring.steps import Wishes


def restore(args: Namespace, out: Out) -> int:
    if "store" in args.given:
        raise InvalidRequest("restore: the new store is named by --to; leave --store out")
    with _progress("restore") as tell:
        found = operate.restore(
            args.backup, args.to, _wishes(args), receipt_path=_path(args.receipt),
            actor=args.actor, allow_filesystem=args.allow_filesystem, tell=tell,
        )  # fmt: skip
    hidden = f"the store is not there yet ({args.to}.restoring)"
    return _told(found, out, f"{hidden}: run the same command again")


def adopt(args: Namespace, out: Out) -> int:
    with open_here(args) as fp, _progress("adopt") as tell:
        found = operate.adopt(
            fp, _wishes(args), receipt_path=_path(args.receipt), folder=_path(args.folder),
            tell=tell,
        )  # fmt: skip
    return _told(found, out, f"nothing is delivered: run again {again(args, 'adopt')}")


def erasures(args: Namespace, out: Out) -> int:
    """Always JSON lines: they are for `restore --erasures`."""
    with open_here(args) as fp:
        for each in gone.erasures(fp):
            out.data(each)
    return 0


def _wishes(args: Namespace) -> Wishes:
    return Wishes(
        min_epoch=args.min_epoch, take_over=args.take_over,
        adopt_secret=_secret(args.adopt_secret_file), overrides=tuple(args.override),
        who=args.actor, reason=args.reason, erasures=_erasures(args.erasures),
        secrets_out=_path(args.secrets_out),
    )  # fmt: skip


def _erasures(name: str | None) -> tuple[dict[str, object], ...]:
    if name is None:
        return ()
    if name == "-":
        return gone.read(sys.stdin)
    try:
        return gone.read(Path(name).read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"--erasures: {name} cannot be read: {error}") from error


def _secret(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        lines = Path(name).read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"--adopt-secret-file: {name} cannot be read: {error}") from error
    if not lines:
        raise InvalidRequest(f"--adopt-secret-file: {name} is empty")
    return lines[0]


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


@contextmanager
def _progress(label: str) -> Iterator[Callable[[str, int, int], None]]:
    clock = SystemClock()
    with Progress(label, None, out=sys.stderr, steady=lambda: clock.steady() / SECOND) as line:
        yield follow(line, label)


def _told(found: operate.Restored, out: Out, left: str) -> int:
    told = json.loads(found.receipt)
    if out.json:
        out.data(told)
    else:
        out.say(*receipt.lines(told), f"sha256 {receipt.digest(found.receipt)}")
    out.note(f"receipt: {found.path}")
    if found.complete:
        return 0
    return out.complain(
        Unavailable.code,
        f"receivers were not heard: {', '.join(told['not_reached'])}; {left}, or name those that "
        "are to be passed over with --override and --reason",
    )
