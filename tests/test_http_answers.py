"""What the service answers: bytes, headers, statuses."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator

import pytest
from helpers.web import Reply, Served

from fencepost import canonical
from fencepost.clock import FakeClock
from fencepost.issues import ISSUES

START = 1_767_225_600_000_000
PAGES = "/v1/default/queues/pages"


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    with Served(dev=True) as served:
        yield served


def enqueue(web: Served, key: str, payload: object = 1) -> Reply:
    body = {"verb": "enqueue", "queue": "pages", "tasks": [{"payload": payload}]}
    return web.post(f"{PAGES}/tasks", body, key=key)


def claim(web: Served, worker: str = "w", queue: str = "pages") -> dict[str, object]:
    reply = web.post(
        f"/v1/default/queues/{queue}/claims",
        {"verb": "claim", "queues": [queue], "worker_id": worker},
    )
    (lease,) = reply.json["leases"]
    return lease  # type: ignore[no-any-return]


def complete(lease: dict[str, object], **more: object) -> tuple[str, dict[str, object]]:
    body = {
        "verb": "complete", "task_id": lease["task_id"], "worker_id": lease["worker_id"],
        "fencing_token": lease["fencing_token"], "result": {"ok": True}, **more,
    }  # fmt: skip
    return f"/v1/default/tasks/{lease['task_id']}/complete", body


def test_a_replay_has_the_same_status_headers_and_bytes_and_one_header_more(web: Served) -> None:
    first, again = enqueue(web, "twice"), enqueue(web, "twice")
    assert first.status == again.status == 200
    assert first.body == again.body
    varying = {"date", "fencepost-time", "request-id"}
    told = {name: value for name, value in again.headers.items() if name not in varying}
    assert told.pop("idempotent-replayed") == "true"
    assert told == {n: v for n, v in first.headers.items() if n not in varying}


def test_a_completion_whose_answer_was_lost_is_answered_with_the_same_bytes(web: Served) -> None:
    enqueue(web, "lost")
    path, body = complete(claim(web))
    first, again = web.post(path, body), web.post(path, body)
    assert (first.status, first.body) == (again.status, again.body)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"


def test_bytes_that_mean_the_same_are_another_command(web: Served) -> None:
    enqueue(web, "spelt", {"a": 1})
    other = b'{"verb":"enqueue","queue":"pages","tasks":[{"payload":{"a":1}}] }'
    reply = web.post(f"{PAGES}/tasks", other, key="spelt")
    assert (reply.status, reply.code) == (422, "idempotency_key_reused")


def test_a_key_is_the_same_bare_or_quoted(web: Served) -> None:
    first = enqueue(web, "bare")
    assert enqueue(web, '"bare"').body == first.body
    assert enqueue(web, '"bare";p=1').headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("key", ['"open', '"a"b', "with space", 'in"side', "x" * 256, "é"])
def test_a_malformed_key_is_refused_and_nothing_is_done(web: Served, key: str) -> None:
    reply = enqueue(web, key)
    assert (reply.status, reply.code) == (400, "invalid_request")


def test_every_answer_is_not_to_be_stored_and_bears_its_digest(web: Served) -> None:
    for reply in (enqueue(web, "digest"), web.get("/v1/default"), web.get("/nowhere"),
                  web.get("/livez"), web.get("/v1/default/tasks/x")):  # fmt: skip
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        digest = base64.b64encode(hashlib.sha256(reply.body).digest()).decode()
        assert reply.headers["content-digest"] == f"sha-256=:{digest}:"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
                            reply.headers["fencepost-time"])  # fmt: skip


def test_an_accepted_answer_is_the_contracts_outcome_in_canonical_bytes(web: Served) -> None:
    enqueue(web, "canonical", {"é": [1.5, "\u2028"]})
    reply = web.post(
        f"{PAGES}/claims", {"verb": "claim", "queues": ["pages"], "worker_id": "c", "limit": 100}
    )
    assert reply.body == canonical.dumps(reply.json)
    assert set(reply.json) == {
        "status", "issues", "message", "receipt", "task_ids", "leases", "facts"
    }  # fmt: skip
    assert {"é": [1.5, "\u2028"]} in [lease["payload"] for lease in reply.json["leases"]]


def test_a_refusal_is_problem_details_whose_members_agree_with_the_table(web: Served) -> None:
    enqueue(web, "refused")
    path, body = complete(claim(web), fencing_token=999_999_999)
    reply = web.post(path, body)
    assert reply.headers["content-type"] == "application/problem+json"
    problem = reply.json
    issue = ISSUES["unknown_fence"]
    assert reply.status == problem["status"] == issue.http == 409
    assert problem["code"] == problem["issues"][0] == "unknown_fence"
    assert (problem["title"], problem["retryable"]) == (issue.meaning, issue.retry)
    assert problem["outcome"] == "failed" and problem["type"] == "/problems/unknown_fence"
    told = web.get(problem["type"]).json
    assert (told["code"], told["advice"]) == ("unknown_fence", issue.advice)


def test_a_digest_that_is_not_the_bodys_is_refused_and_nothing_is_done(web: Served) -> None:
    raw = b'{"verb":"enqueue","queue":"digests","tasks":[{"payload":1}]}'
    path = "/v1/default/queues/digests/tasks"
    right = base64.b64encode(hashlib.sha256(raw).digest()).decode()
    wrong = base64.b64encode(hashlib.sha256(raw + b" ").digest()).decode()
    assert web.post(path, raw, content_digest=f"sha-256=:{wrong}:").status == 400
    assert web.post(path, raw, content_digest="sha-256=nonsense").status == 400
    assert web.post(path, raw, content_digest=f"sha-512=:AAAA:, sha-256=:{right}:").status == 400
    assert web.get("/v1/default/tasks?queue=digests").json["tasks"] == []
    assert web.post(path, raw, content_digest=f"sha-256=:{right}:, md5=:AAAA:").status == 200


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Content-Type", "text/plain", 415),
        ("Content-Type", "application/json; charset=latin-1", 415),
        ("Content-Type", 'application/json; charset=utf-8', 200),
        ("Content-Encoding", "gzip", 415),
        ("Content-Encoding", "identity", 200),
    ],
)
def test_only_plain_json_is_taken(web: Served, header: str, value: str, status: int) -> None:
    raw = b'{"verb":"enqueue","queue":"media","tasks":[{"payload":1}]}'
    reply = web.ask("POST", "/v1/default/queues/media/tasks", raw,
                    headers={"Content-Type": "application/json", header: value})  # fmt: skip
    assert reply.status == status


def test_the_path_has_to_agree_with_the_command(web: Served) -> None:
    enqueue(web, "path")
    lease = claim(web)
    path, body = complete(lease)
    told = {
        "verb": web.post(path.replace("complete", "submit"), body),
        "task": web.post(path, {**body, "task_id": "01a22a71-5a07-717a-9af3-614358177f40"}),
        "queue": web.post("/v1/default/queues/other/tasks",
                          {"verb": "enqueue", "queue": "pages", "tasks": [{"payload": 1}]}),
        "claim": web.post(f"{PAGES}/claims",
                          {"verb": "claim", "queues": ["pages", "x"], "worker_id": "w"}),
    }  # fmt: skip
    for name, reply in told.items():
        assert (reply.status, reply.code) == (400, "invalid_request"), name
        assert "path" in reply.json["detail"], name
    assert web.post(path, body).status == 200


def test_if_match_restates_a_revision_and_binds_nothing_by_itself(web: Served) -> None:
    enqueue(web, "match")
    lease = claim(web)
    path, body = complete(lease)
    alone = web.post(path, body, if_match='"r0"')
    assert (alone.status, alone.code) == (400, "invalid_request")
    other = web.post(path, {**body, "expected_revision": 0}, if_match='"r1"')
    assert other.status == 400
    for tag in ("r1", 'W/"r1"', '"1"', "*"):
        assert web.post(path, {**body, "expected_revision": 1}, if_match=tag).status == 400
    stale = web.post(path, {**body, "expected_revision": 1}, if_match='"r1"')
    assert (stale.status, stale.code) == (412, "stale_revision")
    plain = web.post(path, {**body, "expected_revision": 1})
    assert (plain.status, plain.code) == (409, "stale_revision")
    assert web.post(path, {**body, "expected_revision": 0}, if_match='"r0"').status == 200


def test_a_tasks_tag_changes_with_whatever_of_it_changes(web: Served) -> None:
    enqueue(web, "tag")
    lease = claim(web)
    path = f"/v1/default/tasks/{lease['task_id']}"
    first = web.get(path)
    same = web.get(path, if_none_match=first.headers["etag"])
    assert (same.status, same.body) == (304, b"")
    renew = {"verb": "renew", "task_id": lease["task_id"], "worker_id": "w",
             "fencing_token": lease["fencing_token"], "lease_seconds": 600}  # fmt: skip
    assert web.post(f"{path}/renew", renew).status == 200
    after = web.get(path, if_none_match=first.headers["etag"])
    assert after.status == 200 and after.headers["etag"] != first.headers["etag"]


def test_a_batch_tells_an_outcome_each_and_which_were_replayed(web: Served) -> None:
    def member(key: str) -> dict[str, object]:
        command = {"verb": "enqueue", "queue": "batch", "tasks": [{"payload": key}]}
        return {"command": command, "key": key}

    first = web.post("/v1/default/batch", {"commands": [member("a"), member("b")]}).json
    assert (first["status"], first["replayed"]) == ("accepted", [])
    bad = {"command": {"verb": "cancel", "task_id": "01a22a71-5a07-717a-9af3-614358177f40"}}
    again = web.post("/v1/default/batch", {"commands": [member("c"), bad, member("a")]}).json
    assert (again["status"], again["replayed"]) == ("incomplete", [2])
    assert again["outcomes"][2] == first["outcomes"][0]
    assert again["outcomes"][1]["issues"] == ["not_found"]
    assert again["outcomes"][0]["status"] == "accepted"


def test_a_commands_bytes_in_a_batch_are_its_raw_slice(web: Served) -> None:
    raw = b'{ "verb" : "enqueue" , "queue":"raw","tasks":[{"payload":"\\u00e9"}]}'
    alone = web.post("/v1/default/queues/raw/tasks", raw, key="raw")
    batch = b' {"commands" : [ {"key":"raw" , "command":' + raw + b"} ] } "
    told = web.post("/v1/default/batch", batch).json
    assert told["replayed"] == [0] and told["outcomes"] == [alone.json]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b'{"commands":[]}', b'{"commands":[{}]}', b'{"commands":[1]}',
        b'{"commands":[{"command":{"verb":"clock.reset"},"key":1}]}',
        b'{"commands":[{"command":{},"command":{}}]}', b'{"commands":[{"command":{}}]} x',
        b'{"commands":[{"command":{"verb":"nothing"}}]}', b'{"commands":[{"command":',
        b'{"commands":[{"command":{"verb":"sweep"}},{"command":{"verb":"sweep","limit":1.0}}]}',
        b'{"commands":[{"other":1}]}', b"\xff", b'{"commands":' + b"[" * 5_000,
    ],
)  # fmt: skip
def test_a_batch_that_cannot_be_read_is_refused_as_a_whole(web: Served, body: bytes) -> None:
    reply = web.post("/v1/default/batch", body)
    assert (reply.status, reply.code) == (400, "invalid_request")


def test_a_list_comes_in_pages_that_end(web: Served) -> None:
    for number in range(5):
        web.post("/v1/default/queues/paged/tasks",
                 {"verb": "enqueue", "queue": "paged", "tasks": [{"payload": number}]})  # fmt: skip
    seen, token, pages = [], "", 0
    while token or not pages:
        query = f"queue=paged&page_size=2&page_token={token}"
        page = web.get(f"/v1/default/tasks?{query}").json
        seen += [task["task_id"] for task in page["tasks"]]
        token, pages = page["next_page_token"], pages + 1
    assert len(seen) == len(set(seen)) == 5 and pages == 3


def test_a_page_token_belongs_to_its_question(web: Served) -> None:
    for number in range(3):
        enqueue(web, f"question-{number}")
    token = web.get("/v1/default/tasks?queue=pages&page_size=1").json["next_page_token"]
    assert web.get(f"/v1/default/tasks?queue=pages&page_token={token}").status == 200
    for query in (f"page_token={token}", f"queue=other&page_token={token}",
                  "page_token=AAAA", f"queue=pages&page_token={token[:-2]}AA", "page_size=-1",
                  "page_size=x", "page_size=1&page_size=2", "unknown=1"):  # fmt: skip
        assert web.get(f"/v1/default/tasks?{query}").status == 400, query


def test_a_method_that_a_path_does_not_have_is_405_and_names_those_it_has(web: Served) -> None:
    reply = web.ask("DELETE", f"{PAGES}/tasks")
    assert reply.status == 405 and reply.headers["allow"] == "POST"
    assert reply.headers["content-type"] == "application/problem+json"


def test_the_exact_end_of_a_lease_is_told_as_everywhere() -> None:
    clock = FakeClock(START)
    with Served(clock=clock, dev=True) as web:
        enqueue(web, "boundary")
        path, body = complete(claim(web))
        clock.advance(60)
        reply = web.post(path, body)
        assert (reply.status, reply.code) == (409, "lease_expired")


def test_a_receipt_is_found_by_its_key_and_proved(web: Served) -> None:
    first = enqueue(web, "to/be found@here".replace(" ", "-"))
    found = web.get("/v1/default/receipts/to/be-found@here")
    assert found.json == first.json["receipt"]
    number = found.json["number"]
    proof = web.get(f"/v1/default/journal/entries/{number}/proof").json
    assert proof["entry"] == found.json["entry"] and proof["number"] == number
    assert json.loads(proof["entry"])["verb"] == "enqueue"
