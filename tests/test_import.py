"""import: what stands at a receiver is a fact, and a store that was restored is told of it."""

from __future__ import annotations

import json

import pytest
from helpers.pg_stand import PgStand
from helpers.shell import Shell
from helpers.stand import QUEUE, UNKNOWN, Stand, binding

from fencepost import canonical
from fencepost import commands as c
from fencepost.issues import Forbidden, InvalidRequest, ResultConflict, StaleRevision, UnknownFence
from fencepost.model import STATES

EVIDENCE = {"receiver": "archive", "position": 17}
ONE, TWO = {"row": 1}, {"row": 2}


@pytest.fixture(params=["sqlite", "postgres"])
def make(request):
    """A maker of stands on either store."""
    return {"sqlite": Stand, "postgres": PgStand}[request.param]


def restored(stand: Stand) -> Stand:
    """The store has a new epoch, as a restore gives it: all leases from before have ended."""
    stand.fp.clock_reset()
    return stand


def bring(stand: Stand, state: str) -> str:
    """A task in this state, in the store's own epoch."""
    task_id = stand.task("work", key="k")
    if state == "ready":
        return task_id
    if state == "cancelled":
        stand.fp.cancel(task_id)
        return task_id
    lease = stand.claim()
    end = {"dead": {"then": "give_up"}, "blocked": {"then": "block"}}.get(state)
    if end:
        lease.fail(**end)
    elif state == "done":
        lease.complete()
    assert stand.fp.task(task_id).state == state
    return task_id


def accepted(task_id: str, /, **changed) -> c.Import:
    """The command of a receiver's receipt."""
    given = {
        "task_id": task_id, "revision": 1, "epoch": 0, "fence": 900, "final": True,
        "evidence": EVIDENCE, "result": ONE,
    }  # fmt: skip
    given.update(changed)
    return c.Import(**{name: value for name, value in given.items() if value is not ...})


def sha(value) -> str:
    return canonical.sha256(canonical.dumps(value)).hex()


def results(stand: Stand, task_id: str) -> list[tuple]:
    return [(r.revision, r.round, r.value, r.commitment) for r in stand.fp.results(task_id)]


# --- in whatever state the task is ------------------------------------------------------------


@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_a_task_takes_it_in_every_state_and_is_done_where_it_was_the_last(make, state, final):
    with make() as stand:
        task_id = bring(restored(stand), state)
        before = stand.fp.task(task_id)
        outcome = stand.ask(accepted(task_id, final=final))
        assert (outcome.status, outcome.task_ids) == ("accepted", (task_id,))
        task = stand.fp.task(task_id)
        left = "ready" if state == "leased" else state
        assert task.state == ("done" if final else left)
        assert (task.revision, task.round, task.fence) == (1, 1, before.fence)
        assert results(stand, task_id) == [(1, 1, ONE, "open")]
        (item,) = outcome.receipt.entry["tasks"]
        assert (item["before"], item["state"], item["revision"]) == (state, task.state, 1)
        assert stand.fp.verify().problems == ()


@pytest.mark.parametrize("final", [True, False])
def test_a_running_lease_ends_and_its_worker_can_change_nothing(make, final):
    with make() as stand:
        stand = restored(stand)
        lease = stand.leased()
        stand.ask(accepted(lease.task_id, final=final))
        before = stand.dump()
        code = "task_done" if final else "not_leased"
        for verb in ("renew", "submit", "complete", "fail", "release"):
            more = {"result": TWO} if verb == "submit" else {}
            assert stand.ask(c.COMMANDS[verb](**binding(lease), **more)).issues == (code,)
        assert stand.dump() == before


def test_a_lease_that_ends_so_gives_its_attempt_back_and_the_task_can_be_claimed_at_once(make):
    with make() as stand:
        lease = restored(stand).leased(max_attempts=1)
        claim = c.Claim("v", (QUEUE,))
        imported, claimed = stand.fp.execute([accepted(lease.task_id, final=False), claim])
        assert imported.accepted
        (grant,) = claimed.grants
        assert (grant.task_id, grant.attempt, grant.revision) == (lease.task_id, 1, 1)


def test_an_imported_result_is_read_reviewed_and_built_upon_as_any_other(make):
    with make() as stand:
        task_id = bring(restored(stand), "ready")
        stand.ask(accepted(task_id, final=False))
        stand.fp.as_caller("ann", "human").review(task_id, 1, "accepted")
        stand.claim().complete(TWO, expected_revision=1)
        assert results(stand, task_id) == [(1, 1, ONE, "accepted"), (2, 1, TWO, "open")]
        assert stand.fp.verify().problems == ()


def test_revisions_are_imported_one_after_the_other(make):
    with make() as stand:
        task_id = bring(restored(stand), "ready")
        sent = [accepted(task_id, revision=n, result=n, final=n == 3) for n in (1, 2, 3)]
        assert [outcome.issues for outcome in stand.fp.execute(sent)] == [()] * 3
        assert [row[:3] for row in results(stand, task_id)] == [(n, 1, n) for n in (1, 2, 3)]
        assert stand.fp.task(task_id).state == "done"


# --- what is known ----------------------------------------------------------------------------


def test_a_known_revision_with_the_same_result_changes_nothing_at_all(make):
    with make() as stand:
        lease = stand.leased()
        lease.complete(ONE)
        before = stand.dump()
        for changed in (
            {},
            {"result": ..., "result_sha256": sha(ONE)},
            {"epoch": 7, "final": False},
        ):
            outcome = stand.ask(accepted(lease.task_id, **changed))
            assert (outcome.status, outcome.receipt) == ("accepted", None)
            assert outcome.facts == {"known": True} and outcome.task_ids == (lease.task_id,)
        assert stand.dump() == before


def test_a_known_revision_under_a_key_leaves_a_receipt_and_changes_no_row(make):
    with make() as stand:
        lease = stand.leased()
        lease.complete(ONE)
        before = stand.fp.task(lease.task_id)
        told = stand.ask(accepted(lease.task_id), key="K")
        again = stand.ask(accepted(lease.task_id), key="K")
        assert again.replayed and again.receipt == told.receipt
        assert stand.fp.task(lease.task_id) == before
        assert stand.fp.verify().problems == ()


def test_another_result_of_a_known_revision_is_a_conflict_that_says_so(make):
    with make() as stand:
        lease = restored(stand).leased()
        lease.complete(ONE)
        before = stand.dump()
        for changed in ({"result": TWO}, {"result": ..., "result_sha256": sha(TWO)}):
            told = stand.ask(accepted(lease.task_id, **changed))
            assert (told.status, told.issues) == ("failed", ("result_conflict",))
            assert told.facts["revision"] == 1
        with pytest.raises(ResultConflict):
            stand.fp.import_accepted(
                lease.task_id, 1, epoch=0, fence=9, final=True, evidence=1, result=TWO
            )
        assert stand.dump() == before


def test_the_same_bytes_again_get_the_same_receipt_without_a_key(make):
    with make() as stand:
        task_id = bring(restored(stand), "ready")
        request = c.Request.of(accepted(task_id))
        first = stand.ask(request)
        stand.fp.requeue(task_id)
        again = stand.ask(request)
        assert (again.replayed, again.receipt) == (True, first.receipt)


def test_two_imports_of_one_revision_in_one_batch_record_it_once(make):
    with make() as stand:
        task_id = bring(restored(stand), "ready")
        one, same, other = stand.fp.execute([
            accepted(task_id), accepted(task_id, evidence="another receiver"),
            accepted(task_id, result=TWO),
        ])  # fmt: skip
        assert one.receipt is not None
        assert (same.facts, same.receipt) == ({"known": True}, None)
        assert other.issues == ("result_conflict",)
        assert len(results(stand, task_id)) == 1


# --- what is refused --------------------------------------------------------------------------


def test_a_revision_that_is_not_the_next_is_stale(make):
    with make() as stand:
        task_id = bring(restored(stand), "ready")
        before = stand.dump()
        assert stand.ask(accepted(task_id, revision=2)).issues == ("stale_revision",)
        with pytest.raises(StaleRevision):
            stand.fp.import_accepted(
                task_id, 3, epoch=0, fence=9, final=True, evidence=1, result=TWO
            )
        assert stand.dump() == before


@pytest.mark.parametrize("ahead", [0, 1])
def test_what_is_not_from_an_epoch_before_the_stores_own_says_that_it_was_rolled_back(make, ahead):
    with make() as stand:
        task_id = bring(stand, "ready")
        with pytest.raises(UnknownFence, match=f"epoch {ahead} is not before this store's, 0"):
            stand.fp.import_accepted(
                task_id, 1, epoch=ahead, fence=9, final=True, evidence=1, result=ONE
            )
        restored(stand)
        assert stand.ask(accepted(task_id, epoch=ahead)).accepted == (ahead == 0)


def test_only_an_operator_imports():
    with Stand() as stand:
        task_id = bring(restored(stand), "ready")
        for kind in ("producer", "worker", "dispatcher", "human", "auditor"):
            assert stand.ask(accepted(task_id), "local", kind).issues == ("forbidden",)
        with pytest.raises(Forbidden):
            stand.fp.as_caller("ann", "human").import_accepted(
                task_id, 1, epoch=0, fence=9, final=True, evidence=1, result=ONE
            )


def test_what_is_unknown_of_another_scope_revoked_or_erased_takes_nothing(make):
    with make() as stand:
        task_id = bring(restored(stand), "ready")
        assert stand.ask(accepted(UNKNOWN)).issues == ("not_found",)
        assert stand.ask(accepted(task_id), scope="elsewhere").issues == ("not_found",)
        stand.fp.erase(task_id)
        assert stand.ask(accepted(task_id)).issues == ("receipt_erased",)
        stand.fp.revoke()
        assert stand.ask(accepted(task_id)).issues == ("scope_revoked",)


def test_the_longest_result_is_the_queues_and_a_digest_alone_is_never_too_long(make):
    with make() as stand:
        stand.fp.queue_set(QUEUE, max_result_bytes=10)
        task_id = bring(restored(stand), "ready")
        long = "x" * 11
        assert stand.ask(accepted(task_id, result=long)).issues == ("payload_too_large",)
        digest = accepted(task_id, result=..., result_sha256=sha(long))
        assert stand.ask(digest).accepted


HOSTILE = [
    ({"result": ...}, "give either result or"),
    ({"result_sha256": sha(ONE)}, "give either result or"),
    ({"result_sha256": "FF" * 32}, "result_sha256"), ({"result_sha256": "0" * 63}, "result_sha256"),
    ({"revision": 0}, "revision"), ({"revision": True}, "revision"), ({"revision": 10**15}, "rev"),
    ({"fence": 0}, "fencing_token"), ({"fence": -1}, "fencing_token"), ({"epoch": -1}, "epoch"),
    ({"epoch": 2**40}, "epoch"), ({"final": 1}, "final"), ({"final": None}, "final"),
    ({"at": "yesterday"}, "at"), ({"at": 7}, "at"), ({"task_id": "x"}, "task_id"),
    ({"evidence": float("nan")}, "finite"), ({"result": "\ud800"}, "surrogate"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "said"), HOSTILE, ids=lambda part: str(part)[:40])
def test_what_is_no_import_is_refused_with_what_is_wrong(changed, said):
    with pytest.raises(InvalidRequest, match=said):
        c.Request.of(accepted(UNKNOWN, **changed))


@pytest.mark.parametrize("left_out", ["final", "evidence", "epoch", "fencing_token", "revision"])
def test_nothing_is_taken_for_granted(left_out):
    given = json.loads(c.Request.of(accepted(UNKNOWN)).body)
    del given[left_out]
    with pytest.raises(InvalidRequest, match=f"{left_out} is missing"):
        c.Request.read(json.dumps(given).encode())


# --- what is owed for it ----------------------------------------------------------------------


def owed(stand: Stand, queue: str = "out") -> list[dict]:
    return [stand.fp.task(task.task_id).payload for task in stand.fp.tasks(queue)]


def test_it_owes_what_the_writer_that_accepted_it_owed_to_the_byte(make):
    """So that a receiver which has the effect already answers with its receipt."""
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        lease = stand.leased(key="k-7")
        lease.complete({"b": 1, "a": [2]})
        (original,) = owed(stand)
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        task_id = restored(stand).task(key="k-7")
        event = {**original, "task_id": task_id}
        members = ("revision", "epoch", "final", "result", "at")
        stand.clock.advance(1_000)
        imported = accepted(
            task_id, fence=event["fencing_token"], **{name: event[name] for name in members}
        )
        assert stand.ask(imported).accepted
        assert owed(stand) == [event]


def test_every_destination_is_obliged_in_the_same_commit_and_by_the_state_too(make):
    with make() as stand:
        outcomes = {"both": ["result", "done"], "end": ["done"], "bad": ["dead", "cancelled"]}
        stand.fp.queue_set(QUEUE, destinations=["out", *outcomes], outcomes=outcomes)
        task_id = bring(restored(stand), "ready")
        receipt = stand.ask(accepted(task_id)).receipt
        roles = [(item.get("role"), item.get("queue")) for item in receipt.entry["tasks"][1:]]
        assert roles == [("obligation", queue) for queue in ("out", "both", "both", "end")]
        assert [each["outcome"] for each in owed(stand, "both")] == ["result", "done"]
        assert owed(stand, "end")[0]["epoch"] == 1, "that it is done is this store's word"
        assert stand.fp.verify().problems == ()


def test_a_task_that_was_done_already_is_not_done_again(make):
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"], outcomes={"out": ["result", "done"]})
        task_id = bring(restored(stand), "done")
        stand.ask(accepted(task_id))
        assert [each["outcome"] for each in owed(stand)] == ["done", "result"]
        assert stand.fp.verify().problems == ()


def test_of_a_digest_nobody_can_be_told_the_result(make):
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"], outcomes={"out": ["result", "done"]})
        task_id = bring(restored(stand), "ready")
        stand.ask(accepted(task_id, result=..., result_sha256=sha(ONE)))
        assert [each["outcome"] for each in owed(stand)] == ["done"]
        (result,) = stand.fp.results(task_id)
        assert (result.kept, result.value, result.result_sha256) == (False, None, sha(ONE))
        assert stand.fp.verify().problems == ()


def test_null_is_a_result_and_not_the_lack_of_one(make):
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        task_id = bring(restored(stand), "ready")
        stand.ask(accepted(task_id, result=None))
        assert [each["result"] for each in owed(stand)] == [None]


# --- rounds -----------------------------------------------------------------------------------


def test_the_same_result_again_begins_the_round_in_which_it_was_accepted(make):
    """A round never has one result twice: it was requeued where it was accepted."""
    with make() as stand:
        lease = restored(stand).leased()
        lease.renew(progress=[1])
        lease.complete(ONE)
        stand.ask(accepted(lease.task_id, revision=2))
        assert results(stand, lease.task_id) == [(1, 1, ONE, "open"), (2, 2, ONE, "open")]
        task = stand.fp.task(lease.task_id)
        assert (task.round, task.attempt, task.state, task.progress) == (2, 0, "done", None)
        stand.fp.requeue(lease.task_id)
        stand.claim().complete(ONE)
        assert [row[:2] for row in results(stand, lease.task_id)] == [(1, 1), (2, 2), (3, 3)]
        assert stand.fp.verify().problems == ()


# --- the journal ------------------------------------------------------------------------------


def test_the_entry_says_what_accepted_it_and_neither_content_nor_evidence(make):
    with make() as stand:
        task_id = bring(restored(stand), "ready")
        secret = accepted(task_id, result="zxq result", evidence={"zxq": "evidence"})
        receipt = stand.ask(secret).receipt
        assert receipt.entry["note"] == {
            "content": True, "epoch": 0, "fence": 900, "revision": 1, "round": 1,
        }  # fmt: skip
        assert "zxq" not in receipt.body.decode()
        assert receipt.result_sha256.hex() == sha("zxq result")
        assert "zxq" not in str([row for row in stand.dump().values() if "evidence" in str(row)])


def test_an_erase_takes_an_imported_result_and_what_it_owes_along(make):
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        task_id = bring(restored(stand), "ready")
        stand.ask(accepted(task_id, result="zxq"))
        stand.fp.erase(task_id)
        assert "zxq" not in str(stand.dump())
        assert [task.erased for task in stand.fp.tasks("out")] == [True]
        assert stand.fp.verify().problems == ()


TAMPERED = (
    "update fencepost_result set body = x'31'",
    "update fencepost_result set body = null",
    "update fencepost_result set round = 2",
    "delete from fencepost_result",
    "update fencepost_task set state = 'ready', place = 0, rank = 0 where parent is null",
    "update fencepost_task set revision = 0 where parent is null",
    "delete from fencepost_task where parent is not null",
)


@pytest.mark.parametrize("change", TAMPERED)
def test_verify_sees_what_was_done_to_an_imported_result(change):
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        task_id = bring(restored(stand), "ready")
        stand.ask(accepted(task_id))
        assert stand.fp.verify().problems == ()
        stand.connection.execute("pragma foreign_keys = off")
        stand.connection.execute(change)
        assert stand.fp.verify().problems != ()


def test_verify_sees_content_where_only_a_digest_was_imported():
    with Stand() as stand:
        task_id = bring(restored(stand), "ready")
        stand.ask(accepted(task_id, result=..., result_sha256=sha(ONE)))
        put = "update fencepost_result set body = ?"
        stand.connection.execute(put, (canonical.dumps(ONE),))
        assert [problem.code for problem in stand.fp.verify().problems] == ["result_edited"]


# --- at the shell -----------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    assert shell("init").code == 0
    assert shell("clock-reset").code == 0
    return shell


def lines(*given: dict) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in given)


def line(task_id: str, **changed) -> dict:
    given = {"task_id": task_id, "revision": 1, "epoch": 0, "fence": 9, "final": True,
             "result": ONE, "evidence": EVIDENCE}  # fmt: skip
    return {**given, **changed}


def test_a_file_of_receipts_is_recorded_and_the_same_file_again_changes_nothing(shell, tmp_path):
    ids = [shell.task(str(n)) for n in range(3)]
    file = tmp_path / "accepted.jsonl"
    file.write_bytes(lines(*(line(task_id) for task_id in ids)))
    assert shell("import", file).out == "3 results recorded, 0 were known\n"
    assert [shell.json("show", task_id)["state"] for task_id in ids] == ["done"] * 3
    assert shell("import", file).out == "0 results recorded, 3 were known\n"
    assert shell("verify").code == 0


def test_a_receivers_own_receipts_with_their_events_are_read_as_they_are(shell):
    shell("queue-set", "q", 'destinations=["out"]')
    task_id = shell.task()
    event = {
        "outcome": "result", "at": "2026-01-01T00:00:00.000000Z", "task_id": task_id, "queue": "q",
        "revision": 1, "epoch": 0, "fencing_token": 9, "final": True, "result": ONE,
        "result_sha256": sha(ONE),
    }  # fmt: skip
    receipt = {"status": "accepted", "operation": f"{task_id}:1", "epoch": 0, "fence": 9}
    other = {**event, "outcome": "dead"}
    told = shell(
        "import", "-", stdin=lines({**receipt, "event": event}, {**receipt, "event": other})
    )
    assert told.out == "1 results recorded, 0 were known, 1 of no result passed over\n"
    (owed,) = shell("--json", "list", "--queue", "out").lines
    assert shell.json("show", owed["task_id"])["payload"] == event
    forged = {**event, "result": TWO}
    told = shell("import", "-", stdin=lines({**receipt, "event": forged}))
    assert told.code == 2 and "line 1: result_sha256 is not that of the result" in told.err
    for wrong in ({**receipt, "event": None}, {**receipt, "event": 1}):
        told = shell("import", "-", stdin=lines(wrong))
        assert told.code == 2 and "line 1: neither an event nor a receipt" in told.err


def test_a_receipt_whose_event_was_dropped_is_recorded_by_its_digest(shell):
    task_id, other = shell.task("1"), shell.task("2")
    receipt = {
        "status": "accepted", "type": "result", "subject": f"q/{task_id}", "revision": 1,
        "result_epoch": 0, "epoch": 7, "fence": 9, "final": True, "result_sha256": sha(ONE),
        "at": "2026-01-01T00:00:00.000000Z", "event": None,
    }  # fmt: skip
    dead = {**receipt, "type": "dead", "subject": f"q/{other}"}
    told = shell("import", "-", stdin=lines(receipt, dead))
    assert told.out == "1 results recorded, 0 were known, 1 of no result passed over\n"
    assert [shell.json("show", each)["state"] for each in (task_id, other)] == ["done", "ready"]
    (result,) = shell("--json", "results", task_id).lines
    assert (result["result_sha256"], result["kept"]) == (sha(ONE), False)
    untold = {**receipt, "subject": f"q/{other}", "final": None}
    told = shell("import", "-", stdin=lines(untold))
    assert told.code == 2 and "line 1" in told.err and "final" in told.err


def test_a_refused_line_is_named_and_the_rest_goes_on(shell):
    first, second = shell.task("1"), shell.task("2")
    given = lines(line(first, revision=2), line(second), line(second, result=TWO))
    told = shell("import", "-", stdin=given)
    assert told.code == 3
    assert told.out == "1 results recorded, 0 were known, 2 refused\n"
    assert "stale_revision: line 1: " in told.err and "result_conflict: line 3: " in told.err


def test_a_line_that_is_none_stops_it_and_says_what_was_done_before(shell):
    good = [line(shell.task(str(n))) for n in range(100)]
    told = shell("import", "-", stdin=lines(*good) + b'{"task_id": 1}\n')
    assert told.code == 2
    assert "line 101" in told.err and "before it: 100 results recorded" in told.err
    assert shell("import").code == 2


def test_each_outcome_is_told_to_a_program_as_it_was_committed(shell):
    told = shell("--json", "import", "-", stdin=lines(line(shell.task()), line(UNKNOWN)))
    assert (told.code, [each["status"] for each in told.lines]) == (4, ["accepted", "failed"])


def test_keys_are_numbered_and_a_whole_command_may_be_given_as_it_is(shell, tmp_path):
    task_id = shell.task()
    told = shell("--json", "import", "-", "--key", "K", stdin=lines(line(task_id)))
    assert shell.json("receipt", "K.1") == told.json["receipt"]
    body = tmp_path / "command.json"
    body.write_bytes(c.Request.of(accepted(task_id, evidence="again")).body)
    assert shell.json("import", "--request", body)["facts"] == {"known": True}
