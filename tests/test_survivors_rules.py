"""Values that told a mutant of rules/ from the program and that no other test asked for."""

from __future__ import annotations

import pytest
from test_rules_time import row

from fencepost.model import QueueSettings
from fencepost.rules import lifecycle, retry
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
