"""Of two results of a task the second reached the receiver first, and the first was refused there.
A store that is restored from before both can record neither."""

from __future__ import annotations

import json

import pytest
from helpers.delivering import Depot, depot
from helpers.receivers import Kit, Web

import fencepost
from fencepost.operate import restore
from fencepost.operate.backup import backup
from fencepost.operate.restoring.steps import Wishes


@pytest.fixture
def overtaken(tmp_path):
    """The backup, and the task."""
    kit = Kit(tmp_path / "receiver.db")
    with Web(kit.answer) as web, depot(tmp_path) as place:
        place.destination(web.url)
        place.results("before")
        place.deliver()
        task_id = place.fp.enqueue("pages", "twice").task_id
        backup(place.fp, tmp_path / "kept.db")
        (lease,) = place.fp.claim(task_id=task_id, worker_id="w")
        lease.submit("first")
        lease.complete("second")
        first = next(one for one in place.obligations() if one.state == "ready")
        (held,) = place.fp.claim(task_id=first.task_id, worker_id="slow")
        place.deliver()
        held.release()
        place.deliver()
        assert [one.state for one in place.obligations()] == ["done", "dead", "done"]
        yield tmp_path / "kept.db", f"{task_id}:2", kit
    kit.close()


def restored(kept, **wishes):
    made = restore.restore(kept, kept.parent / "new.db", Wishes(**{"who": "anna", **wishes}))
    return json.loads(made.receipt), made.complete


def test_what_a_receiver_has_after_a_result_that_it_refused_waits_for_a_person(overtaken):
    kept, operation, _ = overtaken
    told, complete = restored(kept)
    (receiver,) = told["receivers"]
    assert (complete, receiver["refused"]) == (False, [[operation, "stale_revision"]])
    told, complete = restored(kept, overrides=("default/out",), reason="looked at")
    (receiver,) = told["receivers"]
    assert (complete, receiver["refused"]) == (True, [[operation, "stale_revision"]])
    assert receiver["override"]["reason"] == "looked at"


def test_a_dispatcher_does_not_stop_for_what_a_person_has_passed_over(overtaken):
    kept, _, kit = overtaken
    effects = len(kit.effects())
    restored(kept, overrides=("default/out",), reason="looked at")
    with fencepost.open(kept.parent / "new.db") as fp:
        new = Depot(fp, kept.parent / "again")
        new.results("more")
        new.deliver()
        assert fp.destination("out").stopped is None
        assert [one.state for one in new.obligations()] == ["done", "done"]
    assert len(kit.effects()) == effects + 1
