"""What told a mutant of the machine's answers from the program and no quick test asked for."""

from __future__ import annotations

from hashlib import sha256

import pytest
from helpers.stand import QUEUE, SECOND, UNKNOWN, WORKER, Stand, binding
from helpers.wires import SECRET

from fencepost import commands as c
from fencepost.issues import ISSUES, InvalidRequest
from fencepost.journal.checkpoint import Checkpoint
from fencepost.journal.proof import MAX_PATH, Proof
from fencepost.journal.tree import EMPTY_ROOT
from fencepost.machine import claims, operators, results, retention
from fencepost.machine.fold import fold
from fencepost.machine.needs import Needs, needs
from fencepost.model import Caller, Destination, Token

MORE = {"submit": {"result": 1}, "resolve": {"to": "retry"}}
WORKED = ("renew", "release", "fail", "submit", "complete")
TOKEN = "tok_" + "0" * 32
OUTSIDE = ("cancel", "requeue", "resolve", "erase")


def in_state_for(stand, verb):
    """A lease of a task in a state from which the verb can start."""
    lease = stand.leased()
    if verb == "requeue":
        lease.complete()
    elif verb == "resolve":
        lease.fail(then="block")
    return lease


def command(verb, lease, fence):
    bound = binding(lease, fence=fence)
    if verb in OUTSIDE:
        del bound["worker_id"]
    return c.COMMANDS[verb](**bound, **MORE.get(verb, {}))


@pytest.mark.parametrize("verb", [*WORKED, *OUTSIDE])
def test_a_write_is_guarded_by_the_fence_that_was_presented_whatever_the_rules_say(
    verb, monkeypatch
):
    for place in (claims, results):
        monkeypatch.setattr(place, "lease_issues", lambda *_: [])
    for place in (operators, retention):
        monkeypatch.setattr(place, "moved_on", lambda *_: None)
    with Stand() as stand:
        lease = in_state_for(stand, verb)
        forged = command(verb, lease, 77)
        with stand.loaded(forged) as loaded:
            caller = stand.fp.as_caller("local").caller
            (verdict,), changes = fold([(caller, c.Request.of(forged))], loaded)
        assert verdict.outcome.accepted
        assert changes.updated[lease.task_id].guard == (77, None)


@pytest.mark.parametrize("verb", [*WORKED, *OUTSIDE])
def test_a_refused_command_tells_how_its_task_stands(verb):
    with Stand() as stand:
        stand.leased().release()
        lease = in_state_for(stand, verb) if verb in OUTSIDE else stand.claim()
        task = stand.fp.task(lease.task_id)
        told = stand.ask(command(verb, lease, 77))
        assert told.issues == ("unknown_fence",)
        assert told.facts == {
            "state": task.state, "fencing_token": lease.fence, "revision": task.revision,
        }  # fmt: skip


@pytest.mark.parametrize("verb", WORKED)
def test_who_ended_the_task_is_told_the_entry_and_nobody_else(verb):
    with Stand() as stand:
        lease = stand.leased()
        receipt = lease.complete(1)
        late = {**MORE.get(verb, {}), **({"result": 2} if verb == "complete" else {})}
        for changed, own in (({}, True), ({"worker_id": "v"}, False), ({"fence": 9}, False)):
            told = stand.ask(c.COMMANDS[verb](**binding(lease, **changed), **late))
            assert told.issues[0] == "task_done"
            assert told.facts.get("receipt") == (receipt.number if own else None)


def test_a_review_that_is_refused_tells_how_its_task_stands():
    with Stand() as stand:
        lease = stand.leased()
        lease.complete(1)
        told = stand.ask(c.Review(lease.task_id, 2, "accepted"), "ann", "human")
        assert told.issues == ("stale_revision",)
        assert told.facts == {"state": "done", "fencing_token": lease.fence, "revision": 1}


def test_a_lease_says_all_that_its_task_and_claim_are():
    with Stand() as stand:
        stand.fp.set_policy(4)
        stand.task("work", key="k", max_attempts=7)
        stand.claim().release()
        stand.clock.advance(1)
        now = stand.fp.now()
        lease = stand.claim(lease_seconds=20)
        assert lease.grant[:12] == (
            lease.task_id, QUEUE, "k", WORKER, 2, 0, 1, 7, 0, 4, now, now + 20 * SECOND,
        )  # fmt: skip
        assert lease.grant.payload == b'"work"'


def test_a_policy_that_does_not_rise_is_refused_with_the_one_that_holds():
    with Stand() as stand:
        stand.fp.set_policy(4, retain_seconds=9)
        for version in (3, 4):
            told = stand.ask(c.SetPolicy(version))
            assert told.issues == ("stale_policy",)
            assert told.facts == {"policy_version": 4}
            assert told.message == "scope.set_policy: give a policy_version above 4"
        note = stand.fp.set_policy(retain_seconds=None).entry["note"]
        assert note == {"retain_seconds": None}
        scope = stand.connection.execute("select policy_version, retain_seconds from "
                                         "fencepost_scope where scope = 's'")  # fmt: skip
        assert scope.fetchone() == (4, None)


def test_a_clock_that_was_reset_says_from_when_to_when_and_ends_leases_then():
    with Stand() as stand:
        lease = stand.leased()
        before = stand.fp.now()
        stand.clock.jump_wall(-3600)
        entry = stand.fp.clock_reset().entry
        assert entry["note"] == {
            "from": "2026-01-01T00:00:00.000000Z", "to": "2025-12-31T23:00:00.000000Z",
        }  # fmt: skip
        assert (entry["at"], entry["epoch"]) == ("2025-12-31T23:00:00.000000Z", 1)
        assert stand.fp.now() == before - 3_600 * SECOND
        assert stand.fp.task(lease.task_id).lease_expires_at == stand.fp.now()


def test_what_is_not_there_is_told_without_facts():
    with Stand() as stand:
        for verb in (*WORKED, "cancel"):
            bound = {"task_id": UNKNOWN, "worker_id": WORKER, "fence": 1}
            if verb == "cancel":
                bound = {"task_id": UNKNOWN}
            told = stand.ask(c.COMMANDS[verb](**bound, **MORE.get(verb, {})))
            assert (told.issues, dict(told.facts)) == (("not_found",), {})


def of_every_verb(lease):
    """A command of each verb, on this lease where it is on a task."""
    fence = lease.fence
    on_tasks = {verb: command(verb, lease, fence) for verb in (*WORKED, *OUTSIDE)}
    return on_tasks | {
        "enqueue": c.Enqueue(QUEUE, ({"payload": 1},)), "claim": c.Claim(WORKER, (QUEUE,)),
        "review": c.Review(lease.task_id, 1, "accepted"),
        "import": c.Import(lease.task_id, 1, 0, 1, final=True, evidence=1, result=1),
        "sweep": c.Sweep(), "purge": c.Purge(),
        "queue.set": c.QueueSet(QUEUE, {"paused": True}), "scope.set_policy": c.SetPolicy(2),
        "scope.revoke": c.Revoke(), "clock.reset": c.ClockReset(),
        "token.create": c.TokenCreate("0" * 64, kind="worker", actor="w"),
        "token.revoke": c.TokenRevoke(TOKEN),
        "destination.set": c.DestinationSet("out", "https://h.example/", "fenced"),
        "destination.secret": c.DestinationSecret("out", SECRET),
        "destination.advance": c.DestinationAdvance("out", 0, 0),
    }  # fmt: skip


@pytest.mark.parametrize("verb", c.COMMANDS)
def test_in_a_store_that_is_read_only_every_verb_is_blocked_and_says_so_first(verb):
    with Stand() as stand:
        sent = of_every_verb(stand.leased())[verb]
        kind = "human" if verb == "review" else "operator"
        with stand.loaded(sent) as loaded:
            loaded.read_only = True
            loaded.tokens[TOKEN] = Token(TOKEN, "s", "worker", "w", None, 1, None, None)
            loaded.destinations["s", "out"] = Destination("out", "https://h.example/", "fenced", {})
            caller = stand.fp.as_caller("local", kind).caller
            (verdict,), changes = fold([(caller, c.Request.of(sent))], loaded)
        told = verdict.outcome
        assert (told.status, told.issues[0]) == ("blocked", "store_read_only")
        issue = ISSUES["store_read_only"]
        assert told.message == f"{verb}: {issue.meaning}; {issue.advice}"
        assert changes.is_empty()


def test_a_key_whose_task_has_lost_its_content_makes_no_second_task():
    with Stand() as stand:
        stand.task(key="k")
        stand.connection.execute("delete from fencepost_payload")
        told = stand.ask(c.Enqueue(QUEUE, ({"payload": "work", "key": "k"},)))
        assert told.issues == ("receipt_erased",)


def test_a_proof_is_read_with_as_many_hashes_as_a_path_can_have_and_no_more():
    entry, text = "{}", Checkpoint("fencepost/w", 0, EMPTY_ROOT).text().decode()
    members = {"number": 1, "entry": entry, "size": 1, "checkpoint": text}
    path = ["00" * 32] * MAX_PATH
    assert Proof.from_json({**members, "path": path}).path == (bytes(32),) * MAX_PATH
    for wrong in ([*path, "00" * 32], tuple(path), ["00" * 31], ["0G" * 32], ["AB" * 32], [7]):
        with pytest.raises(InvalidRequest, match="proof: path"):
            Proof.from_json({**members, "path": wrong})
    for number, right in ((0, True), (-1, False), (True, False), ("1", False)):
        if right:
            assert Proof.from_json({**members, "number": number, "path": []}).number == number
        else:
            with pytest.raises(InvalidRequest, match="proof: number"):
                Proof.from_json({**members, "number": number, "path": []})


def test_who_has_named_an_erased_follow_up_is_told_so_in_the_same_batch():
    with Stand() as stand:
        known = stand.task("x", "next", key="k")
        lease = stand.leased()
        follow = ({"queue": "next", "payload": "x", "key": "k"},)
        done = c.Request.of(c.Complete(**binding(lease), followups=follow), "K")
        other = c.Request.of(c.Enqueue("next", ({"payload": 2},)), "other")
        caller = stand.fp.as_caller("local").caller
        batch = [done, other, c.Request.of(c.Erase(known)), done, other]
        told = stand.batch([(caller, request) for request in batch])
        assert [outcome.issues for outcome in told] == [(), (), (), ("receipt_erased",), ()]
        assert told[4].replayed


@pytest.mark.parametrize("queues", [(QUEUE,), (QUEUE, "other")])
def test_a_claim_of_one_queue_names_it_once_and_of_several_with_each_task(queues):
    with Stand() as stand:
        stand.task()
        stand.task(queue="other")
        told = stand.ask(c.Claim(WORKER, queues, limit=2))
        one = len(queues) == 1
        assert told.receipt.entry.get("queue") == (QUEUE if one else None)
        named = [item.get("queue") for item in told.receipt.entry["tasks"]]
        assert named == ([None] if one else [QUEUE, "other"])


# --- what a batch is judged with --------------------------------------------------------------


def wanted(*sent, key=None, kind="operator", token=None):
    caller = Caller("s", kind, "local", token)
    found = needs([(caller, c.Request.of(each, key)) for each in sent])
    empty = needs([])
    names = [name for name in Needs.__record__ if getattr(found, name) != getattr(empty, name)]
    assert found.scopes == {"s"}
    return {name: getattr(found, name) for name in names if name != "scopes"}


NEW = {"payload": 1, "key": "k"}
DIGEST = sha256(b"1").digest()


def digest_of(sent):
    return c.Request.of(sent).sha256


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (c.Enqueue("q", (NEW, {"payload": 2})),
         {"queues": {("s", "q")}, "keys": {("s", "q", "k")}}),
        (c.Claim("w", ("q", "r"), limit=3), {"queues": {("s", "q"), ("s", "r")},
         "claims": {("s", "q"): 3, ("s", "r"): 3}}),
        (c.Claim("w", task_id=UNKNOWN), {"tasks": {("s", UNKNOWN)}, "claimed": {UNKNOWN}}),
        *((sent, {"queues": {("s", "out")}, "destinations": {("s", "out")}}) for sent in (
            c.DestinationSet("out", "https://h.example/", "fenced"),
            c.DestinationSecret("out", SECRET), c.DestinationAdvance("out", 0, 0),
        )),
        (c.Purge("q", limit=3), {"purges": {("s", "q"): 3}}),
        (c.Purge(limit=3), {"purges": {("s", ""): 3}}),
        (c.Sweep("q", limit=3), {"sweeps": {("s", "q"): 3}, "queues": {("s", "q")}}),
        (c.Sweep(limit=3), {"sweeps": {("s", ""): 3}}),
        (c.Review(UNKNOWN, 2, "accepted"), {"tasks": {("s", UNKNOWN)},
         "revisions": {(UNKNOWN, 2)}}),
        (c.Erase(UNKNOWN), {"tasks": {("s", UNKNOWN)}, "children": {UNKNOWN}}),
        (c.QueueSet("q", {"paused": True}), {"all_queues": {"s"}}),
        (c.Cancel(UNKNOWN), {"tasks": {("s", UNKNOWN)}}),
        (c.Revoke(), {}),
        (c.TokenRevoke(TOKEN), {"tokens": {TOKEN}}),
        (c.TokenCreate("ab" * 32, kind="worker", actor="w"),
         {"digests_of_tokens": {b"\xab" * 32}}),
    ],
    ids=lambda value: value.verb if isinstance(value, c.Command) else "",
)  # fmt: skip
def test_a_command_is_judged_with_what_it_names_and_with_nothing_else(sent, expected):
    assert wanted(sent) == expected
    keyed = wanted(sent, key="K")
    actor = getattr(sent, "worker_id", "local")
    kept = {"lookups": {f"s {actor} K"}}
    if sent.verb in ("claim", "sweep", "purge"):  # a copy beside it could find what it left
        kept["looking"] = kept["lookups"]
    assert keyed == {**expected, **kept}


@pytest.mark.parametrize("verb", WORKED)
def test_a_workers_command_is_found_again_by_its_digest_or_by_its_key(verb):
    sent = c.COMMANDS[verb](UNKNOWN, "w", 1, **MORE.get(verb, {}))
    task = {"tasks": {("s", UNKNOWN)}}
    if verb == "submit":
        task["results"] = {(UNKNOWN, DIGEST)}
    assert wanted(sent) == {**task, "digests": {(UNKNOWN, digest_of(sent))}}
    assert wanted(sent, key="K") == {**task, "lookups": {"s w K"}}


def test_what_several_ask_of_one_place_adds_up_and_a_token_that_is_shown_is_looked_for():
    assert wanted(c.Purge("q", limit=3), c.Purge("q", limit=4)) == {"purges": {("s", "q"): 7}}
    assert wanted(c.Sweep(limit=3), c.Sweep(limit=4)) == {"sweeps": {("s", ""): 7}}
    assert wanted(c.Revoke(), token=TOKEN) == {"tokens": {TOKEN}}
    done = c.Complete(
        UNKNOWN, "w", 1, followups=({"queue": "r", **NEW}, {"queue": "s", "payload": 2})
    )
    told = wanted(done)
    assert (told["queues"], told["keys"]) == ({("s", "r"), ("s", "s")}, {("s", "r", "k")})
