"""What of a destination may be shown: nothing that lets anybody in anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable

from fencepost.destinations import SIGNED, WEB, kind_of
from fencepost.outward import Destination
from fencepost.record import replace
from fencepost.storage.address import without_password

HIDDEN = "***"
_ORIGIN = re.compile(r"https?://[^/?]*")


def without_secrets(destination: Destination) -> Destination:
    """For a screen: secrets, headers, passwords and what a query says are hidden. The path of an
    address stays, by which people know it."""
    return _hidden(destination, _without_password, list)


def for_others(destination: Destination) -> Destination:
    """For who has nothing to do with it: of an address also what may be a secret in itself, the
    path of a web hook or a command's arguments."""
    return _hidden(destination, _place, lambda words: [HIDDEN])


def _hidden(
    destination: Destination, shown: Callable[[str], str],
    words: Callable[[list[str]], list[str]],
) -> Destination:  # fmt: skip
    secrets = tuple(one._replace(secret=HIDDEN) for one in destination.secrets)
    options = dict(destination.options)
    options["headers"] = dict.fromkeys(options["headers"], HIDDEN)
    asked = options["reconcile"]
    if asked is not None:
        options["reconcile"] = shown(asked) if isinstance(asked, str) else words(asked)
    return replace(
        destination, address=shown(destination.address), options=options, secrets=secrets
    )


def _without_password(address: str) -> str:
    if kind_of(address) in WEB:
        head, mark, _ = address.partition("?")
        return f"{head}?{HIDDEN}" if mark else head
    head, mark, table = address.partition("#")
    return f"{without_password(head)}{mark}{table}"


def _place(address: str) -> str:
    kind = kind_of(address)
    if kind not in SIGNED:
        return _without_password(address)
    found = _ORIGIN.match(address)
    if found is None:
        return f"{kind}:{HIDDEN}"
    return found[0] if len(address) <= len(found[0]) + 1 else f"{found[0]}/{HIDDEN}"
