"""Secrets in a file: a secret a line, the newest first; `#` begins a remark."""

from __future__ import annotations

import logging
import os

from .signing import secret_bytes

log = logging.getLogger("fencepost.receiver")


class SecretFile:
    """`Receiver(store, effect, SecretFile("secrets"))`. A changed file is read anew, so that a
    secret is rotated while the receiver runs. One that cannot be read leaves them as they are.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._seen = self._state()
        self._secrets = self._read()

    def __call__(self) -> list[str]:
        """The secrets as they are now."""
        try:
            seen = self._state()
            if seen != self._seen:
                self._secrets, self._seen = self._read(), seen
        except (OSError, ValueError) as error:
            log.error("the old secrets hold on: %s", error)
        return self._secrets

    def _state(self) -> tuple[int, int, int]:
        found = os.stat(self._path)
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> list[str]:
        with open(self._path, encoding="ascii") as file:
            lines = [line.strip() for line in file]
        found = [line for line in lines if line and not line.startswith("#")]
        for number, secret in enumerate(found, 1):
            try:
                secret_bytes(secret)
            except ValueError as error:
                raise ValueError(f"{self._path}: secret {number}: {error}") from None
        if not found:
            raise ValueError(f"{self._path} holds no secret")
        return found
