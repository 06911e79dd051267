"""Faults 9, 14, 19, 56, 60, 62 and 124 where a network stands between worker and store."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from helpers import stub
from helpers.holding import foreign, hold_the_turn
from helpers.lab import QUEUE, SCOPE, Lab, ask
from helpers.remote import pair
from helpers.web import Reply, Served
from test_faults_answers import ALONE, STATES, expected, provoke

import fencepost
from fencepost.clock import FakeClock, to_rfc3339
from fencepost.commands import Request
from fencepost.issues import ISSUES
from fencepost.remote.paths import of_command
from fencepost.server import service

START = 1_767_225_600_000_000
TASKS = "/v1/default/queues/q/tasks"
CLAIMS = "/v1/default/queues/q/claims"
ENQUEUE = {"verb": "enqueue", "queue": "q", "tasks": [{"payload": 1}]}
CLAIM = {"verb": "claim", "queues": ["q"], "worker_id": "w"}


# 9: locked at once, the timeout is not honoured


def test_a_foreign_transaction_of_two_seconds_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    with Served(path=str(path), dev=True) as web:
        replies: list[Reply] = []
        posts = [
            threading.Thread(
                target=lambda n=n: replies.append(web.post(TASKS, ENQUEUE, key=f"k{n}"))
            )
            for n in range(8)
        ]
        with foreign(path, "begin immediate"):
            for post in posts:
                post.start()
            time.sleep(2)
            assert replies == []
        for post in posts:
            post.join(30)
        assert [reply.status for reply in replies] == [200] * 8
        assert len(list(web.fp.tasks("q"))) == 8


def test_who_waits_too_long_is_told_to_come_again_and_nothing_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "WAIT_SECONDS", 0.3)
    path = tmp_path / "work.db"
    with Served(path=str(path), dev=True) as web:
        holder = hold_the_turn(path, 1.5)
        refused = web.post(TASKS, ENQUEUE, key="k")
        assert (refused.status, refused.code) == (503, "store_unavailable")
        assert refused.json["retryable"] is True and int(refused.headers["retry-after"]) >= 1
        assert "nothing was done" in refused.json["detail"]
        holder.join()
        assert list(web.fp.tasks("q")) == []
        again = web.post(TASKS, ENQUEUE, key="k")
        assert again.status == 200 and "idempotent-replayed" not in again.headers


# 14: one error ends the heartbeat


def test_a_heartbeat_gets_through_a_503_a_silence_and_a_reset() -> None:
    with pair() as both:
        both.here.enqueue(QUEUE, 1)
        (lease,) = both.fp.claim(QUEUE, worker_id="w", lease_seconds=9)
        both.clock.advance(3)
        faults = [stub.refusing("store_unavailable"), stub.unheard, stub.reset]
        both.stub.script += faults
        lease.renew(9)
        assert both.clock.steady() and sum(both.slept) < 6, "within the lease"
        assert both.here.task(lease.task_id).lease_expires_at == lease.lease_expires_at
        assert lease.remaining() > 5


def test_only_an_answer_that_says_so_ends_a_lease() -> None:
    with pair() as both:
        both.here.enqueue(QUEUE, 1)
        (lease,) = both.fp.claim(QUEUE, worker_id="w", lease_seconds=9)
        both.clock.advance(9)
        before = len(both.stub.seen)
        with pytest.raises(fencepost.LeaseLost):
            lease.renew(9)
        assert len(both.stub.seen) == before + 1, "what is lost is not asked for again"


# 19: NaN; the refused try has not taken the key


def test_what_was_refused_as_no_json_leaves_lease_and_key_free() -> None:
    with Served(dev=True) as web:
        web.post(TASKS, ENQUEUE)
        (lease,) = web.post(CLAIMS, CLAIM).json["leases"]
        command = {"verb": "complete", "task_id": lease["task_id"], "worker_id": "w",
                   "fencing_token": lease["fencing_token"]}  # fmt: skip
        path = f"/v1/default/tasks/{lease['task_id']}/complete"
        for number in ("NaN", "Infinity", "-Infinity", "1e999"):
            body = json.dumps({**command, "result": {"score": 0}}).replace("0}", number + "}")
            refused = web.post(path, body.encode(), key="k")
            assert (refused.status, refused.code) == (400, "invalid_request")
        assert web.get(f"/v1/default/tasks/{lease['task_id']}").json["state"] == "leased"
        right = web.post(path, {**command, "result": {"score": 0}}, key="k")
        assert right.status == 200 and "idempotent-replayed" not in right.headers


# 56: a lease that counts from before its grant


def test_the_lease_of_a_claim_that_waited_counts_from_its_grant() -> None:
    clock = FakeClock(START)
    with Served(clock=clock, dev=True) as web:
        replies: list[Reply] = []
        path = f"{CLAIMS}?wait_seconds=30"
        body = {**CLAIM, "lease_seconds": 2}
        waiting = threading.Thread(target=lambda: replies.append(web.post(path, body)))
        waiting.start()
        limits = web.server.config.app.service.limits  # type: ignore[attr-defined]
        for _ in range(5_000):
            if limits.waiting:
                break
            time.sleep(0.002)
        clock.advance(29)
        web.post(TASKS, ENQUEUE)
        waiting.join(20)
        (lease,) = replies[0].json["leases"]
        assert lease["lease_expires_at"] == to_rfc3339(START + 31_000_000)
        assert replies[0].headers["fencepost-time"] == to_rfc3339(START + 29_000_000)
        assert float(replies[0].headers["fencepost-waited"]) == pytest.approx(29, abs=0.1)


# 60: copies while the store is slow


def test_copies_sent_while_the_store_is_slow_have_one_effect_and_one_answer(
    tmp_path: Path,
) -> None:
    path = tmp_path / "work.db"
    with Served(path=str(path), dev=True) as web:
        holder = hold_the_turn(path, 1.5)
        replies: list[Reply] = []
        copies = [
            threading.Thread(target=lambda: replies.append(web.post(TASKS, ENQUEUE, key="form")))
            for _ in range(10)
        ]
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.join(30)
        holder.join()
        assert {reply.status for reply in replies} == {200}
        assert len({reply.body for reply in replies}) == 1
        replayed = [reply.headers.get("idempotent-replayed") for reply in replies]
        assert sorted(replayed, key=str) == [None, *["true"] * 9]
        assert len(list(web.fp.tasks("q"))) == 1


# 62: HTTP repeats a POST by itself


@pytest.mark.parametrize("verb", ["complete", "submit", "fail", "release", "cancel", "enqueue"])
def test_a_request_that_the_network_sends_twice_has_one_effect(verb: str) -> None:
    with Served(dev=True) as web:
        web.post(TASKS, ENQUEUE, key="first")
        (lease,) = web.post(CLAIMS, CLAIM).json["leases"]
        bound = {"verb": verb, "task_id": lease["task_id"], "worker_id": "w",
                 "fencing_token": lease["fencing_token"]}  # fmt: skip
        path, key = f"/v1/default/tasks/{lease['task_id']}/{verb}", None
        body = bound | {"complete": {"result": 1}, "submit": {"result": 1}}.get(verb, {})
        if verb == "cancel":
            body, key = {"verb": verb, "task_id": lease["task_id"]}, "a-key"
        elif verb == "enqueue":
            path, body, key = TASKS, {**ENQUEUE}, "second"
        before = len(list(web.fp.entries()))
        one, two = web.post(path, body, key=key), web.post(path, body, key=key)
        assert (one.status, one.body) == (two.status, two.body) == (200, one.body)
        assert two.headers["idempotent-replayed"] == "true"
        assert len(list(web.fp.entries())) == before + 1


# 124: answers that mislead


@pytest.mark.parametrize("first", ALONE)
def test_each_reason_alone_and_with_another_is_told_over_http_as_it_is_told_here(
    tmp_path: Path, first: str
) -> None:
    others = [code for code in ALONE if code != first and not {first, code} <= set(STATES)]
    pairs = [(first, others[list(ALONE).index(first) % len(others)])]  # all pairs: faults_answers
    for number, codes in enumerate([(first,), *pairs]):
        lab = Lab(tmp_path / f"{number}.db")
        try:
            command = provoke(lab, codes)
            here = ask(lab.fp, command).to_json()
            with Served(clock=lab.clock, path=str(lab.path), dev=True) as web:
                request = Request.of(command)
                told = web.post(of_command(SCOPE, request), request.body)
        finally:
            lab.close()
        assert tuple(told.json["issues"]) == expected(codes)
        assert told.status == ISSUES[told.code].http and told.code == here["issues"][0]
        assert told.json["retryable"] == ISSUES[told.code].retry
        assert (told.json["outcome"], told.json["detail"]) == (here["status"], here["message"])
        assert told.json["facts"] == here["facts"]


def test_the_statuses_that_mean_the_same_thing_are_the_same() -> None:
    lost = {i.http for i in ISSUES.values() if issubclass(i.raises, fencepost.LeaseLost)}
    assert lost == {409}
    assert {i.http for code, i in ISSUES.items() if code == "not_found"} == {404}
    again = {code for code, i in ISSUES.items() if i.http in (429, 503)}
    assert all(ISSUES[code].retry for code in again - {"rate_limited", "clock_skew"})
    assert not {i.http for i in ISSUES.values()} & {500, 502, 504} - {ISSUES["internal"].http}
