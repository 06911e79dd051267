"""Whom an outcome obliges: in the commit that brings it about, by any verb, and nobody else."""

from __future__ import annotations

import json

import pytest
from helpers.pg_stand import PgStand
from helpers.stand import QUEUE, SCOPE, Stand, binding

from fencepost import canonical
from fencepost import commands as c
from fencepost.clock import to_rfc3339
from fencepost.fields import MAX_SWEEP, OUTCOMES
from fencepost.issues import InvalidRequest, Refused
from fencepost.model import Caller
from fencepost.rules.authority import beyond_queues

STATES = OUTCOMES[1:]
EACH = {state: [state] for state in STATES}


@pytest.fixture(params=["sqlite", "postgres"])
def make(request):
    """A maker of stands on either store."""
    return {"sqlite": Stand, "postgres": PgStand}[request.param]


def subscribed(stand: Stand, **settings) -> None:
    """A destination for each state, one for results, and one that gets what none of them says."""
    outcomes = {**EACH, "all": list(OUTCOMES)}
    stand.fp.queue_set(QUEUE, destinations=[*EACH, "plain", "all"], outcomes=outcomes, **settings)


def owed(stand: Stand, queue: str) -> list[dict]:
    """What stands on the destination, the oldest first."""
    return [stand.fp.task(task.task_id).payload for task in stand.fp.tasks(queue)]


def told(stand: Stand) -> dict[str, list[str]]:
    """By destination the outcomes that it is owed."""
    queues = (*STATES, "plain", "all")
    found = {queue: [each["outcome"] for each in owed(stand, queue)] for queue in queues}
    assert stand.fp.verify().problems == ()
    return {queue: outcomes for queue, outcomes in found.items() if outcomes}


# --- each way to each outcome -----------------------------------------------------------------


def completed(stand: Stand) -> None:
    stand.leased().complete({"n": 1})


def completed_with_nothing(stand: Stand) -> None:
    stand.leased().complete()


def submitted(stand: Stand) -> None:
    stand.leased().submit(1)


def given_up(stand: Stand) -> None:
    stand.leased().fail(then="give_up")


def tried_too_often(stand: Stand) -> None:
    stand.leased(max_attempts=1).fail()


def tried_again(stand: Stand) -> None:
    stand.leased().fail()


def held_up(stand: Stand) -> None:
    stand.leased().fail(then="block")


def cancelled(stand: Stand) -> None:
    stand.fp.cancel(stand.task())


def resolved_done(stand: Stand) -> None:
    lease = stand.leased()
    lease.fail(then="block")
    stand.fp.resolve(lease.task_id, "done", evidence="seen")


def resolved_given_up(stand: Stand) -> None:
    lease = stand.leased()
    lease.fail(then="block")
    stand.fp.resolve(lease.task_id, "give_up")


def swept_dead(stand: Stand) -> None:
    stand.leased(max_attempts=1)
    stand.clock.advance(61)
    stand.fp.sweep()


def swept_ready(stand: Stand) -> None:
    stand.leased()
    stand.clock.advance(61)
    stand.fp.sweep(QUEUE)


def swept_by_a_claim(stand: Stand) -> None:
    stand.leased(max_attempts=1)
    stand.clock.advance(61)
    assert stand.fp.claim(QUEUE, worker_id="v") == []


def swept_by_a_claim_of_it(stand: Stand) -> None:
    task_id = stand.leased(max_attempts=1).task_id
    stand.clock.advance(61)
    assert stand.fp.claim(task_id=task_id, worker_id="v") == []


def swept_blocked(stand: Stand) -> None:
    stand.fp.queue_set(QUEUE, on_lapse="reconcile")
    stand.leased()
    stand.clock.advance(61)
    stand.fp.sweep(QUEUE)


def released(stand: Stand) -> None:
    stand.leased().release()


def erased(stand: Stand) -> None:
    stand.fp.erase(stand.task())


def requeued(stand: Stand) -> None:
    task_id = stand.task()
    stand.fp.cancel(task_id)
    stand.fp.requeue(task_id)


WAYS = {
    completed: ["result", "done"], completed_with_nothing: ["done"], submitted: ["result"],
    given_up: ["dead"], tried_too_often: ["dead"], tried_again: [], held_up: ["blocked"],
    cancelled: ["cancelled"], resolved_done: ["blocked", "result", "done"],
    resolved_given_up: ["blocked", "dead"], swept_dead: ["dead"], swept_ready: [],
    swept_by_a_claim: ["dead"], swept_by_a_claim_of_it: ["dead"], swept_blocked: ["blocked"],
    released: [], erased: [], requeued: ["cancelled"],
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_an_outcome_obliges_whoever_asked_for_it_and_nobody_else(make, way):
    with make() as stand:
        subscribed(stand)
        way(stand)
        expected: dict[str, list[str]] = {}
        for outcome in WAYS[way]:
            expected["plain" if outcome == "result" else outcome] = [outcome]
        if WAYS[way]:
            expected["all"] = WAYS[way]
        assert told(stand) == expected


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_where_nothing_is_said_of_outcomes_results_oblige_every_destination(make, way):
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["plain", "all"])
        way(stand)
        results = WAYS[way].count("result")
        assert told(stand) == ({queue: ["result"] for queue in ("plain", "all")} if results else {})


# --- what an obligation says ------------------------------------------------------------------


def test_a_result_says_all_of_itself_and_whether_it_ended_its_task(make):
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["plain"])
        lease = stand.leased(key="k-1")
        lease.submit([1])
        stand.clock.advance(1)
        lease.complete({"b": 1, "a": "é"})
        first, second = owed(stand, "plain")
        sent = c.Request.of(c.Submit(**binding(lease), result=[1]))
        grant = lease.grant
        assert first == {
            "outcome": "result", "at": to_rfc3339(grant.granted_at), "task_id": lease.task_id,
            "queue": QUEUE, "key": "k-1", "revision": 1, "fencing_token": lease.fence, "epoch": 0,
            "final": False, "result": [1],
            "result_sha256": sent.result_sha256.hex(),
        }  # fmt: skip
        assert (second["final"], second["revision"]) == (True, 2)
        assert second["at"] == to_rfc3339(grant.granted_at + 1_000_000)


def test_a_state_says_why_in_which_round_and_holds_no_result(make):
    with make() as stand:
        subscribed(stand)
        lease = stand.leased(key="k")
        lease.submit("secret")
        lease.fail(then="give_up", reason='paper\n"torn" é')
        (dead,) = owed(stand, "dead")
        assert dead == {
            "outcome": "dead", "at": to_rfc3339(lease.grant.granted_at), "task_id": lease.task_id,
            "queue": QUEUE, "key": "k", "revision": 1, "fencing_token": lease.fence, "epoch": 0,
            "round": 1, "reason": "paper\n\"torn\" é",
        }  # fmt: skip
        stand.fp.requeue(lease.task_id)
        stand.claim("w").complete()
        (done,) = owed(stand, "done")
        assert (done["round"], "reason" in done) == (2, False), "why it failed before is over"


def test_what_a_sweep_owes_says_that_the_lease_lapsed(make):
    with make() as stand:
        subscribed(stand)
        swept_dead(stand)
        assert owed(stand, "dead")[0]["reason"] == "lease lapsed in attempt 1 of 1"


def test_the_bytes_of_an_obligation_are_canonical(make):
    with make() as stand:
        subscribed(stand)
        for way in (completed, held_up, cancelled, swept_by_a_claim):
            way(stand)
        raw = [row[0] for row in stand.connection.execute(
            "select p.body from fencepost_payload p join fencepost_task t on t.id = p.task "
            "where t.parent is not null").fetchall()]  # fmt: skip
        assert len(raw) >= 8
        assert all(canonical.dumps(json.loads(bytes(body))) == bytes(body) for body in raw)


def test_each_obligation_is_named_in_the_entry_that_has_brought_it_about(make):
    with make() as stand:
        subscribed(stand)
        lease = stand.leased()
        receipt = lease.complete(1)
        roles = [(item.get("role"), item.get("queue")) for item in receipt.entry["tasks"]]
        named = [("obligation", queue) for queue in ("plain", "all", "done", "all")]
        assert roles == [(None, None), *named]
        assert receipt.about == (lease.task_id,)


def test_a_sweep_names_each_task_and_after_it_what_is_owed_for_it(make):
    with make() as stand:
        subscribed(stand)
        for _ in range(2):
            stand.leased(max_attempts=1)
        stand.clock.advance(61)
        outcome = stand.fp.sweep()
        items = outcome.receipt.entry["tasks"]
        roles = [(item.get("role"), item["queue"]) for item in items]
        assert roles == [(None, QUEUE), ("obligation", "dead"), ("obligation", "all")] * 2
        assert outcome.task_ids == tuple(item["task_id"] for item in items if "role" not in item)
        parents = [stand.fp.task(i["task_id"]).parent for i in items if "role" in i]
        assert parents == [outcome.task_ids[0]] * 2 + [outcome.task_ids[1]] * 2


# --- how much goes into an entry --------------------------------------------------------------


@pytest.mark.parametrize("by_claim", [False, True])
def test_a_sweep_takes_as_many_as_its_entry_can_name_with_what_they_owe(make, by_claim):
    with make() as stand:
        stand.fp.queue_set(
            QUEUE, destinations=[f"d{n}" for n in range(8)], on_lapse="reconcile",
            outcomes={f"d{n}": ["blocked"] for n in range(8)},
        )  # fmt: skip
        stand.fp.enqueue_many(QUEUE, [{"payload": n} for n in range(30)])
        assert len(stand.fp.claim(QUEUE, worker_id="w", limit=30)) == 30
        stand.clock.advance(61)
        settled = []
        for _ in range(3):
            if by_claim:
                assert stand.fp.claim(QUEUE, worker_id="v") == []
            else:
                stand.fp.sweep(limit=MAX_SWEEP)
            settled.append(sum(task.state == "blocked" for task in stand.fp.tasks(QUEUE)))
        assert settled == [22, 30, 30], "22 tasks and 8 for each are 198 of 200"
        entries = [json.loads(view.body) for view in stand.fp.entries() if b"sweep" in view.body]
        assert [len(entry["tasks"]) for entry in entries] == [198, 72]
        assert stand.fp.verify().problems == ()


def test_several_sweeps_and_claims_of_one_batch_draw_enough_numbers(make):
    with make() as stand:
        subscribed(stand, on_lapse="reconcile")
        stand.fp.enqueue_many(QUEUE, [{"payload": n} for n in range(6)])
        stand.fp.claim(QUEUE, worker_id="w", limit=6)
        stand.clock.advance(61)
        first, again, claim = stand.fp.execute(
            [c.Sweep(QUEUE, 2), c.Sweep(None, 2), c.Claim("v", (QUEUE,))]
        )
        assert (len(first.task_ids), len(again.task_ids), claim.issues) == (2, 2, ())
        assert told(stand) == {"blocked": ["blocked"] * 6, "all": ["blocked"] * 6}


# --- erase, purge, replay ---------------------------------------------------------------------


def test_an_erase_takes_what_is_owed_for_every_outcome_along(make):
    with make() as stand:
        subscribed(stand)
        lease = stand.leased(key="zxq-key")
        lease.submit("zxq result")
        lease.fail(then="block", reason="zxq reason")
        stand.fp.resolve(lease.task_id, "give_up", reason="zxq other")
        before = sum(len(owed(stand, queue)) for queue in (*STATES, "plain", "all"))
        assert before == 6
        stand.fp.erase(lease.task_id)
        everywhere = [task for queue in (*STATES, "plain", "all") for task in stand.fp.tasks(queue)]
        assert [task.erased for task in everywhere] == [True] * 6
        assert "zxq" not in str(stand.dump())
        assert stand.fp.verify().problems == ()


def test_an_erase_of_the_same_batch_takes_along_what_a_sweep_has_just_put_there(make):
    with make() as stand:
        subscribed(stand)
        task_id = stand.leased(max_attempts=1, key="zxq").task_id
        stand.clock.advance(61)
        stand.fp.execute([c.Sweep(), c.Erase(task_id)])
        assert [task.erased for task in stand.fp.tasks("dead")] == [True]
        assert "zxq" not in str(stand.dump())


def test_an_obligation_outlives_the_task_that_it_tells_of(make):
    with make() as stand:
        subscribed(stand, retain_seconds=1)
        swept_dead(stand)
        stand.clock.advance(2)
        assert len(stand.fp.purge(QUEUE).task_ids) == 1
        assert told(stand) == {"dead": ["dead"], "all": ["dead"]}


def test_the_same_bytes_again_oblige_nobody_again(make):
    with make() as stand:
        subscribed(stand)
        task_id = stand.task()
        cancel = c.Request.of(c.Cancel(task_id), "K")
        assert not stand.ask(cancel).replayed and stand.ask(cancel).replayed
        assert told(stand) == {"cancelled": ["cancelled"], "all": ["cancelled"]}


def test_a_refusal_obliges_nobody(make):
    with make() as stand:
        subscribed(stand)
        task_id = stand.task()
        assert stand.ask(c.Resolve(task_id, to="give_up")).issues == ("task_ready",)
        assert told(stand) == {}


# --- the setting ------------------------------------------------------------------------------

BAD = [
    ("outcomes", []), ("outcomes", None), ("outcomes", {"out": []}), ("outcomes", {"out": "dead"}),
    ("outcomes", {"out": ["ready"]}), ("outcomes", {"out": ["dead", "dead"]}),
    ("outcomes", {"out": [7]}), ("outcomes", {"no name": ["dead"]}), ("outcomes", {"": ["dead"]}),
    ("outcomes", {f"d{n}": ["dead"] for n in range(9)}), ("outcomes", {"out": None}),
    ("outcomes", {"out": {"dead": True}}), ("outcomes", {7: ["dead"]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_setting_of_no_such_form_is_refused_and_says_what_is_allowed(name, value):
    with Stand() as stand:
        before = stand.dump()
        with pytest.raises(InvalidRequest, match="outcomes"):
            stand.fp.queue_set(QUEUE, destinations=["out"], **{name: value})
        assert stand.dump() == before


def test_outcomes_of_what_is_no_destination_are_refused_whichever_is_set_last(make):
    with make() as stand:
        for settings in ({"outcomes": {"out": ["dead"]}}, {"destinations": ["a"],
                         "outcomes": {"a": ["dead"], "out": ["dead"]}}):  # fmt: skip
            with pytest.raises(InvalidRequest, match="out is none of the queue's destinations"):
                stand.fp.queue_set(QUEUE, **settings)
        stand.fp.queue_set(QUEUE, destinations=["out"], outcomes={"out": ["dead"]})
        with pytest.raises(InvalidRequest, match="out is none of the queue's destinations"):
            stand.fp.queue_set(QUEUE, destinations=[])
        stand.fp.queue_set(QUEUE, destinations=[], outcomes={})


def test_the_setting_is_read_back_as_it_was_set_and_holds_from_its_commit_on(make):
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"], outcomes={"out": ["dead", "result"]})
        assert stand.fp.queue(QUEUE).outcomes == {"out": ("dead", "result")}
        completed_with_nothing(stand)
        stand.fp.queue_set(QUEUE, outcomes={"out": ["done"]})
        completed_with_nothing(stand)
        assert [each["outcome"] for each in owed(stand, "out")] == ["done"]
        assert stand.fp.verify().problems == ()


def test_only_a_dispatcher_works_on_what_any_outcome_has_brought_about(make):
    with make() as stand:
        subscribed(stand)
        cancelled(stand)
        claim = c.Claim("w", ("cancelled",))
        assert stand.ask(claim, "w", "worker").issues == ("forbidden",)
        (grant,) = stand.ask(claim, "w", "dispatcher").grants
        assert json.loads(grant.payload)["outcome"] == "cancelled"


def test_a_caller_of_some_queues_names_no_other_in_outcomes_either():
    bound = Caller(SCOPE, "operator", "op", queues=frozenset([QUEUE, "mine"]))
    free = c.QueueSet(QUEUE, {"outcomes": {"mine": ["dead"]}})
    other = c.QueueSet(QUEUE, {"outcomes": {"theirs": ["dead"]}})
    assert beyond_queues(bound, free) is None
    assert beyond_queues(bound, other) == "forbidden"


# --- what verify sees -------------------------------------------------------------------------


@pytest.mark.parametrize("way", [cancelled, given_up, swept_dead, completed_with_nothing],
                         ids=lambda way: way.__name__)  # fmt: skip
def test_verify_sees_an_obligation_that_is_gone_added_or_of_another_task(way):
    changes = (
        "delete from fencepost_task where parent is not null",
        "update fencepost_task set parent = null where parent is not null",
        "update fencepost_task set parent = 999 where parent is not null",
    )
    for change in changes:
        with Stand() as stand:
            stand.task(queue="other")  # so that there is another one
            subscribed(stand)
            way(stand)
            stand.connection.execute("pragma foreign_keys = off")
            stand.connection.execute(change)
            assert stand.fp.verify().problems != (), (way.__name__, change)


def test_a_raised_refusal_of_a_completion_is_as_before():
    with Stand() as stand:
        subscribed(stand)
        lease = stand.leased()
        stand.clock.advance(61)
        with pytest.raises(Refused):
            lease.complete(1)
        assert told(stand) == {}
