"""The laws of the product as plain functions: each takes a maker of stands and asserts one law.

They are small and quick, so that the tests of the tests can ask of a planted fault which law
finds it. A law's name is its function's; `LAWS` has them all, and `rule_alone` makes one of any
verb and issue code.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost import commands as c
from fencepost.clock import to_rfc3339
from fencepost.issues import Refused
from fencepost.model import Outcome
from helpers import situations as s
from helpers.lab import START
from helpers.stand import QUEUE, SECOND, WORKER, Make, Stand, binding

Law = Callable[[Make], None]
LAWS: dict[str, Law] = {}
EXPIRED, ACCEPTED = ("lease_expired",), ("accepted", ())


def law(function: Law) -> Law:
    """Registers a law under its name."""
    LAWS[function.__name__] = function
    return function


def rule_alone(verb: str, code: str) -> Law:
    """The law that exactly this rule refuses this verb, in its place, and changes nothing."""

    def alone(make: Make) -> None:
        made = s.guilty(verb, [code])
        with make() as stand:
            command = s.build(made, stand)
            before = stand.dump()
            assert s.ask(made, stand, command).issues == (code,)
            assert stand.dump() == before

    alone.__name__ = f"{verb}_is_refused_by_{code}"
    return alone


def right(verb: str) -> Law:
    """The law that the verb is accepted where every dimension is right."""

    def accepted(make: Make) -> None:
        made = s.draft(verb)
        with make() as stand:
            outcome = s.ask(made, stand, s.build(made, stand))
            assert (outcome.status, outcome.issues) == ACCEPTED

    accepted.__name__ = f"{verb}_is_accepted"
    return accepted


for _verb, _faults in s.FAULTS.items():
    law(right(_verb))
    for _code in _faults:
        law(rule_alone(_verb, _code))


# --- order, authority, replay -----------------------------------------------------------------


@law
def several_issues_are_told_in_the_order_of_the_rules(make: Make) -> None:
    codes = ("stale_revision", "lease_expired", "stale_fence", "stale_policy", "wrong_worker")
    made = s.guilty("submit", codes)
    with make() as stand:
        outcome = s.ask(made, stand, s.build(made, stand))
        assert outcome.issues == (
            "stale_policy", "wrong_worker", "stale_fence", "lease_expired", "stale_revision",
        )  # fmt: skip


@law
def a_worker_acts_for_nobody_else(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        told = stand.ask(c.Complete(**binding(lease)), "other", "worker")
        assert told.issues == ("forbidden",)


@law
def only_a_dispatcher_works_on_a_destination(make: Make) -> None:
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        claim = c.Claim("w", ("out",))
        assert stand.ask(claim, "w", "worker").issues == ("forbidden",)
        assert stand.ask(claim, "w", "dispatcher").issues == ()
        assert stand.ask(c.Claim("w", (QUEUE,)), "w", "dispatcher").issues == ("forbidden",)


@law
def another_scopes_task_is_not_found(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        for command in (c.Cancel(lease.task_id), c.Complete(**binding(lease))):
            assert stand.ask(command, scope="elsewhere").issues == ("not_found",)
        assert stand.fp.task(lease.task_id).state == "leased"


def _completed(stand: Stand, key: str | None = None) -> tuple[c.Request, Outcome]:
    lease = stand.leased()
    request = c.Request.of(c.Complete(**binding(lease), result={"row": 1}), key)
    return request, stand.ask(request, WORKER)


@law
def the_same_bytes_get_the_same_receipt_whatever_has_happened_since(make: Make) -> None:
    for key in (None, "my-key"):
        with make() as stand:
            request, first = _completed(stand, key)
            assert first.receipt is not None
            task_id = first.task_ids[0]
            stand.fp.requeue(task_id)
            stand.claim("v")
            stand.fp.set_policy(1)
            stand.fp.queue_set(QUEUE, max_result_bytes=1, paused=True)
            stand.clock.advance(100)
            stand.fp.clock_reset()
            stand.store._main.read_only = True
            before = stand.dump()
            again = stand.ask(request, WORKER)
            assert (again.status, again.replayed) == ("accepted", True)
            assert again.receipt == first.receipt and again.task_ids == (task_id,)
            assert stand.dump() == before


@law
def a_key_is_known_by_its_bytes_and_not_by_itself(make: Make) -> None:
    with make() as stand:
        _completed(stand, "K")
        lease = stand.leased()
        again = c.Complete(**binding(lease), result={"row": 1})
        for command in (again, c.Release(**binding(lease))):
            told = stand.ask(c.Request.of(command, "K"), WORKER)
            assert (told.issues, told.receipt) == (("idempotency_key_reused",), None)


@law
def keys_of_two_actors_or_scopes_are_two_keys(make: Make) -> None:
    with make() as stand:
        new = c.Request.of(c.Enqueue(QUEUE, ({"payload": 1},)), "K")
        told = [stand.ask(new, actor) for actor in ("anna", "bert")]
        told.append(stand.ask(new, "anna", scope="elsewhere"))
        assert [o.replayed for o in told] == [False] * 3
        assert len({o.task_ids for o in told}) == 3


@law
def two_commands_of_one_task_have_two_receipts(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        sent = [c.Request.of(c.Submit(**binding(lease), result=n)) for n in (1, 2, 3)]
        first = [stand.ask(request).receipt for request in sent]
        assert [stand.ask(request).receipt for request in sent] == first
        assert len({r.number for r in first if r}) == 3


@law
def the_same_bytes_on_two_tasks_are_two_commands(make: Make) -> None:
    """One digest, but the receipt belongs to the task that the command names."""
    with make() as stand:
        for worker in ("w", "v"):
            lease = stand.leased(worker)
            told = stand.ask(c.Submit(**binding(lease), result=1))
            assert not told.replayed and told.task_ids == (lease.task_id,)


@law
def a_revoked_scope_learns_nothing_by_a_replay(make: Make) -> None:
    with make() as stand:
        request, _ = _completed(stand, "K")
        stand.fp.revoke()
        told = stand.ask(request, WORKER, "worker")
        assert (told.issues, told.receipt) == (("scope_revoked",), None)


@law
def a_replayed_claim_shows_the_leases_that_still_live(make: Make) -> None:
    with make() as stand:
        stand.task()
        stand.task()
        claim = c.Request.of(c.Claim(WORKER, (QUEUE,), limit=2), "K")
        one, two = stand.ask(claim).grants
        again = stand.ask(claim)
        assert again.replayed and again.grants == (one, two)
        stand.fp.lease(one.task_id, worker_id=WORKER, fence=one.fence).complete()
        assert stand.ask(claim).grants == (two,)
        stand.clock.advance(60)
        assert stand.ask(claim).grants == ()


@law
def an_erased_command_is_never_carried_out_again(make: Make) -> None:
    with make() as stand:
        request, _ = _completed(stand, "K")
        unkeyed, done = _completed(stand)
        new = c.Request.of(c.Enqueue(QUEUE, ({"payload": "x", "key": "t"},)), "E")
        created = stand.ask(new)
        plain = c.Request.of(c.Enqueue(QUEUE, ({"payload": "y"},)), "P")
        stand.fp.erase(stand.ask(plain).task_ids[0])
        for task_id in (*stand.ask(request).task_ids, *done.task_ids, *created.task_ids):
            stand.fp.erase(task_id)
        before = stand.dump()
        known = c.Enqueue(QUEUE, ({"payload": "x", "key": "t"},))
        own = [(sent, "local") for sent in (new, plain, known)]
        for sent, actor in ((request, WORKER), (unkeyed, WORKER), *own):
            told = stand.ask(sent, actor)
            assert (told.issues, told.receipt) == (("receipt_erased",), None)
        assert stand.dump() == before


# --- leases and fences ------------------------------------------------------------------------


@law
def a_lease_has_ended_at_its_very_end(make: Make) -> None:
    for early, issues in ((1, ()), (0, EXPIRED)):
        for verb in ("complete", "renew", "release"):
            with make() as stand:
                lease = stand.leased()
                stand.clock.advance(60 - early / SECOND)
                assert stand.ask(c.COMMANDS[verb](**binding(lease))).issues == issues


@law
def a_lapsed_task_can_be_claimed_at_the_very_end_of_its_lease(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        stand.clock.advance(60 - 1 / SECOND)
        assert stand.fp.claim(QUEUE, worker_id="v") == []
        assert stand.fp.claim(task_id=lease.task_id, worker_id="v") == []
        stand.clock.advance(1 / SECOND)
        again = stand.claim("v").fence
        assert again == lease.fence + 1 or (stand.gaps and again > lease.fence)


@law
def every_claim_draws_a_higher_fence_than_any_before(make: Make) -> None:
    with make() as stand:
        drawn = []
        for _ in range(2):
            for queue in ("a", "b"):
                stand.task(queue=queue)
                lease = stand.claim(queue=queue)
                lease.release()
                drawn += [lease.fence, stand.claim(queue=queue).fence]
        stand.fp.clock_reset()
        stand.task(queue="c")
        drawn.append(stand.claim(queue="c").fence)
        assert drawn == sorted(set(drawn)) and drawn[-1] > 1 << 32
        assert stand.gaps or drawn == [*range(1, 9), (1 << 32) + 1]
        assert stand.last_fence == drawn[-1]


@law
def an_epoch_is_left_when_its_fences_are_used_up(make: Make) -> None:
    with make() as stand:
        stand.last_fence = 2**32 - 1
        lease = stand.leased()
        assert (lease.fence, lease.grant.epoch) == (2**32, 1)
        lease.complete()


@law
def a_clock_reset_or_a_raised_floor_ends_every_lease(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        stand.fp.clock_reset()
        assert "stale_epoch" in stand.ask(c.Complete(**binding(lease))).issues
        assert stand.claim("v").task_id == lease.task_id
    with make() as stand:
        lease = stand.leased()
        stand.connection.execute("update fencepost_store set epoch = 1, floor = 1")
        assert stand.ask(c.Complete(**binding(lease))).issues == ("stale_epoch",)
        again = stand.claim_of(lease.task_id, "v")
        assert again.grant.epoch == 1 and again.fence > lease.fence
        assert stand.gaps or again.fence == (1 << 32) + 1
        again.complete()


@law
def a_task_enqueued_without_a_time_is_due_though_the_clock_is_set_back(make: Make) -> None:
    with make() as stand:
        task_id = stand.task()
        stand.task(due_at=to_rfc3339(START - 1))
        stand.clock.jump_wall(-60)
        stand.fp.clock_reset()
        stand.claim_of(task_id).release()
        assert stand.claim().task_id == task_id
        assert stand.fp.claim(QUEUE, worker_id=WORKER) == []


@law
def a_clock_reset_spares_the_leases_that_its_own_batch_gives_after_it(make: Make) -> None:
    with make() as stand:
        stand.task()
        _, claimed = stand.fp.execute([c.ClockReset(), c.Claim(WORKER, (QUEUE,))])
        (grant,) = claimed.grants
        stand.clock.advance(59)
        stand.fp.lease(grant.task_id, worker_id=WORKER, fence=grant.fence).complete()


@law
def a_named_epoch_or_policy_must_be_the_leases_own(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        wrong_epoch = c.Complete(**binding(lease), epoch=1)
        assert stand.ask(wrong_epoch).issues == ("stale_epoch",)
        wrong_policy = c.Complete(**binding(lease), policy_version=1)
        assert stand.ask(wrong_policy).issues == ("stale_policy",)


@law
def a_lease_claimed_under_a_new_policy_completes_under_it(make: Make) -> None:
    with make() as stand:
        stand.fp.set_policy(4)
        stand.fp.clock_reset()
        lease = stand.leased()
        assert (lease.grant.policy_version, lease.grant.epoch) == (4, 1)
        lease.complete()


@law
def a_renewal_moves_the_end_within_the_longest_hold_and_never_back(make: Make) -> None:
    with make() as stand:
        stand.fp.queue_set(QUEUE, max_hold_seconds=100)
        lease = stand.leased()
        granted = lease.grant.granted_at
        assert lease.renew(1) == granted + 60 * SECOND
        stand.clock.advance(50)
        assert lease.renew() == granted + 100 * SECOND
        assert stand.ask(c.Renew(**binding(lease))).issues == ("lease_too_long",)
        assert stand.fp.task(lease.task_id).fence == lease.fence


@law
def a_renewed_lease_is_nobody_elses(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        stand.clock.advance(59)
        lease.renew()
        stand.clock.advance(59)
        assert stand.fp.claim(QUEUE, worker_id="v") == []
        lease.complete()


@law
def a_release_gives_back_the_attempt_and_not_the_fence(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        lease.release()
        task = stand.fp.task(lease.task_id)
        assert (task.state, task.attempt, task.fence) == ("ready", 0, 1)
        assert stand.claim().fence == 2


@law
def a_lost_lease_changes_nothing_whatever_its_owner_sends(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        stand.clock.advance(60)
        stand.claim("v")
        before = stand.dump()
        for verb in s.LEASE_VERBS:
            more = {"result": 1} if verb == "submit" else {}
            told = stand.ask(c.COMMANDS[verb](**binding(lease), **more))
            assert told.issues == ("wrong_worker", "stale_fence")
        assert stand.dump() == before


def refused_by(call: Callable[[], object]) -> tuple[str, ...]:
    """The issues that a call is refused with; none if it is not."""
    try:
        call()
    except Refused as error:
        return error.issues
    return ()
