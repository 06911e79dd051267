"""The client: the same handle over HTTP. The standard library's `http.client`, nothing else."""

from fencepost.remote.handle import RemoteHandle, open_remote

__all__ = ["RemoteHandle", "open_remote"]
