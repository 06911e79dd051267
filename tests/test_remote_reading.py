"""What `to_json` wrote is read back as the same value; what it could not have written is not."""

from __future__ import annotations

import json

import pytest
from helpers.remote import live
from helpers.stand import SCOPE, Stand
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import canonical
from fencepost.clock import MAX_INSTANT, MIN_INSTANT, to_rfc3339
from fencepost.journal.proof import ConsistencyProof, Proof
from fencepost.model import Grant, Outcome, QueueSettings, Receipt, Scope, Token
from fencepost.remote import reading

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.integers(0, 10**15 - 1)
instants = st.integers(MIN_INSTANT, MAX_INSTANT)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts
    | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
digests = st.binary(min_size=32, max_size=32)
receipts = st.builds(
    Receipt, numbers, texts.map(str.encode), st.binary(max_size=32), digests, st.none() | digests
)
grants = st.builds(
    Grant, texts, texts, st.none() | texts, texts, *[numbers] * 6, instants, instants,
    values.map(canonical.dumps),
    st.none() | values.filter(lambda value: value is not None).map(canonical.dumps),
)  # fmt: skip
facts = st.fixed_dictionaries(
    {"revision": numbers, "state": texts, "key": st.none() | texts},
    optional={"lease_expires_at": instants},
)
accepted = st.builds(
    Outcome, st.sampled_from(["accepted", "pending"]), st.just(()), texts, st.none() | receipts,
    st.lists(texts, max_size=3).map(tuple), st.lists(grants, max_size=3).map(tuple),
    st.booleans(), facts,
)  # fmt: skip
refused = st.builds(
    lambda status, issues, message, facts: Outcome(status, issues, message, facts=facts),
    st.sampled_from(["failed", "blocked"]),
    st.lists(texts, min_size=1, max_size=3).map(tuple), texts, facts,
)  # fmt: skip


def again(value):
    """What a JSON reader makes of it."""
    return json.loads(json.dumps(value.to_json()))


@settings(deadline=None)
@given(accepted | refused)
def test_an_outcome_is_read_back_as_it_was(outcome):
    assert reading.outcome(again(outcome)) == outcome
    bare = again(outcome)
    del bare["replayed"]
    assert reading.outcome(bare, replayed=outcome.replayed) == outcome


@settings(deadline=None)
@given(receipts, grants)
def test_receipts_and_leases_are_read_back_as_they_were(receipt, grant):
    assert reading.receipt(again(receipt)) == receipt
    assert reading.grant(again(grant)) == grant


def test_a_lease_without_its_payload_is_read_as_one_of_null():
    grant = Grant("t", "q", None, "w", 1, 0, 1, 5, 0, 0, 1, 2, None)
    assert reading.grant(again(grant)) == grant._replace(payload=b"null")


@pytest.fixture(scope="module")
def lived():
    with Stand() as stand:
        live(stand)
        yield stand.fp


def test_whatever_a_store_that_has_lived_can_tell_is_read_back_as_it_was(lived):
    tasks = [lived.task(task.task_id) for task in lived.tasks()]
    told = {
        reading.task: [*tasks, *lived.tasks()],
        reading.result: [each for task in tasks for each in lived.results(task.task_id)],
        reading.refused: [each for task in tasks for each in lived.refused(task.task_id)],
        reading.settings: [row.settings for row in lived.queue_rows()],
        reading.entry_view: list(lived.entries()),
        Proof.from_json: [lived.prove(lived.about()["entries"])],
    }
    for read, values_ in told.items():
        assert values_, read
        for value in values_:
            assert read(again(value)) == value
    assert {task.state for task in tasks} >= {"leased", "done", "blocked", "cancelled", "ready"}
    assert [view for view in lived.entries() if view.body is not None and view.receipt is None]


def test_checkpoints_and_their_proofs_are_read_back_as_they_were(lived):
    heads = list(lived.checkpoints())
    assert len(heads) > 1
    for head in heads:
        text = head.text().decode()
        assert reading.checkpoint(text) == reading.checkpoint({"checkpoint": text}) == head
    proof = lived.prove_consistency(heads[0])
    assert ConsistencyProof.from_json(again(proof)) == proof


@pytest.mark.parametrize("token", [
    Token("tok_1", SCOPE, "worker", "w", frozenset({"b", "a"}), 1, 2, 3),
    Token("tok_2", "*", "operator", "local", None, 1, None, None),
])  # fmt: skip
def test_a_token_is_read_back_as_it_was(token):
    assert reading.token(again(token)) == token


def test_scopes_and_settings_are_read_back_as_they_were():
    for each in (QueueSettings(), QueueSettings(destinations=("a", "b"), retain_seconds=0)):
        assert reading.settings(again(each)) == each
    for scope in (Scope("s"), Scope("s", 3, True, 9)):
        given_ = {name: getattr(scope, name) for name in
                  ("scope", "policy_version", "revoked", "retain_seconds")}  # fmt: skip
        assert reading.scope(given_) == scope


def test_members_of_a_later_version_are_passed_over(lived):
    task = next(lived.tasks())
    assert reading.task({**again(task), "mood": "good"}) == task


@pytest.mark.parametrize("change", [
    {"status": "perhaps"}, {"issues": ["stale_fence"]}, {"issues": "x"}, {"message": None},
    {"receipt": {"number": 1}}, {"leases": [{}]}, {"task_ids": [1]}, {"replayed": 1},
    {"receipt": {"number": "1", "entry": "{}", "opening": {}}}, {"facts": []},
])  # fmt: skip
def test_what_is_no_outcome_is_not_read_as_one(change):
    given_ = {**again(Outcome("accepted")), **change}
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        reading.outcome(given_)


@pytest.mark.parametrize("text", ["AB" * 32, "ab" * 31, "zz" * 32, " " + "ab" * 32, "", None, 5])
def test_a_digest_has_one_spelling(text):
    with pytest.raises((TypeError, ValueError)):
        reading.digest(text)


@given(instants)
def test_an_instant_is_read_back_as_it_was(instant):
    assert reading.instant(to_rfc3339(instant)) == instant
