"""Each rule alone, each pair of rules and many larger sets, for every verb: all that applies is
told, in the order of `ISSUES`, and nothing changes.

`unauthenticated` is HTTP's: a handle has always recognised its caller. `invalid_request` ends
before there is a command (test_commands.py), but for the settings that only the stored ones
contradict. What a verb does not meet is told in `NOT_MET`, so that every code is accounted for.
"""

from __future__ import annotations

import random

import pytest
from helpers.situations import (
    ALL,
    FAULTS,
    HANDING_IN,
    LEASE_VERBS,
    ask,
    build,
    draft,
    guilty,
    pairs,
    together,
    told,
)
from helpers.stand import Stand

from fencepost.issues import ISSUES, error_for, status_of

NOT_MET = {
    "stale_sequence": "of a destination and not of a task",
    "unauthenticated": "recognised before a handle exists; HTTP's",
    "store_unavailable": "no rule: the store failed",
    "outcome_unknown": "no rule: COMMIT failed",
    "schema_mismatch": "no rule: at opening",
    "journal_broken": "no rule: verify's",
    "guard_tripped": "no rule: a bug",
    "rate_limited": "no rule: a service's, before a command",
    "clock_skew": "no rule: a worker's or a service's own clock",
    "internal": "no rule: a bug",
}


def refused(verb, codes):
    """Build it, send it; (issues, outcome). Nothing may have changed."""
    made = guilty(verb, codes)
    with Stand() as stand:
        command = build(made, stand)
        before = stand.dump()
        outcome = ask(made, stand, command)
        assert stand.dump() == before, f"{verb} with {codes} changed something"
    return outcome


@pytest.mark.parametrize("verb", ALL)
def test_with_every_dimension_right_the_command_is_accepted(verb):
    made = draft(verb)
    with Stand() as stand:
        command = build(made, stand)
        outcome = ask(made, stand, command)
    assert (outcome.status, outcome.issues) == ("accepted", ())


@pytest.mark.parametrize(("verb", "code"), [(v, code) for v in ALL for code in FAULTS[v]])
def test_each_rule_alone_refuses_and_changes_nothing(verb, code):
    outcome = refused(verb, [code])
    assert outcome.issues == (code,)
    assert outcome.status == status_of(code)
    assert error_for(outcome).code == code
    assert outcome.receipt is None and outcome.grants == () and not outcome.replayed
    own = verb == "scope.set_policy" and code == "stale_policy"  # it has no claim to speak of
    told = "give a policy_version above" if own else ISSUES[code].meaning
    assert told in outcome.message or code == "invalid_request"


@pytest.mark.parametrize("verb", ALL)
def test_each_pair_of_rules_is_told_in_order_and_changes_nothing(verb):
    for pair in pairs(verb):
        assert refused(verb, pair).issues == told(pair), pair


@pytest.mark.parametrize("verb", LEASE_VERBS)
def test_any_set_of_rules_is_told_in_order_and_changes_nothing(verb):
    seed = 20260101
    print("seed", seed)
    draws = random.Random(seed)
    late = [code for code in FAULTS[verb] if ISSUES[code].rule >= 4]
    for _ in range(15):
        codes = draws.sample(late, draws.randint(3, len(late)))
        while not together(codes):
            codes.pop()
        assert refused(verb, codes).issues == told(codes), codes


def test_every_code_is_met_by_some_verb_or_said_not_to_be():
    met = {code for faults in FAULTS.values() for code in faults}
    assert met | set(NOT_MET) == set(ISSUES)
    assert not met & set(NOT_MET)


def test_every_lease_verb_meets_rules_5_to_10():
    expected = {code for code, issue in ISSUES.items() if 5 <= issue.rule <= 10}
    expected -= {"task_ready", "task_leased", "commitment_closed"}  # not a worker's
    for verb in LEASE_VERBS:
        assert {code for code in FAULTS[verb] if 5 <= ISSUES[code].rule <= 10} == expected


@pytest.mark.parametrize("verb", HANDING_IN)
def test_a_refused_late_result_changes_the_quarantine_and_nothing_else(verb):
    made = guilty(verb, ["lease_expired"])
    with Stand() as stand:
        stand.fp.queue_set("q", keep_refused=2)
        command = build(made, stand)
        before = stand.dump()
        assert ask(made, stand, command).issues == ("lease_expired",)
        after = stand.dump()
        (store,), (was,) = after.pop("fencepost_store"), before.pop("fencepost_store")
        differ = [place for place, value in enumerate(store) if value != was[place]]
        assert differ == [MARK], "only the mark of time may rise"
        assert {name for name in after if after[name] != before[name]} == {"fencepost_refused"}
        (kept,) = stand.fp.refused(command.task_id)
        assert (kept.worker_id, kept.fence, kept.issues) == ("w", 2, ("lease_expired",))
        assert kept.value == {"row": 2}


MARK = 9
