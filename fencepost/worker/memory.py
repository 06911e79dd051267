"""What a worker must not forget over its own death: claims whose leases are not settled yet, and
settling commands whose answer it has not heard, bytes and key.

One file of JSON lines in a folder of its own. A line is on the disk before its command is sent for
the first time. That something is over may be forgotten: it is then sent again and answered as it
was. The file holds payloads' results: it is the user's alone, and is emptied when all is settled.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.alone import Taken, alone
from fencepost.canonical import sha256
from fencepost.commands import Request
from fencepost.issues import FencepostError, InvalidRequest
from fencepost.log import Log

FILE, LOCK = "worker.jsonl", "worker.lock"
COMPACT_BYTES = 1 << 20

_log = Log("fencepost.worker")


class Kept(NamedTuple):
    """A command as it was first sent, and how many leases of a claim are not settled."""

    body: bytes
    key: str | None

    def request(self) -> Request:
        """The same request again. Raises InvalidRequest where the line was damaged."""
        return Request.read(self.body, self.key)


def default_folder(identity: Mapping[str, str]) -> Path:
    """Where a worker of this store, scope and name remembers: below XDG_STATE_HOME."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "fencepost" / digest_of(identity)


def digest_of(identity: Mapping[str, str]) -> str:
    """A short name for whose memory it is."""
    return sha256(json.dumps(dict(identity), sort_keys=True).encode()).hex()[:24]


class Memory:
    """The open claims and settling commands of one worker. Threads may share it.

    `again`: what it settles is work that can be done again and comes to the same. Then it need not
    outlive a failure of power, only the process, and is not synced.

    Raises InvalidRequest where another process has it open, or where it is another worker's.
    """

    def __init__(
        self, folder: Path | None, identity: Mapping[str, str], *, again: bool = False
    ) -> None:
        self._again = again
        self.identity = dict(identity)
        self.claims: dict[str, Kept] = {}
        self.settling: dict[str, Kept] = {}
        self._lock = threading.Lock()
        self._loose: list[dict[str, Any]] = []
        self._file = self._guard = -1
        self._size = 0
        if folder is not None:
            self._open(folder)

    def _open(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._guard = _locked(folder)
            self.path = folder / FILE
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._read()
            self._begin_anew()
            _sync_folder(folder)
        except OSError as error:
            self.close()
            raise InvalidRequest(f"--state {folder}: {error.strerror or error}") from None
        except FencepostError:
            self.close()
            raise

    @property
    def kept(self) -> bool:
        """Whether it is in a folder, which is this process's alone."""
        return self._guard >= 0

    def close(self) -> None:
        """Give the folder back. A second call does nothing."""
        with self._lock:
            if self._file >= 0 and self._loose:
                with contextlib.suppress(OSError):
                    self._write([])
            for each in (self._file, self._guard):
                if each >= 0:
                    os.close(each)
            self._file = self._guard = -1

    # -- what is remembered

    def claiming(self, request: Request) -> None:
        """Before a claim is sent. Raises OSError where it cannot be written: do not send it."""
        assert request.key is not None, "a claim that is to be remembered has a key"
        kept = Kept(request.body, request.key)
        with self._lock:
            self._write([_line("claim", request.key, kept)])
            self.claims[request.key] = kept

    def settle(self, requests: Iterable[tuple[str, Request]]) -> None:
        """Before these are sent for the first time, by the name of their lease: one sync for all.
        Raises OSError; they are then remembered as long as this process lives."""
        named = {name: Kept(request.body, request.key) for name, request in requests}
        with self._lock:
            self.settling.update(named)
            lines = [_line("settle", name, kept) for name, kept in named.items()]
            self._write(lines, sync=not self._again)

    def settled(self, names: Iterable[str]) -> None:
        """These have been answered. Written with the next line that has to be."""
        self._over("settled", self.settling, names)

    def claimed(self, keys: Iterable[str]) -> None:
        """No lease of these claims is open any more."""
        self._over("claimed", self.claims, keys)

    def _over(self, what: str, known: dict[str, Kept], names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                if known.pop(name, None) is not None and self._file >= 0:
                    self._loose.append({"do": what, "of": name})
            if not self.claims and not self.settling and self._file >= 0:
                self._empty()

    # -- the file

    def _write(self, lines: list[dict[str, Any]], *, sync: bool = True) -> None:
        """Append and sync; whole or not at all."""
        if self._file < 0:
            return
        data = b"".join(_bytes(line) for line in (*self._loose, *lines))
        try:
            _write_at(self._file, data, self._size)
            if sync:
                os.fsync(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)
        self._loose.clear()
        if self._size > COMPACT_BYTES and self._size > 4 * self._live():
            self._begin_anew()

    def _live(self) -> int:
        kept = (*self.claims.values(), *self.settling.values())
        return sum(len(each.body) for each in kept)

    def _empty(self) -> None:
        """All is settled: what is left is the first line. No sync: what comes back is over."""
        head = _bytes({"worker": self.identity})
        with contextlib.suppress(OSError):
            if self._size > len(head):
                os.ftruncate(self._file, len(head))
                self._size = len(head)
            self._loose.clear()

    def _begin_anew(self) -> None:
        """A file beside it with what is open, in its place once it is on the disk."""
        lines = [{"worker": self.identity}]
        lines += [_line("claim", key, kept) for key, kept in self.claims.items()]
        lines += [_line("settle", name, kept) for name, kept in self.settling.items()]
        data = b"".join(map(_bytes, lines))
        fresh = self.path.with_suffix(".new")
        file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_at(file, data, 0)
            os.fsync(file)
            os.replace(fresh, self.path)
        except OSError:
            os.close(file)
            raise
        os.close(self._file)
        self._file, self._size = file, len(data)
        self._loose.clear()

    def _read(self) -> None:
        """What an earlier life has left. A line that was cut by its death never was sent."""
        with open(os.dup(self._file), "rb") as file:
            for raw in file:
                try:
                    self._recall(json.loads(raw))
                except (ValueError, KeyError, TypeError):
                    _log.warning("%s: a line that cannot be read is left out", self.path)

    def _recall(self, line: dict[str, Any]) -> None:
        if "worker" in line:
            if line["worker"] != self.identity:
                other = " ".join(f"{name} {value}" for name, value in line["worker"].items())
                raise InvalidRequest(f"--state: {self.path.parent} is the memory of {other}")
            return
        match line["do"]:
            case "claim":
                self.claims[line["of"]] = Kept(line["body"].encode(), line["key"])
            case "settle":
                self.settling[line["of"]] = Kept(line["body"].encode(), line["key"])
            case "claimed":
                self.claims.pop(line["of"], None)
            case "settled":
                self.settling.pop(line["of"], None)


def _line(what: str, name: str, kept: Kept) -> dict[str, Any]:
    return {"do": what, "of": name, "key": kept.key, "body": kept.body.decode()}


def _bytes(line: dict[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _write_at(file: int, data: bytes, place: int) -> None:
    while data:
        done = os.pwrite(file, data, place)
        data, place = data[done:], place + done


def _locked(folder: Path) -> int:
    """The lock of the folder, held by this process until it ends."""
    try:
        return alone(folder / LOCK)
    except Taken as taken:
        raise InvalidRequest(
            f"--state {folder}: a worker of this name runs already (process {taken.holder}); give "
            "another --worker, or end that one"
        ) from None


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        place = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(place)
        finally:
            os.close(place)
