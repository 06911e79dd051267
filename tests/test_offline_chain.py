"""The outbox's chain is the shelter feed's, hash for hash; verify names what was tampered with."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import pytest
from helpers.field import Field
from helpers.lab import raw
from helpers.texts import SEEDS, seed
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.issues import JournalBroken, SchemaMismatch
from fencepost.offline import chain
from fencepost.offline.chain import digest_of

PUBLISHED = [tuple(pair) for pair in seed(1)["checkpoint_chain"]]
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)


def feed(folder, wire="local"):
    """The seed's seven steps with the outbox. Its labels and its chain; our rows and leases."""
    hashes, verdicts = [], []
    with Field(folder, wire) as field:
        (task_id,) = field.offer("S1")
        lap = field.laptop()

        def checkpoint(label, said=None):
            before = hashes[-1][1] if hashes else chain.GENESIS
            hashes.append((label, chain.link(before, label, lap.box.state())))
            verdicts.append(said)

        def last_step():
            return list(lap.box.links())[-1][1]

        lap.take(lease_seconds=60)
        checkpoint("lease_S1_T1", lap.box.task("S1").fence)
        lap.box.record(task_id, "shelter-count:42", close=False)
        told = lap.sync()
        checkpoint("submit_T1", (told["accepted"], last_step().split()[0]))
        twin = field.twin(lap)  # whoever has this copy holds the old token later on
        again = lap.box.record(task_id, "shelter-count:42", close=False)
        checkpoint("dup_submit_T1", (again.new, last_step().split()[0]))
        field.clock.advance(120)
        lap.box.record(task_id, "shelter-count:43", close=False)

        seen = []

        def at(point, sent):
            """The moments inside the one sync: refused, claimed again, accepted."""
            if point == "ask":
                seen.append(sent[0].command.verb)
                if sent[0].command.verb == "claim":
                    checkpoint("stale_submit_after_expiry", last_step().split()[-1])
                elif "claim" in seen and sent[0].command.verb == "submit":
                    checkpoint("re_lease_S1_T2", lap.box.task("S1").fence)

        lap.wire.at = at
        told = lap.sync()
        lap.wire.at = lambda point, sent: None
        checkpoint("resubmit_T2", (told["accepted"], told["claimed"], seen))
        twin.box.record(task_id, "shelter-count:44", close=False)
        twin.sync()
        refused = list(twin.box.links())[-2][1]  # after it: a conflict, since 43 is there
        checkpoint("old_token_after_re_lease", refused.split()[-1])
        rows = len(field.results(task_id))
        links = list(lap.box.links())
    return hashes, verdicts, rows, links


@pytest.mark.parametrize("wire", ["local", "http"])
def test_the_seven_published_hashes_come_out_of_the_outbox_s_state(tmp_path, wire):
    hashes, verdicts, rows, _ = feed(tmp_path, wire)
    assert hashes == PUBLISHED and len({found for _, found in hashes}) == 7
    assert rows == seed(1)["final_row_count"] == 2
    assert verdicts == [
        1, (1, "accepted"), (False, "again"), "lease_expired", 2,
        (1, 1, ["submit", "claim", "submit"]), "stale_fence",
    ]  # fmt: skip


def test_the_seed_s_own_program_gives_the_hashes_that_ours_are_held_against():
    program = seed(1)["harness"]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert [tuple(pair) for pair in json.loads(done.stdout)["checkpoints"]] == PUBLISHED
    assert SEEDS.is_dir()


def test_the_same_life_gives_the_same_chain_refused_steps_included(tmp_path):
    lives = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        lives.append(feed(tmp_path / name)[3])
    assert lives[0] == lives[1]
    steps = [step for _, step, _ in lives[0]]
    first, second = digest_of("shelter-count:42"), digest_of("shelter-count:43")
    assert steps == [
        "take S1 fence 1", f"record S1 {first}", f"accepted S1 {first}", f"again S1 {first}",
        f"record S1 {second}", f"refused S1 {second} lease_expired", "claim S1 fence 2",
        f"accepted S1 {second}",
    ]  # fmt: skip
    player = chain.Player()
    assert [player.step(step) for step in steps] == [found for _, _, found in lives[0]]


def test_text_is_hashed_as_raw_utf_8_and_all_else_as_canonical_json():
    assert digest_of("shelter-count:42") == chain.short("shelter-count:42")
    assert digest_of("é") == chain.short("é".encode())
    assert digest_of({"b": 1, "a": [1.0]}) == chain.short('{"a":[1],"b":1}')


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.dictionaries(TEXT, st.integers(1, 9)), st.lists(st.tuples(TEXT, TEXT)))
def test_the_state_is_what_the_seed_s_program_writes(leases, rows):
    theirs = json.dumps({"rows": sorted(rows), "leases": dict(leases)}, sort_keys=True)
    assert chain.state_text(rows, leases) == theirs
    player = chain.Player()
    for row in rows:
        player.step(f"accepted {row[0].encode().hex()}_ {row[1].encode().hex()}_")
    assert player.state() == chain.state_text(player.rows, {})
    assert player.rows == sorted(player.rows) and len(player.rows) == len(rows)


# -- verify

TAMPERED = {
    "a step is other words": (
        "update outbox_link set step = replace(step, 'fence 1', 'fence 2') where number = 1",
        r"link 1 \(take S1 fence 2\): its hash is",
    ),
    "a hash is another": (
        "update outbox_link set hash = '0123456789abcdef' where number = 3",
        r"link 3 \(",
    ),
    "a link is missing": ("delete from outbox_link where number = 2", "link 2 is missing"),
    "the tail is cut": (
        "delete from outbox_link where number > 3",
        "the tasks and rows are not what the chain says: row",
    ),
    "two links have changed places": (
        (
            "update outbox_link set number = case number when 2 then 30 else 2 end "
            "where number in (2, 3); update outbox_link set number = 3 where number = 30"
        ),
        r"link 2 \(",
    ),
    "a step that nobody writes": (
        "update outbox_link set step = 'take all' where number = 1",
        "no outbox writes such a step",
    ),
    "a fence is another": (
        "update outbox_task set fence = 9 where label = 'S1'",
        "task S1 has fence 9, and 1 in the chain",
    ),
    "a result is other bytes": (
        "update outbox_result set content = cast('\"shelter-count:99\"' as blob) where id = 1",
        "a result of task S1 has other bytes than were recorded",
    ),
    "a result and its digest are others": (
        (
            "update outbox_result set content = cast('\"shelter-count:99\"' as blob), "
            "sha256 = X'@99@', digest = '@99d@' where id = 1"
        ),
        "the tasks and rows are not what the chain says: row",
    ),
    "a recorded result is not there": (
        (
            "update outbox_command set result = null where id = 2; delete from outbox_result "
            "where id = 2"
        ),
        "other bytes than were fixed",
    ),
    "an accepted row is forgotten": (
        "update outbox_result set revision = null where id = 1",
        "the tasks and rows are not what the chain says: row",
    ),
    "a command is other bytes": (
        (
            "update outbox_command set body = cast(replace(cast(body as text), 'count:43', "
            "'count:34') as blob) where id = 2"
        ),
        "a command of task S1 has other bytes than were fixed for it",
    ),
    "a command cannot be read": (
        "update outbox_command set body = X'7b' where id = 2",
        "a command of task S1 cannot be read",
    ),
    "a row belongs to nothing": ("delete from outbox_task where label = 'S2'", "to nothing"),
}


@pytest.fixture
def played(tmp_path):
    """An outbox with accepted, recorded and conflicting work. Its path, and the clean answer."""
    with Field(tmp_path) as field:
        ids = field.offer("S1", "S2")
        lap = field.laptop()
        lap.take()
        lap.box.record(ids[0], "shelter-count:42", close=False)
        lap.sync()
        lap.box.record(ids[0], "shelter-count:43", close=False)
        field.fp.cancel(ids[1])
        lap.box.record(ids[1], "late")
        found = lap.box.verify()
        lap.box.close()
        yield lap, found
        field.laptops.clear()


def tamper(path, statements):
    other = b'"shelter-count:99"'
    with raw(path) as db:
        db.execute("drop trigger outbox_link_no_change")
        db.execute("drop trigger outbox_link_no_cut")
        db.executescript(
            statements.replace("@99@", hashlib.sha256(other).hexdigest()).replace(
                "@99d@", digest_of("shelter-count:99")
            )
        )


def test_an_outbox_as_it_was_left_is_right(played):
    lap, found = played
    assert (found.links, found.results, found.commands) == (7, 3, 3)
    assert lap.opened().verify() == found
    assert lap.opened().verify(found.head) == found


@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_tampered_with_is_named(played, what):
    lap, _ = played
    statements, told = TAMPERED[what]
    tamper(lap.folder / "offline.db", statements)
    with pytest.raises(JournalBroken, match=told):
        lap.opened().verify()


def test_a_chain_written_anew_shows_against_a_head_that_was_noted(played):
    lap, found = played
    box = lap.opened()
    box.verify(found.head)
    with pytest.raises(JournalBroken, match="0123456789abcdef is the hash of no link"):
        box.verify("0123456789abcdef")


def test_the_file_itself_refuses_to_change_or_cut_the_chain(played):
    lap, _ = played
    with raw(lap.folder / "offline.db") as db:
        for statement in ("update outbox_link set step = 'x'", "delete from outbox_link"):
            with pytest.raises(Exception, match="append-only"):
                db.execute(statement)


def test_an_outbox_of_a_later_version_is_left_alone(played):
    lap, _ = played
    with raw(lap.folder / "offline.db") as db:
        db.execute("update outbox set schema_version = 99")
    with pytest.raises(SchemaMismatch, match="version 99"):
        lap.opened()
