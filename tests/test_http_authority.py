"""Who is let in and how far: each kind × each verb × its own, another's and a revoked scope, in a
table that is made of the routes and the rules, and not picked by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.web import Reply, Served
from helpers.wires import SECRET

from fencepost import tokens
from fencepost.clock import FakeClock
from fencepost.commands import COMMANDS
from fencepost.issues import ISSUES
from fencepost.model import KINDS
from fencepost.rules.authority import MAY
from fencepost.server.routes import ROUTES, Route

START = 1_767_225_600_000_000
NOWHERE = "01a22a71-5a07-717a-9af3-614358177f40"
SCOPES = ("own", "other", "gone")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    """Tokens of every kind in a scope of their own, in another, and in a revoked one."""
    with Served(clock=FakeClock(START)) as served:
        served.tokens = {
            (scope, kind): served.token(kind, "w", scope=scope)
            for scope in SCOPES for kind in KINDS
        }  # type: ignore[attr-defined]  # fmt: skip
        served.tasks = {scope: task(served, scope) for scope in SCOPES}  # type: ignore[attr-defined]
        own = served.fp.as_caller("local", scope="own")
        own.queue_set("q", destinations=["owed"])
        served.owed = own.enqueue("owed", {"secret": "own"}).task_id  # type: ignore[attr-defined]
        served.fp.as_caller("local", scope="gone").revoke()
        yield served


def task(web: Served, scope: str) -> str:
    return web.fp.as_caller("local", scope=scope).enqueue("q", {"secret": scope}).task_id


def command(verb: str, task_id: str) -> Json:
    """One of each verb, which would be accepted or refused by a later rule than the first."""
    lease = {"task_id": task_id, "worker_id": "w", "fencing_token": 7}
    given: dict[str, Json] = {
        "enqueue": {"queue": "q", "tasks": [{"payload": 1}]},
        "claim": {"queues": ["empty"], "worker_id": "w"},
        "submit": {**lease, "result": 1},
        "resolve": {"task_id": task_id, "to": "retry"},
        "review": {"task_id": task_id, "revision": 1, "verdict": "accepted"},
        "import": {"task_id": task_id, "revision": 1, "epoch": 0, "fencing_token": 7,
                   "final": True, "result": 1, "evidence": "there"},
        "sweep": {"queue": "q"}, "purge": {"queue": "q"},
        "queue.set": {"queue": "q", "settings": {"lease_seconds": 60}},
        "scope.set_policy": {"retain_seconds": None},
        "scope.revoke": {"revoked": False}, "clock.reset": {},
        "token.create": {"token_sha256": "0" * 64, "kind": "worker", "actor": "w"},
        "token.revoke": {"token_id": f"tok_{'0' * 32}"},
        "destination.set": {"queue": "q", "stopped": "it moves"},
        "destination.secret": {"queue": "q", "secret": SECRET},
        "destination.advance": {"queue": "q", "expected_sequence": 0, "sequence": 0},
    }  # fmt: skip
    of_task = {"task_id": task_id}
    member = given.get(verb, lease if verb in ("renew", "complete", "fail", "release") else of_task)
    return {"verb": verb, **member}


def path_of(route: Route, scope: str, task_id: str) -> str:
    names = {"scope": scope, "queue": "q", "task_id": task_id, "number": "1", "code": "forbidden"}
    path = route.path.replace("{key:path}", "no-such-key")
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)
    return path


SENT = [route for route in ROUTES if route.verb and route.verb != "batch"
        and route.name != "claim_of_a_queue"]  # fmt: skip
READ = [route for route in ROUTES if not route.verb and not route.open
        and route.path.startswith("/v1/") and route.name not in ("events", "seal")]  # fmt: skip


def sent(web: Served, route: Route, kind: str, task_id: str) -> Reply:
    body = command(route.verb, task_id)
    if kind == "dispatcher" and route.verb == "claim":
        body["queues"] = ["owed"]
    return web.post(path_of(route, "own", task_id), body, web.tokens["own", kind])  # type: ignore[attr-defined]


def test_every_verb_has_a_path() -> None:
    assert {route.verb for route in SENT} == set(COMMANDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("route", SENT, ids=lambda route: route.name)
def test_a_kind_sends_what_it_may_and_is_told_403_for_the_rest_whatever_exists(
    web: Served, route: Route, kind: str
) -> None:
    if kind == "dispatcher":
        task_id = web.owed  # type: ignore[attr-defined]
    elif route.verb in ("scope.revoke", "clock.reset", "erase", "cancel") and kind in (
        "operator", "human", "producer",
    ):  # fmt: skip
        task_id = task(web, "own")  # these change what other rows of the table need
    else:
        task_id = web.tasks["own"]  # type: ignore[attr-defined]
    reply = sent(web, route, kind, task_id)
    nowhere = sent(web, route, kind, NOWHERE)
    allowed = route.verb in MAY[kind] and route.verb != "clock.reset"  # that is for every scope
    if allowed:
        assert reply.code != "forbidden"
        assert "task_id" not in command(route.verb, "x") or nowhere.code == "not_found"
    else:
        assert (reply.status, reply.code) == (403, "forbidden")
        assert nowhere.status == 403 and alike(reply, nowhere)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("route", SENT + READ, ids=lambda route: route.name)
def test_another_scope_is_not_there(web: Served, route: Route, kind: str) -> None:
    own, other = web.tasks["own"], web.tasks["other"]  # type: ignore[attr-defined]
    token = web.tokens["own", kind]  # type: ignore[attr-defined]

    def ask(scope: str, task_id: str) -> Reply:
        path = path_of(route, scope, task_id)
        return (web.post(path, command(route.verb, task_id), token) if route.verb
                else web.get(path, token))  # fmt: skip

    there, missing = ask("other", other), ask("never-made", NOWHERE)
    assert (there.status, there.code) == (404, "not_found")
    assert alike(there, missing) and alike(there, ask("gone", own))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("route", SENT + READ, ids=lambda route: route.name)
def test_a_revoked_scope_tells_nothing_but_that_it_is_revoked(
    web: Served, route: Route, kind: str
) -> None:
    token = web.tokens["gone", kind]  # type: ignore[attr-defined]
    replies = []
    for task_id in (web.tasks["gone"], NOWHERE):  # type: ignore[attr-defined]
        path = path_of(route, "gone", task_id)
        replies.append(web.post(path, command(route.verb, task_id), token) if route.verb
                       else web.get(path, token))  # fmt: skip
    of_the_store = route.verb == "clock.reset"
    if route.verb and (route.verb not in MAY[kind] or of_the_store):
        assert {reply.code for reply in replies} == {"forbidden"}
    else:  # to its own operator too: nobody of a scope lifts its revocation
        assert {reply.code for reply in replies} == {"scope_revoked"}
    assert alike(*replies)


def alike(one: Reply, other: Reply) -> bool:
    """The same but for when and for which request it was."""
    own = {"date", "fencepost-time", "request-id"}
    kept = [{n: v for n, v in each.headers.items() if n not in own} for each in (one, other)]
    return (one.status, one.body, kept[0]) == (other.status, other.body, kept[1])


# -- tokens


def test_without_a_token_or_with_a_wrong_one_nobody_comes_in(web: Served) -> None:
    made = tokens.make()
    swapped = made[:-1] + ("0" if made[-1] != "0" else "1")
    for header in (None, "", "Bearer", "Bearer ", "Basic dTpw", f"Bearer {made}",
                   f"Bearer {swapped}", "Bearer fp_short", f"Token {made}"):  # fmt: skip
        given = {} if header is None else {"Authorization": header}
        for path in ("/v1/own", "/v1/never-made", "/v1/own/tasks", "/metrics"):
            reply = web.ask("GET", path, headers=given)
            assert (reply.status, reply.code) == (401, "unauthenticated"), header
            challenge = reply.headers["www-authenticate"]
            assert challenge.startswith('Bearer realm="fencepost"')
            assert ('error="invalid_token"' in challenge) == (header is not None)


def test_a_revoked_token_is_401_at_once_for_everything(web: Served) -> None:
    fp = web.fp.as_caller("local", scope="own")
    receipt, text = fp.token_create("w", "worker")
    body = {"verb": "claim", "queues": ["empty"], "worker_id": "w"}
    claims = "/v1/own/queues/empty/claims"
    assert web.post(claims, body, text, key="before").status == 200
    assert web.get("/v1/own/tasks", text).status == 200
    fp.token_revoke(receipt.entry["note"]["token_id"])
    for reply in (
        web.post(claims, body, text), web.post(claims, body, text, key="before"),
        web.post(claims, b"nonsense", text), web.get("/v1/own/tasks", text),
        web.get("/v1/own/tasks?nonsense=1", text), web.get("/v1/other", text),
        web.post("/v1/own/queues/empty/tasks", {"verb": "enqueue"}, text),
        web.post("/v1/own/batch", {"commands": [{"command": body}]}, text),
        web.get("/v1/own/journal/events", text), web.get("/metrics", text),
    ):  # fmt: skip
        assert (reply.status, reply.code) == (401, "unauthenticated")


def test_a_token_ends_at_its_very_instant() -> None:
    clock = FakeClock(START)
    with Served(clock=clock) as web:
        text = web.token("producer", "p", expires_at="2026-01-01T00:00:10Z")
        body = command("enqueue", "")
        clock.advance(9.999999)
        assert web.post("/v1/default/queues/q/tasks", body, text).status == 200
        clock.advance(0.000001)
        assert web.post("/v1/default/queues/q/tasks", body, text).status == 401
        assert web.get("/v1/default", text).status == 401


def test_a_worker_acts_for_itself_alone(web: Served) -> None:
    token = web.tokens["own", "worker"]  # type: ignore[attr-defined]
    body = {"verb": "claim", "queues": ["empty"], "worker_id": "somebody-else"}
    assert web.post("/v1/own/queues/empty/claims", body, token).code == "forbidden"


def test_a_token_of_some_queues_neither_sees_nor_does_anything_on_others(web: Served) -> None:
    fp = web.fp.as_caller("local", scope="queues")
    seen, hidden = fp.enqueue("seen", 1).task_id, fp.enqueue("hidden", 2).task_id
    text = web.token("operator", "o", scope="queues", queues=["seen"])
    listed = web.get("/v1/queues/tasks", text).json["tasks"]
    assert [row["task_id"] for row in listed] == [seen]
    assert web.get("/v1/queues/tasks?queue=hidden", text).json["tasks"] == []
    for path in (f"tasks/{hidden}", f"tasks/{hidden}/results", f"tasks/{hidden}/history",
                 "queues/hidden"):  # fmt: skip
        assert web.get(f"/v1/queues/{path}", text).status == 404, path
    cancel = {"verb": "cancel", "task_id": hidden}
    assert web.post(f"/v1/queues/tasks/{hidden}/cancel", cancel, text).status == 404
    entries = web.get("/v1/queues/journal/entries?page_size=1000", text).json["entries"]
    assert [entry["entry"] is None for entry in entries].count(False) <= 2
    own = [json.loads(entry["entry"]) for entry in entries if entry["entry"]]
    assert {entry.get("queue") for entry in own} == {"seen"}


def test_entries_of_other_scopes_show_as_leaf_hashes(web: Served) -> None:
    for kind in KINDS:
        token = web.tokens["own", kind]  # type: ignore[attr-defined]
        for entry in web.get("/v1/own/journal/entries?page_size=1000", token).json["entries"]:
            assert len(entry["leaf_hash"]) == 64
            if entry["entry"] is not None:
                assert json.loads(entry["entry"])["scope"] == "own"


def test_a_token_of_every_scope_reaches_each(web: Served) -> None:
    text = web.token("operator", "root", every_scope=True)
    assert web.get("/v1/own", text).json["scope"] == "own"
    assert web.get("/v1/other", text).json["scope"] == "other"
    assert b"fencepost_tasks" in web.get("/metrics", text).body
    assert web.get("/metrics", web.tokens["own", "operator"]).status == 403  # type: ignore[attr-defined]


def test_no_secret_is_ever_written_to_the_log(web: Served) -> None:
    text = web.token("operator", "o", scope="own")
    web.post("/v1/own/queues/secret-queue/tasks", {
        "verb": "enqueue", "queue": "secret-queue", "tasks": [{"payload": "PAYLOAD"}],
    }, text, key="SECRET-KEY")  # fmt: skip
    web.get(f"/v1/own/receipts/SECRET-KEY?token={text}", text)
    web.get(f"/v1/{text}", text)
    web.post("/v1/own/queues/q/tasks", b'{"PAYLOAD": ', text)
    log = "".join(web.log)
    assert log.count("\n") > 10
    for line in log.splitlines():
        json.loads(line)
    for secret in (text, text[3:20], "PAYLOAD", "SECRET-KEY", "secret-queue", '"secret":'):
        assert secret not in log, secret


def test_every_code_of_the_table_has_its_page(web: Served) -> None:
    for code in ISSUES:
        assert web.get(f"/problems/{code}").json["code"] == code
    assert web.get("/problems/nothing").status == 404
