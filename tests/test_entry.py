"""An entry is canonical JSON of at most 65,535 bytes that tells no content and no bare digest of
any; its commitments open with the opening and with nothing else."""

from __future__ import annotations

import hashlib
import json

import pytest
from helpers.batches import Deck, world
from helpers.stand import QUEUE, Stand, binding
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import canonical, fields
from fencepost import commands as c
from fencepost.journal import entry
from fencepost.machine.retention import ERASED_AT_ONCE
from fencepost.model import STATES, TaskRow

NAME, BIG = "n" * 64, fields.MAX_INTEGER
SECRET = "zxq-secret"
names = st.from_regex(fields.NAME, fullmatch=True)
keys = st.from_regex(fields.KEY, fullmatch=True)
numbers = st.integers(0, BIG)
digests = st.binary(min_size=32, max_size=32)
LATEST = 253_402_300_799_999_999  # 9999-12-31T23:59:59.999999Z
times = st.integers(0, LATEST)


def task(**changed) -> TaskRow:
    """A row with everything as long as it can be."""
    values = {
        "id": BIG, "task_id": "f" * 8 + "-ffff-7fff-bfff-" + "f" * 12, "scope": NAME, "queue": NAME,
        "key": "k" * 255, "state": "cancelled", "priority": -fields.MAX_PRIORITY, "due_at": LATEST,
        "attempt": 1_000, "max_attempts": 1_000, "round": BIG, "revision": BIG, "fence": BIG,
        "epoch": fields.MAX_EPOCH, "policy_version": BIG, "worker_id": NAME, "granted_at": LATEST,
        "lease_expires_at": LATEST, "created_at": LATEST, "changed_at": LATEST,
        "content": b"\xff" * 32, "created_entry": BIG, "entry": BIG, "parent": BIG,
        "reason": b'"x"', "erased": LATEST,
    }  # fmt: skip
    return TaskRow(**{**values, **changed})


rows = st.builds(
    task, scope=names, queue=names, state=st.sampled_from(STATES), fence=numbers, revision=numbers,
    worker_id=names | st.none(), content=digests,
)  # fmt: skip
headings = st.builds(
    entry.Heading, st.sampled_from(sorted(c.COMMANDS)), names, names, times,
    st.integers(0, fields.MAX_EPOCH), st.uuids().map(str),
)  # fmt: skip


# --- the bytes --------------------------------------------------------------------------------


@given(
    headings, st.lists(rows, max_size=3), digests, digests, names | st.just(""),
    keys | st.none(), digests | st.none(), st.sampled_from(["", '{"revoked":true}']),
    st.sampled_from(["", "followup", "obligation"]), st.sampled_from([*STATES, None]),
)  # fmt: skip
@settings(derandomize=True, max_examples=150, deadline=None)
def test_an_entry_written_by_hand_is_rfc_8785(head, tasks, salt, request, queue, key, result,
                                              note, role, before):  # fmt: skip
    items = [entry.item(row, before, queue, role) for row in tasks]
    items += [entry.gone(row, queue) for row in tasks]
    body = entry.body(
        head, items, salt, request, queue=queue, key=key, result_sha256=result, note=note
    )
    assert body == canonical.dumps(json.loads(body))
    parsed = json.loads(body)
    assert (parsed["verb"], parsed["actor"], parsed["v"]) == (head.verb, head.actor, 1)
    assert ("key" in parsed, "result" in parsed, "note" in parsed, "queue" in parsed) == (
        key is not None, result is not None, bool(note), bool(queue),
    )  # fmt: skip
    elsewhere = [item.get("queue", queue) for item in parsed["tasks"][: len(tasks)]]
    assert elsewhere == [row.queue for row in tasks]


def test_every_entry_that_the_store_writes_is_rfc_8785():
    written = 0
    for seed in range(20):
        print("seed", seed)
        stand, ids = world(seed)
        deck = Deck(seed, ids)
        with stand:
            sent = [deck.request() for _ in range(30)]
            stand.batch(sent)
            for (body,) in stand.connection.execute("select body from fencepost_entry"):
                if body is not None:
                    written += 1
                    assert body == canonical.dumps(json.loads(body))
    assert written > 200


# --- what it does not tell --------------------------------------------------------------------


def digests_of(value):
    raw = canonical.dumps(value)
    return [hashlib.sha256(raw).hexdigest(), hashlib.sha256(SECRET.encode()).hexdigest(),
            hashlib.sha256(raw).digest()[:8].hex()]  # fmt: skip


def test_no_payload_result_key_reason_or_bare_digest_of_one_stands_in_an_entry():
    with Stand() as stand:
        fp = stand.fp
        fp.queue_set(QUEUE, destinations=["out"], keep_refused=2)
        task_id = fp.enqueue(QUEUE, SECRET, key=SECRET, idempotency_key=SECRET).task_id
        (lease,) = fp.claim(QUEUE, worker_id="w", idempotency_key=SECRET)
        sent = c.Request.of(
            c.Submit(**binding(lease), result={"s": SECRET}), SECRET + "-submit"
        )
        assert stand.ask(sent, "w").accepted
        lease.fail(SECRET, then="block")
        fp.resolve(task_id, "done", evidence=[SECRET], reason=SECRET)
        fp.as_caller("anna", "human").review(task_id, 1, "rejected")
        fp.requeue(task_id, reason=SECRET)
        fp.cancel(task_id, reason=SECRET)
        bodies = [row[0].decode() for row in stand.connection.execute(
            "select body from fencepost_entry"
        )]  # fmt: skip
        told = [d for v in (SECRET, {"s": SECRET}, [SECRET]) for d in digests_of(v)]
        told.append(sent.sha256.hex())
        assert len(bodies) == 9
        for body in bodies:
            assert SECRET not in body
            assert not any(digest in body for digest in told)


def test_the_commitments_of_a_receipt_open_with_its_opening_and_with_no_other_value():
    with Stand() as stand:
        lease = stand.leased()
        request = c.Request.of(c.Submit(**binding(lease), result={"row": 1}), "my-key")
        receipt = stand.ask(request, "w").receipt
        told, salt = receipt.entry, receipt.salt
        assert receipt.request_sha256 == request.sha256
        assert receipt.result_sha256 == canonical.sha256(b'{"row":1}')
        opened = {"request": request.sha256, "result": receipt.result_sha256, "key": b"my-key"}
        for label, value in opened.items():
            def commitment(label=label, salt=salt, value=value):
                text = b"fencepost-commit-v1\0" + label.encode() + b"\0" + salt + value
                return hashlib.sha256(text).hexdigest()

            assert told[label] == commitment()
            assert told[label] != commitment(salt=bytes(32))
            assert told[label] != commitment(value=value + b"x")
            assert told[label] != commitment(label="result" if label == "key" else "key")


@given(digests, st.none() | keys, st.binary(max_size=20), st.none() | keys, st.binary(max_size=20))
@settings(derandomize=True, max_examples=100)
def test_the_commitment_to_content_tells_key_and_payload_apart(salt, key, payload, other, second):
    same = (key or "", payload) == (other or "", second)
    one = entry.content_commitment(salt, key, payload)
    assert (one == entry.content_commitment(salt, other, second)) == same


def test_two_entries_of_the_same_command_share_no_commitment():
    with Stand() as stand:
        told = [stand.fp.enqueue(QUEUE, 1).entry for _ in range(2)]
        assert told[0]["request"] != told[1]["request"] and told[0]["key"] != told[1]["key"]


# --- the projection ---------------------------------------------------------------------------

PROJECTED = [
    "task_id", "scope", "queue", "state", "priority", "due_at", "attempt", "max_attempts", "round",
    "revision", "fence", "epoch", "policy_version", "worker_id", "created_at", "erased", "content",
]  # fmt: skip
NOT_PROJECTED = ["id", "key", "granted_at", "lease_expires_at", "changed_at", "created_entry",
                 "entry", "parent", "reason", "guard"]  # fmt: skip


@pytest.mark.parametrize("column", PROJECTED)
def test_after_changes_with_each_lasting_column(column):
    row, other = task(), task()
    old = getattr(row, column)
    setattr(other, column, old - 1 if type(old) is int else old[:-1])
    assert entry.projection(row) != entry.projection(other)


def test_after_is_blind_to_ends_of_leases_and_to_what_is_physical_or_content():
    columns = {name for name in TaskRow.__slots__}  # noqa: C416  a set of the slots' names
    assert columns == set(PROJECTED) | set(NOT_PROJECTED)
    row = task()
    before = entry.projection(row)
    row.lease_expires_at = row.granted_at = row.id = row.changed_at = row.entry = 0
    row.key = row.reason = row.parent = None
    assert entry.projection(row) == before


# --- its size ---------------------------------------------------------------------------------

HEADING = entry.Heading("scope.set_policy", NAME, NAME, LATEST, fields.MAX_EPOCH, "f" * 36)


def longest_body(own=0, elsewhere=0, obligations=0, note=""):
    """An entry in which everything is as long as it can be."""
    row, other = task(), task(queue="m" * 64)
    items = [entry.item(row, "cancelled", NAME)] * own
    items += [entry.item(other, "cancelled", NAME, "followup")] * elsewhere
    items += [entry.item(other, "cancelled", NAME, "obligation")] * obligations
    return entry.body(
        HEADING, items, b"s" * 32, b"r" * 32, queue=NAME, key="k" * 255, result_sha256=b"d" * 32,
        note=note,
    )  # fmt: skip


@given(st.integers(0, 250), st.integers(0, 250), st.integers(0, 16))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_longest_is_an_upper_bound_for_the_worst_names_and_numbers(own, elsewhere, obligations):
    note = '{"' + "x" * 900 + '":1}'
    assert len(longest_body(own, elsewhere, obligations, note)) <= entry.longest(
        own, elsewhere, obligations
    )


def test_the_longest_note_that_a_command_can_make_leaves_room_in_the_heading():
    with Stand() as stand:
        most = {
            "lease_seconds": 900, "max_lease_seconds": 900, "max_hold_seconds": fields.MAX_SECONDS,
            "max_attempts": 1_000, "backoff_seconds": fields.MAX_SECONDS,
            "max_backoff_seconds": fields.MAX_SECONDS, "on_lapse": "reconcile",
            "max_followups": fields.MAX_FOLLOWUPS, "max_payload_bytes": fields.MAX_BODY_BYTES,
            "max_result_bytes": fields.MAX_BODY_BYTES, "result_storage": "content",
            "retain_seconds": fields.MAX_SECONDS, "keep_refused": 1_000, "paused": False,
            "destinations": [f"{n}" + "d" * 63 for n in range(fields.MAX_DESTINATIONS)],
        }  # fmt: skip
        most["outcomes"] = {name: [*fields.OUTCOMES] for name in most["destinations"]}
        assert set(most) == set(fields.SETTINGS)
        receipt = stand.fp.as_caller(NAME).queue_set(NAME, **most)
        note = json.dumps(receipt.entry["note"], separators=(",", ":"))
        assert len(longest_body(note=note)) <= 2 * entry.LONGEST_HEADING  # and it names no task


FITS = {
    "enqueue": (fields.MAX_TASKS_PER_COMMAND, 0, 0),
    "complete": (1, fields.MAX_FOLLOWUPS, fields.MAX_OBLIGATIONS),
    "submit": (1, 0, fields.MAX_DESTINATIONS),
    "cancel": (1, 0, fields.MAX_DESTINATIONS),
    "claim of many queues": (0, fields.MAX_CLAIM, 0),
    "sweep": (0, fields.MAX_SWEEP, 0),
    "sweep that owes": (0, 0, fields.MAX_SWEEP),
    "purge": (0, fields.MAX_SWEEP, 0),
    "erase": (1, 0, ERASED_AT_ONCE),
}


@pytest.mark.parametrize("verb", FITS)
def test_every_limit_of_the_protocol_fits_into_an_entry(verb):
    assert entry.longest(*FITS[verb]) <= fields.MAX_ENTRY_BYTES == 65_535


def test_a_completion_with_more_followups_than_an_entry_can_name_is_entry_too_large():
    with Stand() as stand:
        lease = stand.leased()
        stand.fp.queue_set(QUEUE, max_followups=fields.MAX_FOLLOWUPS)
        most = max(n for n in range(251) if entry.longest(1, n, fields.MAX_OBLIGATIONS) <= 65_535)
        assert most >= fields.MAX_FOLLOWUPS
        for number, issues in ((most + 1, ("entry_too_large",)), (fields.MAX_FOLLOWUPS, ())):
            new = tuple({"queue": "m" * 64, "payload": n} for n in range(number))
            before = stand.dump()
            outcome = stand.ask(c.Complete(**binding(lease), followups=new), "w")
            assert outcome.issues == issues
            assert (stand.dump() == before) == bool(issues)
        assert len(outcome.receipt.body) <= fields.MAX_ENTRY_BYTES


def test_a_sweep_of_200_tasks_on_queues_of_the_longest_names_fits():
    with Stand() as stand:
        scope = stand.fp.as_caller(NAME, scope=NAME)
        for letter in "abcd":
            queue = letter * 64
            scope.execute([c.Enqueue(queue, tuple({"payload": n} for n in range(60)))])
            scope.claim(queue, worker_id=NAME, limit=60)
        stand.clock.advance(60)
        receipt = scope.sweep(limit=200).receipt
        assert len(receipt.task_ids) == 200 and len(receipt.body) <= fields.MAX_ENTRY_BYTES
