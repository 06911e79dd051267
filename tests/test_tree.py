"""The Merkle tree against published vectors and against the definition, written out naively."""

from __future__ import annotations

import random

import pytest

from fencepost.journal.tree import (
    EMPTY_ROOT,
    Frontier,
    appended,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root,
    verify_consistency,
    verify_inclusion,
)

# The reference entries and roots of Certificate Transparency (transparency-dev/merkle).
_INPUTS = "- 00 10 2021 3031 40414243 5051525354555657 606162636465666768696a6b6c6d6e6f"
ENTRIES = [bytes.fromhex(entry.strip("-")) for entry in _INPUTS.split()]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION_3_OF_7 = [
    "0298d122906dcfc10892cb53a73992fc5b9f493ea4c9badb27b791b4127a7fe7",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "837dbb152e9b079010717e84e865da4ebc0fa198a806d59d31bf15accef22d0e",
]
CONSISTENCY_3_TO_7 = [
    "0298d122906dcfc10892cb53a73992fc5b9f493ea4c9badb27b791b4127a7fe7",
    "07506a85fd9dd2f120eb694f86011e5bb4662e5c415a62917033d4a9624487e7",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "837dbb152e9b079010717e84e865da4ebc0fa198a806d59d31bf15accef22d0e",
]
LARGEST = 40
LEAVES = [leaf_hash(b"entry %d" % number) for number in range(LARGEST)]


class Stored:
    """Nodes in a dict; it counts what is read and refuses to write a node twice."""

    def __init__(self, leaves=()):
        self.by_place = {}
        self.reads = []
        self.size = 0
        self.append(leaves)

    def append(self, leaves):
        new = appended(self.size, leaves, self)
        for level, index, value in new:
            assert (level, index) not in self.by_place
            self.by_place[level, index] = value
        self.size += len(leaves)
        return new

    def hash(self, level, index):
        self.reads.append((level, index))
        return self.by_place[level, index]


# RFC 6962 section 2.1, as it stands there: MTH, PATH and SUBPROOF.


def split(size):
    k = 1
    while k * 2 < size:
        k *= 2
    return k


def mth(leaves):
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return node_hash(mth(leaves[:k]), mth(leaves[k:]))


def path(index, leaves):
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if index < k:
        return [*path(index, leaves[:k]), mth(leaves[k:])]
    return [*path(index - k, leaves[k:]), mth(leaves[:k])]


def subproof(old, leaves, whole=True):
    if old == len(leaves):
        return [] if whole else [mth(leaves)]
    k = split(len(leaves))
    if old <= k:
        return [*subproof(old, leaves[:k], whole), mth(leaves[k:])]
    return [*subproof(old - k, leaves[k:], False), mth(leaves[:k])]


STORED = Stored(LEAVES)
MTH = [mth(LEAVES[:size]) for size in range(LARGEST + 1)]


def hexes(proof):
    return [value.hex() for value in proof]


def spoiled(proof):
    """Every proof that is one step away: a bit flipped, a hash dropped, doubled, added, cut."""
    for place, value in enumerate(proof):
        before, after = proof[:place], proof[place + 1 :]
        yield [*before, bytes([value[0] ^ 1]) + value[1:], *after]
        yield [*before, value[:-1] + bytes([value[-1] ^ 0x80]), *after]
        yield [*before, value[:-1], *after]
        yield [*before, *after]
        yield [*before, value, value, *after]
    yield [bytes(32), *proof]
    yield [*proof, bytes(32)]


def test_leaf_and_node_hashes_are_kept_apart_by_a_prefix():
    assert leaf_hash(b"") == bytes.fromhex(ROOTS[1])
    assert leaf_hash(b"L123456").hex() == (
        "395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56"
    )
    assert node_hash(b"N123", b"N456").hex() == (
        "aa217fe888e47007fa15edab33c2b492a722cb106c64667fc2b044444de66bbb"
    )


@pytest.mark.parametrize("size", range(9))
def test_the_published_roots_come_out(size):
    stored = Stored([leaf_hash(entry) for entry in ENTRIES])
    assert root(size, stored).hex() == ROOTS[size]


def test_the_published_proofs_come_out_and_verify():
    leaves = [leaf_hash(entry) for entry in ENTRIES]
    stored = Stored(leaves)
    inclusion = inclusion_proof(3, 7, stored)
    consistency = consistency_proof(3, 7, stored)
    assert hexes(inclusion) == INCLUSION_3_OF_7
    assert hexes(consistency) == CONSISTENCY_3_TO_7
    assert verify_inclusion(3, 7, leaves[3], inclusion, bytes.fromhex(ROOTS[7]))
    old_root, new_root = bytes.fromhex(ROOTS[3]), bytes.fromhex(ROOTS[7])
    assert verify_consistency(3, 7, old_root, new_root, consistency)


@pytest.mark.parametrize("size", range(LARGEST + 1))
def test_root_and_frontier_equal_the_definition(size):
    frontier = Frontier()
    for leaf in LEAVES[:size]:
        frontier.append(leaf)
    assert root(size, STORED) == frontier.root() == MTH[size]
    assert frontier.size == size


@pytest.mark.parametrize("size", range(1, LARGEST + 1))
def test_every_inclusion_proof_equals_the_definition_and_verifies(size):
    for index in range(size):
        proof = inclusion_proof(index, size, STORED)
        assert proof == path(index, LEAVES[:size])
        assert verify_inclusion(index, size, LEAVES[index], proof, MTH[size])


@pytest.mark.parametrize("new", range(1, LARGEST + 1))
def test_every_consistency_proof_equals_the_definition_and_verifies(new):
    for old in range(1, new + 1):
        proof = consistency_proof(old, new, STORED)
        assert proof == subproof(old, LEAVES[:new])
        assert verify_consistency(old, new, MTH[old], MTH[new], proof)


@pytest.mark.parametrize("size", range(1, LARGEST + 1))
def test_a_spoiled_inclusion_proof_is_refused(size):
    for index in range(size):
        proof = inclusion_proof(index, size, STORED)
        leaf = LEAVES[index]
        for wrong in spoiled(proof):
            assert not verify_inclusion(index, size, leaf, wrong, MTH[size])
        assert not verify_inclusion(index, size, bytes(32), proof, MTH[size])
        assert not verify_inclusion(index, size, leaf, proof, bytes(32))
        for other in range(size):
            assert verify_inclusion(other, size, leaf, proof, MTH[size]) == (other == index)


@pytest.mark.parametrize("new", range(1, LARGEST + 1))
def test_a_spoiled_consistency_proof_is_refused(new):
    for old in range(1, new + 1):
        proof = consistency_proof(old, new, STORED)
        for wrong in spoiled(proof):
            assert not verify_consistency(old, new, MTH[old], MTH[new], wrong)
        assert not verify_consistency(old, new, bytes(32), MTH[new], proof)
        assert not verify_consistency(old, new, MTH[old], bytes(32), proof)


@pytest.mark.parametrize("new", range(2, LARGEST + 1))
def test_no_proof_leads_from_one_history_to_another(new):
    for old in range(1, new):
        edited = [*LEAVES[: old - 1], bytes(32), *LEAVES[old:new]]
        forged = Stored(edited)
        proof = consistency_proof(old, new, forged)
        assert verify_consistency(old, new, mth(edited[:old]), root(new, forged), proof)
        assert not verify_consistency(old, new, MTH[old], root(new, forged), proof)


def test_verifiers_answer_nonsense_with_no():
    leaf, top = LEAVES[0], MTH[1]
    assert verify_inclusion(0, 1, leaf, [], top)
    assert not verify_inclusion(1, 1, leaf, [], top)
    assert not verify_inclusion(-1, 1, leaf, [], top)
    assert not verify_inclusion(0, 0, leaf, [], top)
    assert not verify_inclusion(0, 1, leaf[:31], [], leaf[:31])
    assert verify_consistency(1, 1, top, top, [])
    assert not verify_consistency(0, 0, EMPTY_ROOT, EMPTY_ROOT, [])
    assert not verify_consistency(0, 1, EMPTY_ROOT, top, [])
    assert not verify_consistency(2, 1, MTH[2], top, [])
    assert not verify_consistency(-1, 1, top, top, [])
    assert not verify_consistency(1, 1, top[:31], top[:31], [])
    assert not verify_consistency(1, 2, MTH[1], MTH[2], [])


def test_makers_of_proofs_refuse_bad_arguments_with_words():
    for index, size in ((0, 0), (5, 5), (-1, 5)):
        with pytest.raises(ValueError, match=f"leaf {index} is not in a tree of {size} leaves"):
            inclusion_proof(index, size, STORED)
    for old, new in ((0, 5), (6, 5), (-1, 5)):
        with pytest.raises(ValueError, match="consistency needs 0 < old <= new"):
            consistency_proof(old, new, STORED)
    with pytest.raises(ValueError, match="a tree cannot have -1 leaves"):
        root(-1, STORED)
    with pytest.raises(ValueError, match="a tree cannot have -1 leaves"):
        appended(-1, [], STORED)
    with pytest.raises(ValueError, match="a leaf hash has 32 bytes, not 31"):
        appended(0, [bytes(31)], STORED)


def test_leaves_may_be_appended_in_any_portions():
    chance = random.Random(9162)
    for _ in range(30):
        stored = Stored()
        while stored.size < LARGEST:
            stored.append(LEAVES[stored.size : stored.size + chance.randint(0, 7)])
        assert stored.by_place == STORED.by_place


@pytest.mark.parametrize("size", range(LARGEST))
def test_appending_reads_one_node_for_each_bit_of_the_size(size):
    stored = Stored(LEAVES[:size])
    stored.reads.clear()
    new = stored.append([LEAVES[size]])
    assert len(stored.reads) == size.bit_count()
    assert new[0] == (0, size, LEAVES[size])
    assert all(new_node[1] == size >> new_node[0] for new_node in new)


def test_every_perfect_node_is_written_once_and_no_other():
    expected = {
        (level, index): mth(LEAVES[index << level : (index + 1) << level])
        for level in range(LARGEST.bit_length())
        for index in range(LARGEST >> level)
    }
    assert STORED.by_place == expected


def test_a_frontier_goes_on_from_a_stored_tree():
    for size in range(LARGEST + 1):
        frontier = Frontier.at(size, STORED)
        for leaf in LEAVES[size:]:
            frontier.append(leaf)
        assert frontier.root() == MTH[LARGEST]


def test_a_frontier_keeps_one_hash_for_each_bit_of_the_size():
    frontier = Frontier()
    for number in range(5000):
        frontier.append(LEAVES[number % LARGEST])
        assert len(frontier._peaks) == (number + 1).bit_count()


def test_a_missing_node_is_a_lookup_error():
    stored = Stored(LEAVES[:7])
    with pytest.raises(LookupError):
        root(8, stored)
    with pytest.raises(LookupError):
        inclusion_proof(0, 8, stored)
