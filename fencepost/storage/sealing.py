"""Puts committed entries into the RFC 6962 tree, in the order of their numbers, and writes a
checkpoint that names its predecessor. It runs in a transaction of its own and holds up nobody.

On SQLite entries are committed in the order of their numbers, without a gap, so an entry's
place in the tree is its number less one and a late commit cannot be skipped."""

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
    rows = yield one("entries", after=size, limit=limit)
    ((writer_id, *numbers),) = yield one("store")
    last_entry = numbers[4]
    if rows:
        leaves = []
        for place, (number, body, *_) in enumerate(rows, start=size + 1):
            if number != place or body is None:
                raise JournalBroken(f"entry {place} is missing: the journal has a gap there")
            leaves.append(tree.leaf_hash(body))
        known = yield from frontier(size)
        nodes = tree.appended(size, leaves, known)
        known.nodes.update({(level, index): hash_ for level, index, hash_ in nodes})
        yield many("insert_node", nodes)
        yield from _checkpoint(now, writer_id, size + len(leaves), known)
    return int(last_entry - size - len(rows))


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
