"""One table of issues: each code has a place, an exception and an exit code, and is used."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

import fencepost
from fencepost import issues
from fencepost.issues import ISSUES, ORDER, FencepostError, LeaseLost, Refused, in_order
from fencepost.model import Outcome

ROOT = Path(fencepost.__file__).parent
EXITS = {0, 2, 3, 4, 5, 6, 7, 70}
BASES = {"refused", "lease_lost"}  # what others are derived from; never answered
# Named by no rule: told by a face, or by what failed below the rules.
ELSEWHERE = {
    "unauthenticated": "HTTP", "not_leased": "lifecycle", "schema_mismatch": "storage",
    "store_unavailable": "storage", "outcome_unknown": "storage", "journal_broken": "verify",
    "guard_tripped": "saving", "rate_limited": "HTTP", "clock_skew": "HTTP", "internal": "HTTP",
}  # fmt: skip


def classes(kind=FencepostError):
    """A class and all below it."""
    for below in kind.__subclasses__():
        yield below
        yield from classes(below)


def words(*folders):
    """Every string in the code of these folders, with what f-strings can make of a state."""
    found = set()
    for folder in folders:
        for path in sorted((ROOT / folder).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
    return found


def test_every_code_that_a_rule_or_the_machine_names_stands_in_the_table():
    shaped = {code for code in words("rules", "machine") if code in ISSUES}
    states = {"task_" + state for state in ("ready", "leased", "done", "dead", "blocked",
                                            "cancelled")}  # fmt: skip
    assert states <= set(ISSUES)
    named = shaped | states | set(ELSEWHERE)
    assert named == set(ISSUES), "a code that nothing names"


def test_every_literal_that_is_refused_with_is_a_code():
    refused = []
    for path in sorted(ROOT.glob("[rm]*/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called == "refuse" or called.endswith("codes.append"):
                inside = [n for n in ast.walk(node.args[0]) if isinstance(n, ast.Constant)]
                refused += [n.value for n in inside if isinstance(n.value, str)]
    assert len(refused) > 10 and set(refused) <= set(ISSUES)


@pytest.mark.parametrize("code", ISSUES)
def test_each_code_has_an_exception_of_the_same_code_and_an_exit_code_of_the_contract(code):
    issue = ISSUES[code]
    assert issue.raises.code == code
    assert issue.exit in EXITS - {0}
    assert issue.status in ("failed", "blocked")
    assert 400 <= issue.http <= 599
    assert issue.meaning and issue.advice and not issue.meaning.endswith(".")


def test_each_exception_is_in_the_table_or_a_base_and_is_public():
    found = {kind.code for kind in classes()} | {FencepostError.code}
    assert found == set(ISSUES) | BASES
    for kind in classes():
        assert getattr(issues, kind.__name__) is kind
        assert kind.__name__ in fencepost.__all__, kind


def test_the_order_of_the_table_is_the_order_of_the_rules():
    rules = [issue.rule for issue in ISSUES.values()]
    ruled = [rule for rule in rules if rule]
    assert ruled == sorted(ruled) and set(ruled) == set(range(1, 13))
    assert rules == ruled + [0] * (len(rules) - len(ruled)), "failures stand behind all rules"


RULES = {
    1: "unauthenticated forbidden not_found scope_revoked",
    2: "invalid_request entry_too_large",
    3: "idempotency_key_reused receipt_erased",
    4: "store_read_only queue_paused payload_too_large too_many_followups lease_too_long "
       "key_conflict",
    5: "stale_epoch",
    6: "stale_policy",
    7: "task_cancelled task_done task_dead task_blocked not_leased task_ready task_leased "
       "commitment_closed",
    8: "wrong_worker",
    9: "unknown_fence stale_fence",
    10: "lease_expired",
    11: "duplicate_result result_conflict",
    12: "stale_revision stale_sequence",
}  # fmt: skip


def test_the_rules_are_those_of_the_design():
    for rule, codes in RULES.items():
        assert [code for code, issue in ISSUES.items() if issue.rule == rule] == codes.split()


def test_codes_come_once_each_and_in_the_order_of_the_table_however_they_were_found():
    draws = random.Random(7)
    for _ in range(50):
        codes = draws.choices(list(ISSUES), k=8)
        ordered = in_order(codes)
        assert ordered == tuple(code for code in ISSUES if code in codes)
        assert [ORDER[code] for code in ordered] == sorted({ORDER[code] for code in codes})


def test_a_lost_lease_is_what_rules_5_to_10_tell_a_worker():
    lost = {code for code, issue in ISSUES.items() if issubclass(issue.raises, LeaseLost)}
    ruled = {code for code, issue in ISSUES.items() if 5 <= issue.rule <= 10}
    assert lost == ruled - {"task_ready", "task_leased", "commitment_closed"}


def test_blocked_is_what_somebody_must_act_on_and_then_the_same_command_may_pass():
    blocked = {code for code, issue in ISSUES.items() if issue.status == "blocked"}
    assert blocked == {"scope_revoked", "store_read_only", "queue_paused"}
    assert all(ISSUES[code].retry for code in blocked)


@pytest.mark.parametrize("code", ISSUES)
def test_the_error_of_an_outcome_is_that_of_its_leading_code(code):
    more = ("stale_revision",) if code != "stale_revision" else ()
    error = issues.error_for(Outcome(issues.status_of(code), (code, *more), "why"))
    assert type(error) is ISSUES[code].raises and str(error) == "why"
    if isinstance(error, Refused):
        assert error.issues == (code, *more)
