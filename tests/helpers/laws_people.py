"""More laws: what people do to tasks, and what commands of one batch are to one another."""

from __future__ import annotations

from fencepost import commands as c
from helpers.laws import law, refused_by
from helpers.laws_work import ONE, TWO, results
from helpers.situations import bring
from helpers.stand import QUEUE, SECOND, WORKER, Make, binding

# --- people -----------------------------------------------------------------------------------


@law
def who_saw_an_older_fence_neither_cancels_requeues_resolves_nor_erases(make: Make) -> None:
    for state, verb in (("leased", "cancel"), ("done", "requeue"), ("blocked", "resolve"),
                        ("done", "erase")):  # fmt: skip
        with make() as stand:
            task_id = bring(stand, state)
            for fence, issues in ((1, ("stale_fence",)), (3, ("unknown_fence",)), (2, ())):
                assert stand.ask(c.COMMANDS[verb](task_id, fence)).issues == issues


@law
def a_requeue_starts_a_round_with_all_its_attempts(make: Make) -> None:
    with make() as stand:
        task_id = bring(stand, "done")
        stand.fp.requeue(task_id)
        task = stand.fp.task(task_id)
        assert (task.state, task.round, task.attempt, task.revision) == ("ready", 2, 0, 1)
        assert stand.claim().task_id == task_id


@law
def evidence_of_a_resolve_is_a_result(make: Make) -> None:
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        task_id = bring(stand, "blocked")
        stand.fp.resolve(task_id, "done", evidence=TWO)
        assert results(stand, task_id) == [(1, 1, "open"), (2, 1, "open")]
        assert len(list(stand.fp.tasks("out"))) == 2
    for to, state in (("retry", "ready"), ("give_up", "dead")):
        with make() as stand:
            task_id = bring(stand, "blocked")
            stand.fp.resolve(task_id, to)
            assert stand.fp.task(task_id).state == state


@law
def a_review_closes_its_own_revision_once_and_only_a_human_reviews(make: Make) -> None:
    with make() as stand:
        task_id = bring(stand, "leased")
        bring_other = bring(stand, "done")
        stand.fp.lease(task_id, worker_id=WORKER, fence=2).complete(TWO)
        assert refused_by(lambda: stand.fp.review(task_id, 1, "accepted")) == ("forbidden",)
        human = stand.fp.as_caller("anna", "human")
        human.review(task_id, 2, "accepted")
        assert results(stand, task_id) == [(1, 1, "open"), (2, 1, "accepted")]
        assert results(stand, bring_other) == [(1, 1, "open")]
        told = refused_by(lambda: human.review(task_id, 2, "rejected"))
        assert told == ("commitment_closed",)
        both = [c.Review(task_id, 1, "rejected", requeue=True), c.Review(task_id, 1, "accepted")]
        assert [o.issues for o in human.execute(both)] == [(), ("commitment_closed",)]
        assert stand.fp.task(task_id).state == "ready"


@law
def an_erase_leaves_no_content_of_the_task_or_of_what_it_owes(make: Make) -> None:
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        stand.task("zxq-content", key="zxq-key")
        lease = stand.claim()
        lease.submit({"zxq": 1})
        sha256 = stand.dump()["fencepost_result"][0][3]
        lease.fail("zxq-reason", then="block", progress=["zxq"], log="zxq-log")
        live = stand.leased("v", payload="stays", key="stays")
        stand.fp.erase(lease.task_id)
        rows = stand.dump()
        assert "zxq" not in str(rows) and sha256 not in [r[3] for r in rows["fencepost_result"]]
        openings = [row[6] for row in rows["fencepost_entry"] if row[2] == 1]
        assert set(openings) == {None}
        assert [task.erased for task in stand.fp.tasks("out")] == [True]
        live.complete()
        assert stand.fp.task(live.task_id).payload == "stays"


@law
def a_purge_takes_what_is_over_and_ended_and_nothing_else(make: Make) -> None:
    with make() as stand:
        done = bring(stand, "done")
        dead = bring(stand, "dead")
        assert stand.ask(c.Purge()).task_ids == ()
        stand.fp.set_policy(retain_seconds=10)
        stand.fp.queue_set("kept", retain_seconds=1_000)
        kept = stand.task(queue="kept")
        stand.fp.cancel(kept)
        stand.clock.advance(10 - 1 / SECOND)
        assert stand.ask(c.Purge()).task_ids == ()
        stand.clock.advance(1 / SECOND)
        live = stand.task()
        assert set(stand.ask(c.Purge()).task_ids) == {done, dead}
        assert {task.task_id for task in stand.fp.tasks()} == {kept, live}


@law
def an_erased_key_is_not_another_key(make: Make) -> None:
    with make() as stand:
        stand.fp.erase(stand.task(key="gone", idempotency_key="gone"))
        task_id = stand.task(key="new", idempotency_key="new")
        assert stand.fp.task(task_id).state == "ready"


@law
def a_purge_obeys_the_retention_that_its_batch_has_set(make: Make) -> None:
    with make() as stand:
        stand.fp.set_policy(retain_seconds=0)
        bring(stand, "done")
        longer = c.QueueSet(QUEUE, {"retain_seconds": 10})
        assert [o.task_ids for o in stand.fp.execute([longer, c.Purge()])] == [(), ()]


@law
def an_erase_takes_the_receipts_that_name_its_task_again_and_no_others(make: Make) -> None:
    """Their requests hold the content too: enqueues and follow-ups of a known key."""
    with make() as stand:
        sent, numbers = [], {}
        for key in ("mine", "other"):
            task_id = stand.task(key=key, payload=key)
            again = c.NewTask(key, key=key)
            sent.append((c.Request.of(c.Enqueue(QUEUE, (again,)), key), "local"))
            named = {"queue": QUEUE, "payload": key, "key": key}
            stand.task(queue="q2")
            done = c.Complete(**binding(stand.claim(queue="q2")), followups=(named,))
            sent.append((c.Request.of(done, key), WORKER))
            numbers[task_id] = [stand.ask(*one).receipt.number for one in sent[-2:]]
        mine, other = numbers
        stand.fp.erase(mine)
        opened = {row[0]: row[5] for row in stand.dump()["fencepost_entry"]}
        assert [opened[number] for number in numbers[mine]] == [None, None]
        assert [row[1] for row in stand.dump()["fencepost_naming"]] == numbers[other]
        told = [stand.ask(*one) for one in sent]
        assert [o.issues for o in told] == [("receipt_erased",)] * 2 + [()] * 2
        assert [o.receipt.number for o in told[2:]] == numbers[other]


@law
def an_erase_touches_no_other_task(make: Make) -> None:
    """Its neighbour keeps payload, key, reason, result, late results and receipts."""
    with make() as stand:
        stand.fp.queue_set(QUEUE, keep_refused=2)
        sent = []
        for key in ("mine", "other"):
            lease = stand.leased(key, payload=key, key=key)
            sent.append(c.Request.of(c.Submit(**binding(lease), result=key), key))
            stand.ask(sent[-1], key)
            lease.fail(key, then="block", progress=key, log=key)
            stand.ask(c.Submit(**binding(lease), result="late"), key)
        mine, other = [task.task_id for task in stand.fp.tasks()]
        stand.fp.erase(mine)
        task = stand.fp.task(other)
        assert (task.payload, task.key, task.reason, task.erased) == ("other",) * 3 + (False,)
        assert (task.progress, task.log) == ("other", "other")
        assert [r.value for r in stand.fp.results(other)] == ["other"]
        assert [r.value for r in stand.fp.refused(other)] == ["late"]
        assert list(stand.fp.refused(mine)) == []
        assert stand.ask(sent[1], "other").replayed
        assert stand.ask(sent[0], "mine").issues == ("receipt_erased",)
        assert stand.fp.receipt("other", actor="other").task_id == other


@law
def the_operator_lifts_what_he_revoked_and_may_erase_meanwhile(make: Make) -> None:
    with make() as stand:
        task_id = stand.task()
        stand.fp.revoke()
        assert refused_by(stand.task) == ("scope_revoked",)
        stand.fp.erase(task_id)
        stand.fp.revoke(revoked=False)
        stand.leased().complete()


@law
def a_setting_of_a_limit_is_the_last_value_that_passes(make: Make) -> None:
    with make() as stand:
        stand.fp.queue_set(QUEUE, max_payload_bytes=4, max_result_bytes=4, max_followups=1)
        assert stand.ask(c.Enqueue(QUEUE, ({"payload": 1234},))).issues == ()
        assert stand.ask(c.Enqueue(QUEUE, ({"payload": 12345},))).issues == ("payload_too_large",)
        lease = stand.claim(lease_seconds=900)
        assert stand.ask(c.Submit(**binding(lease), result=12345)).issues == ("payload_too_large",)
        lease.submit(1234)
        new = {"queue": "next", "payload": 1}
        two = c.Complete(**binding(lease), followups=(new, new))
        assert stand.ask(two).issues == ("too_many_followups",)
        assert stand.ask(c.Complete(**binding(lease), followups=(new,))).issues == ()


# --- what commands of one batch are to one another --------------------------------------------


@law
def another_task_waits_for_its_time(make: Make) -> None:
    """In the very batch that enqueued it too, where no statement has chosen the candidates."""
    with make() as stand:
        stand.task()
        new = {"payload": 1, "due_at": "2026-01-01T00:00:10Z"}
        stand.claim()
        told = stand.fp.execute([c.Enqueue(QUEUE, (new,)), c.Claim(WORKER, (QUEUE,))])
        assert told[1].task_ids == ()


@law
def a_sweep_leaves_its_own_batch_alone(make: Make) -> None:
    with make() as stand:
        stand.leased()
        stand.clock.advance(60)
        claimed, swept = stand.fp.execute([c.Claim("v", (QUEUE,)), c.Sweep()])
        assert len(claimed.task_ids) == 1 and swept.task_ids == ()
        stand.fp.lease(claimed.task_ids[0], worker_id="v", fence=2).complete()


@law
def a_review_may_follow_in_the_batch_of_its_result(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        human, local = stand.fp.as_caller("anna", "human").caller, stand.fp.caller
        sent = [(local, c.Request.of(c.Complete(**binding(lease), result=ONE))),
                (human, c.Request.of(c.Review(lease.task_id, 1, "accepted"), "R"))]  # fmt: skip
        assert [o.issues for o in stand.batch(sent)] == [(), ()]
        assert results(stand, lease.task_id) == [(1, 1, "accepted")]


@law
def a_purge_spares_what_its_batch_has_requeued(make: Make) -> None:
    with make() as stand:
        stand.fp.set_policy(retain_seconds=0)
        task_id = bring(stand, "done")
        requeued, purged = stand.fp.execute([c.Requeue(task_id), c.Purge()])
        assert requeued.accepted and purged.task_ids == ()
        assert stand.claim().task_id == task_id


@law
def the_entry_tells_the_task_as_it_is_afterwards(make: Make) -> None:
    """State, fence, revision and `after`, which changes with the fence and with nothing unsaid."""
    with make() as stand:
        lease = stand.leased()
        states, afters = [], []
        for _ in range(2):
            lease.release()
            lease = stand.claim()
        rows = stand.connection.execute("select body from fencepost_entry order by number")
        for (body,) in rows.fetchall():
            (item,) = c.canonical.loads(body, max_bytes=65_535)["tasks"]  # type: ignore[index,call-overload]
            states.append((item["state"], item["fence"]))
            afters.append(item["after"])
        assert states == [("ready", 0), ("leased", 1), ("ready", 1), ("leased", 2), ("ready", 2),
                          ("leased", 3)]  # fmt: skip
        assert len(set(afters)) == len(afters)
