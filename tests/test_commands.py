"""Commands are read strictly, never repaired."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from helpers.stand import UNKNOWN
from helpers.wires import LEASE, LEAST, MORE, body, refusal

from fencepost import canonical, fields
from fencepost.commands import COMMANDS, NewTask, Request
from fencepost.issues import InvalidRequest

# --- members ----------------------------------------------------------------------------------


def test_the_tables_of_these_tests_name_every_verb():
    assert set(LEAST) == set(COMMANDS)


@pytest.mark.parametrize("verb", COMMANDS)
def test_the_least_and_the_most_of_a_verb_are_read_and_written_alike(verb):
    for members in (LEAST[verb], {**LEAST[verb], **MORE.get(verb, {})}):
        raw = body(verb, members)
        read = Request.read(raw)
        assert (read.body, read.sha256) == (raw, canonical.sha256(raw))
        written = Request.of(read.command)
        assert Request.read(written.body).command == read.command
        given = json.loads(written.body)
        assert {name: given[name] for name in members} == members


@pytest.mark.parametrize(("verb", "member"), [(v, m) for v in LEAST for m in LEAST[v]])
def test_a_missing_member_is_refused_by_name(verb, member):
    members = {name: value for name, value in LEAST[verb].items() if name != member}
    assert member in refusal(body(verb, members))


@pytest.mark.parametrize(
    ("verb", "member"),
    [(v, m) for v in LEAST for m in {**LEAST[v], **MORE.get(v, {})}
     if m not in ("result", "evidence", "retain_seconds", "stopped")],
)  # fmt: skip
def test_null_is_refused_but_as_a_payload_a_result_evidence_or_a_setting(verb, member):
    assert "null" in refusal(body(verb, {**LEAST[verb], **MORE.get(verb, {}), member: None}))


@pytest.mark.parametrize("verb", COMMANDS)
def test_an_unknown_member_is_refused_by_name(verb):
    assert "'stray'" in refusal(body(verb, {**LEAST[verb], "stray": 1}))
    assert "'fence'" in refusal(body(verb, {**LEAST[verb], "fence": 1}))  # Python's name


def test_an_unknown_or_missing_verb_is_refused_and_the_known_are_named():
    for members in ({}, {"verb": "steal"}, {"verb": None}, {"verb": ["claim"]}, {"verb": 1}):
        assert "enqueue, claim, renew" in refusal(canonical.dumps(members))


@pytest.mark.parametrize("raw", [b"[]", b'"claim"', b"null", b"1", b"true"])
def test_a_command_is_an_object(raw):
    assert "object" in refusal(raw)


def test_unknown_members_of_a_task_and_of_settings_are_refused():
    assert "'kee'" in refusal(body("enqueue", {"queue": "q", "tasks": [{"payload": 1, "kee": 1}]}))
    assert "'lease'" in refusal(body("queue.set", {"queue": "q", "settings": {"lease": 1}}))
    assert "object" in refusal(body("queue.set", {"queue": "q", "settings": {}}))


# --- numbers ----------------------------------------------------------------------------------

NUMBERS = [(v, m) for v in LEAST for m, value in {**LEAST[v], **MORE.get(v, {})}.items()
           if type(value) is int and m not in ("result", "evidence")]  # fmt: skip
NO_INTEGERS = [True, False, 1.0, 1.5, "1", [], {}, -1, 10**15]


@pytest.mark.parametrize(("verb", "member"), NUMBERS)
@pytest.mark.parametrize("value", NO_INTEGERS, ids=repr)
def test_what_is_no_integer_in_its_range_is_refused(verb, member, value):
    given = {**LEAST[verb], **MORE.get(verb, {}), member: value, "verb": verb}
    assert member in refusal(json.dumps(given).encode())  # which writes 1.0 as 1.0


@pytest.mark.parametrize("value", [0, -1, 10**15, 2**53 - 1])
def test_a_fence_is_from_1_to_10_to_the_15_minus_1(value):
    assert "fencing_token" in refusal(body("release", {**LEASE, "fencing_token": value}))
    for right in (1, 10**15 - 1):
        command = Request.read(body("release", {**LEASE, "fencing_token": right})).command
        assert command.fence == right


@pytest.mark.parametrize("value", [0, -1, fields.MAX_SECONDS + 1])
@pytest.mark.parametrize("verb", ["claim", "renew"])
def test_a_lease_lasts_at_least_a_second_and_at_most_ten_years(verb, value):
    assert "lease_seconds" in refusal(body(verb, {**LEAST[verb], "lease_seconds": value}))


@pytest.mark.parametrize(("low", "high", "verb"), [(1, 100, "claim"), (1, 200, "sweep")])
def test_limits_have_a_range(low, high, verb):
    for value in (low, high):
        assert Request.read(body(verb, {**LEAST[verb], "limit": value})).command.limit == value
    for value in (low - 1, high + 1):
        assert "limit" in refusal(body(verb, {**LEAST[verb], "limit": value}))


@pytest.mark.parametrize(("verb", "member", "item", "most"), [
    ("enqueue", "tasks", {"payload": 1}, 250),
    ("complete", "followups", {"payload": 1, "queue": "q"}, 250),
])  # fmt: skip
def test_a_command_carries_at_most_250_tasks(verb, member, item, most):
    assert Request.read(body(verb, {**LEAST[verb], member: [item] * most}))
    assert member in refusal(body(verb, {**LEAST[verb], member: [item] * (most + 1)}))


def test_queues_of_a_claim_are_1_to_16_and_different():
    for queues in ([], [f"q{n}" for n in range(17)], ["q", "q"], "q", {"q": 1}):
        assert "queues" in refusal(body("claim", {"worker_id": "w", "queues": queues}))


# --- names, keys, ids -------------------------------------------------------------------------

BAD_NAMES = [
    "", "a/b", "..", ".hidden", "a%20b", "a?b", "a#b", "a b", "a\tb", "a\nb", "a\x00b", "a\x1b[31m",
    "-rf", "--help", "@a", ":a", "x" * 65, "caf\u00e9", "cafe\u0301", "\u212a", "\u00aa", "\uff41",
    "a\u200b", "a\u202e", "a\u00a0", "\U0001f600", "a\\b", 'a"b', "a'b", "a;b", "a|b", "a\x7f",
    "a\n",
]  # fmt: skip
NAMES = [("enqueue", "queue"), ("claim", "worker_id"), ("release", "worker_id"), ("sweep", "queue"),
         ("queue.set", "queue")]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
@pytest.mark.parametrize(("verb", "member"), NAMES)
def test_a_name_that_is_not_safe_everywhere_is_refused(verb, member, name):
    message = refusal(body(verb, {**LEAST[verb], member: name}))
    assert message.startswith(member) and not any(ord(letter) < 32 for letter in message)


@pytest.mark.parametrize("name", ["a", "_", "9", "a.b", "a:b", "a@b", "a-b", "A_9.:@-", "x" * 64])
def test_a_name_of_64_safe_characters_is_right(name):
    assert Request.read(body("sweep", {"queue": name})).command.queue == name


def test_nfc_and_nfd_twins_are_both_refused_so_neither_can_stand_for_the_other():
    for twin in ("caf\u00e9", "cafe\u0301"):
        refusal(body("sweep", {"queue": twin}))


BAD_KEYS = ["", "a b", 'a"b', "a\\b", "caf\u00e9", "a\n", "a\x00", "x" * 256, "\x7f"]


@pytest.mark.parametrize("key", BAD_KEYS, ids=ascii)
def test_a_key_that_is_not_visible_ascii_is_refused(key):
    assert "key" in refusal(body("enqueue", {"queue": "q", "tasks": [{"payload": 1, "key": key}]}))
    assert "idempotency_key" in refusal(body("sweep", {}), key)


def test_a_key_of_255_visible_characters_is_right():
    key = "/..%?#-'" + "~" * 247
    assert Request.read(body("sweep", {}), key).key == key
    assert Request.read(body("enqueue", {"queue": "q", "tasks": [{"payload": 1, "key": key}]}))


@pytest.mark.parametrize(
    "value", ["", "1", UNKNOWN.upper().replace("0", "A"), UNKNOWN[:-1], UNKNOWN + "0", 1,
              f"{{{UNKNOWN}}}", UNKNOWN.replace("-", ""), UNKNOWN + "\n", "../" + UNKNOWN],
)  # fmt: skip
def test_a_task_id_is_a_uuid_in_lowercase(value):
    assert "task_id" in refusal(body("cancel", {"task_id": value}))


def test_the_digest_of_a_lease_commands_own_bytes_is_the_same_as_no_key():
    raw = body("release", LEASE)
    assert Request.read(raw, canonical.sha256_hex(raw)) == Request.read(raw)
    assert Request.read(raw, "other").key == "other"
    swept = body("sweep", {})
    assert Request.read(swept, canonical.sha256_hex(swept)).key == canonical.sha256_hex(swept)


# --- times ------------------------------------------------------------------------------------

BAD_TIMES = ["2026-01-01T00:00:00", "2026-01-01 00:00:00", "2026-01-01", "00:00:00Z", "", "now",
             0, 1.5, "2026-01-01t12:00:00z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z",
             "2026-01-01T00:00:00+25:00", True,
             "2026-01-01T00:00:00Z\n", "2026-01-01T00:00:00 Z"]  # fmt: skip
SAME_TIMES = ["2026-01-01T12:00:00.5Z", "2026-01-01T12:00:00.500000Z",
              "2026-01-01T17:30:00.5+05:30", "2026-01-01T01:00:00.500-11:00",
              "2026-01-01T12:00:00.500000000Z"]  # fmt: skip


def due(value):
    return {"queue": "q", "tasks": [{"payload": 1, "due_at": value}]}


@pytest.mark.parametrize("value", BAD_TIMES, ids=repr)
def test_a_time_without_an_offset_or_that_is_none_is_refused(value):
    assert "due_at" in refusal(body("enqueue", due(value)))


@pytest.mark.parametrize("value", SAME_TIMES)
def test_every_spelling_of_an_instant_is_the_same_instant(value):
    (task,) = Request.read(body("enqueue", due(value))).command.tasks
    assert task.due_at == "2026-01-01T12:00:00.500000Z"


def test_a_time_finer_than_a_microsecond_is_refused_and_not_rounded():
    assert "due_at" in refusal(body("enqueue", due("2026-01-01T12:00:00.123456999Z")))


def test_from_python_a_time_is_an_aware_datetime_and_a_naive_one_is_refused():
    east = timezone(timedelta(hours=2))
    made = [NewTask(1, due_at=when) for when in (
        datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 14, tzinfo=east),
    )]  # fmt: skip
    assert {task.due_at for task in made} == {"2026-01-01T12:00:00.000000Z"}
    with pytest.raises(InvalidRequest, match="due_at"):
        NewTask(1, due_at=datetime(2026, 1, 1))  # noqa: DTZ001  the naive one is the point
