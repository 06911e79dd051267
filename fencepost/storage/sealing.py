"""Puts committed entries into the RFC 6962 tree, in the order of their numbers, and writes a
checkpoint that names its predecessor. It runs in a transaction of its own and holds up nobody.

On SQLite entries are committed in the order of their numbers, without a gap, so an entry's
place in the tree is its number less one. Where transactions run side by side a late commit may
have a lower number than what is sealed: it comes behind. A task's own entries always follow one
another, since each is numbered after the one before is committed."""

from __future__ import annotations

from fencepost.issues import JournalBroken
from fencepost.journal import checkpoint, tree
from fencepost.storage.steps import Steps, many, one


class Known:
    """The nodes that a step has read, for the tree's pure functions."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[int, int], bytes] = {}

    def hash(self, level: int, index: int) -> bytes:
        return self.nodes[level, index]


def seal(now: int, limit: int) -> Steps[int]:
    """Seal up to `limit` entries. Returns how many are left."""
    ((size,),) = yield one("tree_size")
    rows = yield one("unsealed", size=size, limit=limit)
    ((writer_id, *_),) = yield one("store")
    if rows:
        leaves, numbers = [], []
        for expected, (place, number, body) in enumerate(rows, start=size + 1):
            if place != expected or body is None:
                raise JournalBroken(f"entry {expected} is missing: the journal has a gap there")
            leaves.append(tree.leaf_hash(body))
            numbers.append(number)
        known = yield from frontier(size)
        nodes = tree.appended(size, leaves, known)
        known.nodes.update({(level, index): hash_ for level, index, hash_ in nodes})
        written = yield many("insert_node", [
            (level, index, hash_, numbers[index - size] if level == 0 else 0)
            for level, index, hash_ in nodes
        ])  # fmt: skip
        if written != len(nodes):
            raise JournalBroken("an entry's number is not that of its place in the tree")
        yield from _checkpoint(now, writer_id, size + len(leaves), known)
    ((left,),) = yield one("unsealed_count")
    return int(left)


def frontier(size: int) -> Steps[Known]:
    """The perfect subtrees that make up a tree of `size`, one a bit."""
    known = Known()
    done = 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            index = done >> level
            ((hash_,),) = yield one("node", level=level, position=index)
            known.nodes[level, index] = hash_
            done += 1 << level
    return known


def _checkpoint(now: int, writer_id: str, size: int, known: Known) -> Steps[None]:
    rows = yield one("last_checkpoint")
    before = checkpoint.parse(rows[0][2]) if rows else None
    head = checkpoint.Checkpoint(
        f"fencepost/{writer_id}",
        size,
        tree.root(size, known),
        None if before is None else before.size,
        None if before is None else before.sha256(),
    )
    yield one("insert_checkpoint", size=size, sealed_at=now, body=head.text())
