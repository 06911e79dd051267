"""Queues that are each wrong in one rule: the kit fails every one and names the code."""

from __future__ import annotations

import pytest
from helpers.kit import BY_NAME, judged, stores_in_memory, target, verdict
from helpers.verdicts import untrue

from fencepost.conformance import reference_parts
from fencepost.conformance.broken import BROKEN

# What all of them do as they should: a fault in one rule does not fail the whole kit.
UNTOUCHED = "the_higher_priority_is_claimed_first_and_then_the_older"


@pytest.fixture(scope="module", autouse=True)
def _in_memory():
    with stores_in_memory():
        yield


def test_there_are_fourteen_of_them():
    assert len(BROKEN) == 14


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_queue_is_failed_with_the_code_that_it_did_not_tell(name):
    code, case = BROKEN[name].code, BROKEN[name].found_by
    assert case in BY_NAME
    run = judged(target(f"broken:{name}"), [case, UNTOUCHED])
    found = verdict(run, case)
    assert (found["verdict"], found["code"]) == ("failed", code), found
    assert verdict(run, UNTOUCHED)["verdict"] == "passed"
    assert run.status() == run.document("broken")["status"] == "failed"
    assert code in run.issues()
    honest = judged(target("reference"), [case])
    assert verdict(honest, case)["verdict"] == "passed"


def all_that_speak(entries, t, task_of):
    return [entry for entry in entries if t.task_id in entry.speaks_of]


BENT = {
    "a purge closes all that speaks of its task":
        ("ending", all_that_speak, "a_receipt_stays_as_long_as_what_it_is_about"),
    "a purge closes nothing":
        ("ending", lambda *given: [], "a_receipt_stays_as_long_as_what_it_is_about"),
    "everybody is told that a result is recorded":
        ("is_own", lambda *given: True, "a_result_is_recorded_once_a_round"),
}  # fmt: skip


@pytest.mark.parametrize("name", BENT)
def test_a_reference_that_is_bent_in_one_part_is_failed(name, monkeypatch):
    part, wrong, case = BENT[name]
    monkeypatch.setattr(reference_parts, part, wrong)
    assert verdict(judged(target("reference"), [case]), case)["verdict"] == "failed"


def test_a_run_that_takes_the_one_for_the_other_is_told():
    """What the slow proof asks of every run of the whole kit (tests/torture)."""
    case = BROKEN["accepts-at-the-boundary"].found_by
    broken = judged(target("broken:accepts-at-the-boundary"), [case])
    assert f"{case} is failed" in untrue("reference", broken)
    assert "the run is failed" in untrue("reference", broken)
    assert untrue("broken:accepts-at-the-boundary", broken) == ["a case is skipped"]
    honest = judged(target("reference"), [case])
    told = untrue("broken:accepts-at-the-boundary", honest)
    assert f"{case} is [('passed', 'lease_expired')] and not failed by lease_expired" in told
    assert "lease_expired is not among the run's issues" in told
    other = untrue("broken:late-renew-revives", broken)
    assert "and not failed by lease_expired" in other[0]
