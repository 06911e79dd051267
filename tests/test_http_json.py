"""JSON, keys and names as no decent client sends them over HTTP (faults 19, 20, 22, 100, 102)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from helpers.rawhttp import ENQUEUE, heard, nothing_done, request
from helpers.web import Served


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    settings = {"header_seconds": 1, "body_seconds": 1}
    with Served(dev=True, settings=settings) as served:
        yield served


ODD_JSON = {
    "2^53": b"9007199254740992",
    "NaN": b"NaN", "minus infinity": b"-Infinity", "1e400": b"1e400",
    "5,000 digits": b"1" * 5_000, "a float of a megabyte": b"0." + b"1" * 1_000_000,
    "a leading zero": b"01", "a sign": b"+1", "an open fraction": b"1.",
    "a member twice": b'{"a":1,"a":1}',
    "a lone surrogate, escaped": rb'"\ud800"',
    "a lone surrogate, raw": b'"\xed\xa0\x80"',
    "no UTF-8": b'"\xff"', "an overlong NUL": b'"\xc0\x80"',
    "a control character": b'"\x01"', "single quotes": b"'x'",
    "65 brackets": b"[" * 65 + b"]" * 65, "100,000 brackets": b"[" * 100_000,
    "100,000 objects": b'{"a":' * 100_000, "a comment": b"/**/1", "none": b"",
}  # fmt: skip


@pytest.mark.parametrize("what", ODD_JSON)
def test_json_that_readers_read_differently_is_refused(web: Served, what: str) -> None:
    body = ENQUEUE.replace(b":1}", b":" + ODD_JSON[what] + b"}")
    with nothing_done(web):
        told = heard(web, request(body=body))
    assert (told.statuses, told.codes) == ([400], ["invalid_request"])


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"null", b"[]", b"verb=enqueue", b"\xef\xbb\xbf" + ENQUEUE,
        ENQUEUE.decode().encode("utf-16"), ENQUEUE + b"x", ENQUEUE + b"\0", ENQUEUE * 2,
        b"[" + ENQUEUE + b"]", b'"' + ENQUEUE + b'"', ENQUEUE[:-1],
        ENQUEUE.replace(b"{", b'{"verb":"enqueue",', 1), ENQUEUE.replace(b"queue", b"Queue"),
    ],
)  # fmt: skip
def test_a_body_that_is_not_one_command_is_refused(web: Served, body: bytes) -> None:
    with nothing_done(web):
        told = heard(web, request(body=body))
    assert (told.statuses, told.codes) == ([400], ["invalid_request"])


@pytest.mark.parametrize("value", ["true", "1.0", "1.9", '"1"', "1e0", "null", "[]", "-1", "0"])
@pytest.mark.parametrize("member", ["fencing_token", "expected_revision", "epoch"])
def test_only_a_whole_number_is_one(web: Served, member: str, value: str) -> None:
    if value == "0" and member != "fencing_token":
        value = "-0.0"
    given = {"verb": "submit", "task_id": "t", "worker_id": "w", "fencing_token": 1, "result": 1}
    text = json.dumps({**given, member: "HERE"}).replace('"HERE"', value)
    with nothing_done(web):
        told = heard(web, request(target="/v1/default/tasks/t/submit", body=text.encode()))
    assert (told.statuses, told.codes) == ([400], ["invalid_request"])


@pytest.mark.parametrize("value", ["0", "-1", "NaN", "1e308", "2147483648", "9007199254740991",
                                   '"inf"', "true", "0.5"])  # fmt: skip
@pytest.mark.parametrize("verb", ["claim", "renew"])
def test_a_lease_of_an_impossible_length_is_refused(web: Served, verb: str, value: str) -> None:
    web.fp.enqueue("odd", 1)
    claim = ("/v1/default/claims", {"verb": "claim", "worker_id": "w", "queues": ["odd"]})
    lease = {"verb": "renew", "task_id": "t", "worker_id": "w", "fencing_token": 1}
    target, given = claim if verb == "claim" else ("/v1/default/tasks/t/renew", lease)
    text = json.dumps({**given, "lease_seconds": "HERE"}).replace('"HERE"', value)
    with nothing_done(web):
        told = heard(web, request(target=target, body=text.encode()))
    assert told.statuses == [400] and told.codes == ["invalid_request"], told.raw


# -- keys and names in paths


@pytest.mark.parametrize(
    "key", ["a/b", "/a", "a/", "a%2Fb", "..", "a/../b", "?x", "#", "a;b", "-x", "a+b", "%", "&="]
)
def test_a_key_with_any_sign_is_found_at_its_quoted_path(web: Served, key: str) -> None:
    queue = "keys"
    body = {"verb": "enqueue", "queue": queue, "tasks": [{"payload": key, "key": key}]}
    made = web.post(f"/v1/default/queues/{queue}/tasks", body, key=f"in:{key}")
    assert made.status == 200, made.body
    at = quote(key, safe="")
    task = web.get(f"/v1/default/queues/{queue}/keys/{at}")
    assert (task.status, task.json["payload"], task.json["key"]) == (200, key, key)
    receipt = web.get(f"/v1/default/receipts/{quote('in:' + key, safe='')}")
    assert (receipt.status, receipt.json) == (200, made.json["receipt"])


@pytest.mark.parametrize("name", ["a/b", "..", "a%2Fb", "?x", "#", "é", "e\u0301", " ", ";", "-a",
                                  "a" * 65])  # fmt: skip
def test_a_name_that_could_stand_in_no_path_cannot_be_made(web: Served, name: str) -> None:
    body = {"verb": "enqueue", "queue": name, "tasks": [{"payload": 1}]}
    with nothing_done(web):
        batch = web.post("/v1/default/batch", {"commands": [{"command": body}]})
        at_path = web.post(f"/v1/default/queues/{quote(name, safe='')}/tasks", body)
    assert (batch.status, batch.code) == (400, "invalid_request")
    assert (at_path.status, at_path.code) in ((400, "invalid_request"), (404, "not_found"))


def test_after_all_that_the_service_works_and_its_store_is_whole(web: Served) -> None:
    assert heard(web, request()).statuses == [200]
    assert web.fp.verify().clean
