"""What a restore is told of epochs, and by whom; and that no two of them are at one place."""

from __future__ import annotations

import json
import os

import pytest
from helpers.delivering import depot
from helpers.faults import edit
from helpers.receivers import SECRET, Kit, Web, http

import fencepost
from fencepost import alone, fields, lineage
from fencepost.issues import InvalidRequest
from fencepost.operate import restore
from fencepost.operate.backup import backup
from fencepost.operate.restoring import receivers
from fencepost.operate.restoring.steps import Wishes
from fencepost.receiver import signing


@pytest.fixture
def kept(tmp_path):
    """A backup of a store with a receiver that is to be asked."""
    kit = Kit(tmp_path / "receiver.db")
    with Web(kit.answer) as web, depot(tmp_path) as place:
        place.destination(web.url)
        place.results("before")
        place.deliver()
        backup(place.fp, tmp_path / "kept.db")
        yield web, kit, tmp_path / "kept.db"
    kit.close()


def restored(kept, **wishes):
    made = restore.restore(kept, kept.parent / "new.db", Wishes(**{"who": "anna", **wishes}))
    return json.loads(made.receipt)


def lying(kit, epoch):
    """A receiver, and a wrong epoch in what it says to a hello."""

    def answer(asked):
        true = kit.receiver.handle(asked.headers, asked.body)
        said = {**json.loads(true.body), "epoch": epoch, "incarnation": "somebody"}
        body = json.dumps(said).encode()
        message_id = asked.headers["webhook-id"]
        now = int(asked.headers["webhook-timestamp"])
        signed = signing.sign([signing.secret_bytes(SECRET)], message_id, now, body)
        return http(200, body, **{name.replace("-", "_"): text for name, text in signed.items()})

    return answer


@pytest.mark.parametrize("epoch", [fields.MAX_HEARD + 1, 10**30])
def test_an_epoch_that_leaves_none_for_later_is_refused_and_nothing_is_left(kept, epoch):
    with pytest.raises(InvalidRequest, match=r"^min_epoch: .* is outside 0 to "):
        restored(kept[2], min_epoch=epoch)
    assert [each.name for each in kept[2].parent.glob("new*")] == []


def test_the_highest_epoch_that_may_be_said_leaves_a_store_that_works(kept):
    told = restored(kept[2], min_epoch=fields.MAX_HEARD)
    assert told["new_writer"]["epoch"] == fields.MAX_HEARD + lineage.UNHEARD
    with fencepost.open(kept[2].parent / "new.db") as fp:
        fp.enqueue("pages", "more")
        (lease,) = fp.claim("pages", worker_id="w")
        assert lease.fence >> 32 == fields.MAX_HEARD + lineage.UNHEARD
        lease.complete("done")
        with pytest.raises(InvalidRequest, match="is outside 0 to"):
            fp.begin_writer(lineage.ADOPTED, fields.MAX_HEARD + 1)


@pytest.mark.parametrize("epoch", [2**53 - 1, 10**15, -1, True, "7", None])
def test_a_receivers_epoch_that_no_writer_can_have_is_not_believed(kept, epoch):
    web, kit, path = kept
    web.answer = lying(kit, epoch)
    told = restored(path)
    assert told["new_writer"]["epoch"] == 2 * lineage.UNHEARD  # recognised as a copy, and restored


@pytest.mark.parametrize("epoch", [10**30, "\ud800"])
def test_what_not_everybody_can_read_is_no_answer_of_a_receiver(kept, epoch):
    web, kit, path = kept
    web.answer = lying(kit, epoch)
    told = restored(path)
    assert told["status"] == "incomplete" and told["not_reached"] == ["default/out"]
    assert told["receivers"][0]["why"].startswith(
        "not reached: the receiver answered 200 to a hell"
    )
    web.answer = kit.answer
    assert restored(path)["status"] == "complete"


def test_where_a_store_stands_that_is_said_before_anything_else(kept):
    (kept[2].parent / "new.db.restore-secrets.json").write_text("{}")
    (kept[2].parent / "new.db").write_text("somebody's")
    with pytest.raises(InvalidRequest, match=r"new\.db is there already"):
        restored(kept[2])
    assert (kept[2].parent / "new.db").read_text() == "somebody's"


def test_who_opened_a_lock_before_it_was_removed_does_not_hold_it(tmp_path, monkeypatch):
    """Else he and whoever makes the file anew would both be at it."""
    path = tmp_path / "lock"
    first = alone.alone(path)
    opened = os.open

    def slow(*given, **more):
        file = opened(*given, **more)
        if path.exists() and os.path.samestat(os.fstat(file), os.fstat(first)):
            path.unlink()  # by who held it, as he ends
            os.close(first)
            monkeypatch.setattr(os, "open", opened)
        return file

    monkeypatch.setattr(os, "open", slow)
    held = alone.alone(path)
    assert os.path.samestat(os.fstat(held), path.stat())
    with pytest.raises(alone.Taken):
        alone.alone(path)
    os.close(held)


PLANTED = {
    "any epoch is believed": (
        receivers.epochs, "type(epoch) is int and epoch <= MAX_EPOCH", "type(epoch) is int",
        lambda kept, folder, patch: (
            test_a_receivers_epoch_that_no_writer_can_have_is_not_believed(kept, 10**15))),
    "a lock without a name is one": (
        alone._same, "os.path.samestat(os.fstat(guard), os.stat(path))", "True",
        lambda kept, folder, patch: (
            test_who_opened_a_lock_before_it_was_removed_does_not_hold_it(folder, patch))),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name, kept, tmp_path, monkeypatch):
    function, old, new, law = PLANTED[name]
    edit(monkeypatch, function, old, new)
    with pytest.raises((AssertionError, InvalidRequest, FileNotFoundError)):
        law(kept, tmp_path, monkeypatch)
