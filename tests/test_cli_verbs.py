"""Every command of the contract from the command line, end to end."""

from __future__ import annotations

import json
import time

import pytest
from helpers.shell import Shell

from fencepost.cli.parser import normal
from fencepost.cli.subcommands import SUBCOMMANDS
from fencepost.clock import FakeClock
from fencepost.commands import COMMANDS, Complete, Request
from fencepost.model import QueueSettings

START = 1_800_000_000_000_000


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    assert shell("init").code == 0
    return shell


@pytest.fixture
def clock(monkeypatch):
    clock = FakeClock(START)
    monkeypatch.setattr("fencepost.handle.handle.SystemClock", lambda: clock)
    return clock


def test_every_command_of_the_contract_has_a_subcommand():
    assert {verb for verb in COMMANDS if normal(verb) not in SUBCOMMANDS} == set()
    sending = {name for name, verb in SUBCOMMANDS.items() if verb.sends}
    assert sending == {normal(verb) for verb in COMMANDS}


def test_a_task_goes_from_enqueue_to_its_result(shell):
    task_id = shell.task('{"page": 17}', "pages", "--task-key", "p17", "--priority", "-5")
    task = shell.json("show", task_id)
    assert (task["state"], task["payload"], task["key"]) == ("ready", {"page": 17}, "p17")
    assert task["priority"] == -5
    claimed = shell.json("claim", "pages", "--worker", "w", "--lease-seconds", "90")
    (lease,) = claimed["leases"]
    assert (lease["task_id"], lease["fencing_token"], lease["attempt"]) == (task_id, 1, 1)
    assert lease["payload"] == {"page": 17}
    bound = (task_id, "--worker", "w", "--fence", "1", "--revision", "0")
    assert shell.json("complete", *bound, '{"text": "…"}')["replayed"] is False
    assert shell.json("complete", *bound, '{"text": "…"}')["replayed"] is True
    (result,) = shell("results", task_id, "--json").lines
    assert (result["value"], result["revision"]) == ({"text": "…"}, 1)
    assert shell.json("show", "pages/p17")["state"] == "done"


def test_a_completion_without_result_ends_the_task_without_one(shell):
    lease = shell.lease()
    shell.json("complete", *lease)
    task = shell.json("show", lease[0])
    assert (task["state"], task["revision"]) == ("done", 0)


def test_null_is_a_result_and_not_its_absence(shell):
    lease = shell.lease()
    shell.json("complete", *lease, "null")
    (result,) = shell("results", lease[0], "--json").lines
    assert (result["value"], result["kept"]) == (None, True)


def test_text_is_taken_as_a_json_string(shell):
    task_id = shell.json("enqueue", "q", "--text", "not {json")["task_ids"][0]
    assert shell.json("show", task_id)["payload"] == "not {json"
    task_id = shell.json("enqueue", "q", "-", "--text", stdin="ä\n".encode())["task_ids"][0]
    assert shell.json("show", task_id)["payload"] == "ä\n"


def test_a_payload_may_come_from_standard_input(shell):
    task_id = shell.json("enqueue", "q", "-", stdin=b' {"a": [1, -2.5]}\n')["task_ids"][0]
    assert shell.json("show", task_id)["payload"] == {"a": [1, -2.5]}


def test_a_negative_number_is_a_payload(shell):
    assert shell.json("show", shell.task("-5"))["payload"] == -5


def test_submit_keeps_the_lease_and_complete_ends_it_with_followups(shell):
    lease = shell.lease()
    assert shell.json("submit", *lease, '"row 1"')["receipt"]["number"] == 3
    followups = json.dumps([{"queue": "next", "payload": {"from": 1}}])
    shell.json("complete", *lease, '"row 2"', "--followups", followups)
    assert [r["value"] for r in shell("results", lease[0], "--json").lines] == ["row 1", "row 2"]
    (task,) = shell("list", "--queue", "next", "--json").lines
    assert task["parent"] == lease[0]


def test_followups_may_stand_in_a_file(shell):
    lease = shell.lease()
    (shell.folder / "next.json").write_text('[{"queue": "next", "payload": 1}]')
    shell.json("complete", *lease, "--followups", "next.json")
    assert len(shell("list", "--queue", "next", "--json").lines) == 1


def test_renew_tells_the_new_end_as_a_time(shell, clock):
    lease = shell.lease()
    clock.advance(30)
    outcome = shell.json("renew", *lease, "--lease-seconds", "100")
    end = shell.json("show", lease[0])["lease_expires_at"]
    assert outcome["facts"]["lease_expires_at"] == end == "2027-01-15T08:02:10.000000Z"
    assert end in shell("renew", *lease, "--lease-seconds", "100").out


@pytest.mark.parametrize(
    ("then", "state"), [("retry", "ready"), ("give_up", "dead"), ("block", "blocked")]
)
def test_fail_does_what_then_says(shell, then, state):
    lease = shell.lease()
    ran = shell("fail", *lease, "--then", then, "--reason", "blank page")
    assert ran.code == 0 and f"it is {state}" in ran.out
    task = shell.json("show", lease[0])
    assert (task["state"], task["reason"]) == (state, "blank page")


def test_release_gives_the_attempt_back(shell):
    lease = shell.lease()
    assert shell("release", *lease).code == 0
    task = shell.json("show", lease[0])
    assert (task["state"], task["attempt"]) == ("ready", 0)


def test_cancel_requeue_and_resolve_settle_a_task_from_outside(shell):
    task_id = shell.task()
    shell.json("cancel", task_id, "--reason", "sent twice", "--fence", "0")
    assert shell.json("show", task_id)["state"] == "cancelled"
    shell.json("requeue", task_id)
    assert shell.json("show", task_id)["round"] == 2
    (grant,) = shell.json("claim", "--task", task_id, "--worker", "w")["leases"]
    shell.json(
        "fail", task_id, "--worker", "w", "--fence", grant["fencing_token"], "--then", "block"
    )
    shell.json("resolve", task_id, "--to", "done", "--evidence", '{"seen": true}')
    assert shell.json("show", task_id)["state"] == "done"


def test_review_is_a_humans_word_and_may_requeue(shell):
    lease = shell.lease()
    shell.json("complete", *lease, "1")
    outcome = shell.json("review", lease[0], "1", "rejected", "--requeue", "--actor", "ana")
    assert json.loads(outcome["receipt"]["entry"])["actor"] == "ana"
    (result,) = shell("results", lease[0], "--json").lines
    assert result["commitment"] == "rejected"
    assert shell.json("show", lease[0])["state"] == "ready"


def test_sweep_settles_what_has_lapsed(shell, clock):
    lease = shell.lease()
    clock.advance(61)
    assert shell.json("sweep", "q")["task_ids"] == [lease[0]]
    assert "0 lapsed leases settled" in shell("sweep").out


def test_erase_leaves_a_tombstone(shell):
    task_id = shell.task('"secret"')
    assert "tombstone" in shell("erase", task_id, "--reason", "asked for").out
    task = shell.json("show", task_id)
    assert (task["erased"], task["payload"], task["state"]) == (True, None, "cancelled")


def test_purge_removes_what_its_retention_allows_and_the_journal_stays_whole(shell, clock):
    shell.json("queue-set", "q", "retain_seconds=10")
    lease = shell.lease()
    shell.json("complete", *lease, "1")
    assert shell.json("purge")["task_ids"] == []
    clock.advance(11)
    assert shell.json("purge", "q")["task_ids"] == [lease[0]]
    assert shell("show", lease[0]).code == 4
    kept = [line["entry"] is not None for line in shell("journal", "--json").lines]
    assert kept == [True, True, True, False, True]  # the completion is a hash now
    assert shell.json("verify")["status"] == "clean"


def test_queue_settings_are_set_by_name_and_shown(shell):
    shell.json(
        "queue-set", "q", "lease_seconds=120", "paused=true", "on_lapse=reconcile",
        'destinations=["archive"]', "retain_seconds=null",
    )  # fmt: skip
    rows = {row["queue"]: row for row in shell("queues", "--json").lines}
    expected = QueueSettings(
        lease_seconds=120, paused=True, on_lapse="reconcile", destinations=("archive",)
    )
    assert rows["q"]["settings"] == expected.to_json()
    assert rows["archive"]["is_destination"] is True
    told = shell("queues").out
    assert "archive (destination)" in told and "paused=true" in told


@pytest.mark.parametrize("name", ["queue-set", "queue.set"])
def test_a_verb_may_be_spelled_as_in_the_contract(shell, name):
    assert shell(name, "q", "max_attempts=2").code == 0


def test_the_policy_of_a_scope_is_raised_and_the_scope_revoked_and_lifted(shell):
    lease = shell.lease()
    shell.json("scope-set-policy", "3", "--retain-seconds", "60")
    assert shell("complete", *lease, "1", "--json").issues == ["stale_policy"]
    shell.json("scope.revoke")
    assert shell("enqueue", "q", "1", "--json").issues == ["scope_revoked"]
    shell.json("scope-revoke", "--lift")
    assert shell("enqueue", "q", "1").code == 0


def test_clock_reset_ends_every_lease(shell):
    lease = shell.lease()
    shell.json("clock-reset")
    assert "stale_epoch" in shell("complete", *lease, "1", "--json").issues


def test_a_claim_with_a_key_is_replayed_with_its_leases(shell):
    shell.task()
    first = shell.json("claim", "q", "r", "--worker", "w", "--key", "k", "--limit", "2")
    again = shell.json("claim", "q", "r", "--worker", "w", "--key", "k", "--limit", "2")
    assert again["replayed"] is True
    assert (first["leases"], first["receipt"]) == (again["leases"], again["receipt"])


def test_a_known_key_with_other_bytes_is_refused(shell):
    shell.json("enqueue", "q", "1", "--key", "k")
    ran = shell("enqueue", "q", "2", "--key", "k", "--json")
    assert (ran.code, ran.issues) == (3, ["idempotency_key_reused"])


def test_request_sends_the_bytes_exactly_as_they_are(shell):
    lease = shell.lease()
    command = Complete(lease[0], "w", int(lease[4]), result={"b": 1})
    body = Request.of(command).body.replace(b":", b" : ")
    first = shell.json("complete", "--request", "-", stdin=body)
    assert first["receipt"]["opening"]["request_sha256"] == Request.read(body).sha256.hex()
    assert shell.json("complete", "--request", "-", stdin=body)["replayed"] is True
    assert shell("complete", "--request", "-", stdin=Request.of(command).body).code == 3


def test_request_and_verb_must_agree(shell):
    ran = shell("claim", "--request", "-", stdin=b'{"verb":"clock.reset"}')
    assert ran.code == 2 and "'clock.reset'" in ran.err and "'claim'" in ran.err
    assert shell("clock-reset", "--request", "-", stdin=b'{"verb":"clock.reset"}').code == 0


def test_what_follows_a_claim_can_be_pasted(shell):
    shell("--store", "my store.db", "init")
    shell("--store", "my store.db", "enqueue", "q", "1")
    told = shell("--store", "my store.db", "claim", "q", "--worker", "w").out
    task_id = told.split()[0]
    line = f"fencepost --store 'my store.db' complete {task_id} --worker w --fence 1 RESULT"
    assert line in told


def test_people_are_told_what_happened(shell):
    assert "nothing to claim: q" in shell("claim", "q", "--worker", "w").out
    lease = shell.lease()
    assert "result accepted as revision 1" in shell("submit", *lease, "1").out
    assert "done at revision 2" in shell("complete", *lease, "2").out
    told = shell("complete", *lease, "2").out
    assert "replayed: this was carried out before" in told and "receipt: entry 4" in told


def test_a_claim_that_waits_takes_what_comes_and_ends_where_nothing_does(shell):
    began = time.monotonic()
    assert shell.json("claim", "pages", "--worker", "w", "--wait-seconds", "1")["leases"] == []
    assert time.monotonic() - began >= 1
    shell.task("1", "pages")
    told = shell.json("claim", "pages", "--worker", "w", "--wait-seconds", "30")
    assert len(told["leases"]) == 1
    wrong = shell("claim", "pages", "--worker", "w", "--wait-seconds", "61")
    assert wrong.code == 2 and "wait_seconds" in wrong.err
