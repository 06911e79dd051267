"""Puts committed entries into the RFC 6962 tree, in the order of their numbers, and writes a
checkpoint that names its predecessor. It runs in a transaction of its own and holds up nobody.

On SQLite entries are committed in the order of their numbers, without a gap, so an entry's
place in the tree is its number less one. Where transactions run side by side a late commit may
have a lower number than what is sealed: it comes behind. A task's own entries always follow one
another, since each is numbered after the one before is committed."""

from __future__ import annotations

from typing import Any

from fencepost.issues import JournalBroken
from fencepost.journal import checkpoint, tree
from fencepost.storage.steps import Ask, Steps, many, one, together


class Known:
    """The nodes that a step has read, for the tree's pure functions."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[int, int], bytes] = {}

    def hash(self, level: int, index: int) -> bytes:
        return self.nodes[level, index]


def seal(now: int, limit: int, since: int = 0) -> Steps[int | None]:
    """Seal up to `limit` entries of those that are numbered from `since` on. Returns the number of
    the last one where more are left (to count them would take the longer the more there are)."""
    ((size,),), ((writer_id, *_),), heads = yield together(
        [one("tree_size"), one("store"), one("last_checkpoint")]
    )
    found = yield one("unsealed", size=size, since=since, limit=limit + 1)
    if rows := found[:limit]:
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
        yield _checkpoint(now, writer_id, size + len(leaves), known, heads)
    return int(rows[-1][1]) if len(found) > limit else None


def frontier(size: int) -> Steps[Known]:
    """The perfect subtrees that make up a tree of `size`, one a bit."""
    known = Known()
    places = []
    done = 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            places.append((level, done >> level))
            done += 1 << level
    asks = [one("node", level=level, position=index) for level, index in places]
    found = (yield together(asks)) if asks else []
    for place, ((hash_,),) in zip(places, found, strict=True):
        known.nodes[place] = hash_
    return known


def _checkpoint(now: int, writer_id: str, size: int, known: Known, rows: list[Any]) -> Ask:
    """After the `rows` of the last one."""
    before = checkpoint.parse(rows[0][2]) if rows else None
    head = checkpoint.Checkpoint(
        f"fencepost/{writer_id}",
        size,
        tree.root(size, known),
        None if before is None else before.size,
        None if before is None else before.sha256(),
    )
    return one("insert_checkpoint", size=size, sealed_at=now, body=head.text())
