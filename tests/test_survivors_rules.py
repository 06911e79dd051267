"""Values that told a mutant of rules/ from the program and that no other test asked for."""

from __future__ import annotations

import pytest
from helpers.stand import UNKNOWN
from test_rules_time import row

from fencepost import commands as c
from fencepost.model import EVERY_SCOPE, Caller, QueueSettings, Scope, Token
from fencepost.record import replace
from fencepost.rules import authority, fence, lifecycle, limits, results, retry
from fencepost.rules.moment import Moment
from fencepost.rules.retry import SECOND


@pytest.mark.parametrize(
    ("attempt", "jitter", "seconds"),
    [(1, 0.0, 10), (1, 0.5, 7.5), (2, 0.5, 15), (3, 0.25, 35), (4, 0.0, 60), (4, 0.999_999, 30)],
)
def test_a_wait_is_the_doubled_back_off_less_half_the_jitter(attempt, jitter, seconds):
    settings = QueueSettings(backoff_seconds=10, max_backoff_seconds=60)
    wait = retry.backoff(attempt, settings, jitter)
    assert wait == pytest.approx(seconds * SECOND, rel=1e-5)
    assert type(wait) is int


@pytest.mark.parametrize("verb", ["renew", "queue.set", "scope.revoke", "clock.reset", "seal", ""])
@pytest.mark.parametrize("before", ["ready", "leased", "done"])
@pytest.mark.parametrize("after", ["ready", "leased", "done", None])
def test_a_verb_that_moves_no_task_allows_no_move(verb, before, after):
    assert lifecycle.allowed(verb, before, after) is False
    assert lifecycle.allowed(verb, None, after) is False


def test_a_state_that_a_verb_cannot_start_from_allows_no_move():
    assert lifecycle.allowed("release", "ready", "ready") is False
    assert lifecycle.allowed("purge", "leased", None) is False


def test_a_task_enqueued_for_the_moment_that_it_is_enqueued_in_is_due_whatever_the_clock_says():
    assert retry.due(row(created_at=50, due_at=50), now=10) is True
    assert retry.due(row(created_at=50, due_at=51), now=50) is False
    assert retry.due(row(created_at=50, due_at=51), now=51) is True


# --- who may ----------------------------------------------------------------------------------

RELEASE = c.Release(UNKNOWN, "w", 1)
CANCEL = c.Cancel(UNKNOWN)
TOKEN = "tok_" + "0" * 32


def caller(kind, actor="w"):
    return Caller("s", kind, actor)


@pytest.mark.parametrize(
    ("kind", "command", "actor", "code"),
    [("worker", RELEASE, "w", None), ("worker", RELEASE, "v", "forbidden"),
     ("dispatcher", RELEASE, "w", None), ("dispatcher", RELEASE, "v", "forbidden"),
     ("operator", RELEASE, "v", None), ("human", RELEASE, "w", "forbidden"),
     ("producer", RELEASE, "w", "forbidden"), ("auditor", RELEASE, "w", "forbidden"),
     ("producer", CANCEL, "x", None), ("human", CANCEL, "x", None),
     ("worker", CANCEL, "w", "forbidden"), ("operator", c.Review(UNKNOWN, 1, "accepted"), "x",
     "forbidden"), ("human", c.Review(UNKNOWN, 1, "accepted"), "x", None)],
)  # fmt: skip
def test_a_kind_sends_its_verbs_and_a_worker_speaks_for_itself_alone(kind, command, actor, code):
    assert authority.forbidden(caller(kind, actor), command) == code


def test_a_command_counts_under_the_worker_that_it_names_and_else_under_its_caller():
    assert authority.actor_of(caller("operator", "o"), RELEASE) == "w"
    assert authority.actor_of(caller("operator", "o"), CANCEL) == "o"


@pytest.mark.parametrize(
    ("kind", "destination", "queue"),
    [("operator", None, None), ("human", None, None), ("dispatcher", None, "forbidden"),
     ("worker", "forbidden", None), ("producer", "forbidden", None)],
)  # fmt: skip
def test_a_destination_is_a_dispatchers_and_another_queue_is_not(kind, destination, queue):
    assert authority.forbidden_queue(caller(kind), True) == destination
    assert authority.forbidden_queue(caller(kind), False) == queue
    assert authority.on_any_queue(caller(kind)) is (kind in ("operator", "human"))


def test_a_revoked_scope_spares_only_what_an_operator_needs_in_it():
    revoked, live = Scope("s", revoked=True), Scope("s")
    lift, erase = c.Revoke(False), c.Erase(UNKNOWN)
    for scope in (None, live):
        assert authority.scope_revoked(caller("worker"), RELEASE, scope) is None
    for kind in ("worker", "human", "producer", "dispatcher", "auditor"):
        for command in (RELEASE, lift, erase):
            assert authority.scope_revoked(caller(kind), command, revoked) == "scope_revoked"
    operator = caller("operator")
    spared = (lift, erase, c.Purge(), c.ClockReset(), c.TokenRevoke(TOKEN))
    assert {authority.scope_revoked(operator, each, revoked) for each in spared} == {None}
    for command in (RELEASE, CANCEL, c.Sweep(), c.SetPolicy(2)):
        assert authority.scope_revoked(operator, command, revoked) == "scope_revoked"


NEW = Token("t", "s", "worker", "w", frozenset({"q"}), 5, 100, None)
SHOWN = NEW.caller("s")


@pytest.mark.parametrize(
    ("token", "now", "known"),
    [(NEW, 99, True), (NEW, 100, False), (NEW, 101, False), (None, 99, False),
     (replace(NEW, revoked_at=1), 99, False), (replace(NEW, expires_at=None), 10**9, True),
     (replace(NEW, actor="v"), 99, False), (replace(NEW, queues=None), 99, False),
     (replace(NEW, kind="operator"), 99, False)],
)  # fmt: skip
def test_a_token_lets_in_whom_it_was_made_for_until_its_end_and_nobody_else(token, now, known):
    told = authority.unauthenticated(SHOWN, token, now)
    assert told == (None if known else "unauthenticated")
    assert authority.unauthenticated(caller("worker"), token, now) is None  # has shown none


def some(*queues, **changed):
    return replace(caller("operator"), queues=frozenset(queues), **changed)


@pytest.mark.parametrize(
    ("command", "code"),
    [(c.Claim("w", ("q",)), None), (c.Claim("w", ("q", "r")), None),
     (c.Claim("w", ("q", "x")), "forbidden"), (c.Claim("w", task_id=UNKNOWN), None),
     (c.Enqueue("q", ({"payload": 1},)), None), (c.Enqueue("x", ({"payload": 1},)), "forbidden"),
     (c.Sweep("q"), None), (c.Sweep("x"), "forbidden"), (c.Sweep(), "forbidden"),
     (c.Purge("q"), None), (c.Purge("x"), "forbidden"), (c.Purge(), "forbidden"),
     (c.QueueSet("q", {"destinations": ["r"]}), None), (c.QueueSet("q", {"paused": True}), None),
     (c.QueueSet("q", {"destinations": ["x"]}), "forbidden"),
     (c.QueueSet("x", {"paused": True}), "forbidden"),
     (c.Complete(UNKNOWN, "w", 1, followups=({"queue": "r", "payload": 1},)), None),
     (c.Complete(UNKNOWN, "w", 1, followups=({"queue": "x", "payload": 1},)), "forbidden"),
     (c.Complete(UNKNOWN, "w", 1), None), (RELEASE, None), (c.SetPolicy(2), "forbidden"),
     (c.Revoke(), "forbidden"), (c.ClockReset(), "forbidden"),
     (c.TokenRevoke(TOKEN), "forbidden")],
)  # fmt: skip
def test_a_caller_of_some_queues_names_no_other_and_nothing_of_the_whole_scope(command, code):
    assert authority.beyond_queues(some("q", "r"), command) == code
    assert authority.beyond_queues(caller("operator"), command) is None


def test_what_is_on_no_queue_of_his_is_not_there_for_him():
    task = row()
    assert authority.hidden_task(caller("worker"), task) is None
    assert authority.hidden_task(some("q"), task) is None
    for asking, there in ((some("r"), task), (some("q"), None), (caller("worker"), None),
                          (some("q"), row(scope="x"))):  # fmt: skip
        assert authority.hidden_task(asking, there) == "not_found"
    asked = [authority.hidden_queue(who, "q") for who in (caller("worker"), some("q"), some("r"))]
    assert asked == [None, None, "not_found"]
    assert authority.queues_seen(caller("worker"), None) is None
    assert authority.queues_seen(caller("worker"), "q") == ["q"]
    assert authority.queues_seen(some("r", "q"), None) == ["q", "r"]
    assert authority.queues_seen(some("r", "q"), "q") == ["q"]
    assert authority.queues_seen(some("r"), "q") == []


def test_what_is_of_every_scope_is_for_callers_of_every_scope():
    everywhere, here = caller("operator"), replace(caller("operator"), every_scope=False)
    assert authority.beyond_scope(everywhere, c.ClockReset()) is None
    assert authority.beyond_scope(here, c.ClockReset()) == "forbidden"
    assert authority.beyond_scope(here, RELEASE) is None
    of_all = replace(NEW, scope=EVERY_SCOPE)
    for who, token, code in ((everywhere, NEW, None), (everywhere, of_all, None),
                             (here, NEW, None), (here, of_all, "not_found"),
                             (everywhere, replace(NEW, scope="x"), "not_found"),
                             (everywhere, None, "not_found")):  # fmt: skip
        assert authority.hidden_token(who, token) == code
    auditor = caller("auditor")
    seers = [everywhere, here, auditor, some("q"), caller("worker"), caller("human")]
    assert [authority.sees_every_scope(who) for who in seers] == [
        True, False, True, False, False, False,
    ]  # fmt: skip


# --- leases -----------------------------------------------------------------------------------


def held(**changed):
    """Codes of a release by `w` under fence 2, epoch 1, policy 3, in the lease of `changed`."""
    task = row(**{"epoch": 1, "policy_version": 3, **changed})
    named = c.Release(UNKNOWN, "w", 2, epoch=1, policy_version=3)
    return fence.lease_issues(named, task, Moment(1_999, 1, 3))


@pytest.mark.parametrize(
    ("changed", "codes"),
    [({}, []), ({"epoch": 0}, ["stale_epoch"]), ({"epoch": 2}, ["stale_epoch"]),
     ({"policy_version": 2}, ["stale_policy"]), ({"policy_version": 4}, ["stale_policy"]),
     ({"state": "ready"}, ["not_leased"]), ({"state": "done"}, ["task_done"]),
     ({"state": "dead"}, ["task_dead"]), ({"state": "blocked"}, ["task_blocked"]),
     ({"state": "cancelled"}, ["task_cancelled"]), ({"worker_id": "v"}, ["wrong_worker"]),
     ({"worker_id": None}, ["wrong_worker"]), ({"fence": 1}, ["unknown_fence"]),
     ({"fence": 3}, ["stale_fence"]), ({"lease_expires_at": 1_999}, ["lease_expired"]),
     ({"lease_expires_at": 2_000}, []), ({"state": "ready", "fence": 3, "worker_id": "v"},
     ["not_leased", "wrong_worker", "stale_fence"])],
)  # fmt: skip
def test_each_rule_of_a_lease_says_its_own_code_in_order(changed, codes):
    assert held(**changed) == codes


@pytest.mark.parametrize(
    ("changed", "codes"),
    [({"epoch": 0}, ["stale_epoch"]), ({"epoch": 2}, []), ({"policy_version": 2}, ["stale_policy"]),
     ({"fence": 0, "state": "ready", "worker_id": None, "epoch": 0, "policy_version": 0},
      ["not_leased", "wrong_worker", "unknown_fence"])],
)  # fmt: skip
def test_without_an_epoch_or_policy_named_only_what_came_since_counts(changed, codes):
    task = row(**{"epoch": 1, "policy_version": 3, **changed})
    assert fence.lease_issues(c.Release(UNKNOWN, "w", 2), task, Moment(1_999, 1, 3)) == codes


def test_a_lease_lapses_by_time_or_by_the_floor_and_only_while_it_is_one():
    for state, now, floor, lapsed in (
        ("leased", 1_999, 0, False), ("leased", 2_000, 0, True), ("leased", 2_001, 0, True),
        ("leased", 1_999, 1, True), ("ready", 2_001, 1, False), ("done", 2_000, 0, False),
    ):  # fmt: skip
        assert fence.lapsed(row(state=state), Moment(now, floor, 0)) is lapsed


@pytest.mark.parametrize(
    ("seen", "code"), [(None, None), (2, None), (1, "stale_fence"), (3, "unknown_fence")]
)
def test_a_fence_that_was_seen_is_the_one_that_holds(seen, code):
    assert fence.moved_on(seen, row()) == code


def test_a_fence_only_rises_and_an_epoch_begins_above_its_own_number():
    assert [fence.next_fence(0, 0), fence.next_fence(7, 0)] == [1, 8]
    assert fence.next_fence(7, 1) == (1 << 32) + 1
    assert fence.next_fence((1 << 32) + 5, 1) == (1 << 32) + 6
    last = (1 << 32) - 1
    assert [fence.needs_new_epoch(n, 0) for n in (1, last, last + 1)] == [False, False, True]
    assert [fence.needs_new_epoch(n, 1) for n in (last + 1, 2 * last + 1, 2 * last + 2)] == [
        False, False, True,
    ]  # fmt: skip


# --- settings and results ---------------------------------------------------------------------


def test_each_limit_is_kept_to_the_very_number():
    few = QueueSettings(max_payload_bytes=5, max_result_bytes=6, max_followups=2, paused=True,
                        lease_seconds=7, max_lease_seconds=8, max_hold_seconds=9)  # fmt: skip
    large = "payload_too_large"
    assert [limits.payload_too_large(size, few) for size in (4, 5, 6)] == [None, None, large]
    assert [limits.result_too_large(size, few) for size in (5, 6, 7)] == [None, None, large]
    assert [limits.too_many_followups(n, few) is None for n in (1, 2, 3)] == [True, True, False]
    assert limits.queue_paused(few) == "queue_paused"
    assert limits.queue_paused(QueueSettings()) is None
    assert [limits.lease_too_long(n, few) is None for n in (None, 8, 9)] == [True, True, False]
    assert limits.lease_too_long(None, QueueSettings(lease_seconds=9, max_lease_seconds=8))
    assert limits.lease_end(100, 100, None, few) == 100 + 7 * SECOND
    assert limits.lease_end(100, 100, 3, few) == 100 + 3 * SECOND
    assert limits.lease_end(5 * SECOND, 0, 8, few) == 9 * SECOND
    for end, code in ((9 * SECOND - 1, None), (9 * SECOND, "lease_too_long")):
        assert limits.hold_used_up(row(granted_at=0, lease_expires_at=end), few) == code
    assert limits.hold_used_up(row(granted_at=1, lease_expires_at=9 * SECOND), few) is None


def test_a_result_counts_once_and_a_revision_is_the_one_expected():
    held = [results.duplicate_result(c.Release(UNKNOWN, "w", 2), row(), n) for n in (None, 4)]
    assert held == [None, "duplicate_result"]
    for other in (c.Release(UNKNOWN, "v", 2), c.Release(UNKNOWN, "w", 1)):
        assert results.duplicate_result(other, row(), 4) is None
    expected = [results.stale_revision(n, row(revision=1)) for n in (None, 0, 1, 2)]
    assert expected == [None, "stale_revision", None, "stale_revision"]
    assert results.commitment_closed("open") is None
    for verdict in ("accepted", "rejected"):
        assert results.commitment_closed(verdict) == "commitment_closed"


@pytest.mark.parametrize(("attempt", "state"), [(4, "ready"), (5, "dead"), (6, "dead")])
def test_a_lapse_spends_the_attempts_and_a_queue_may_ask_a_person_first(attempt, state):
    task = row(attempt=attempt)
    assert retry.exhausted(task) is (state == "dead")
    assert retry.after_lapse(task, QueueSettings()) == state
    assert retry.claimable_after_lapse(task, QueueSettings()) is (state == "ready")
    asking = QueueSettings(on_lapse="reconcile")
    assert retry.after_lapse(task, asking) == "blocked"
    assert retry.claimable_after_lapse(task, asking) is False
    told = [retry.after_failure(then, task) for then in ("retry", "give_up", "block")]
    assert told == [state, "dead", "blocked"]


def test_a_state_from_which_a_verb_cannot_start_is_named():
    task = row(state="leased")
    assert lifecycle.lease_state(RELEASE, task, Moment(0, 0, 0)) is None
    told = [lifecycle.state_issue("cancel", s) for s in ("ready", "leased", "blocked", "done")]
    assert told == [None, None, None, "task_done"]
    assert lifecycle.state_issue("claim", "blocked") == "task_blocked"
    assert lifecycle.allowed("enqueue", None, "ready") is True
    assert lifecycle.allowed("claim", None, "ready") is False
    assert lifecycle.allowed("enqueue", None, "leased") is False


def test_a_policy_version_that_a_command_names_must_be_the_leases_own(lab):
    lease = lab.lease()
    for named, code in ((1, "stale_policy"), (0, None)):
        command = c.Complete(
            task_id=lease.task_id, worker_id=lease.worker_id, fence=lease.fence,
            policy_version=named, result=1,
        )  # fmt: skip
        (outcome,) = lab.fp.execute([command])
        assert outcome.issues[:1] == (() if code is None else (code,))
