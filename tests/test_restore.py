"""A restored store is another writer: it knows what every receiver has accepted before it serves,
gives no fence and no id a second time, and says all that in its receipt."""

from __future__ import annotations

import hashlib
import json
import stat

import pytest
from helpers.receivers import SECRET, Kit
from helpers.restoring import world

import fencepost
from fencepost import canonical
from fencepost.commands import Complete
from fencepost.handle import Handle
from fencepost.lineage import UNHEARD
from fencepost.operate.backup import backup, manifest_of
from fencepost.operate.restoring import erasures, receipt
from fencepost.operate.restoring.receivers import Talk


@pytest.fixture
def it(tmp_path):
    with world(tmp_path) as made:
        yield made


def refused(fp, task_id, fence):
    """What a worker of the old owner hears of its result here."""
    (outcome,) = fp.execute([Complete(task_id, "w-old", fence, result="late")])
    return outcome.issues


# -- what it knows, and what is done once


def test_what_a_receiver_has_accepted_is_recorded_and_nobody_works_on_it_again(it):
    it.future()
    told = it.restore()
    assert told.complete and it.operations() == [f"{each}:1" for each in it.tasks[:3]]
    assert told.receiver()["imported"] == [f"{it.tasks[1]}:1", f"{it.tasks[2]}:1"]
    with it.opened() as new:
        out = new.fp.destination("out")
        assert (out.announced, out.heard) == (new.fp.writers()[-1].incarnation, 3)
        assert [new.fp.task(each).state for each in it.tasks[:4]] == ["done"] * 3 + ["ready"]
        assert [one.value for one in new.fp.results(it.tasks[1])] == ["r1"]
        (lease,) = new.fp.claim("pages", worker_id="w-new", limit=10)
        assert lease.task_id == it.tasks[3]
        lease.complete("r3")
        new.deliver()
        assert {each.state for each in new.obligations()} == {"done"}
        assert new.fp.verify().clean
    assert it.operations() == [f"{each}:1" for each in it.tasks[:4]]


def test_two_live_owners_have_each_effect_once_and_the_old_one_is_refused(it):
    """The seed's counter-example with a receiver: the copy and the original both go on."""
    it.future()
    told = it.restore()
    with it.opened() as new:
        (lease,) = new.fp.claim("pages", worker_id="w-new")
        lease.complete("r3 of the new owner")
        it.late.complete("r4")
        it.old.deliver()
        new.deliver()
        assert new.fp.destination("out").stopped is None
    assert it.old.fp.destination("out").stopped.startswith("old_epoch: ")
    assert [each.state for each in it.old.obligations()].count("ready") == 2
    assert it.operations() == [f"{each}:1" for each in it.tasks[:4]]
    assert json.loads(it.kit.effects()[-1][1])["result"] == "r3 of the new owner"
    assert told["old_writer"]["incarnation"] == it.old.fp.writers()[-1].incarnation


def test_effects_of_tasks_that_the_backup_does_not_know_are_named(it):
    it.future()
    it.late.complete("r4")
    it.old.deliver()
    told = it.restore()
    assert told.receiver()["foreign"] == [f"{it.tasks[4]}:1"]
    assert f"{it.tasks[3]}:1" in told.receiver()["imported"]
    with it.opened() as new, pytest.raises(fencepost.NotFound):
        new.fp.task(it.tasks[4])


def test_an_ordered_stream_goes_on_from_where_the_receiver_is(tmp_path):
    with world(tmp_path, ordered=True) as it:
        it.future()
        it.restore()
        with it.opened() as new:
            assert new.fp.destination("out").sequence == 3
            (lease,) = new.fp.claim("pages", worker_id="w-new")
            lease.complete("r3")
            new.deliver()
            assert new.fp.destination("out").sequence == 4
        assert it.operations() == [f"{each}:1" for each in it.tasks[:4]]


# -- who writes


def test_leases_of_before_end_and_a_worker_of_the_lost_future_is_told(it):
    """Its fence was given after the backup, for a task that has the same worker here again."""
    it.future()
    it.restore()
    lost, late = it.old.fp.task(it.tasks[3]), it.old.fp.task(it.tasks[4])
    with it.opened() as new:
        assert lost.epoch < new.fp.about()["floor"]
        again = [new.fp.enqueue("pages", n).task_id for n in range(3)]
        given = new.fp.claim("pages", worker_id="w-old", limit=10)
        assert {each.task_id for each in given} == {it.tasks[3], *again}
        assert min(each.fence for each in given) > late.fence
        assert not set(again) & set(it.tasks)
        assert refused(new.fp, it.tasks[3], lost.fence) == ("stale_fence",)
        assert new.fp.task(it.tasks[3]).state == "leased"


def test_a_lease_that_ran_at_the_backup_is_told_that_the_store_is_another(tmp_path):
    with world(tmp_path) as it:
        it.restore()
        with it.opened() as new:
            assert refused(new.fp, it.tasks[1], it.lease.fence)[0] == "stale_epoch"
            (lease,) = new.fp.claim(task_id=it.tasks[1], worker_id="w-new")
            assert lease.fence > it.lease.fence and lease.fence >> 32 == new.fp.about()["epoch"]


def test_its_epoch_is_above_all_that_anybody_has_heard_of(it):
    """A number that was given; the sidecar of the store that was lost; a receiver."""
    first = it.restore(min_epoch=1_000)
    assert first["new_writer"]["epoch"] == 1_000 + UNHEARD
    assert first["new_writer"]["why"] == "restored"
    it.target.unlink()  # lost; its sidecar is there
    for path in it.target.parent.glob("*.restore-*"):
        path.unlink()
    second = it.restore(take_over=True)
    assert second["new_writer"]["epoch"] > 1_000 + UNHEARD
    other = it.folder / "elsewhere.db"  # no sidecar tells anything here: the receiver does
    third = it.restore(other, take_over=True)
    assert third["new_writer"]["epoch"] > second["new_writer"]["epoch"]


def test_the_sidecar_of_a_store_that_was_lost_tells_its_epoch_where_nobody_else_does(it):
    it.web.close()
    passed = {"overrides": ("default/out",), "reason": "nobody is there"}
    it.restore(min_epoch=1_000, **passed)
    it.target.unlink()
    for path in it.target.parent.glob("*.restore-*"):
        path.unlink()
    assert it.restore(**passed)["new_writer"]["epoch"] > 1_000 + UNHEARD


def test_of_two_restores_of_one_backup_the_second_asks_a_person(it):
    first, second = it.restore(), it.restore(it.folder / "second.db")
    assert first.complete and not second.complete
    assert "fork" in second.receiver()["why"] and "--take-over" in second.receiver()["why"]
    assert second["not_reached"] == ["default/out"]
    assert not (it.folder / "second.db").exists()
    second = it.restore(it.folder / "second.db", take_over=True)
    assert second.complete and second.receiver()["taken_over"] is True
    assert second.receiver()["held_by"]["incarnation"] == first["new_writer"]["incarnation"]
    with it.opened() as new:
        (lease, *_) = new.fp.claim("pages", worker_id="w")
        lease.complete("late")
        new.deliver()
        assert new.fp.destination("out").stopped.startswith("old_epoch")


# -- what is not heard


def test_where_a_receiver_does_not_answer_nothing_serves_and_the_same_call_goes_on(it):
    it.future()
    it.web.close()
    told = it.restore()
    assert not told.complete and told["status"] == "incomplete"
    assert told.receiver()["why"].startswith("not reached: ")
    assert told.receiver()["isolation"].startswith("none yet")
    assert not it.target.exists() and "store.db.restoring" in it.beside()
    it.web.listen()
    again = it.restore()
    assert again.complete and again["new_writer"] == told["new_writer"]
    assert again.receiver()["imported"] == [f"{it.tasks[1]}:1", f"{it.tasks[2]}:1"]
    assert again.receiver()["isolation"].startswith("the receiver refuses")
    assert it.beside() == [
        "store.db", "store.db-turn1", "store.db-turn2", "store.db-writer",
        "store.db.restore-receipt.json", "store.db.restore-secrets.json",
    ] or it.beside() == [
        "store.db", "store.db-writer", "store.db.restore-receipt.json",
        "store.db.restore-secrets.json",
    ]  # fmt: skip


def test_one_of_two_that_does_not_answer_is_passed_over_by_name_with_who_and_why(tmp_path):
    with world(tmp_path) as it:
        it.old.destination("http://127.0.0.1:9/", queue="down")
        it.old.destination("https://example.org/", "idempotent", queue="mail")
        backup(it.old.fp, it.backup, force=True)
        told = it.restore()
        assert told["not_reached"] == ["default/down", "default/mail"]
        assert told.receiver("default/out")["answered"] is True
        assert "keeps no writer" in told.receiver("default/mail")["why"]
        assert told.receiver("default/mail")["isolation"].startswith("none: ")
        names = ("default/down", "default/mail")
        for wrong in (
            {"overrides": names}, {"overrides": ("default/nobody",), "reason": "gone"},
        ):  # fmt: skip
            with pytest.raises(fencepost.InvalidRequest):
                it.restore(**wrong)
        one = it.restore(overrides=names[:1], reason="its machine was sold")
        assert not one.complete and not it.target.exists()
        assert one["new_writer"] == told["new_writer"], "the receiver that knows it is no other's"
        told = it.restore(overrides=names, reason="its machine was sold")
        assert told.complete and told["not_reached"] == ["default/down", "default/mail"]
        said = told.receiver("default/down")["override"]
        assert (said["who"], said["reason"]) == ("anna", "its machine was sold")
        assert said["at"].endswith("Z")
        assert "override" not in told.receiver("default/out")
        with it.opened() as new:
            assert [each.stopped for each in new.fp.destinations()] == [None] * 3


def test_a_receiver_that_answers_late_and_knows_a_later_writer_gets_one_above_it(it):
    """The old owner was started anew meanwhile, or restored elsewhere: it is not outwaited."""
    it.web.close()
    first = it.restore()
    it.web.listen()
    other = it.restore(it.folder / "other.db", min_epoch=5_000)
    told = it.restore(take_over=True)
    assert told.complete and told["new_writer"]["epoch"] > other["new_writer"]["epoch"]
    assert told["new_writer"]["incarnation"] != first["new_writer"]["incarnation"]
    assert told["old_writer"] == first["old_writer"]


def test_a_receiver_that_was_put_back_itself_is_told_and_waits_for_a_person(it, tmp_path):
    fresh = Kit(tmp_path / "fresh.db")
    it.web.answer = fresh.answer
    try:
        told = it.restore()
        assert told.receiver()["why"].startswith("gap: up to position 1 ")
        assert not told.complete
        told = it.restore(overrides=("default/out",), reason="it was put back")
        assert told.complete
    finally:
        fresh.close()


def test_a_place_that_nothing_can_be_sent_to_keeps_nobody_from_the_rest(it, monkeypatch):
    from fencepost.operate.restoring import receivers

    def unusable(where, now):
        raise fencepost.InvalidRequest("no such sender here")

    monkeypatch.setattr(receivers, "sender_of", unusable)
    told = it.restore()
    assert told.receiver()["why"] == "nothing can be sent there: no such sender here"
    assert it.restore(overrides=("default/out",), reason="moved").complete


def test_a_destination_of_any_kind_is_passed_over_by_name_where_it_keeps_no_writer(it):
    made = {
        "c": ('command:["true"]', "unfenced"), "d": (f"directory:{it.folder}/d", "cas"),
        "s": ("s3://bucket/prefix", "cas"), "w": ("https://example.org/", "unfenced"),
    }  # fmt: skip
    for queue, (address, class_) in made.items():
        it.old.fp.destination_set(queue, address, class_=class_)
    table = f"sqlite:{it.folder}/t.db#t"
    it.old.fp.destination_set("t", table, class_="fenced")
    backup(it.old.fp, it.backup, force=True)
    told = it.restore()
    assert told["not_reached"] == [f"default/{queue}" for queue in made]
    assert told.receiver("default/t")["answered"] is True
    names = tuple(f"default/{queue}" for queue in made)
    assert it.restore(overrides=names, reason="they keep none").complete


def test_a_destination_that_a_person_had_stopped_stays_stopped(it):
    it.old.fp.destination_set("out", stopped="they are moving")
    backup(it.old.fp, it.backup, force=True)
    told = it.restore()
    assert told["dispatch"] == {"on": [], "off": {"default/out": "they are moving"}}
    with it.opened() as new:
        assert new.fp.destination("out").stopped == "they are moving"


# -- erasures, tokens, secrets


def test_what_was_erased_after_the_backup_is_erased_again(it):
    it.old.fp.erase(it.tasks[3], reason="asked for")
    late = it.old.fp.enqueue("pages", "secret").task_id
    it.old.fp.erase(late)
    it.old.fp.erase(it.tasks[0])  # and with it what it owed
    (owed,) = it.old.obligations()
    told = list(erasures.erasures(it.old.fp))
    assert [each["task_id"] for each in told] == [it.tasks[3], late, it.tasks[0], owed.task_id]
    lines = [json.dumps(each) for each in told]
    again = it.restore(erasures=erasures.read([*lines, ""]))
    applied = [it.tasks[3], it.tasks[0], owed.task_id]
    assert again["erasures"] == {"applied": applied, "unknown": [late]}
    with it.opened() as new:
        task = new.fp.task(it.tasks[3])
        assert (task.erased, task.payload) == (True, None)
        assert new.fp.task(it.tasks[2]).payload == {"of": 2}


def test_what_was_erased_stays_so_although_a_receiver_tells_its_result(it):
    """Erased before the backup, or by it: what comes from the receiver brings nothing back."""
    it.lease.complete("r1")
    it.old.deliver()
    told = it.restore(erasures=({"scope": "default", "task_id": it.tasks[1]},))
    assert told["erasures"]["applied"] == [it.tasks[1]]
    with it.opened() as new:
        assert new.fp.task(it.tasks[1]).erased
        assert [one.value for one in new.fp.results(it.tasks[1])] in ([None], [])


def test_a_scope_that_is_revoked_is_erased_in_and_nothing_else(it):
    other = it.old.fp.as_caller("local", scope="closed")
    task_id = other.enqueue("pages", 1).task_id
    other.destination_set("out", "http://127.0.0.1:9/", class_="fenced")
    other.revoke()
    backup(it.old.fp, it.backup, force=True)
    told = it.restore(erasures=({"scope": "closed", "task_id": task_id},))
    assert told.complete and told["erasures"]["applied"] == [task_id]
    assert [each["destination"] for each in told["receivers"]] == ["default/out"]


def test_where_an_erasure_fails_nothing_is_served_and_the_same_call_goes_on(it, monkeypatch):
    def fail(self, task_id, **_):
        raise fencepost.Unavailable("the disk is full")

    gone = ({"scope": "default", "task_id": it.tasks[3]},)
    with monkeypatch.context() as patch:
        patch.setattr(Handle, "erase", fail)
        with pytest.raises(fencepost.Unavailable, match="disk is full"):
            it.restore(erasures=gone)
    assert not it.target.exists()
    assert it.restore(erasures=gone)["erasures"]["applied"] == [it.tasks[3]]


LINES = ["{}", "[]", "nothing", '{"scope":"default","task_id":"x"}', '{"task_id":1}', "[" * 9_999]


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_line_that_tells_of_no_erasure_is_refused_by_its_number(line):
    good = '{"scope":"default","task_id":"01a22c50-8097-7144-9f1d-1b67014b93c5"}'
    with pytest.raises(fencepost.InvalidRequest, match="erasures, line 2"):
        erasures.read([good, line])


def test_every_token_ends(it):
    fp = it.old.fp
    other = fp.as_caller("local", scope="other")
    for each in (fp, other, fp):
        each.token_create("w", "worker")
    first, *_ = fp.tokens()
    fp.token_revoke(first.token_id)
    assert fp.scope_names() == ["default", "other"], "one has nothing but its token"
    fp.token_create("anna", "operator", every_scope=True)
    lasting = {each.token_id for own in (fp, other) for each in own.tokens()} - {first.token_id}
    backup(fp, it.backup, force=True)
    told = it.restore()
    assert told["tokens_revoked"] == sorted(lasting) and len(lasting) == 3
    with it.opened() as new:
        for own in (new.fp, new.fp.as_caller("local", scope="other")):
            assert all(each.revoked_at is not None for each in own.tokens())


def test_secrets_are_new_and_lie_where_their_owner_alone_reads_them(it):
    told = it.restore()
    path = it.target.with_name("store.db.restore-secrets.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    new = json.loads(path.read_text())
    assert list(new) == ["default/out"] == told["secrets_rotated"]
    assert new["default/out"] not in told.bytes.decode() and SECRET not in told.bytes.decode()
    with it.opened() as store:
        now, before = store.fp.destination("out").secrets
        assert (now.secret, before.secret) == (new["default/out"], SECRET)
        assert before.until is not None
    it.kit.secrets = [new["default/out"]]  # as its owner does next
    with it.opened() as store:
        (lease, *_) = store.fp.claim("pages", worker_id="w")
        lease.complete("signed anew")
        store.deliver()
    assert len(it.operations()) == 2


def test_a_file_of_secrets_that_is_there_is_neither_used_nor_written_over(it):
    path = it.folder / "secrets.json"
    path.write_text('{"default/out": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}')
    with pytest.raises(fencepost.InvalidRequest, match="is there already"):
        it.restore(secrets_out=path)
    assert it.beside() == [] and "MfKQ9" in path.read_text()


def test_the_restored_file_is_for_its_owner_alone_as_the_backup_is(it):
    it.restore()
    assert stat.S_IMODE(it.backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(it.target.stat().st_mode) == 0o600
    for path in it.target.parent.glob("store.db-*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


# -- interrupted, after what nobody could find out again


def once(monkeypatch, owner, name):
    """The first call is carried out, and never comes back."""
    real, calls = getattr(owner, name), []

    def dying(*given, **named):
        answer = real(*given, **named)
        calls.append(name)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(owner, name, dying)


def test_what_an_interrupted_run_has_imported_stands_in_the_receipt(it, monkeypatch):
    it.future()
    it.late.complete("r4")
    it.old.deliver()
    once(monkeypatch, Talk, "moved_on")
    with pytest.raises(KeyboardInterrupt):
        it.restore()
    told = it.restore().receiver()
    assert told["imported"] == [f"{it.tasks[n]}:1" for n in (1, 2, 3)]
    assert told["foreign"] == [f"{it.tasks[4]}:1"]
    assert told["held_by"]["incarnation"] == it.old.fp.writers()[-1].incarnation


def test_what_an_interrupted_run_has_taken_over_stands_in_the_receipt(it, monkeypatch):
    it.restore(it.folder / "first.db")
    once(monkeypatch, Talk, "replace")
    with pytest.raises(KeyboardInterrupt):
        it.restore(take_over=True)
    told = it.restore()
    assert told.complete and told.receiver()["taken_over"] is True


def test_tokens_that_an_interrupted_run_has_ended_stand_in_the_receipt(it, monkeypatch):
    for _ in range(2):
        it.old.fp.token_create("w", "worker")
    backup(it.old.fp, it.backup, force=True)
    once(monkeypatch, Handle, "token_revoke")
    with pytest.raises(KeyboardInterrupt):
        it.restore()
    assert len(it.restore()["tokens_revoked"]) == 2


def test_an_interrupted_run_goes_on_with_the_secrets_that_it_has_made(it, monkeypatch):
    once(monkeypatch, Handle, "destination_secret")
    with pytest.raises(KeyboardInterrupt):
        it.restore()
    told = it.restore()
    kept = json.loads(it.target.with_name("store.db.restore-secrets.json").read_text())
    with it.opened() as new:
        secrets = [one.secret for one in new.fp.destination("out").secrets]
    assert secrets == [kept["default/out"], SECRET] and told["secrets_rotated"] == ["default/out"]


def test_a_writer_that_an_interrupted_run_has_begun_is_its_own(it, monkeypatch):
    once(monkeypatch, Handle, "begin_writer")
    with pytest.raises(KeyboardInterrupt):
        it.restore()
    told = it.restore()
    with it.opened() as new:
        whys = [each.why for each in new.fp.writers()]
    assert whys == ["installed", "copied", "restored"]
    assert told["new_writer"]["epoch"] == 2 * UNHEARD


# -- the receipt


def test_the_receipt_is_canonical_and_names_both_writers_and_what_is_enforced(it):
    it.future()
    told = it.restore()
    assert canonical.dumps(told.json) == told.bytes == told.path.read_bytes()
    manifest = json.loads(manifest_of(it.backup).read_text())
    assert told["backup"]["sha256"] == manifest["sha256"]
    assert (told["kind"], told["status"], told["v"]) == ("restore-receipt", "complete", 1)
    with it.opened() as new:
        lineage = new.fp.writers()
        assert told["writer_id"] == new.fp.about()["writer_id"]
        assert told["new_writer"] == lineage[-1].to_json()
    assert told["old_writer"]["incarnation"] == manifest["incarnation"]
    assert told["old_writer"]["incarnation"] in [each.incarnation for each in lineage]
    said = told.receiver()
    assert said["isolation"] == "the receiver refuses every older writer of the stream"
    assert said["held_by"] == {
        "epoch": told["old_writer"]["epoch"], "incarnation": told["old_writer"]["incarnation"],
    }  # fmt: skip
    assert (said["position"], said["receiver"], said["class"]) == (3, "receiver", "fenced")
    assert len(told["limits"]) == 3
    assert receipt.digest(told.bytes) == hashlib.sha256(told.bytes).hexdigest()


def test_people_read_the_same_in_the_receipt(it):
    it.future()
    told = it.restore()
    text = "\n".join(receipt.lines(told.json))
    for said in (
        told["old_writer"]["incarnation"], told["new_writer"]["incarnation"], "default/out",
        f"{it.tasks[1]}:1", "the receiver refuses every older writer", *told["limits"],
    ):  # fmt: skip
        assert said in text
