"""Every sentence of the seeds is held by a test, or is said to be of a later subject, or is one
that nothing can test: `seed_map.py` says which, once for each, and names no test that is not there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from helpers.nodeids import missing
from helpers.texts import SEEDS, seed, sentences
from seed_map import SEED_MAP, SUBJECTS

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("number", range(3))
def test_every_sentence_of_a_seed_is_mapped_once_and_nothing_else_is(number):
    beginnings, found = SEED_MAP[number], sentences(number)
    hits = {text: [b for b in beginnings if text.startswith(b)] for text in found}
    assert [text for text, by in hits.items() if len(by) != 1] == []
    used = Counter(beginning for by in hits.values() for beginning in by)
    assert {beginning for beginning in beginnings if used[beginning] != 1} == set()
    assert len(beginnings) == len(found)


@pytest.mark.parametrize("number", range(3))
def test_every_sentence_names_tests_that_exist_or_a_known_subject(number):
    for beginning, holders in SEED_MAP[number].items():
        assert holders, beginning
        tests = [holder for holder in holders if "::" in holder]
        assert set(holders) - set(tests) <= set(SUBJECTS), beginning
        assert missing(tests) == [], beginning
        assert len(holders) == len(set(holders)), beginning
        assert "statement" not in holders or len(holders) == 1, beginning


def words(text):
    return Counter(re.findall(r"\w+", text))


def words_of(value):
    """The words of all values in JSON; a member of a list counts with its names."""
    if isinstance(value, dict):
        return sum((words_of(inner) for inner in value.values()), Counter())
    if isinstance(value, list):
        texts = (inner if isinstance(inner, str) else json.dumps(inner) for inner in value)
        return sum(map(words, texts), Counter())
    return words(value if isinstance(value, str) else json.dumps(value))


def test_no_word_is_lost_where_the_seeds_are_cut_into_sentences():
    for number in (0, 1):
        without_path = [text.partition(": ")[2] for text in sentences(number)]
        assert sum(map(words, without_path), Counter()) == words_of(seed(number))
    assert sum(map(words, sentences(2)), Counter()) == words(seed(2))


def test_the_seeds_stand_here_as_they_were_given():
    listed = (SEEDS / "SHA256SUMS").read_text().split()
    names, digests = listed[1::2], listed[::2]
    assert names == sorted(path.name for path in SEEDS.glob("*.txt")) and len(names) == 3
    for name, digest in zip(names, digests, strict=True):
        assert hashlib.sha256((SEEDS / name).read_bytes()).hexdigest() == digest


def test_no_page_of_ours_promises_exactly_once_execution():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("fencepost/**/*.py")]
    assert len(pages) > 20
    for page in pages:
        text = " ".join(page.read_text(encoding="utf-8").split())
        for found in re.finditer(r"exactly[- ]once", text, re.IGNORECASE):
            before = text[max(0, found.start() - 120) : found.start()].lower()
            assert re.search(r"\b(never|not|no|neither|nobody)\b", before), f"{page}: {before}"
