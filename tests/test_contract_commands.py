"""What `Request.read` takes and what the contract calls a command are the same set.

The few things that a schema cannot say are in the contract's `beyond_schema`, and test_contract.py
holds them; here they are kept out of the way.
"""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from helpers.contract import ADDRESSES, fits, parts_of
from helpers.stand import UNKNOWN
from helpers.wires import LEASE, LEAST, MORE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost import canonical, destinations, fields
from fencepost.commands import COMMANDS, Request
from fencepost.issues import InvalidRequest

DERANDOMIZED = settings(
    derandomize=True, max_examples=40, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
FULL = {verb: {"verb": verb, **LEAST[verb], **MORE.get(verb, {})} for verb in LEAST}
FULL["claim"] |= {"task_id": UNKNOWN}
FULL["import"] |= {"result_sha256": "0f" * 32}
FULL["scope.set_policy"] |= {"policy_version": 1}


def taken(value):
    """Whether the code reads it as a command."""
    try:
        Request.read(canonical.dumps(value))
    except InvalidRequest:
        return False
    return True


def agreed(verb, value):
    """Whether both take it; they must not differ."""
    said = fits(f"command.{verb}", value)
    assert said == taken(value), f"the schema says {said}: {value!a}"
    return said


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_command_that_the_code_can_make_is_one_of_the_contract(verb):
    met = []

    @DERANDOMIZED
    @given(parts_of(COMMANDS[verb]))
    def hold(value):
        try:
            read = Request.read(canonical.dumps(value))
        except InvalidRequest:  # members that do not agree
            assert not fits(f"command.{verb}", value)
            return
        met.append(value)
        body = json.loads(Request.of(read.command).body)
        assert fits(f"command.{verb}", value) and fits(f"command.{verb}", body)
        assert fits("command", body)

    hold()
    assert len(met) >= (3 if verb not in ("clock.reset", "scope.revoke") else 1)


@pytest.mark.parametrize("verb", COMMANDS)
def test_of_all_sets_of_members_the_same_are_taken(verb):
    whole = FULL[verb]
    sets = [chosen for size in range(len(whole) + 1) for chosen in combinations(whole, size)]
    said = [agreed(verb, {name: whole[name] for name in chosen}) for chosen in sets]
    assert True in said and False in said


# A bag of values that each lie at some edge: of a number, a name, a key, an id, a time, a list.
NUMBERS = [-1, 0, 1, 2, 99, 100, 101, 180, 181, 200, 201, 250, 1_000, 1_001, 10**6, 10**6 + 1,
           -(10**6), -(10**6) - 1, 3_600, fields.MAX_SECONDS, fields.MAX_SECONDS + 1,
           fields.MAX_EPOCH, fields.MAX_EPOCH + 1, fields.MAX_BODY_BYTES,
           fields.MAX_BODY_BYTES + 1, 10**15 - 1, 10**15, 2**53 - 1, 0.5, 1.5, -1e-7, True,
           False]  # fmt: skip
TEXTS = ["", "a", "_", "9", "-rf", "@a", ".hidden", "..", "a/b", "a b", "a\n", "\na", "a\x00b",
         "a\u2028", "x" * 64, "x" * 65, "x" * 255, "x" * 256, "A_9.:@-", "café", "\uff41",
         "a\\b", 'a"b', "a#b", "%20", "~" * 255, "\x7f", UNKNOWN, UNKNOWN.upper(), UNKNOWN + "\n",
         UNKNOWN[:-1], UNKNOWN.replace("-", ""), f"{{{UNKNOWN}}}", "retry", "give_up", "block",
         "done", "accepted", "rejected", "Retry", "retry\n", "x" * 4_096, "x" * 4_097,
         "reconcile", "content", "digest"]  # fmt: skip
TIMES = ["2026-01-01T12:00:00Z", "2026-01-01T12:00:00.5+05:30", "2026-01-01T00:00:00.123456000Z",
         "2026-01-01T00:00:00.123456001Z", "2026-01-01T00:00:00.1234567890Z",
         "2026-01-01T00:00:00-23:59", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00-05:60",
         "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01t00:00:00z", "2026-01-01",
         "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-32T00:00:00Z",
         "2026-01-00T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z",
         "2026-12-31T23:59:60Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00Z\n",
         " 2026-01-01T00:00:00Z", "+2026-01-01T00:00:00Z", "26-01-01T00:00:00Z"]  # fmt: skip
LISTS = [[], ["a"], ["a", "a"], ["a", "b"], ["a", 1], [f"q{n}" for n in range(8)],
         [f"q{n}" for n in range(9)], [f"q{n}" for n in range(16)], [f"q{n}" for n in range(17)],
         [None], [[]], [{}], [{"payload": 1}], [{"payload": 1}] * 250, [{"payload": 1}] * 251,
         [{"payload": 1, "queue": "q"}], [{"payload": None, "queue": "q"}] * 251,
         [{"payload": 1, "key": None}], [{"payload": 1, "stray": 1}], [{"key": "k"}]]  # fmt: skip
OBJECTS = [{}, {"paused": True}, {"paused": 1}, {"stray": 1}, {"lease_seconds": 0}, {"a": None},
           {"lease_seconds": None}, {"retain_seconds": None}, {"payload": 1}]  # fmt: skip
BAG = [None, *NUMBERS, *TEXTS, *TIMES, *LISTS, *OBJECTS]


@pytest.mark.parametrize("verb", COMMANDS)
def test_of_all_values_of_a_member_the_same_are_taken(verb):
    for name in {**FULL[verb], "stray": 1, "fence": 1}:
        if name == "verb":
            continue
        for value in BAG:
            agreed(verb, {"verb": verb, **LEAST[verb], name: value})


@pytest.mark.parametrize("member", ["key", "due_at", "priority", "max_attempts", "payload",
                                    "queue", "stray"])  # fmt: skip
def test_of_all_values_of_a_new_tasks_member_the_same_are_taken(member):
    said = set()
    for value in BAG:
        task = {"payload": 1, member: value}
        said.add(agreed("enqueue", {"verb": "enqueue", "queue": "q", "tasks": [task]}))
        followup = {"queue": "q", **task}
        said.add(agreed("complete", {"verb": "complete", **LEASE, "followups": [followup]}))
    assert False in said or member == "payload"


@pytest.mark.parametrize("name", fields.SETTINGS)
def test_of_all_values_of_a_setting_the_same_are_taken(name):
    said = [
        agreed("queue.set", {"verb": "queue.set", "queue": "q", "settings": {name: value}})
        for value in BAG
    ]
    assert True in said and False in said


@pytest.mark.parametrize("name", destinations.OPTIONS)
def test_of_all_values_of_an_option_the_same_are_taken(name):
    bag = [*BAG, *ADDRESSES, ["a\x00"], [""], [], ["a"] * 65, {"x-a": 1}, {"x a": "b"},
           {"x-a": "b\n"}, {f"x-{n}": "" for n in range(17)}, "us-east-1"]  # fmt: skip
    said = [
        agreed("destination.set", {"verb": "destination.set", "queue": "q", "options": {name: v}})
        for v in bag if v != ["a\x00"]
    ]
    assert True in said and False in said


@pytest.mark.parametrize("address", [
    *ADDRESSES, "https:h", "https://", "https://h#", "https://u:p@h/", "https://h /", "https://é/",
    "https://h:0/", "ftp://h/", "command:", "command:[\n]", "sqlite:a#t", "sqlite:/a",
    "sqlite:/a#1", "postgresql://h/d", "s3://B/", "s3://b", "directory:a", "directory:/\x1b", "https://-h/",
    "https://h/" + "a" * 2_038, "https://h/" + "a" * 2_039, "https://h\n", "HTTPS://h/",
])  # fmt: skip
def test_the_same_addresses_are_taken(address):
    agreed("destination.set", {"verb": "destination.set", "queue": "q", "address": address})


@pytest.mark.parametrize("value", [None, True, 1, "claim", [], {}, {"verb": "steal"},
                                   {"verb": None}, {"verb": ["claim"]}, {"verb": 1}])  # fmt: skip
def test_what_is_no_command_at_all_is_none_of_the_contract(value):
    assert not fits("command", value) and not taken(value)


@pytest.mark.parametrize("key", [text for text in TEXTS if type(text) is str], ids=ascii)
def test_the_same_idempotency_keys_are_taken(key):
    try:
        Request.read(b'{"verb":"sweep"}', key)
    except InvalidRequest:
        assert not fits("key", key)
    else:
        assert fits("key", key)


@pytest.mark.parametrize("verb", ["enqueue", "complete", "queue.set"])
def test_a_command_with_one_thing_changed_is_judged_alike(verb):
    outcomes = set()

    @settings(DERANDOMIZED, max_examples=150)  # so many that both verdicts are among them
    @given(parts_of(COMMANDS[verb]), st.data())
    def hold(value, data):
        name = data.draw(st.sampled_from([*sorted(value), "stray"]))
        if data.draw(st.booleans()):
            value[name] = data.draw(st.sampled_from(BAG))
        else:
            value.pop(name, None)
        outcomes.add(agreed(verb, value))

    hold()
    assert outcomes == {True, False}
