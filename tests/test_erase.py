"""After an erasure no erased byte is in any file of the store, and its keys stay refused."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from helpers.lab import OUTBOX, QUEUE, SCOPE, Lab, ask, raw
from helpers.leftovers import LETTERS, files_of, leftovers

import fencepost
from fencepost import commands as c
from fencepost.engine import writer
from fencepost.issues import ReceiptErased
from fencepost.model import Task
from fencepost.storage.sqlite import scrub

TASKS = 240
TELLING = 2  # a seed whose rows move such that bytes would stay, with most versions of SQLite
REPEATS = (1, 2, 4, 12, 50, 300)  # of a 20-byte marker: from a small cell to overflow pages


@dataclass
class Content:
    """All that was handed in for one task, each text with a marker of its own."""

    number: int
    random: random.Random
    markers: list[str] = field(default_factory=list)
    task_id: str = ""

    def text(self, repeat: int = 1) -> str:
        marker = "".join(self.random.choice(LETTERS) for _ in range(20))
        self.markers.append(marker)
        return marker * repeat

    def long(self) -> str:
        return self.text(self.random.choice(REPEATS))


@pytest.fixture
def lab(tmp_path) -> Iterator[Lab]:
    lab = Lab(tmp_path / "work.db")
    lab.fp.queue_set(QUEUE, destinations=[OUTBOX], keep_refused=1_000, max_attempts=9)
    yield lab
    lab.close()


def fill(lab: Lab, seed: int) -> dict[str, Content]:
    """Tasks in every state, worked in a random order so that pages split as they grow."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    contents, sent = [], []
    for number in range(TASKS):
        content = Content(number, dice)
        new = c.NewTask(content.long(), key=content.text())
        sent.append(c.Request.of(c.Enqueue(QUEUE, (new,)), content.text()))
        contents.append(content)
    for content, outcome in zip(contents, lab.fp.execute(sent), strict=True):
        (content.task_id,) = outcome.task_ids
    leases = lab.fp.claim(QUEUE, worker_id="w", limit=100)
    leases += lab.fp.claim(QUEUE, worker_id="w", limit=60)
    dice.shuffle(leases)
    by_id = {content.task_id: content for content in contents}
    told = lab.fp.execute([one for lease in leases for one in work(lease, by_id[lease.task_id])])
    assert [outcome.accepted for outcome in told].count(True) == 2 * len(leases)
    return by_id


def work(lease: fencepost.Lease, content: Content) -> Iterator[c.Request]:
    binding = (lease.task_id, lease.worker_id, lease.fence)
    end = content.number % 4
    yield c.Request.of(c.Renew(*binding, progress=content.long(), log=content.long()))
    if end == 0:
        fail = c.Fail(*binding, then="block", reason=content.long()[:4_000], log=content.text())
        yield c.Request.of(fail, content.text())
    elif end == 1:
        yield c.Request.of(c.Submit(*binding, result=content.long()), content.text())
    else:
        yield c.Request.of(c.Complete(*binding, result=content.long()), content.text())
        yield c.Request.of(c.Complete(*binding, result=content.long()))  # late, and kept aside


def erase_at_once(lab: Lab, tasks: Iterable[Content | Task]) -> None:
    """In one transaction, and cleaned up after it once."""
    told = lab.fp.execute([c.Erase(task.task_id) for task in tasks])
    assert all(outcome.accepted for outcome in told)


def erase_one_by_one(lab: Lab, tasks: Iterable[Content | Task]) -> None:
    for task in tasks:
        lab.fp.erase(task.task_id)


def markers_of(contents: list[Content]) -> list[str]:
    return [marker for content in contents for marker in content.markers]


@pytest.mark.parametrize(
    ("erase", "seed"), [(erase_one_by_one, TELLING), (erase_at_once, TELLING), (erase_at_once, 1)]
)
def test_no_erased_byte_is_left_in_any_file_open_or_closed(lab, erase, seed):
    contents = list(fill(lab, seed).values())
    assert len(leftovers(lab.path, markers_of(contents))) > TASKS, "the search finds what is there"
    random.Random(seed).shuffle(contents)
    gone = contents[:120]
    erase(lab, gone)
    assert lab.fp._store.scrub_pending is False
    assert leftovers(lab.path, markers_of(gone)) == []
    for content in contents[120:180]:  # neighbours that change move rows about
        lab.fp.requeue(content.task_id) if lab.fp.task(content.task_id).state == "done" else None
    lab.close()
    assert leftovers(lab.path, markers_of(gone)) == []


def test_without_the_overwriting_of_pages_erased_bytes_would_stay(tmp_path, monkeypatch):
    """The search is sharp enough: secure_delete alone leaves copies of rows that were moved."""
    monkeypatch.setattr(scrub.Pages, "clean", lambda self, page: None)
    for seed in (TELLING, 1, 3, 4, 5, 6, 7, 8):  # where pages split depends on SQLite's version
        lab = Lab(tmp_path / f"{seed}.db")
        lab.fp.queue_set(QUEUE, keep_refused=1_000, max_attempts=9)
        contents = list(fill(lab, seed).values())
        random.Random(seed).shuffle(contents)
        erase_at_once(lab, contents[:120])
        found = leftovers(lab.path, markers_of(contents[:120]))
        lab.close()
        if found:
            return
    pytest.fail("no seed left anything: this test no longer shows what it is for")


def test_no_purged_byte_is_left_in_any_file(lab):
    contents = fill(lab, 4)
    lab.fp.queue_set(QUEUE, retain_seconds=60)
    lab.clock.advance(61)
    gone = set(lab.fp.purge(QUEUE, limit=200).task_ids)
    assert len(gone) == 80
    erase_at_once(lab, list(lab.fp.tasks(OUTBOX)))  # the messages hold the same results
    assert leftovers(lab.path, markers_of([contents[task_id] for task_id in gone])) == []
    kept = [content for task_id, content in contents.items() if task_id not in gone]
    assert len(leftovers(lab.path, markers_of(kept))) > 300, "neighbours stay as they are"


def test_a_followups_payload_goes_with_it(lab):
    content = Content(0, random.Random(7))
    lease = lab.lease()
    done = lease.complete(
        content.long(), followups=[{"queue": "next", "payload": content.long()}], key="c1"
    )
    parent, followup, _ = done.task_ids
    lab.fp.erase(followup)
    lab.fp.erase(parent)
    assert leftovers(lab.path, content.markers) == []
    with pytest.raises(ReceiptErased):
        lease.complete("anything", key="c1")


def test_an_erased_key_is_refused_and_never_executed_again(lab):
    request = c.Request.of(c.Enqueue(QUEUE, (c.NewTask("secret", key="the-key"),)), "idem-1")
    first = ask(lab.fp, request)
    (lease,) = lab.fp.claim(worker_id="w1", task_id=first.task_ids[0])
    completion = c.Request.of(c.Complete(lease.task_id, "w1", lease.fence, result="r"), "idem-2")
    assert ask(lab.fp, completion).status == "accepted"
    lab.fp.erase(lease.task_id)
    before = lab.dump()
    again = c.Request.of(c.Enqueue(QUEUE, (c.NewTask("secret", key="the-key"),)), "idem-3")
    other = c.Request.of(c.Enqueue(QUEUE, (c.NewTask("other", key="the-key"),)), "idem-1")
    for sent in (request, completion, again, other):
        outcome = ask(lab.fp, sent)
        assert (outcome.status, outcome.issues[0], outcome.receipt) == (
            "failed", "receipt_erased", None,
        )  # fmt: skip
    assert lab.dump() == before
    with pytest.raises(ReceiptErased):
        lab.fp.enqueue(QUEUE, "new content", key="the-key")
    for verb in (lab.fp.cancel, lab.fp.requeue, lab.fp.erase):
        with pytest.raises(ReceiptErased):
            verb(lease.task_id)


@contextmanager
def pinned(lab: Lab) -> Iterator[None]:
    """A reader of another program that holds a snapshot, and so the log."""
    with raw(lab.path) as reader:
        reader.execute("begin")
        assert reader.execute("select count(*) from fencepost_task").fetchone()
        yield
        reader.execute("rollback")


def next_turn(lab: Lab) -> None:
    """A turn and what is tidied in it: the second answer comes after the first one's tidying."""
    lab.offer("one turn")
    lab.offer("and another")


def test_a_reader_that_holds_the_log_delays_the_overwriting_to_the_next_turn(lab):
    content = Content(0, random.Random(5))
    task_id = lab.offer(content.long(), key=content.text())
    with pinned(lab):
        assert lab.fp.erase(task_id).entry["verb"] == "erase"
        assert lab.fp._store.scrub_pending is True
        next_turn(lab)
        assert lab.fp._store.scrub_pending is True
        assert leftovers(lab.path, content.markers) == content.markers
    next_turn(lab)
    assert lab.fp._store.scrub_pending is False
    assert leftovers(lab.path, content.markers) == []


def test_a_reader_within_the_same_process_does_not_stop_an_erasure(lab):
    content = Content(0, random.Random(6))
    task_id = lab.offer(content.long())
    with lab.fp._store.reading():
        assert lab.fp.tasks(QUEUE) is not None
        lab.fp.erase(task_id)
        assert lab.fp._store.scrub_pending is True
    next_turn(lab)
    assert leftovers(lab.path, content.markers) == []


def test_an_erasure_whose_process_dies_at_once_is_finished_by_the_next_that_opens(lab):
    content = Content(0, random.Random(8))
    task_id = lab.offer(content.long(), key=content.text())
    lab.close()
    program = (
        "import os, signal, sys, fencepost\n"
        "from fencepost.storage.sqlite.store import SqliteStore\n"
        "SqliteStore.tidy = lambda self, erased: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"fencepost.open(sys.argv[1], scope={SCOPE!r}).erase(sys.argv[2])\n"
    )
    command = [sys.executable, "-c", program, str(lab.path), task_id]
    assert subprocess.run(command, check=False).returncode == -9
    assert leftovers(lab.path, content.markers) == content.markers
    fp = lab.open()
    assert fp.task(task_id).erased is True
    assert leftovers(lab.path, content.markers) == []


def test_cleaning_goes_on_over_several_turns_where_there_is_much(lab, monkeypatch):
    monkeypatch.setattr(scrub, "PAGES_AT_ONCE", 40)
    contents = list(fill(lab, 2).values())
    erase_at_once(lab, contents[:150])
    turns = 0
    while lab.fp._store.scrub_pending:
        next_turn(lab)
        turns += 1
    assert turns > 1
    assert leftovers(lab.path, markers_of(contents[:150])) == []


def test_cleaning_comes_to_its_end_though_erasures_follow_one_another_and_then_nothing(
    lab, monkeypatch
):
    """Each erasure has one slice cleaned; the rest is done while nobody asks for anything."""
    monkeypatch.setattr(scrub, "PAGES_AT_ONCE", 40)
    monkeypatch.setattr(writer, "IDLE_SECONDS", 0.01)
    contents = list(fill(lab, 2).values())
    for content in contents[:30]:
        lab.fp.erase(content.task_id)
    end = time.monotonic() + 30
    while lab.fp._store.scrub_pending:
        assert time.monotonic() < end, "the cleaning never ends"
        time.sleep(0.01)
    assert leftovers(lab.path, markers_of(contents[:30])) == []
    with lab.sql() as own:
        assert own.execute("select scrub from fencepost_store").fetchall() == [(0,)]


def test_other_connections_do_not_bring_erased_bytes_back(lab):
    """They drop the pages they have cached, since the cleaning commits a change."""
    other = lab.open()
    contents = list(fill(lab, 1).values())
    random.Random(1).shuffle(contents)
    other.enqueue("elsewhere", "x")  # has read the pages before they are cleaned
    erase_at_once(lab, contents[:120])
    for number in range(200):
        other.enqueue(QUEUE, "y" * (number * 13 % 700), key=f"k{number * 7919 % 1000:03d}")
    assert leftovers(lab.path, markers_of(contents[:120])) == []


def test_what_lies_in_the_files_is_sound_after_cleaning(lab):
    contents = list(fill(lab, 3).values())
    erase_at_once(lab, contents[:60])
    for content in contents[60:]:
        assert lab.fp.task(content.task_id).payload is not None
    with raw(lab.path) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert b"SQLite format 3" in files_of(lab.path)


def test_an_erase_closes_the_openings_of_commands_that_named_the_task_by_its_key(lab):
    task = c.NewTask("secret of few bits", key="k")
    first = lab.fp.enqueue("next", task.payload, key=task.key)
    again = c.Request.of(c.Enqueue("next", (task, c.NewTask("other"))), "again")
    assert ask(lab.fp, again).accepted
    lab.fp.enqueue(QUEUE, 1)
    (lease,) = lab.fp.claim(QUEUE, worker_id="w")
    follow = {"queue": "next", "payload": task.payload, "key": task.key}
    done = lease.complete("done", followups=[follow], key="done")
    lab.fp.enqueue("next", "other still here", key="unrelated", idempotency_key="unrelated")
    lab.fp.erase(first.task_id)
    for entry in lab.fp.entries():
        names_it = entry.body is not None and first.task_id.encode() in entry.body
        assert (entry.receipt is None) == names_it, entry.number
    assert ask(lab.fp, again).issues == ("receipt_erased",)
    with pytest.raises(ReceiptErased):
        lease.complete("done", followups=[follow], key="done")
    assert lab.fp.receipt("unrelated")
    assert lab.fp.prove(done.number).number == done.number
    assert lab.fp.verify().clean


def test_a_batch_that_erases_a_task_forgets_whoever_named_it_by_its_key(lab):
    first = lab.fp.enqueue("next", 1, key="k")
    again = c.Request.of(c.Enqueue("next", (c.NewTask(1, key="k"),)), "again")
    assert ask(lab.fp, again).accepted
    told = lab.fp.execute([c.Erase(first.task_id), again])
    assert told[1].issues == ("receipt_erased",)


def test_who_asks_for_an_erased_receipt_is_told_that_it_was_there(lab):
    task_id = lab.fp.enqueue(QUEUE, 1, idempotency_key="gone").task_id
    (lease,) = lab.fp.claim(QUEUE, worker_id="w")
    lease.complete(2, key="done")
    lab.fp.erase(task_id)
    for key, actor in (("gone", None), ("done", "w")):
        with pytest.raises(ReceiptErased, match="carried out once"):
            lab.fp.receipt(key, actor=actor)
    with pytest.raises(fencepost.NotFound):
        lab.fp.receipt("gone", actor="w")


def test_an_erase_that_was_sent_again_says_what_is_left_to_do(lab):
    lab.fp.enqueue(QUEUE, 1)
    (lease,) = lab.fp.claim(QUEUE, worker_id="w")
    for number in range(200):
        lease.submit(number)
    request = c.Request.of(c.Erase(lease.task_id), "K")
    first, again = ask(lab.fp, request), ask(lab.fp, request)
    assert first.facts["remaining"] and again.replayed and again.facts["remaining"] == 20
    lab.fp.erase(lease.task_id)
    assert ask(lab.fp, request).issues == ("receipt_erased",)
    assert all(task.erased for task in lab.fp.tasks(OUTBOX))
