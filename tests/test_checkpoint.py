"""The text of a checkpoint: one spelling for each value, read strictly."""

from __future__ import annotations

import base64
import hashlib

import pytest

from fencepost.journal.checkpoint import MAX_SIZE, Checkpoint, parse
from fencepost.journal.tree import EMPTY_ROOT

ROOT_7 = bytes.fromhex("ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c")
ROOT_3 = bytes.fromhex("aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77")
FIRST = Checkpoint("fencepost/w1", 3, ROOT_3)
SECOND = Checkpoint("fencepost/w1", 7, ROOT_7, 3, FIRST.sha256())
FIRST_TEXT = b"fencepost/w1\n3\nrra8/idLcKFPsGel5VeCZNsPqbUa9eC6FZFY8yngbnc=\nprevious none\n"
SECOND_TEXT = (
    b"fencepost/w1\n7\n3bib5AOAnjJXUNPSY814kpwpQreUKjS3fhIslZSnTIw=\nprevious 3 "
    + base64.b64encode(hashlib.sha256(FIRST_TEXT).digest())
    + b"\n"
)


def test_the_text_is_origin_size_root_and_predecessor():
    assert FIRST.text() == FIRST_TEXT
    assert SECOND.text() == SECOND_TEXT


def test_a_checkpoint_is_named_by_the_digest_of_its_text():
    assert FIRST.sha256() == hashlib.sha256(FIRST_TEXT).digest()
    assert SECOND.previous_sha256 == FIRST.sha256()


@pytest.mark.parametrize(
    "checkpoint",
    [
        FIRST,
        SECOND,
        Checkpoint("fencepost/w1", 0, EMPTY_ROOT),
        Checkpoint("fencepost/0198aaaa-bbbb-7ccc-8ddd-eeeeffff0000", MAX_SIZE, ROOT_7),
        Checkpoint("fencepost/w1", 7, ROOT_7, 7, bytes(32)),
        Checkpoint("fencepost/w1", 7, ROOT_7, 0, bytes(32)),
    ],
)
def test_parse_reads_back_what_text_writes(checkpoint):
    assert parse(checkpoint.text()) == checkpoint


def test_signatures_below_the_text_leave_it_unchanged():
    note = SECOND_TEXT + b"\n" + "\u2014 fencepost/w1 2XIYwwAA\n".encode()
    text, _, _ = note.rpartition(b"\n\n")
    assert parse(text + b"\n") == SECOND
    with pytest.raises(ValueError, match="ASCII"):
        parse(note)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"fencepost/w1", b"", "origin"),
        (b"fencepost/w1", b"fencepost/", "origin"),
        (b"fencepost/w1", b"fencepost/" + b"w" * 65, "origin"),
        (b"fencepost/w1", b"other/w1", "origin"),
        (b"fencepost/w1", b"fencepost/w 1", "origin"),
        (b"fencepost/w1", b"fencepost/w+1", "origin"),
        (b"fencepost/w1", b"fencepost/w/1", "origin"),
        (b"fencepost/w1", b"fencepost/w1\r", "origin"),
        (b"fencepost/w1", "fencepost/é".encode(), "ASCII"),
        (b"\n7\n", b"\n07\n", "size"),
        (b"\n7\n", b"\n+7\n", "size"),
        (b"\n7\n", b"\n-7\n", "size"),
        (b"\n7\n", b"\n7 \n", "size"),
        (b"\n7\n", b"\n7_0\n", "size"),
        (b"\n7\n", b"\n\n", "size"),
        (b"\n7\n", b"\n7.0\n", "size"),
        (b"\n7\n", b"\n9223372036854775808\n", "size"),
        (b"\n7\n", b"\n" + b"9" * 5000 + b"\n", "size"),
        (b"\n7\n", b"\n2\n", "previous size 3 is not within size 2"),
        (b"\n7\n", b"\n0\n", "size 0 needs the root of the empty tree"),
        (b"TIw=\n", b"TIw\n", "base64"),
        (b"TIw=\n", b"TIx=\n", "base64"),  # the same 32 bytes, spelled another way
        (b"TIw=\n", b"TIw==\n", "base64"),
        (b"TIw=\n", b"TIw= \n", "base64"),
        (b"3bib", b"3b-b", "base64"),
        (b"3bib", b"", "base64"),
        (b"previous 3 ", b"previous  3 ", "size"),
        (b"previous 3 ", b"previous 03 ", "size"),
        (b"previous 3 ", b"previous 8 ", "previous size 8 is not within size 7"),
        (b"previous 3 ", b"previous 3", "size"),
        (b"previous 3 ", b"previous 3 A", "base64"),
        (b"previous 3 ", b"previous none ", "size"),
        (b"previous 3 ", b"Previous 3 ", "fourth line"),
        (b"previous 3 ", b"3 ", "fourth line"),
        (b"previous 3 ", b"previous\t3 ", "fourth line"),
        (b"previous 3 ", b"extra\nprevious 3 ", "four lines"),
        (b"previous 3 ", b"\n\nprevious 3 ", "four lines"),
    ],
)
def test_text_that_is_not_exactly_a_checkpoint_is_refused(old, new, words):
    assert SECOND_TEXT.count(old) == 1
    with pytest.raises(ValueError, match=words):
        parse(SECOND_TEXT.replace(old, new))


@pytest.mark.parametrize(
    "raw", [b"", b"\n", SECOND_TEXT[:-1], SECOND_TEXT + b"\n", b"\n" + SECOND_TEXT, FIRST_TEXT * 2]
)
def test_missing_and_added_lines_are_refused(raw):
    with pytest.raises(ValueError, match="four lines"):
        parse(raw)


def test_windows_line_ends_are_refused():
    with pytest.raises(ValueError, match="size '7\\\\r'"):
        parse(SECOND_TEXT.replace(b"\n", b"\r\n"))


def test_every_changed_bit_gives_another_checkpoint_or_a_refusal():
    for place in range(len(SECOND_TEXT)):
        for bit in range(8):
            changed = bytearray(SECOND_TEXT)
            changed[place] ^= 1 << bit
            try:
                checkpoint = parse(bytes(changed))
            except ValueError:
                continue
            assert checkpoint != SECOND
            assert checkpoint.text() == changed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("w1", 7, ROOT_7), "origin 'w1' is not fencepost/<writer_id>"),
        (("fencepost/w1\n", 7, ROOT_7), "origin"),
        (("fencepost/w1", -1, ROOT_7), "size -1"),
        (("fencepost/w1", 2**63, ROOT_7), "size 9223372036854775808"),
        (("fencepost/w1", 7, ROOT_7[:31]), "the root has 31 bytes, not 32"),
        (("fencepost/w1", 0, ROOT_7), "the root of the empty tree"),
        (("fencepost/w1", 7, ROOT_7, 3, None), "both its size and its sha256"),
        (("fencepost/w1", 7, ROOT_7, None, bytes(32)), "both its size and its sha256"),
        (("fencepost/w1", 7, ROOT_7, 8, bytes(32)), "previous size 8 is not within size 7"),
        (("fencepost/w1", 7, ROOT_7, -1, bytes(32)), "previous size -1 is not within size 7"),
        (("fencepost/w1", 7, ROOT_7, 3, bytes(31)), "the previous sha256 is not 32 bytes"),
    ],
)
def test_a_checkpoint_that_has_no_text_cannot_be_made(arguments, words):
    with pytest.raises(ValueError, match=words):
        Checkpoint(*arguments)


def test_a_checkpoint_cannot_be_changed():
    with pytest.raises(AttributeError):
        FIRST.size = 4
