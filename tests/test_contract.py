"""The contract (`fencepost/conformance/queue_contract.json`) and the code say the same.

Whatever stands in both is compared here, in both directions: a change of one alone fails.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields as fields_of
from pathlib import Path

import pytest
from helpers.contract import (
    CONTRACT,
    DEFS,
    PARTS,
    bare,
    defaults_of,
    fits,
    least_of,
    members,
    rule_of,
)
from helpers.wires import LEAST
from jsonschema import Draft202012Validator

from fencepost import canonical, destinations, fields
from fencepost.commands import COMMANDS, Request
from fencepost.issues import ISSUES, InvalidRequest
from fencepost.journal import checkpoint, entry, proof, reading
from fencepost.model import (
    KINDS,
    STATES,
    Destination,
    QueueSettings,
    RefusedResult,
    Result,
    Scope,
    Task,
    Token,
)

SEED = Path(__file__).parent / "seeds" / "000_a4b31613bb6b2d2e.txt"
GIVEN = json.loads(SEED.read_text(encoding="utf-8"))


# --- the document -----------------------------------------------------------------------------


def test_the_contract_is_valid_against_the_meta_schema_of_2020_12():
    assert CONTRACT["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(CONTRACT)


def test_the_contract_says_which_version_it_is_and_an_entry_names_its_major():
    major = CONTRACT["version"].split(".")[0]
    assert CONTRACT["$id"] == f"urn:fencepost:queue_contract:{CONTRACT['version']}"
    assert int(major) == entry.VERSION == DEFS["entry"]["properties"]["v"]["const"]


def test_the_contract_says_where_it_comes_from():
    source = CONTRACT["derived_from"]
    assert source["sha256"] == hashlib.sha256(SEED.read_bytes()).hexdigest()
    for name in ("schema_id", "version", "object_key", "title", "reference_kit"):
        assert source[name] == GIVEN[name]
    assert CONTRACT["object_key"] == GIVEN["object_key"] == "history_commons_fenced_queue_v1"


def test_every_definition_is_described_and_used_or_named_by_the_page():
    page = (Path(__file__).parent.parent / "docs" / "contract.md").read_text(encoding="utf-8")
    text = json.dumps(CONTRACT)
    for name, made in DEFS.items():
        assert made.get("description"), name
        assert f'"#/$defs/{name}"' in text or f"`{name}`" in page, name


def parts_of(made):
    """A schema and all within it."""
    if isinstance(made, dict):
        yield made
        for inner in made.values():
            yield from parts_of(inner)
    elif isinstance(made, list):
        for inner in made:
            yield from parts_of(inner)


def test_every_format_is_said_again_as_a_pattern():
    for part in parts_of(DEFS):
        if isinstance(part.get("format"), str):
            assert "pattern" in part, part


def test_requests_are_closed_and_answers_are_open():
    answers = ("task", "lease", "result", "outcome", "refusal", "receipt", "verification")
    requests = [*(f"command.{verb}" for verb in COMMANDS), *PARTS.values(), "settings_change"]
    assert all(DEFS[name]["unevaluatedProperties"] is False for name in requests)
    assert all(form["unevaluatedProperties"] is False for form in DEFS["adapter_request"]["oneOf"])
    assert not any("unevaluatedProperties" in DEFS[name] for name in answers)


# --- the first seed ---------------------------------------------------------------------------

SUBMISSION = {
    "task_id": "t", "worker_id": "w", "fencing_token": 1, "idempotency_key": "k",
    "lease_expires_at": "2026-01-01T00:01:00Z", "request_sha256": "0" * 64, "state": "leased",
}  # fmt: skip


def test_the_seeds_seven_fields_and_three_states_are_kept_as_given():
    wanted = GIVEN["input_type"]["required_fields"]
    kept = DEFS["fenced_submission"]
    assert kept["required"] == list(kept["properties"]) == list(wanted)
    assert {name: own["description"] for name, own in kept["properties"].items()} == wanted
    assert kept["properties"]["state"]["enum"] == wanted["state"].split("|")
    assert fits("fenced_submission", SUBMISSION)


@pytest.mark.parametrize(("name", "wrong"), [
    ("task_id", 1), ("worker_id", None), ("fencing_token", 0), ("fencing_token", True),
    ("fencing_token", "1"), ("lease_expires_at", "2026-01-01T00:01:00"), ("idempotency_key", 7),
    ("lease_expires_at", "2026-01-01T01:01:00+01:00"), ("request_sha256", "A" * 64),
    ("state", "dead"),
])  # fmt: skip
def test_a_submission_with_one_wrong_field_is_none(name, wrong):
    assert not fits("fenced_submission", {**SUBMISSION, name: wrong})
    assert not fits("fenced_submission", {k: v for k, v in SUBMISSION.items() if k != name})


def test_the_seeds_output_is_kept_as_given_and_verification_has_all_of_it():
    wanted = GIVEN["output_type"]
    output = DEFS["fenced_output"]["properties"]
    assert output["status"]["enum"] == wanted["status"].split("|")
    assert DEFS["artifacts"]["const"] == wanted["artifacts"]
    verification = DEFS["verification"]["properties"]
    assert verification["status"]["enum"] == output["status"]["enum"]
    assert verification["artifacts"] == output["artifacts"] == {"$ref": "#/$defs/artifacts"}


# --- words, codes, limits ---------------------------------------------------------------------


def test_states_kinds_and_verbs_are_the_codes_in_its_order():
    assert DEFS["state"]["enum"] == list(STATES)
    assert DEFS["kind"]["enum"] == list(KINDS)
    assert DEFS["verb"]["enum"] == list(COMMANDS)
    assert DEFS["command"]["oneOf"] == [{"$ref": f"#/$defs/command.{verb}"} for verb in COMMANDS]


def test_the_issue_codes_are_the_codes_in_its_order_with_rule_meaning_status_and_retry():
    told = [
        (row["const"], row["description"], row["x-order"], row["x-rule"], row["x-status"],
         row["x-retry"], row["x-advice"])
        for row in DEFS["issue_code"]["oneOf"]
    ]  # fmt: skip
    assert told == [
        (code, issue.meaning, order, issue.rule, issue.status, issue.retry, issue.advice)
        for order, (code, issue) in enumerate(ISSUES.items())
    ]
    assert all(fits("code", code) and fits("issue_code", code) for code in ISSUES)
    assert fits("code", "of_a_later_version") and not fits("issue_code", "of_a_later_version")


def test_the_limits_are_the_codes():
    assert CONTRACT["limits"] == {
        "command_bytes": fields.MAX_BODY_BYTES, "entry_bytes": fields.MAX_ENTRY_BYTES,
        "reason_bytes": fields.MAX_REASON_BYTES,
        "progress_bytes": fields.MAX_PROGRESS_BYTES, "log_bytes": fields.MAX_LOG_BYTES,
        "nesting": canonical.MAX_DEPTH,
        "largest_integer": canonical.MAX_INTEGER,
        "number_characters": canonical._MAX_NUMBER_CHARS,
    }  # fmt: skip
    assert DEFS["entry_text"]["maxLength"] == fields.MAX_ENTRY_BYTES
    assert DEFS["command.enqueue"]["properties"]["tasks"]["maxItems"] == 250
    assert DEFS["proof"]["properties"]["path"]["maxItems"] == proof.MAX_PATH


@pytest.mark.parametrize(("name", "check"), [
    ("name", fields.name), ("key", fields.key), ("task_id", fields.task_id),
    ("fence", fields.fence), ("count", fields.count), ("epoch", fields.epoch),
    ("seconds", fields.seconds), ("delay", fields.delay), ("attempts", fields.attempts),
    ("priority", fields.priority), ("reason", fields.reason),
    ("token_id", fields.token_id), ("sha256", fields.sha256),
])  # fmt: skip
def test_a_word_of_the_contract_is_the_check_of_the_code(name, check):
    assert bare(DEFS[name]) == rule_of(check)


def test_the_patterns_of_the_journal_are_the_codes():
    assert DEFS["writer"]["pattern"] == f"^{reading._WRITER.pattern}$"
    assert DEFS["sha256"]["pattern"] == f"^{reading._HEX.pattern}$"
    for pattern in (checkpoint._ORIGIN, checkpoint._SIZE):
        assert pattern.pattern in DEFS["checkpoint"]["pattern"]


# --- commands and settings --------------------------------------------------------------------

KINDS_OF_PARTS = {**{f"command.{verb}": kind for verb, kind in COMMANDS.items()},
                  **{name: kind for kind, name in PARTS.items()}}  # fmt: skip


@pytest.mark.parametrize("name", KINDS_OF_PARTS)
def test_a_command_has_the_members_bounds_and_defaults_of_the_code(name):
    kind, told = KINDS_OF_PARTS[name], members(name)
    verb = told.pop("verb", None)
    assert verb == ({"const": kind.verb} if name.startswith("command.") else None)
    rules = {spec.wire: rule_of(spec.check, spec.encode) for spec in kind.SPECS}
    shown = {member: bare(own) for member, own in told.items()}
    for member, own in shown.items():  # a list of parts: its items have a definition of their own
        if own.get("items", {}).get("$ref", "")[8:] in PARTS.values():
            assert own["maxItems"] == fields.MAX_TASKS_PER_COMMAND
            rules[member]["maxItems"] = fields.MAX_TASKS_PER_COMMAND
    assert shown == rules
    assert {m: own["default"] for m, own in told.items() if "default" in own} == defaults_of(kind)


@pytest.mark.parametrize("name", KINDS_OF_PARTS)
def test_what_the_contract_requires_has_no_default_in_the_code(name):
    made = DEFS[name]
    base = DEFS[made["$ref"][8:]].get("required", []) if "$ref" in made else []
    required = {*base, *made.get("required", [])} - {"verb"}
    unconditional = least_of(KINDS_OF_PARTS[name])
    # a submit without result is refused by the command as a whole, since null is a result too
    assert required == unconditional | ({"result"} if name == "command.submit" else set())


def test_the_settings_are_the_codes_with_bounds_and_defaults():
    told = DEFS["settings"]["properties"]
    assert list(told) == list(fields.SETTINGS) == DEFS["queue_settings"]["required"]
    assert {n: bare(s) for n, s in told.items()} == {
        name: rule_of(check) for name, check in fields.SETTINGS.items()
    }
    assert {name: own["default"] for name, own in told.items()} == QueueSettings().to_json()


def test_the_options_of_a_destination_are_the_codes_with_meanings_and_defaults():
    told = DEFS["destination_options"]["properties"]
    assert list(told) == list(destinations.OPTIONS)
    for name, option in destinations.OPTIONS.items():
        said = {"type": "null"} in told[name]["anyOf"], told[name]["description"]
        assert said == (True, option.meaning) and told[name]["default"] == option.default, name


def test_what_is_read_has_the_members_of_the_nouns():
    wire = {"fence": "fencing_token", "class_": "class"}
    for name, noun in (("task", Task), ("result", Result), ("scope", Scope),
                       ("refused_result", RefusedResult), ("token", Token),
                       ("destination", Destination)):  # fmt: skip
        expected = [wire.get(field.name, field.name) for field in fields_of(noun)]
        assert sorted(DEFS[name]["properties"]) == sorted(DEFS[name]["required"]) == sorted(
            expected
        ), name


def test_every_verb_but_renew_has_a_form_of_entry():
    forms = [form["properties"]["verb"] for form in DEFS["entry"]["oneOf"]]
    verbs = [verb for form in forms for verb in form.get("enum", [form.get("const")])]
    assert sorted(verbs) == sorted(reading.SHAPES) == sorted(set(COMMANDS) - {"renew"})


# --- what no schema can say -------------------------------------------------------------------

BEYOND = {row["rule"]: row["refused"] for row in CONTRACT["beyond_schema"] if "refused" in row}


@pytest.mark.parametrize("rule", BEYOND)
def test_what_the_contract_puts_beyond_a_schema_is_refused_by_the_code_alone(rule):
    with pytest.raises(InvalidRequest):
        Request.read(BEYOND[rule].encode())
    if "Unicode" in rule or "nothing follows" in rule:
        return  # text that not every reader lets through to a schema
    assert fits("command", json.loads(BEYOND[rule]))


def test_a_reason_is_measured_in_bytes_beyond_the_schema():
    given = {"verb": "fail", **LEAST["fail"], "reason": "é" * 2_049}
    assert fits("command", given)
    with pytest.raises(InvalidRequest, match="4096"):
        Request.read(canonical.dumps(given))

