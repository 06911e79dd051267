"""More ways in which a trip goes wrong: other outboxes, others' writes, full disks, cuts."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress

import pytest
from helpers.field import OTHER, WORKER, Field, Wire
from helpers.lab import QUEUE
from helpers.lossy import Fault, Lossy
from helpers.offline_life import taken
from helpers.tools import tmpfs

import fencepost
from fencepost import offline
from fencepost.issues import OutcomeUnknown, TaskDone, Unavailable
from fencepost.offline.notes import Notes


@pytest.fixture(params=["local", "http"])
def field(request, tmp_path):
    with Field(tmp_path, request.param) as made:
        yield made


def test_two_outboxes_of_one_worker_end_with_one_result_a_task(field):
    """The first forgets its tasks, the second takes the same when their leases have ended."""
    ids = field.offer("same", "other", "only-first")
    first, second = field.laptop("first"), field.laptop("second")
    first.take(lease_seconds=60)
    field.clock.advance(61)
    assert second.take(limit=2) == ids[:2]
    for box, word in ((first.box, "a"), (second.box, "b")):
        box.record(ids[0], "agreed")
        box.record(ids[1], word)
    first.box.record(ids[2], "c")
    told = first.sync()  # the worker's own name does not help: the fence is the second's
    assert (told["accepted"], told["claimed"]) == (1, 1)
    assert [left["code"] for left in told["waiting"]] == ["task_leased"] * 2
    assert second.sync()["accepted"] == 2
    told = first.sync()
    assert (told["recognised"], told["conflicts"]) == (1, 1)
    assert [field.results(task_id) for task_id in ids] == [["agreed"], ["b"], ["c"]]


def test_a_revision_that_moved_on_by_the_worker_s_other_outbox_is_a_conflict(field):
    (task_id,) = field.offer("S1")
    first, second = field.laptop("first"), field.laptop("second")
    first.take(lease_seconds=60)
    first.box.record(task_id, "first", close=False)
    first.box.record(task_id, "end of first")
    field.clock.advance(61)
    second.take(lease_seconds=60)
    second.box.record(task_id, "second", close=False)
    assert second.sync()["accepted"] == 1
    field.clock.advance(61)
    assert first.sync()["conflicts"] == 1
    (conflict,) = first.box.conflicts()
    assert conflict.code == "stale_revision" and field.results(task_id) == ["second"]
    first.box.again(first.wire, task_id)
    assert first.sync()["accepted"] == 2
    assert field.results(task_id) == ["second", "first", "end of first"]


def test_twins_that_fail_a_task_alike_fail_it_once(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take()
    twin = field.twin(lap)
    for each in (lap, twin):
        each.box.verdict(task_id, "retry", reason=each.folder.name)
    assert lap.sync()["accepted"] == 1
    assert twin.sync()["moot"] == 1
    assert field.fp.task(task_id).attempt == 1


def test_a_laptop_restored_from_before_its_verdict_was_told_tells_it_again_and_once(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take()
    lap.box.verdict(task_id, "block", reason="look")
    copy = lap.kept()
    assert lap.sync()["accepted"] == 1
    entries = field.fp.verify().to_json()["entries"]
    lap.restored(copy)
    assert lap.sync()["accepted"] == 1  # the same bytes: a replay
    assert field.fp.verify().to_json()["entries"] == entries


def test_a_policy_raised_in_the_middle_of_a_sync_is_a_conflict(field):
    ids = field.offer("in-time", "late", "last")
    lap = field.laptop()
    lap.take(limit=1)
    lap.take(limit=1, lease_seconds=60)
    lap.take(limit=1)
    for task_id in ids:
        lap.box.record(task_id, "x")
    field.clock.advance(61)

    def at(point, sent):
        if point == "told" and field.fp.scope().policy_version == 0:
            field.fp.set_policy(1)

    lap.wire.at = at
    told = lap.sync()
    assert (told["accepted"], told["claimed"], told["conflicts"]) == (1, 0, 2)
    assert [each.code for each in lap.box.conflicts()] == ["stale_policy"] * 2
    assert [field.results(task_id) for task_id in ids] == [["x"], [], []]


def test_an_outbox_that_others_write_to_is_not_found_broken(tmp_path):
    """Each of its looks is of one moment, though a link comes between any two statements."""
    with Field(tmp_path) as field:
        lap = taken(field, *(f"k{n}" for n in range(40)))
        box, writer = lap.box, offline.open(lap.folder / "offline.db")
        rows, ids = box._file.rows, [kept.task_id for kept in _each(box)]

        def meanwhile(name, **values):
            found = rows(name, **values)
            if ids:
                writer.record(ids.pop(), 1)
            return found

        box._file.rows = meanwhile
        links = box.verify().links
        assert links < box.verify().links
        box._file.rows = rows
        writer.close()
        lap.sync()


def _each(box):
    kept = None
    while (kept := box.next(kept)) is not None:
        yield kept


def test_why_a_task_waits_is_noted_beside_a_closing_that_comes_meanwhile(field, monkeypatch):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "row", close=False)
    field.clock.advance(61)
    lease = field.by_other(task_id, lease_seconds=60)
    kept = Notes.kept

    def then_closed(notes, taking):
        found = kept(notes, taking)
        if found.state == "open" and lease.fence and not notes.file._inside and closing:
            closing.pop()()
        return found

    closing = [lambda: lap.box.record(task_id, "end")]
    waits = Notes.waits

    def waiting(notes, taking, code):
        with monkeypatch.context() as patch:
            patch.setattr(Notes, "kept", then_closed)
            waits(notes, taking, code)

    monkeypatch.setattr(Notes, "waits", waiting)
    assert lap.sync()["waiting"][0]["code"] == "task_leased"
    assert lap.box.task(task_id).state == "closed"
    field.clock.advance(61)
    assert lap.sync()["accepted"] == 2
    assert field.results(task_id) == ["row", "end"]


def test_two_syncs_at_once_bring_each_thing_once(field):
    """The second runs whole inside each exchange of the first."""
    ids = field.offer("in-time", "late", "verdict")
    lap = field.laptop()
    lap.take(limit=1)
    lap.take(limit=2, lease_seconds=60)
    lap.box.record(ids[0], "a")
    lap.box.record(ids[1], "row", close=False)
    lap.box.record(ids[1], "end")
    lap.box.verdict(ids[2], "block", reason="look")
    field.clock.advance(61)
    inner = Wire(field.handle(WORKER, lap.clock))
    turn = [0]

    def at(point, sent):
        turn[0] += 1
        if turn[0] in (3, 6, 7):
            with offline.open(lap.folder / "offline.db") as box:
                box.sync(inner)

    lap.wire.at = at
    lap.sync()
    lap.wire.at = lambda point, sent: None
    assert lap.sync()["status"] == "accepted"
    assert [field.results(task_id) for task_id in ids] == [["a"], ["row", "end"], []]
    assert field.fp.task(ids[2]).state == "blocked"


def test_of_many_results_of_others_a_conflict_keeps_no_more_than_64_kib(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "ours")
    field.clock.advance(61)
    lease = field.by_other(task_id)
    for number in range(12):
        lease.submit(f"{number:02}" * 10_000)
    lease.complete("theirs")
    lap.sync()
    (conflict,) = lap.box.conflicts()
    shown = conflict.theirs["results"]
    assert len(shown) == 13 and len(str(shown)) < 70_000
    assert [each["kept"] for each in shown] == [True] * 3 + [False] * 9 + [True]
    assert all(len(each["result_sha256"]) == 64 for each in shown)
    assert conflict.theirs["task"]["worker_id"] == OTHER


@pytest.mark.parametrize("at", ["in the head", 0.5, 0.8, "before the last byte"])
@pytest.mark.parametrize("what", ["request cut", "answer cut"])
def test_a_sync_cut_in_any_of_its_messages_goes_on_where_it_was(tmp_path, what, at):
    """A laptop for each message of a sync: it is cut there, and the next sync brings the rest."""
    with Field(tmp_path, "http") as field:
        plan = []
        with Lossy(field.web.port, lambda request: plan.pop(0) if plan else None) as lossy:
            cuts = 0
            while _cut_once(field, lossy, plan, Fault(what, at), cuts, f"S{cuts}"):
                cuts += 1
            print(f"{cuts} cuts")
            assert cuts >= 10


def _cut_once(field, lossy, plan, fault, which, name):
    """One laptop, whose sync meets the fault at its `which`-th message. False if it had no more."""
    (task_id,) = field.offer(name)
    lap = field.laptop(name)
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "row", close=False)
    lap.box.record(task_id, "end")
    field.clock.advance(61)
    hurt = fencepost.open(
        f"http://127.0.0.1:{lossy.port}", token=field.tokens[WORKER], max_skew_seconds=None,
        deadline_seconds=0.01, try_seconds=2, sleep=lambda seconds: None,
    )  # fmt: skip
    plan[:] = [None] * which + [fault]
    try:
        with hurt:
            lap.box.sync(hurt)
    except (Unavailable, OutcomeUnknown):
        pass
    met = not plan
    plan.clear()
    assert lap.sync()["status"] == "accepted"
    assert field.results(task_id) == ["row", "end"]
    return met


def test_a_full_disk_refuses_what_it_cannot_keep_and_loses_nothing_it_has(tmp_path):
    """It lies on a small file system; a take, recordings, verdicts and a sync meet its end."""
    small = tmp_path / "small"
    with tmpfs(small, "1500k"), Field(tmp_path) as field:
        ids = field.offer(*(f"k{n}" for n in range(60)))
        lap = field.laptop("small")
        lap.take(limit=40)
        kept, refused = [], 0
        for task_id in ids[:40]:
            try:
                assert lap.box.record(task_id, {"id": task_id, "text": "x" * 40_000}).new
                kept.append(task_id)
            except (Unavailable, OutcomeUnknown):
                refused += 1
        ballast = small / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(1024)):
                pass
        with pytest.raises((Unavailable, OutcomeUnknown)):
            lap.box.verdict(ids[39], "block", reason="y" * 4_000, log="z" * 16_000)
        with pytest.raises((Unavailable, OutcomeUnknown)):
            lap.take(limit=20)
        with pytest.raises((Unavailable, OutcomeUnknown)):
            lap.sync()
        lap.box.verify()
        assert kept and refused and lap.box.counts()["results"] == len(kept)
        ballast.unlink()
        _make_room(lap, kept)
        told = lap.sync()
        assert told["status"] == "accepted"
        for task_id in kept:
            (result,) = field.results(task_id)
            assert result["id"] == task_id
        with pytest.raises(TaskDone):
            lap.box.record(kept[0], "another")


def _make_room(lap, kept):
    """Its disk is larger now: it moves to another folder, as it is."""
    lap.box.close()
    before, lap.folder = lap.folder, lap.folder.parent / "larger"
    lap.folder.mkdir()
    for name in ("offline.db", "offline.db-wal"):
        if (before / name).exists():
            shutil.copy(before / name, lap.folder / name)
    lap.box = lap.opened()
    assert lap.box.counts()["results"] == len(kept)


POINTS = ("before a commit", "after a commit")


def test_verdicts_and_beginnings_killed_at_any_commit_are_whole_or_not_there(tmp_path):
    from test_offline_ends import at_every_point

    def play(field):
        lap = taken(field, "a", "b", "c", lease_seconds=60)
        ids = [kept.task_id for kept in _each(lap.box)]

        def more(lap):
            box = lap.box
            for step in (
                lambda: box.working.begin(box.task(ids[0])),
                lambda: box.verdict(ids[0], "retry", reason="no"),
                lambda: box.working.begin(box.task(ids[0])),
                lambda: box.record(ids[0], "x", followups=[{"queue": "more", "payload": 1}]),
                lambda: box.verdict(ids[1], "give_up", reason="never"),
                lambda: box.give_back([ids[2]]),
            ):
                with suppress(TaskDone):  # it had come so far before it was killed
                    step()
            field.clock.advance(61)
            lap.sync()

        return lap, more

    def check(field, lap, more):
        more(lap)
        states = {task.key: task.state for task in field.fp.tasks(QUEUE)}
        assert states == {"a": "done", "b": "dead", "c": "leased"}  # the last has lapsed
        assert len(list(field.fp.tasks("more"))) == 1
        assert lap.box.counts()["settled"] == 3

    places = at_every_point(play, check)
    print(f"{len(places)} points")
    assert set(places) >= set(POINTS) and len(places) >= 20


def test_threads_of_one_worker_and_a_sync_meet_no_lock(tmp_path):
    with Field(tmp_path) as field:
        lap = taken(field, *(f"k{n}" for n in range(30)))
        found, over = [], threading.Event()

        def sync():
            try:
                with offline.open(lap.folder / "offline.db") as box:
                    while not over.is_set():
                        box.sync(Wire(field.handle(WORKER, field.clock)))
                        box.verify()
            except BaseException as error:  # noqa: BLE001  told below
                found.append(error)

        thread = threading.Thread(target=sync)
        thread.start()
        for number, kept in enumerate(list(_each(lap.box))):
            if number % 3:
                lap.box.record(kept.task_id, number)
            else:
                lap.box.verdict(kept.task_id, "release")
        over.set()
        thread.join(50)
        assert found == []
        lap.sync()
        assert lap.box.counts()["settled"] == 30
