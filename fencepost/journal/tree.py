"""The Merkle tree over journal entries: RFC 6962 section 2.1, the same as RFC 9162 section 2.1.

Only perfect nodes are stored: node (level, index) is the root over the leaves
[index << level, (index + 1) << level), and level 0 holds the leaf hashes. They never change, so a
tree only grows, and every root and proof of every earlier size stays computable from O(log n) of
them. Hashes are 32 bytes of SHA-256; sizes and indexes count leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

HASH_BYTES = 32

EMPTY_ROOT = hashlib.sha256(b"").digest()
"""The root of a tree without leaves."""

Node: TypeAlias = tuple[int, int, bytes]
"""A perfect node to be stored: (level, index, hash)."""


class Nodes(Protocol):
    """Where perfect nodes are read from."""

    def hash(self, level: int, index: int) -> bytes:
        """The 32 bytes of a stored perfect node; LookupError when it is not there."""


def leaf_hash(entry: bytes) -> bytes:
    """The hash of an entry as a leaf. The prefix keeps leaves and inner nodes apart."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of the inner node over two children."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a growing tree: enough to append leaves and to tell the root.

    It keeps one hash for each bit that is set in the size, so a million entries can be streamed
    through it in the memory of 20 hashes.
    """

    __slots__ = ("_peaks", "size")

    def __init__(self) -> None:
        """The frontier of an empty tree."""
        self.size = 0
        self._peaks: list[bytes] = []  # roots of the perfect subtrees, from the left and largest

    @classmethod
    def at(cls, size: int, nodes: Nodes) -> Frontier:
        """The frontier of the stored tree of `size` leaves. Reads one node per bit of the size."""
        _require_size(size)
        frontier = cls()
        frontier.size = size
        for level in reversed(range(size.bit_length())):
            if size >> level & 1:
                # The bits above this one count the leaves to the left of this subtree.
                frontier._peaks.append(nodes.hash(level, (size >> level) - 1))
        return frontier

    def append(self, leaf: bytes) -> list[Node]:
        """Append a leaf hash; the nodes that are perfect now, the leaf first.

        ValueError when `leaf` is not 32 bytes.
        """
        if len(leaf) != HASH_BYTES:
            raise ValueError(f"a leaf hash has {HASH_BYTES} bytes, not {len(leaf)}")
        level, index, node = 0, self.size, leaf
        new = [(level, index, node)]
        while index & 1:  # a right child completes its parent
            node = node_hash(self._peaks.pop(), node)
            level, index = level + 1, index >> 1
            new.append((level, index, node))
        self._peaks.append(node)
        self.size += 1
        return new

    def root(self) -> bytes:
        """The root over all leaves appended so far; EMPTY_ROOT when there are none."""
        if not self._peaks:
            return EMPTY_ROOT
        node = self._peaks[-1]
        for left in reversed(self._peaks[:-1]):
            node = node_hash(left, node)
        return node


def appended(size: int, leaf_hashes: Iterable[bytes], nodes: Nodes) -> list[Node]:
    """The nodes to store when these leaves are appended to the stored tree of `size` leaves.

    About two for each leaf, children before parents. ValueError for a negative size or a leaf hash
    that is not 32 bytes.
    """
    frontier = Frontier.at(size, nodes)
    return [node for leaf in leaf_hashes for node in frontier.append(leaf)]


def root(size: int, nodes: Nodes) -> bytes:
    """The root of the tree over the first `size` stored leaves. ValueError for a negative size."""
    return Frontier.at(size, nodes).root()


def inclusion_proof(index: int, size: int, nodes: Nodes) -> list[bytes]:
    """The proof that leaf `index` is in the tree of `size` leaves (RFC 9162 section 2.1.3.1).

    ValueError unless 0 <= index < size.
    """
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
    proof: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            proof.append(_range_root(middle, end, nodes))
            end = middle
        else:
            proof.append(_range_root(start, middle, nodes))
            start = middle
    proof.reverse()  # a proof goes from the leaf up
    return proof


def consistency_proof(old: int, new: int, nodes: Nodes) -> list[bytes]:
    """The proof that the tree of `old` leaves is a prefix of that of `new` (RFC 9162 2.1.4.1).

    Empty when the sizes are equal. ValueError unless 0 < old <= new: every tree extends the empty
    one, so the RFC has no proof for it and a caller has to tell that case apart.
    """
    if not 0 < old <= new:
        raise ValueError(f"consistency needs 0 < old <= new, not old {old} and new {new}")
    proof: list[bytes] = []
    start, end = 0, new
    while old < end:
        middle = start + _split(end - start)
        if old <= middle:
            proof.append(_range_root(middle, end, nodes))
            end = middle
        else:
            proof.append(_range_root(start, middle, nodes))
            start = middle
    if start > 0:  # else it is the old root itself, which the verifier has
        proof.append(_range_root(start, end, nodes))
    proof.reverse()
    return proof


def verify_inclusion(
    index: int, size: int, leaf: bytes, proof: Sequence[bytes], root: bytes
) -> bool:
    """Whether `proof` shows leaf hash `leaf` at `index` under `root` (RFC 9162 section 2.1.3.2).

    The arguments may come from anybody: nonsense is False, never an exception.
    """
    if not 0 <= index < size or not _are_hashes(leaf, root, *proof):
        return False
    fn, sn, r = index, size - 1, leaf  # the names of the RFC
    for p in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            r = node_hash(p, r)
            while not fn & 1 and fn != 0:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = node_hash(r, p)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and r == root


def verify_consistency(
    old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether `proof` shows that the new tree extends the old one (RFC 9162 section 2.1.4.2).

    Equal sizes need equal roots and an empty proof. False for an old size of 0, for which there
    is no proof. The arguments may come from anybody: nonsense is False, never an exception.
    """
    if not 0 < old <= new or not _are_hashes(old_root, new_root, *proof):
        return False
    if old == new:
        return not proof and old_root == new_root
    if not proof:
        return False
    path = list(proof)
    if old & (old - 1) == 0:  # the old tree is perfect: its root is the node to start from
        path.insert(0, old_root)
    fn, sn = old - 1, new - 1  # the names of the RFC
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = path[0]
    for c in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = node_hash(c, fr), node_hash(c, sr)
            while not fn & 1 and fn != 0:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = node_hash(sr, c)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and fr == old_root and sr == new_root


def _require_size(size: int) -> None:
    if size < 0:
        raise ValueError(f"a tree cannot have {size} leaves")


def _are_hashes(*values: bytes) -> bool:
    return all(len(value) == HASH_BYTES for value in values)


def _split(size: int) -> int:
    """The largest power of two below `size`, which is at least 2: the leaves of the left child."""
    return 1 << (size - 1).bit_length() - 1


def _range_root(start: int, end: int, nodes: Nodes) -> bytes:
    """The root over the leaves [start, end), where every left part is a stored perfect node."""
    size = end - start
    if size & (size - 1) == 0:
        return nodes.hash(size.bit_length() - 1, start // size)
    middle = start + _split(size)
    return node_hash(_range_root(start, middle, nodes), _range_root(middle, end, nodes))
