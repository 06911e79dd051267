"""A slice of what becomes of writes when a server is lost; the rest is the torture's, and its table
stands in docs/postgres-failover.md."""

from __future__ import annotations

import pytest
from helpers import failover
from helpers.failover import EVENTS, Row, judged
from torture import failover as torture

ROW = Row("an event", "asynchronous", 10, 0, "another timeline: epoch 16, floor raised", "none")


def test_a_server_that_was_killed_has_lost_nothing_and_its_leases_go_on():
    row = failover.killed_and_started_again()
    assert (row.lost, row.leases) == (0, "go on")
    assert row.detected == "started: epoch 1, floor kept"
    assert row.acknowledged >= 40


def test_what_a_lagging_standby_lacks_is_lost_and_a_new_writer_says_so():
    row = failover.lagging_standby_promoted()
    assert judged(row) == [] and row.lost > 0
    assert row.leases == "stale_epoch"
    assert row.detected == "another timeline: epoch 16, floor raised"


def test_a_writer_that_takes_over_gives_no_fence_of_an_epoch_it_has_never_heard_of():
    """Of a start of the lost server, which began an epoch as the one who takes over does."""
    assert judged(failover.restarted_unheard()) == []


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, 0),
        ({"lost": 1}, 0),
        ({"lost": 1, "mode": "synchronous"}, 1),
        ({"lost": 1, "detected": "started: epoch 1, floor kept"}, 1),
    ],
)
def test_a_loss_is_wrong_where_commits_wait_for_a_standby_or_where_nobody_says_so(change, wrong):
    assert len(judged(ROW._replace(**change))) == wrong


def test_the_page_has_a_line_for_every_event_and_was_made_by_the_command():
    there = torture.PAGE.read_text(encoding="utf-8").partition(torture.SECOND)[0]
    assert there.count("\n| ") == len(EVENTS) + 1
    assert "| an event | asynchronous | 10 | 0 |" in torture.page([ROW], 1)
    for line in there.splitlines():
        if line.startswith("| ") and "| synchronous" in line:
            assert line.split("|")[4].strip() == "0", line


def test_what_an_event_finds_wrong_is_a_failure_and_leaves_the_page_alone(monkeypatch, tmp_path):
    def breaks():
        raise AssertionError("a fence of before was given again")

    monkeypatch.setattr(torture, "PAGE", tmp_path / "page.md")
    lossy = ROW._replace(lost=3, mode="synchronous")
    monkeypatch.setattr(torture, "EVENTS", {"breaks": breaks, "lossy": lambda: lossy})
    found = torture.run(0, 1)
    assert [failure["name"][:6] for failure in found["failures"]] == ["breaks", "an eve"]
    assert found["lost, other"] == 3 and not torture.PAGE.exists()
