"""The kit's own validator says what the library says, and refuses what it does not know."""

from __future__ import annotations

import ast
import copy
import json
import sys
from pathlib import Path

import pytest
from helpers.contract import CONTRACT, DEFS, JSON, OURS, fits, validator
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fencepost.conformance import schema
from fencepost.conformance.schema import Contract

SHA = "0" * 64
CASE = {"case": "c", "law": "l", "verdict": "passed", "sha256": SHA}
RUN = {
    "object_key": "history_commons_fenced_queue_v1", "status": "accepted", "issues": [],
    "artifacts": DEFS["artifacts"]["const"],
    "sha256": {"queue_contract.json": SHA, "sqlite_reference.py": SHA,
               "fault_injection_tests.py": SHA, "kit": SHA, "product": None},
    "product": {"name": "p", "version": "1"}, "backend": "reference",
    "target": {"name": "t", "version": "1", "controls": ["fresh"], "operations": ["claim"],
               "principals": ["worker"]},
    "versions": {"contract": "1.0.0", "python": "3.11", "sqlite": "3.40"}, "seeds": [1],
    "cases": [CASE], "unavailable": [], "self_run": True, "review": "pending", "statement": "s",
}  # fmt: skip
CALLER = {"scope": "s", "kind": "worker", "actor": "w"}
SEND = {"owner": "A", "caller": CALLER, "body": "{}", "key": None}
LINES = [
    {"id": 1, "op": "describe"}, {"id": 1, "op": "fresh", "owner": "A"},
    {"id": 1, "op": "send", **SEND}, {"id": 1, "op": "advance", "seconds": 0.5},
    {"id": 1, "op": "read", "owner": "B", "caller": CALLER, "what": "task", "task_id": "t"},
    {"id": 1, "op": "advance", "microseconds": 1},
    {"id": 1, "op": "fail_next", "owner": "A", "place": "after_commit"},
    {"id": 1, "op": "copy", "source": "A", "target": "B", "pinned": True},
    {"id": 1, "op": "race", "sends": [SEND, SEND]},
]  # fmt: skip


# --- the two validators -----------------------------------------------------------------------

WORDS = [
    ({"type": "integer"}, [1, 1.0, 1.5, True, "1", 10**400, float("inf")]),
    ({"type": ["null", "number"]}, [None, 0, False, 1e300, ""]),
    ({"const": 1}, [1, 1.0, True, "1"]), ({"const": [0, {"a": 1}]}, [[0, {"a": 1.0}], [False, {}]]),
    ({"enum": [0, "a", None]}, [0, False, "a", None, 0.0, {}]),
    ({"minimum": 1, "maximum": 2}, [0, 1, 2, 3, "9", True, None]),
    ({"minLength": 2, "maxLength": 3}, ["a", "éé", "\U0001f600" * 3, "aaaa", 1]),
    ({"pattern": "^a$"}, ["a", "a\n", "ba", 1]), ({"not": {"type": "string"}}, ["", 1]),
    ({"minItems": 1, "maxItems": 2}, [[], [1], [1, 2], [1, 2, 3], "abc"]),
    ({"uniqueItems": True}, [[1, True], [1, 1.0], [{"a": 1}, {"a": 1}], [[0], [False]], "aa"]),
    ({"maxProperties": 1}, [{}, {"a": 1}, {"a": 1, "b": 2}, [1, 2]]),
    ({"propertyNames": {"maxLength": 1}}, [{}, {"a": 1}, {"a": 1, "bb": 2}, ["bb"]]),
    ({"minProperties": 1}, [{}, {"a": 1}, []]), ({"required": ["a"]}, [{}, {"a": None}, []]),
    ({"prefixItems": [{"type": "null"}], "items": {"type": "string"}},
     [[], [None], [None, "a"], [None, None], ["a"], [None, "a", 1]]),
    ({"items": False}, [[], [1]]), ({"properties": {"a": False}}, [{}, {"a": 1}]),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [0, 1, 3]),
    ({"anyOf": [{"minimum": 5}, {"maximum": 2}]}, [1, 3, 6]),
    ({"oneOf": [{"minimum": 1}, {"maximum": 2}]}, [0, 1, 2, 3]),
    ({"properties": {"a": {}}, "unevaluatedProperties": False}, [{"a": 1}, {"b": 1}, []]),
    ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, [{"a": 1}, {"b": 1}]),
    ({"oneOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]},
                {"properties": {"b": {}}, "required": ["b"]}], "unevaluatedProperties": False},
     [{"a": 1}, {"b": 1}, {"a": 2}, {"a": 2, "b": 1}, {"b": 1, "c": 1}]),
    ({"properties": {"a": {}}, "unevaluatedProperties": {"type": "null"}},
     [{"a": 1, "b": None}, {"b": 1}]),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "values"), WORDS, ids=lambda part: json.dumps(part)[:40])
def test_each_word_means_what_it_means_to_the_library(asked, values):
    own = Contract({"$defs": {"name": asked}})
    for value in values:
        expected = Draft202012Validator(asked).is_valid(value)
        assert (own.problems("name", value) == []) == expected, value


def test_the_words_tried_are_all_that_the_validator_knows():
    tried = {word for asked, _ in WORDS for word in asked}
    assert tried | {"$ref"} == {*schema.CHECKS, *schema.APPLIES, schema.LAST}


EXAMPLES = {"verification": [RUN], "adapter_request": LINES, "verdict": [CASE]}


@pytest.mark.parametrize("name", DEFS)
def test_on_any_value_both_say_the_same_of_every_definition(name):
    known = [example for examples in EXAMPLES.values() for example in examples]

    @settings(derandomize=True, max_examples=25, deadline=None)
    @given(JSON | st.sampled_from([*known, "a", 1, SHA, None]), st.data())
    def hold(value, data):
        value = copy.deepcopy(value)
        fits(name, value)  # which asks both
        if isinstance(value, dict) and value:
            value[data.draw(st.sampled_from(sorted(value)))] = data.draw(JSON)
            fits(name, value)

    hold()


# --- what it refuses to judge -----------------------------------------------------------------


@pytest.mark.parametrize("unknown", [
    {"contains": {}}, {"if": {}}, {"additionalProperties": False}, {"dependentRequired": {}},
    {"properties": {"a": {"multipleOf": 2}}}, {"items": {"oneOf": [{"$dynamicRef": "#x"}]}},
    {"$ref": "#/$defs/nowhere"}, {"not": {"exclusiveMinimum": 1}}, {"anyOf": [{"$anchor": "a"}]},
    {"unevaluatedProperties": {"minContains": 1}}, {"prefixItems": [{"maxContains": 1}]},
])  # fmt: skip
def test_a_word_that_is_not_understood_is_refused_and_not_passed_over(unknown):
    with pytest.raises(ValueError, match=r"name: .*(cannot be checked|is not there)"):
        Contract({"$defs": {"name": unknown}})


def test_a_problem_names_its_place_and_the_nearest_form():
    said = OURS.problems("outcome", {"status": "accepted", "facts": {"revision": -1}})
    assert any(problem.startswith("/facts/revision: -1 is below 0") for problem in said)
    assert any("lacks one of" in problem for problem in said)
    (form,) = OURS.problems("command", {"verb": "sweep", "limit": 0})
    assert "fits no form; the nearest: /limit: 0 is below 1" in form


def test_the_validator_needs_the_standard_library_alone_and_stands_in_one_file():
    text = Path(schema.__file__).read_text(encoding="utf-8")
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }  # fmt: skip
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names
    assert len(text.splitlines()) <= 210


# --- verification.json and the lines of the protocol ------------------------------------------

UNAVAILABLE = {**CASE, "verdict": "unavailable", "why": "no clock"}
BROKEN = {**CASE, "verdict": "failed", "code": "stale_fence", "expected": 1, "observed": 2}


@pytest.mark.parametrize(("change", "right"), [
    ({}, True),
    ({"cases": []}, False), ({"cases": [CASE, UNAVAILABLE]}, False),
    ({"cases": [BROKEN]}, False), ({"issues": ["stale_fence"]}, False),
    ({"status": "incomplete", "issues": ["case_unavailable"], "unavailable": ["c"],
      "cases": [CASE, UNAVAILABLE]}, True),
    ({"status": "incomplete"}, False),
    ({"status": "incomplete", "issues": ["case_unavailable"], "cases": [BROKEN]}, False),
    ({"status": "failed", "issues": ["stale_fence", "case_failed"], "cases": [BROKEN]}, True),
    ({"status": "failed", "cases": [BROKEN]}, False),
    ({"status": "blocked", "issues": ["target_unusable"], "cases": []}, True),
    ({"status": "blocked", "issues": ["of_its_own"], "cases": []}, False),
    ({"self_run": False}, False), ({"review": "done"}, False), ({"statement": ""}, False),
    ({"artifacts": list(reversed(RUN["artifacts"]))}, False), ({"sha256": {}}, False),
    ({"artifacts": RUN["artifacts"][:3]}, False), ({"object_key": "other"}, False),
    ({"later": 1}, True),
])  # fmt: skip
def test_a_verification_says_no_more_than_its_cases_do(change, right):
    assert fits("verification", {**RUN, **change}) == right
    if right:
        output = {name: {**RUN, **change}[name] for name in DEFS["fenced_output"]["required"]}
        assert fits("fenced_output", output)


@pytest.mark.parametrize("missing", RUN)
def test_a_verification_leaves_nothing_out(missing):
    assert not fits("verification", {name: own for name, own in RUN.items() if name != missing})


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["op"])
def test_a_line_to_a_target_is_closed_and_leaves_nothing_out(line):
    assert fits("adapter_request", line)
    assert not fits("adapter_request", {**line, "stray": 1})
    for missing in set(line) - {"task_id"}:
        assert not fits("adapter_request", {n: own for n, own in line.items() if n != missing})


@pytest.mark.parametrize(("answer", "right"), [
    ({"id": 1, "ok": None}, True), ({"id": 1, "unavailable": "no clock"}, True),
    ({"id": 1, "error": "text"}, True), ({"id": 1}, False), ({"ok": 1}, False),
    ({"id": 1, "ok": 1, "error": "text"}, False), ({"id": 1, "error": ""}, False),
    ({"id": 1, "ok": {}, "later": 1}, True),
])  # fmt: skip
def test_an_answer_of_a_target_is_one_of_three(answer, right):
    assert fits("adapter_answer", answer) == right


def test_the_library_reads_references_of_this_very_document():
    assert validator("refusal").is_valid({}) is False
    assert CONTRACT["$ref"] == "#/$defs/command"
