"""One product on two databases: told the same, it says and holds the same."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from helpers.chronicle import Chronicle, Forgetful, caller
from helpers.differential import Differs
from helpers.histories import History
from helpers.twins import Face, Twins

from fencepost.storage.postgres import lowwater, talk

pytestmark = pytest.mark.usefixtures("quiet")  # histories set clocks back, which is told

STEPS = 40


def live(seed, kind=Chronicle):
    """One history, command by command; what was answered how often. Raises Differs."""
    twins = Twins(seed)
    try:
        history = kind(twins, seed)
        for number in range(STEPS):
            history.step()
            if number % 20 == 19:
                twins.compare(caller())
        twins.compare(caller(scope="t"))
        twins.sealed()
        return history.seen
    finally:
        twins.close()


def reported(seed, *given):
    try:
        return live(seed, *given)
    except Differs as difference:
        pytest.fail(f"seed {seed}\n{difference}")


@pytest.mark.parametrize("part", range(2))
def test_the_product_on_both_databases_answers_alike_to_the_byte(part):
    seen = Counter()
    for seed in range(part, 24, 2):
        seen += reported(seed)
    assert seen["accepted"] > 100 and seen["replayed"] > 5, seen


def test_what_is_purged_part_by_part_is_answered_alike():
    seen = Counter()
    for seed in range(8):
        seen += reported(seed, Forgetful)
    assert seen["verb purge"] > 20 and seen["replayed"] > 4, seen


def live_in_batches(seed, batches=25):
    """Several commands in one transaction; how many were accepted. Raises Differs."""
    twins = Twins(seed)
    try:
        face = Face(twins)
        accepted = History(face, face, random.Random(seed)).live(batches)
        twins.compare(caller())
        twins.sealed()
        return accepted
    finally:
        twins.close()


def test_batches_are_answered_alike():
    accepted = 0
    for seed in range(12):
        try:
            accepted += live_in_batches(seed)
        except Differs as difference:
            pytest.fail(f"seed {seed}\n{difference}")
    assert accepted > 400


def test_batches_are_answered_alike_where_every_look_leaves_a_mark(monkeypatch):
    """As on a machine that is so busy that each look takes long: no fence is drawn in vain."""
    monkeypatch.setattr(lowwater, "LONG", -1)
    monkeypatch.setattr(lowwater, "SHARE", 10**7)
    for seed in range(8, 12):
        try:
            live_in_batches(seed)
        except Differs as difference:
            pytest.fail(f"seed {seed}\n{difference}")


# a statement of PostgreSQL's, what is changed in it
PLANTED = {
    "ready_tasks": ("order by rank, id", "order by rank desc, id"),
    "lapsed_tasks": ("rank <=", "rank <"),
    "ended_tasks": ("rank <=", "rank <"),
    "write_remark": ("coalesce(excluded.progress, fencepost_remark.progress)", "excluded.progress"),
    "spent_entries": ("not exists", "exists"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_history_finds_each_statement_that_is_bent(name, monkeypatch):
    old, new = PLANTED[name]
    sql = talk.STATEMENTS[name]
    assert sql.count(old) == 1
    monkeypatch.setitem(talk._KNOWN, name, talk._statement(name, sql.replace(old, new)))

    def found(seeds=40):
        for seed in range(seeds):
            live(seed, (Chronicle, Forgetful)[seed % 2])
            live_in_batches(seed)

    with pytest.raises(Differs):
        found()
