"""Opens a store by its address: a path here, or the URL of a service elsewhere."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from fencepost.issues import InvalidRequest

if TYPE_CHECKING:
    from fencepost.handle import Handle
    from fencepost.remote import RemoteHandle

LOCAL = {
    "actor": "the token says who you are",
    "kind": "the token says what you may",
    "create": "a service has its store already",
    "allow_filesystem": "the store's file is the service's",
    "wait_seconds": "the service waits for its turn; deadline_seconds bounds a call",
    "draw": "the service draws",
}


def is_remote(url: object) -> bool:
    """Whether this names a service and no file."""
    return type(url) is str and url[:8].lower().startswith(("http://", "https://"))


@overload
def open_any(url: str, *, token: str, **options: Any) -> RemoteHandle: ...
@overload
def open_any(url: str | PathLike[str], **options: Any) -> Handle: ...


def open_any(url: str | PathLike[str], **options: Any) -> Handle | RemoteHandle:
    """Open a store: a path, `:memory:`, or `https://host[:port]` of a service.

    With a path the options are those of `handle.open_handle` (scope, actor, kind, create,
    allow_filesystem, wait_seconds), with a URL those of `remote.open_remote` (scope, token,
    cafile, allow_plaintext, deadline_seconds, try_seconds, max_skew_seconds). Both handles have
    the same methods; what a service cannot do raises InvalidRequest that says what to do instead.
    A URL without `token=` takes it from FENCEPOST_TOKEN.
    """
    if not is_remote(url):
        from fencepost.handle import open_handle

        return open_handle(url, **options)
    from fencepost.remote import open_remote

    for name, why in LOCAL.items():
        if name in options:
            raise InvalidRequest(f"{name} cannot be given with a URL: {why}")
    return open_remote(str(url), **options)
