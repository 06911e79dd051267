"""When a lease ends, how long it may be held, what a lapse leads to, when a task is tried again.

A lease is `[granted_at, lease_expires_at)`: at the very microsecond of its end it has ended.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.situations import LEASE_VERBS
from helpers.stand import QUEUE, SECOND, Stand, binding
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import commands as c
from fencepost.model import QueueSettings, TaskRow
from fencepost.rules import fence, limits, retry
from fencepost.rules.moment import Moment

MICROSECOND = 1e-6
DEFAULTS = QueueSettings()


def row(**changed) -> TaskRow:
    """A leased row, as rules see one."""
    values = {
        "id": 1, "task_id": "t", "scope": "s", "queue": "q", "key": None, "state": "leased",
        "priority": 0, "due_at": 0, "attempt": 1, "max_attempts": 5, "round": 1, "revision": 0,
        "fence": 2, "epoch": 0, "policy_version": 0, "worker_id": "w", "granted_at": 1_000,
        "lease_expires_at": 2_000, "created_at": 0, "changed_at": 0, "content": b"",
        "created_entry": 1, "entry": 1, "parent": None, "reason": None, "erased": 0,
    }  # fmt: skip
    return TaskRow(**{**values, **changed})


# --- the end of a lease -----------------------------------------------------------------------


def command(verb, lease):
    more = {"result": 1} if verb == "submit" else {}
    return c.COMMANDS[verb](**binding(lease), **more)


@pytest.mark.parametrize("verb", LEASE_VERBS)
@pytest.mark.parametrize(
    ("early", "issues"), [(1, ()), (0, ("lease_expired",)), (-1, ("lease_expired",))]
)
def test_a_lease_has_ended_at_the_very_microsecond_of_its_end(verb, early, issues):
    with Stand() as stand:
        lease = stand.leased()
        stand.clock.advance(60 - early * MICROSECOND)
        assert stand.fp.now() == lease.lease_expires_at - early
        assert stand.ask(command(verb, lease)).issues == issues


def test_a_task_can_be_claimed_again_exactly_when_its_lease_has_ended():
    with Stand() as stand:
        lease = stand.leased()
        stand.clock.advance(60 - MICROSECOND)
        assert stand.fp.claim(QUEUE, worker_id="v") == []
        assert stand.fp.claim(task_id=lease.task_id, worker_id="v") == []
        stand.clock.advance(MICROSECOND)
        again = stand.claim("v")
        assert (again.task_id, again.fence, again.attempt) == (lease.task_id, 2, 2)
        assert again.grant.granted_at == lease.lease_expires_at


@pytest.mark.parametrize(("early", "swept"), [(1, 0), (0, 1)])
def test_a_sweep_settles_a_lease_exactly_when_it_has_ended(early, swept):
    with Stand() as stand:
        stand.leased()
        stand.clock.advance(60 - early * MICROSECOND)
        assert len(stand.ask(c.Sweep()).task_ids) == swept


@pytest.mark.parametrize(("early", "taken"), [(1, 0), (0, 1)])
def test_a_task_can_be_claimed_exactly_when_it_is_due(early, taken):
    with Stand() as stand:
        stand.task(due_at="2026-01-01T00:01:00Z")
        stand.clock.advance(60 - early * MICROSECOND)
        assert len(stand.fp.claim(QUEUE, worker_id="w")) == taken


@given(st.integers(0, 10**16), st.integers(0, 10**16))
@settings(derandomize=True, max_examples=50)
def test_the_rule_of_expiry_and_the_one_of_lapse_agree(now, end):
    task = row(lease_expires_at=end)
    moment = Moment(now, 0, 0)
    ended = fence.lease_expired(c.Release(UUID, "w", 2), task, moment) is not None
    assert ended == (now >= end) == fence.lapsed(task, moment)


UUID = "01900000-0000-7000-8000-000000000001"


# --- how long it may be -----------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "code"), [(900, None), (901, "lease_too_long"), (None, None)])
def test_a_lease_is_as_long_as_the_queue_allows_and_no_longer(asked, code):
    assert limits.lease_too_long(asked, DEFAULTS) == code


def test_renewals_end_at_the_longest_hold_and_the_next_one_says_so():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, max_hold_seconds=100)
        lease = stand.leased()
        granted = lease.grant.granted_at
        stand.clock.advance(50)
        assert lease.renew() == granted + 100 * SECOND  # not 110
        outcome = stand.ask(c.Renew(**binding(lease)))
        assert outcome.issues == ("lease_too_long",)
        assert stand.fp.task(lease.task_id).lease_expires_at == granted + 100 * SECOND
        stand.clock.advance(49.999999)
        lease.complete()


def test_a_renewal_never_shortens_a_lease_and_keeps_its_fence():
    with Stand() as stand:
        lease = stand.leased()
        end = lease.lease_expires_at
        assert lease.renew(1) == end
        assert lease.renew(120) == end + 60 * SECOND
        task = stand.fp.task(lease.task_id)
        assert (task.fence, task.attempt, task.lease_expires_at) == (1, 1, end + 60 * SECOND)


@given(
    st.integers(0, 10**15), st.integers(0, 10**6), st.integers(1, 10**6) | st.none(),
    st.integers(1, 10**6),
)  # fmt: skip
@settings(derandomize=True, max_examples=100)
def test_no_lease_outlasts_the_longest_hold_counted_from_its_claim(granted, held, asked, hold):
    chosen = replace(DEFAULTS, max_hold_seconds=hold)
    end = limits.lease_end(granted + held, granted, asked, chosen)
    assert end <= granted + hold * SECOND
    assert end <= granted + held + (asked or 60) * SECOND


# --- attempts, back-off, lapses ---------------------------------------------------------------


@given(
    st.integers(1, 1_000), st.integers(0, 10**5), st.integers(0, 10**5),
    st.floats(0, 1, exclude_max=True),
)  # fmt: skip
@settings(derandomize=True, max_examples=200)
def test_a_back_off_doubles_up_to_its_limit_and_jitter_takes_at_most_half(attempt, first, top, jit):
    chosen = replace(DEFAULTS, backoff_seconds=first, max_backoff_seconds=top)
    wait = retry.backoff(attempt, chosen, jit)
    full = min(first * 2 ** (attempt - 1), top) * SECOND
    assert full / 2 - 1 <= wait <= full
    assert retry.backoff(attempt, chosen, 0.0) == full
    assert retry.backoff(attempt + 1, chosen, 0.0) >= full


@pytest.mark.parametrize("then", ["retry", "give_up", "block"])
@given(attempt=st.integers(0, 10), most=st.integers(1, 10))
@settings(derandomize=True, max_examples=40)
def test_only_a_retry_with_an_attempt_left_makes_a_failed_task_ready(then, attempt, most):
    task = row(attempt=attempt, max_attempts=most)
    expected = {"give_up": "dead", "block": "blocked"}.get(
        then, "ready" if attempt < most else "dead"
    )
    assert retry.after_failure(then, task) == expected


def test_a_failed_task_waits_for_its_back_off_and_no_longer():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, backoff_seconds=10)
        lease = stand.leased()
        lease.fail("no luck")
        task = stand.fp.task(lease.task_id)
        wait = task.due_at - stand.fp.now()
        assert 5 * SECOND <= wait <= 10 * SECOND
        stand.clock.advance((wait - 1) / SECOND)
        assert stand.fp.claim(QUEUE, worker_id="w") == []
        stand.clock.advance(MICROSECOND)
        assert stand.claim().attempt == 2


def test_a_wait_that_the_worker_names_replaces_the_back_off():
    with Stand() as stand:
        lease = stand.leased()
        lease.fail(retry_seconds=0)
        assert stand.fp.task(lease.task_id).due_at == stand.fp.now()
        assert stand.claim().attempt == 2


def test_the_attempt_is_charged_at_the_claim_so_a_poison_task_runs_out():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, max_attempts=3)
        task_id = stand.task()
        for attempt in (1, 2, 3):
            assert stand.claim().attempt == attempt  # and the worker dies
            stand.clock.advance(60)
        assert stand.fp.claim(QUEUE, worker_id="w") == []  # settled on the way
        task = stand.fp.task(task_id)
        assert (task.state, task.attempt, task.reason) == (
            "dead", 3, "lease lapsed in attempt 3 of 3",
        )  # fmt: skip


def test_a_claim_that_settles_a_lapse_leaves_an_entry_of_a_sweep():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, max_attempts=1)
        stand.leased()
        stand.clock.advance(60)
        stand.fp.claim(QUEUE, worker_id="w")
        (body,) = stand.connection.execute(
            "select body from fencepost_entry order by number desc limit 1"
        ).fetchone()
        assert b'"verb":"sweep"' in body and b'"state":"dead"' in body


@pytest.mark.parametrize(
    ("on_lapse", "attempts", "state"),
    [("retry", 5, "ready"), ("retry", 1, "dead"), ("reconcile", 5, "blocked"),
     ("reconcile", 1, "blocked")],
)  # fmt: skip
def test_a_lapse_leads_where_the_queue_says(on_lapse, attempts, state):
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, on_lapse=on_lapse, max_attempts=attempts)
        lease = stand.leased()
        stand.clock.advance(60)
        stand.fp.sweep()
        task = stand.fp.task(lease.task_id)
        assert (task.state, task.fence, task.worker_id) == (state, 1, "w")
        assert (task.due_at > stand.fp.now()) == (state == "ready")


def test_a_lapsed_task_of_a_queue_that_reconciles_is_blocked_by_a_claim_not_given_away():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, on_lapse="reconcile")
        lease = stand.leased()
        stand.clock.advance(60)
        assert stand.fp.claim(QUEUE, worker_id="v") == []
        assert stand.fp.task(lease.task_id).state == "blocked"


def test_a_release_gives_the_attempt_back_and_not_the_fence():
    with Stand() as stand:
        lease = stand.leased()
        lease.release()
        task = stand.fp.task(lease.task_id)
        assert (task.state, task.attempt, task.fence) == ("ready", 0, 1)
        assert (stand.claim().fence, stand.fp.task(lease.task_id).attempt) == (2, 1)


# --- fences and epochs ------------------------------------------------------------------------


@given(st.integers(0, 10**15), st.integers(0, 232_829))
@settings(derandomize=True, max_examples=100)
def test_the_next_fence_is_above_every_earlier_one_and_of_its_epoch(last, epoch):
    drawn = fence.next_fence(last, epoch)
    assert drawn > last and drawn > epoch << 32
    assert fence.needs_new_epoch(drawn, epoch) == (drawn >= (epoch + 1) << 32)


def test_an_epoch_whose_fences_are_used_up_is_followed_by_the_next_without_ending_leases():
    with Stand() as stand:
        stand.connection.execute("update fencepost_store set last_fence = ?", (2**32 - 2,))
        first, second = stand.leased(), stand.leased("v")
        assert (first.fence, first.grant.epoch) == (2**32 - 1, 0)
        assert (second.fence, second.grant.epoch) == (2**32, 1)
        first.complete(), second.complete()


def test_a_new_epoch_begins_above_its_number_shifted_by_32_bits():
    with Stand() as stand:
        stand.leased()
        stand.fp.clock_reset()
        assert stand.leased().fence == (1 << 32) + 1


def test_fences_are_drawn_from_one_counter_for_all_queues_and_scopes():
    with Stand() as stand:
        stand.task(queue="a")
        stand.task(queue="b")
        other = stand.fp.as_caller("local", scope="t")
        other.enqueue("c", 1)
        fences = [stand.claim(queue="a").fence, stand.claim(queue="b").fence]
        fences.append(other.claim("c", worker_id="w")[0].fence)
        assert fences == [1, 2, 3]


def test_an_expired_task_that_nobody_claimed_knows_no_stale_epoch_or_policy():
    never = row(state="ready", fence=0, worker_id=None, lease_expires_at=0)
    sent = c.Release(UUID, "w", 1)
    assert fence.lease_issues(sent, never, Moment(5, 3, 7)) == [
        "not_leased", "wrong_worker", "unknown_fence",
    ]  # fmt: skip
