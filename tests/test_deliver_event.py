"""The bytes of a delivery: canonical, the same at each try, understood by the receiver's kit."""

from __future__ import annotations

import hashlib
import json

import pytest
from helpers.delivering import depot

from fencepost import canonical
from fencepost.deliveries.event import NoEvent, Turn, Voice, event_of
from fencepost.deliveries.marks import mark, over, uncertain_since
from fencepost.deliveries.positions import Positions
from fencepost.receiver.reading import read_event

TASK = "01a22c1f-3567-7251-93b8-ba45aad6e8fb"
OBLIGATION = "01a22c1f-3574-723e-b2cf-719495cde960"
VOICE = Voice("8a50cd4f-4163-4425-ad24-4f3abab2c0a8/default/out", 3, "6d9d2de0-77e0-4482-98ba-ce2970a0c7e5")  # fmt: skip  # noqa: E501
AWKWARD = ["😀", "\u2028\u2029", "/</script>", 1.0, 1e5, 1e21, -0.0, 5e-324, "\u001b\x7f", {"b": {"d": 1, "c": [None, True]}, "a": "\"\\"}]  # fmt: skip  # noqa: E501


def payload(**more):
    given = {
        "at": "2026-11-30T11:02:52.589268Z", "epoch": 2, "fencing_token": 8589934601, "final": True,
        "outcome": "result", "queue": "pages", "result": {"n": 1}, "result_sha256": "ab" * 32,
        "revision": 1, "task_id": TASK,
    }  # fmt: skip
    return canonical.dumps({**given, **more})


@pytest.mark.parametrize("result", AWKWARD, ids=range(len(AWKWARD)))
@pytest.mark.parametrize("turn", [None, Turn(17, "0f" * 32)])
def test_the_bytes_are_the_rfc_8785_form_whatever_the_result_is(result, turn):
    event = event_of(OBLIGATION, payload(result=result), VOICE, turn)
    assert event.body == canonical.dumps(json.loads(event.body))
    assert event.data == payload(result=result) and event.data in event.body


def test_an_event_says_of_the_result_what_the_result_was_accepted_under():
    event = json.loads(event_of(OBLIGATION, payload(), VOICE).body)
    assert {name: event[name] for name in event if name != "data"} == {
        "specversion": "1.0", "id": f"msg_{OBLIGATION}", "source": f"/fencepost/{VOICE.stream}",
        "type": "dev.fencepost.result.accepted.v1", "subject": f"pages/{TASK}",
        "time": "2026-11-30T11:02:52.589268Z", "datacontenttype": "application/json",
        "fpwriterepoch": "3", "fpincarnation": VOICE.incarnation, "fpepoch": "2",
        "fpfence": "8589934601", "fprevision": "1", "fpoperation": f"{TASK}:1",
    }  # fmt: skip


def test_the_kit_reads_what_was_meant():
    sent = event_of(OBLIGATION, payload(), VOICE, Turn(17, "0f" * 32))
    read = read_event(sent.body, sent.id)
    assert (read.operation, read.data, read.data_sha256) == (
        sent.operation,
        sent.data,
        sent.data_sha256,
    )
    assert (read.epoch, read.fence, read.revision) == (2, 8589934601, 1)
    assert (read.sequence, read.previous) == (17, bytes.fromhex("0f" * 32))
    assert read.data_sha256 == hashlib.sha256(sent.data).digest()


@pytest.mark.parametrize("outcome", ["done", "dead", "cancelled", "blocked"])
def test_another_outcome_is_named_by_its_round_and_fence(outcome):
    event = event_of(OBLIGATION, payload(outcome=outcome, round=2), VOICE)
    read = read_event(event.body, event.id)
    assert (read.kind, read.round, read.operation) == (outcome, 2, f"{TASK}:2:8589934601:{outcome}")


@pytest.mark.parametrize(
    "wrong",
    [None, b"[]", b"17", canonical.dumps({"page": 1}), payload(revision="1"), payload(queue=7),
     payload(outcome="weather"), payload(outcome="dead")],
)  # fmt: skip
def test_what_is_no_obligation_makes_no_event(wrong):
    with pytest.raises(NoEvent):
        event_of(OBLIGATION, wrong, VOICE)


def test_what_a_store_owes_makes_an_event_that_the_kit_reads(tmp_path):
    with depot(tmp_path) as place:
        place.destination("http://127.0.0.1:1/")
        place.results(*AWKWARD)
        for task in place.fp.claim("out", worker_id="d", limit=100):
            event = event_of(task.task_id, task.grant.payload, VOICE)
            read = read_event(event.body, event.id)
            assert read.data == task.grant.payload
            assert (
                canonical.sha256(canonical.dumps(read.value()["result"])).hex()
                == (read.value()["result_sha256"])
            )


def test_attempts_without_a_mark_are_uncertain_and_a_mark_tells_since_when():
    assert uncertain_since(None, 1, born=7) is None
    assert uncertain_since(None, 2, born=7) == 7
    assert uncertain_since(mark(1, None), 2, born=7) is None
    assert uncertain_since(mark(1, None), 3, born=7) == 7  # a dispatcher died in the second
    assert uncertain_since(mark(1, 1_000_000), 2, born=7) == 1_000_000
    assert uncertain_since({"line": 4}, 2, born=7) == 7
    assert not over(None, 10**12, 60)
    assert not over(0, 59_999_999, 60)
    assert over(0, 60_000_000, 60)


def test_a_position_is_heard_of_when_none_before_it_is_missing():
    positions = Positions(2)
    for at in (5, 3, 4, 4, 1, None, "6", 7):
        positions.add(at)
    assert positions.heard == 5
    positions.add(6)
    assert positions.heard == 7
