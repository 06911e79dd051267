"""Proofs that stand alone: whoever has one needs no store, no network and no other program.

A `Proof` shows that a receipt's entry is in the tree of a checkpoint; a `ConsistencyProof` that
the tree of one checkpoint is a prefix of another's. Both show only what their checkpoint says:
who has kept an earlier checkpoint, or knows a witness's, compares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.issues import InvalidRequest, JournalBroken
from fencepost.journal import checkpoint
from fencepost.journal.checkpoint import Checkpoint
from fencepost.journal.tree import HASH_BYTES, leaf_hash, verify_consistency, verify_inclusion
from fencepost.record import dataclass

MAX_PATH = 64


@dataclass(frozen=True, slots=True)
class Proof:
    """That entry `number` (its place in the tree, from 1) of the journal is the bytes `entry`.

    `path` are the hashes (32 bytes each) from the leaf up to the root in `checkpoint`, the text
    of a checkpoint of `size` entries.
    """

    number: int
    entry: bytes
    size: int
    path: tuple[bytes, ...]
    checkpoint: bytes

    def verify(self) -> bool:
        """Whether it proves it. Nonsense is False, never an exception."""
        try:
            self.check()
        except JournalBroken:
            return False
        return True

    def check(self) -> Checkpoint:
        """The checkpoint under which the entry stands. Raises JournalBroken if it does not."""
        head = _parsed(self.checkpoint)
        if head.size != self.size:
            raise JournalBroken(f"the proof is for {self.size} entries, not {head.size}")
        leaf = leaf_hash(self.entry)
        if not verify_inclusion(self.number - 1, self.size, leaf, self.path, head.root):
            raise JournalBroken(f"entry {self.number} is not under the root of the checkpoint")
        return head

    def to_json(self) -> dict[str, Any]:
        """JSON members; hashes in hex."""
        return {
            "number": self.number,
            "entry": self.entry.decode(),
            "size": self.size,
            "path": [hash_.hex() for hash_ in self.path],
            "checkpoint": self.checkpoint.decode(),
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Proof:
        """What `to_json` gives. Raises InvalidRequest for anything else."""
        given = _members(members, ("number", "entry", "size", "path", "checkpoint"))
        return cls(
            _number(given["number"], "number"), _text(given["entry"], "entry"),
            _number(given["size"], "size"), _path(given["path"]),
            _text(given["checkpoint"], "checkpoint"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """That the tree of checkpoint `new` begins with the tree of checkpoint `old` (their texts)."""

    old: bytes
    new: bytes
    path: tuple[bytes, ...]

    def verify(self) -> bool:
        """Whether it proves it. Nonsense is False, never an exception."""
        try:
            self.check()
        except JournalBroken:
            return False
        return True

    def check(self) -> Checkpoint:
        """The newer checkpoint. Raises JournalBroken: a fork, a rewrite or a cut."""
        old, new = _parsed(self.old), _parsed(self.new)
        if old.size == 0:
            return new  # every tree begins with the empty one
        if not verify_consistency(old.size, new.size, old.root, new.root, self.path):
            raise JournalBroken(
                f"the journal of {new.size} entries does not go on from that of {old.size}: "
                "it was cut, rewritten or forked"
            )
        return new

    def to_json(self) -> dict[str, Any]:
        """JSON members; hashes in hex."""
        return {
            "old": self.old.decode(),
            "new": self.new.decode(),
            "path": [hash_.hex() for hash_ in self.path],
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> ConsistencyProof:
        """What `to_json` gives. Raises InvalidRequest for anything else."""
        given = _members(members, ("old", "new", "path"))
        return cls(_text(given["old"], "old"), _text(given["new"], "new"), _path(given["path"]))


def _parsed(text: bytes) -> Checkpoint:
    try:
        return checkpoint.parse(text)
    except ValueError as error:
        raise JournalBroken(f"the proof's checkpoint: {error}") from None


def _members(members: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(members, Mapping) or set(members) != set(names):
        raise InvalidRequest(f"proof: give an object of exactly {', '.join(names)}")
    return members


def _number(value: Any, name: str) -> int:
    if type(value) is not int or value < 0:
        raise InvalidRequest(f"proof: {name} is not a number from 0 on")
    return value


def _text(value: Any, name: str) -> bytes:
    if type(value) is not str or not value.isascii():
        raise InvalidRequest(f"proof: {name} is not ASCII text")
    return value.encode()


def _path(value: Any) -> tuple[bytes, ...]:
    if type(value) is not list or len(value) > MAX_PATH:
        raise InvalidRequest(f"proof: path is not a list of at most {MAX_PATH} hashes")
    hashes = []
    for text in value:
        try:
            hash_ = bytes.fromhex(text)
        except (ValueError, TypeError):
            hash_ = b""
        if len(hash_) != HASH_BYTES or hash_.hex() != text:
            raise InvalidRequest(f"proof: path holds {HASH_BYTES} bytes each, in lowercase hex")
        hashes.append(hash_)
    return tuple(hashes)
