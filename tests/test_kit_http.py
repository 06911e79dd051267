"""The kit over HTTP: the product behind its real server, any service by its URL, and a network
that loses answers."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest
from helpers.kit import BY_NAME, Listening, judged, stores_in_memory, target, verdict
from helpers.lossy import PLACES, Fault, Lossy, seeded
from helpers.lossy_kit import Through
from helpers.web import Served

from fencepost import tokens
from fencepost.conformance import http_target, http_wire
from fencepost.conformance.fault_injection_tests import CASES
from fencepost.conformance.http_wire import Lost, Origin, Wire, new_token, path_of, post_of

CONTROLS = {"clock", "faults", "copy"}
ORDER = "the_higher_priority_is_claimed_first_and_then_the_older"


@pytest.fixture(scope="module", autouse=True)
def _in_memory():
    with stores_in_memory():
        yield


def not_passed(run):
    return [found for found in run.verdicts if found["verdict"] != "passed"]


# -- the product behind its server


@pytest.mark.timeout(180)
def test_the_product_is_accepted_over_http_and_no_case_meets_a_caller_without_a_token(monkeypatch):
    late, make = [], http_target.Service._make

    def watched(service, callers):
        callers = list(callers)
        late.extend(callers if len(callers) == 1 and callers[0][0] != "elsewhere" else [])
        make(service, callers)

    monkeypatch.setattr(http_target.Service, "_make", watched)
    run = judged(target("http"))
    assert not_passed(run) == []
    document = run.document("http")
    assert (document["status"], document["unavailable"]) == ("accepted", [])
    assert (document["backend"], document["target"]["backend"]) == ("http", "http")
    assert document["sha256"]["product"] == document["target"]["sha256"]
    assert late == [], "CALLERS in http_target.py lacks them, and their tokens are entries"


# -- a service of which nobody here knows more than its URL


@pytest.fixture(scope="module")
def bare():
    with Served() as web:
        made = web.fp.token_create("root", "operator", every_scope=True)[1]
        before = os.environ.get(http_target.TOKEN)
        os.environ[http_target.TOKEN] = made
        yield web
        del os.environ[http_target.TOKEN]
        if before is not None:
            os.environ[http_target.TOKEN] = before


@pytest.mark.timeout(180)
def test_a_bare_service_passes_each_case_that_needs_no_control(bare):
    run = judged(target(f"http:http://127.0.0.1:{bare.port}"))
    assert (run.status(), run.named("failed")) == ("incomplete", [])
    needing = [case.name for case in CASES if case.controls & CONTROLS]
    assert run.named("unavailable") == needing
    assert len(run.named("passed")) == len(CASES) - len(needing) >= 50
    document = run.document("http")
    assert document["sha256"]["product"] is None
    assert (document["target"]["name"], document["backend"]) == ("Fencepost", "http")
    assert bare.fp.verify().clean


def test_what_ran_before_on_a_bare_service_does_not_matter(bare):
    for _ in range(2):
        name = "a_receipt_says_what_was_done_and_opens_to_it"
        run = judged(target(f"http://127.0.0.1:{bare.port}"), [name])
        assert verdict(run, name)["verdict"] == "passed"


@pytest.mark.parametrize("kind", ["mistyped", "of one scope", "a worker's"])
def test_a_token_that_does_not_do_blocks_the_run_with_a_reason(bare, monkeypatch, kind):
    made = {
        "mistyped": "fp_nonsense",
        "of one scope": bare.token("operator"),
        "a worker's": bare.token("worker", every_scope=True),
    }[kind]
    monkeypatch.setenv(http_target.TOKEN, made)
    run = judged(target(f"http:http://127.0.0.1:{bare.port}"), [ORDER])
    assert run.status() == "blocked"
    why = verdict(run, ORDER)["why"]
    assert "no operator's of every scope" in why or "no token could be made" in why
    assert made not in json.dumps(run.document("http"))


def test_nobody_listening_blocks_the_run(bare):
    run = judged(target("http:http://127.0.0.1:1"), [ORDER])
    assert (run.status(), run.issues()) == ("blocked", ["target_unusable", "case_skipped"])


class Forgetful(http_target.Service):
    """A wire that does not tell a replay."""

    def connect(self):
        wire = super().connect()
        ask = wire.ask

        def told(*given, **more):
            answer = ask(*given, **more)
            return answer._replace(
                headers={n: v for n, v in answer.headers.items() if n != "idempotent-replayed"}
            )

        wire.ask = told
        return wire


def test_a_service_that_does_not_tell_a_replay_fails(monkeypatch):
    monkeypatch.setattr(http_target.Served, "service_type", Forgetful)
    name = "the_same_bytes_get_the_same_receipt_and_equal_is_not_same"
    found = verdict(judged(target("http"), [name]), name)
    assert (found["verdict"], found["why"]) == ("failed", "replayed")


# -- what goes over the wire


def test_a_commands_bytes_go_as_they_are_whatever_the_scope_is_called():
    body = '{"verb" : "submit","task_id":"t-1" , "é":"\ud800"}'
    post = post_of("lab-1", "worker", body, "k-1")
    assert post.target == "/v1/lab-1/tasks/t-1/submit"
    assert post.body == body.encode("utf-8", "surrogatepass")
    assert post.headers["Idempotency-Key"] == '"k-1"'


@pytest.mark.parametrize("key", ["", "\x1b[2J", "ключ", "a\n", " a"])
def test_a_key_that_stands_in_no_header_travels_in_a_batch_beside_the_same_bytes(key):
    body = '{"verb": "sweep"}'
    post = post_of("lab", "operator", body, key)
    assert post.target == "/v1/lab/batch" and "Idempotency-Key" not in post.headers
    assert body.encode() in post.body
    assert json.loads(post.body)["commands"] == [{"command": {"verb": "sweep"}, "key": key}]


@pytest.mark.parametrize(
    ("kind", "body", "path"),
    [
        ("worker", '{"verb":"claim","queues":["a"]}', "queues/a/claims"),
        ("worker", '{"verb":"claim","queues":["a","b"]}', "claims"),
        ("worker", '{"verb":"claim","queues":["../x"]}', "claims"),
        ("worker", '{"verb":"claim","task_id":"t"}', "claims"),
        ("producer", '{"verb":"enqueue","queue":"a"}', "queues/a/tasks"),
        ("producer", '{"verb":"enqueue","queue":"a/b"}', "queues/none/tasks"),
        ("human", '{"verb":"review","task_id":"t@1"}', "tasks/t%401/review"),
        ("worker", '{"verb":"submit","task_id":"../t"}', f"tasks/{http_wire.NOBODY}/submit"),
        ("operator", '{"verb":"queue.set"}', "queue.set"),
        ("worker", '{"verb":"drop"}', f"tasks/{http_wire.NOBODY}/renew"),
        ("operator", "[" * 100_000, "sweep"),
        ("auditor", "", "sweep"),
    ],
)
def test_a_command_goes_to_its_path_and_what_is_none_to_one_where_it_is_read(kind, body, path):
    assert path_of("lab", kind, body) == f"/v1/lab/{path}"


def test_the_kits_own_tokens_are_tokens():
    made = [new_token() for _ in range(20)]
    assert all(map(tokens.check, made)) and len(set(made)) == 20


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("place", [*PLACES, 0.3, 0.5, 0.7])
def test_an_answer_that_is_not_whole_is_none(bare, place, reset):
    with Lossy(bare.port, lambda request: Fault("answer cut", place, reset)) as proxy:
        wire = Wire(Origin.of(f"http://127.0.0.1:{proxy.port}"), 10)
        with pytest.raises(Lost):
            wire.ask("GET", "/openapi.json", "")
        wire.close()


def test_what_is_left_of_an_answer_that_came_twice_is_not_taken_for_the_next(bare):
    with Lossy(bare.port, lambda request: Fault("answer twice")) as proxy:
        wire = Wire(Origin.of(f"http://127.0.0.1:{proxy.port}"), 10)
        asked = ["/livez", "/problems/not_found", "/livez", "/problems/stale_fence"] * 5
        told = [wire.ask("GET", path, "").body for path in asked]
        wire.close()
    assert told[0] == told[2] == b"ok\n"
    assert [json.loads(body)["code"] for body in told[1::2]] == ["not_found", "stale_fence"] * 5


# -- through a network that loses, repeats and delays

SOME = [case.name for case in CASES][::8]


@pytest.mark.parametrize("seed", [1])
def test_through_a_lossy_network_the_same_bytes_until_an_answer_pass_the_kit(seed):
    adapter = Through(seeded(seed, 0.4), seed=seed)
    run = judged(adapter, SOME, seed)
    assert [found for found in not_passed(run) if found["verdict"] != "skipped"] == [], seed
    done = sum((proxy.done for proxy in adapter.proxies.values()), Counter())
    assert min(done.values()) >= 5 and len(done) == 6, done
    assert set(SOME) <= set(BY_NAME)


def test_the_run_is_written_down_the_same_over_http(tmp_path):
    listening = Listening(target("http"))
    run = judged(listening, [ORDER])
    assert {op for op, *_ in listening.heard} >= {"describe", "fresh", "send"}
    assert run.document("http")["target"]["controls"] == [
        "fresh", "clock", "faults", "copy", "threads"
    ]  # fmt: skip
