"""The laws of tokens: who is let in, as whom, where, and until when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fencepost import commands as c
from fencepost import tokens
from fencepost.issues import GuardTripped, NotFound, ScopeRevoked, Unauthenticated
from fencepost.machine.fold import fold
from fencepost.machine.rows import Changes
from fencepost.model import Caller, Kind, Token
from fencepost.storage import reading
from helpers.laws import law
from helpers.stand import QUEUE, SCOPE, SECOND, UNKNOWN, WORKER, Make, Stand

OUT, FORBIDDEN, HIDDEN = ("unauthenticated",), ("forbidden",), ("not_found",)
OTHER = "other"
Refusal = tuple[str, ...]
DIGEST = tokens.digest("fp_")


def let_in(
    stand: Stand, kind: Kind = "worker", actor: str = WORKER, scope: str = SCOPE, **more: Any
) -> Caller:
    """Who comes in with a new token."""
    text = tokens.make()
    stand.fp.as_caller("local", scope=scope).execute(
        [c.Request.of(c.TokenCreate(tokens.digest(text).hex(), kind, actor, **more))]
    )
    caller = known(stand, text).caller(scope)
    assert caller is not None
    return caller


def known(stand: Stand, text: str) -> Token:
    """What the store knows of the token."""
    token = stand.fp.read(reading.token_by_sha256(tokens.digest(text)))
    assert token is not None
    return token


def told(stand: Stand, caller: Caller, command: c.Command, key: str | None = None) -> Refusal:
    """The issues of one command; what is refused changes nothing."""
    before = stand.dump()
    (outcome,) = stand.batch([(caller, c.Request.of(command, key))])
    assert outcome.accepted or stand.dump() == before
    return outcome.issues


def revocation(caller: Caller) -> c.Command:
    assert caller.token is not None
    return c.TokenRevoke(caller.token)


@law
def a_token_makes_of_its_bearer_what_it_was_made_for_and_nobody_else(make: Make) -> None:
    with make() as stand:
        stand.task()
        caller = let_in(stand, queues=(QUEUE,))
        claim = c.Claim(WORKER, (QUEUE,))
        for wrong in (
            {"kind": "operator"}, {"actor": "v"}, {"scope": "t"}, {"queues": None},
            {"queues": frozenset({QUEUE, OTHER})}, {"every_scope": True},
            {"token": "tok_" + "0" * 32},
        ):  # fmt: skip
            assert told(stand, replace(caller, **wrong), claim) == OUT, wrong
        assert told(stand, caller, claim) == ()


@law
def a_token_has_ended_at_its_very_end(make: Make) -> None:
    with make() as stand:
        ends = stand.fp.now() + 60 * SECOND
        caller = let_in(stand, expires_at="2026-01-01T00:01:00Z")
        claim = c.Claim(WORKER, (QUEUE,))
        stand.clock.advance((ends - 1 - stand.fp.now()) / SECOND)
        assert stand.fp.now() == ends - 1
        assert told(stand, caller, claim) == ()
        assert stand.fp.for_caller(caller).queue_rows() == []
        stand.clock.advance(1 / SECOND)
        assert stand.fp.now() == ends
        assert told(stand, caller, claim) == OUT
        assert reads(stand, caller) == OUT


@law
def a_revoked_token_is_refused_from_that_commit_on_in_its_batch_and_for_replays(make: Make) -> None:
    with make() as stand:
        stand.task()
        caller, claim = let_in(stand), c.Request.of(c.Claim(WORKER, (QUEUE,)), "k")
        revoke = c.Request.of(revocation(caller), "r")
        issues = [
            outcome.issues
            for outcome in stand.batch(
                [(caller, claim), (Caller(SCOPE), revoke), (caller, claim), (caller, claim)]
            )
        ]
        assert issues == [(), (), OUT, OUT]
        assert told(stand, caller, claim.command, "k") == OUT
        assert reads(stand, caller) == OUT
        own = let_in(stand, "operator", "ops")
        asked = c.Request.of(revocation(own), "own")
        assert [o.issues for o in stand.batch([(own, asked), (own, asked)])] == [(), OUT]


@law
def a_token_that_is_revoked_again_stays_as_it_was(make: Make) -> None:
    with make() as stand:
        caller, other = let_in(stand), let_in(stand, actor="v")
        assert told(stand, Caller(SCOPE), revocation(caller), "1") == ()
        first = {token.token_id: token.revoked_at for token in stand.fp.tokens()}
        assert first == {caller.token: stand.fp.now(), other.token: None}
        stand.clock.advance(5)
        twice = c.Request.of(revocation(caller))
        outcomes = stand.batch([(Caller(SCOPE), twice), (Caller(SCOPE), twice)])
        assert [outcome.facts for outcome in outcomes] == [{"token_id": caller.token}] * 2
        assert {token.token_id: token.revoked_at for token in stand.fp.tokens()} == first
        again = [c.Request.of(revocation(other)), c.Request.of(revocation(other))]
        assert [o.issues for o in stand.batch([(Caller(SCOPE), a) for a in again])] == [(), ()]


@law
def what_is_written_of_a_revocation_is_guarded(make: Make) -> None:
    with make() as stand:
        caller, other = let_in(stand), let_in(stand, actor="v")
        stand.fp.token_revoke(str(caller.token))
        for token_id in (str(caller.token), "tok_" + "0" * 32):
            with stand.loaded(revocation(other)) as loaded:
                try:
                    revoked = [(loaded.now, token_id)]
                    stand.save(Changes(revoked=revoked, store=loaded.store), loaded)
                except GuardTripped:
                    continue
            raise AssertionError(f"{token_id} was revoked")


@law
def a_token_of_some_queues_names_no_other_and_nothing_of_the_scope(make: Make) -> None:
    with make() as stand:
        stand.task()
        stand.task(queue=OTHER)
        lease = stand.claim()
        ops = let_in(stand, "operator", "ops", queues=(QUEUE, "out"))
        bound = {"task_id": lease.task_id, "worker_id": WORKER, "fence": lease.fence}
        refused = [
            c.Enqueue(OTHER, ({"payload": 1},)), c.Claim(WORKER, (QUEUE, OTHER)),
            c.Complete(**bound, followups=({"queue": OTHER, "payload": 1},)),
            c.Sweep(OTHER), c.Sweep(), c.Purge(OTHER), c.Purge(),
            c.QueueSet(OTHER, {"paused": True}), c.QueueSet(QUEUE, {"destinations": [OTHER]}),
            c.SetPolicy(3), c.Revoke(), c.ClockReset(), c.TokenCreate(DIGEST.hex(), "worker", "w"),
            revocation(ops),
        ]  # fmt: skip
        for command in refused:
            assert told(stand, ops, command) == FORBIDDEN, command
        allowed = [
            c.Enqueue(QUEUE, ({"payload": 1},)), c.Sweep(QUEUE), c.Purge(QUEUE),
            c.QueueSet(QUEUE, {"destinations": ["out"]}), c.Claim(WORKER, (QUEUE,)),
            c.Complete(**bound, result=1, followups=({"queue": QUEUE, "payload": 1},)),
        ]  # fmt: skip
        for command in allowed:
            assert told(stand, ops, command, f"k{id(command)}") == (), command


@law
def for_a_token_of_some_queues_the_tasks_of_others_are_not_there(make: Make) -> None:
    with make() as stand:
        mine, hidden = stand.task(), stand.task(queue=OTHER, key="k")
        lease = stand.claim(queue=OTHER)
        ops = let_in(stand, "operator", "ops", queues=(QUEUE,))
        for task_id in (hidden, UNKNOWN):
            bound = {"task_id": task_id, "worker_id": WORKER, "fence": lease.fence}
            for command in (c.Cancel(task_id), c.Claim(WORKER, task_id=task_id),
                            c.Complete(**bound), c.Renew(**bound), c.Erase(task_id)):  # fmt: skip
                assert told(stand, ops, command) == HIDDEN, command
        seen = stand.fp.for_caller(ops)
        for ask in (lambda: seen.task(hidden), lambda: seen.task_by_key(OTHER, "k"),
                    lambda: list(seen.results(hidden)), lambda: list(seen.history(hidden)),
                    lambda: list(seen.refused(hidden)), lambda: seen.queue(OTHER)):  # fmt: skip
            try:
                ask()
            except NotFound:
                continue
            raise AssertionError("a hidden queue was shown")
        messages = set()
        for key in ("k", "j"):  # there, and nowhere
            try:
                seen.task_by_key(OTHER, key)
            except NotFound as error:
                messages.add(str(error).removesuffix(f" {key}"))
        assert len(messages) == 1, messages
        assert [task.task_id for task in seen.tasks()] == [mine]
        assert list(seen.tasks(OTHER)) == []
        assert [row["queue"] for row in seen.stats()["queues"]] == [QUEUE]
        assert [row.queue for row in seen.queue_rows()] == [QUEUE]
        assert told(stand, ops, c.Cancel(mine)) == ()


@law
def an_entry_shows_to_a_token_of_its_scope_and_queues(make: Make) -> None:
    with make() as stand:
        stand.task()  # 1: QUEUE
        stand.task(queue=OTHER)  # 2
        stand.fp.claim([QUEUE, OTHER], worker_id=WORKER, limit=2)  # 3: of both
        stand.fp.set_policy(1)  # 4: of none
        stand.fp.as_caller("local", scope="t").enqueue(QUEUE, 1)  # 5: of another scope
        named = {view.number: place for place, view in enumerate(stand.fp.entries(), start=1)}
        for kind in ("worker", "operator", "auditor"):
            one = let_in(stand, kind, queues=(QUEUE,))
            both = let_in(stand, kind, queues=(QUEUE, OTHER))
            scope = let_in(stand, kind)
            all_ = let_in(stand, kind, every_scope=True)
            shown = [
                [named[view.number] for view in stand.fp.for_caller(caller).entries()
                 if view.body is not None and view.number in named]
                for caller in (one, both, scope, all_)
            ]  # fmt: skip
            everything = [1, 2, 3, 4] if kind == "worker" else [1, 2, 3, 4, 5]
            assert shown == [[1], [1, 2, 3], [1, 2, 3, 4], everything], kind
        here = stand.fp.for_caller(Caller(SCOPE, queues=frozenset({QUEUE})))
        assert [named[view.number] for view in here.entries() if view.body is not None] == [1]


@law
def what_concerns_the_whole_store_is_for_tokens_of_every_scope(make: Make) -> None:
    with make() as stand:
        bound = let_in(stand, "operator", "ops")
        whole = let_in(stand, "operator", "ops", every_scope=True)
        everywhere = c.TokenCreate(DIGEST.hex(), "auditor", "a", every_scope=True)
        for command in (c.ClockReset(), everywhere, revocation(whole)):
            wanted = HIDDEN if command.verb == "token.revoke" else FORBIDDEN
            assert told(stand, bound, command) == wanted
        own = c.TokenCreate(tokens.digest("own").hex(), "operator", "next")
        assert told(stand, bound, own) == ()
        assert told(stand, whole, everywhere) == ()
        assert told(stand, replace(whole, scope="t"), revocation(whole)) == ()
        for caller in (bound, Caller("t", "operator", "local", every_scope=False)):
            assert told(stand, caller, c.ClockReset()) == FORBIDDEN


@law
def a_token_is_of_the_scope_in_which_it_was_made(make: Make) -> None:
    with make() as stand:
        there, here = let_in(stand, "operator", "ops", "t"), let_in(stand, "operator", "ops")
        assert told(stand, replace(there, scope=SCOPE), c.Sweep()) == OUT
        assert told(stand, here, revocation(there)) == HIDDEN
        assert told(stand, Caller(SCOPE), revocation(there)) == HIDDEN
        assert told(stand, here, c.TokenRevoke("tok_" + "0" * 32)) == HIDDEN
        assert told(stand, there, revocation(there)) == ()
        everywhere = let_in(stand, "auditor", "a", every_scope=True)
        shown = [token.token_id for token in stand.fp.for_caller(here).tokens()]
        assert shown == [here.token]
        for scope in ("t", SCOPE, "u"):
            assert told(stand, replace(everywhere, scope=scope), c.Sweep()) == FORBIDDEN
            assert everywhere.token in {
                token.token_id for token in stand.fp.as_caller("local", scope=scope).tokens()
            }


@law
def a_revoked_scope_is_closed_to_its_own_operator_and_lifted_by_the_stores(make: Make) -> None:
    with make() as stand:
        task_id = stand.task()
        bound = let_in(stand, "operator", "ops")
        auditor = let_in(stand, "auditor", "a")
        whole = let_in(stand, "operator", "root", every_scope=True)
        own = c.Request.of(c.Revoke(), "own")
        assert [o.issues for o in stand.batch([(bound, own), (bound, own)])] == [
            (), ("scope_revoked",)
        ]  # fmt: skip
        some = Caller(SCOPE, queues=frozenset({QUEUE}))
        for caller in (bound, some):
            for command in (c.Revoke(False), c.Erase(task_id), revocation(auditor)):
                wanted = ("scope_revoked",)
                if caller is some and command.verb != "erase":
                    wanted = FORBIDDEN
                assert told(stand, caller, command) == wanted
        assert [reads(stand, each) for each in (bound, auditor, some)] == [("scope_revoked",)] * 3
        assert told(stand, whole, revocation(auditor)) == ()
        assert reads(stand, whole) == ()
        assert told(stand, whole, c.Revoke(False)) == ()
        assert reads(stand, bound) == ()


@law
def a_new_token_is_nobody_elses_and_not_over_already(make: Make) -> None:
    with make() as stand:
        local, again = Caller(SCOPE), c.TokenCreate(DIGEST.hex(), "worker", "v")
        made = c.Request.of(c.TokenCreate(DIGEST.hex(), "worker", "w"), "k")
        sent = [(local, made), (local, c.Request.of(again, "same-batch"))]
        with stand.loaded(made.command, again) as loaded:
            verdicts, _ = fold(sent, loaded)
            assert [verdict.outcome.issues for verdict in verdicts] == [(), ("key_conflict",)]
        first, _ = stand.batch(sent)
        assert told(stand, local, again) == ("key_conflict",)
        assert told(stand, Caller("t"), again) == ("key_conflict",)
        (replayed,) = stand.batch([(local, made)])
        assert (replayed.facts, replayed.replayed) == (first.facts, True)
        assert first.facts["token_id"].startswith("tok_")
        over = c.TokenCreate(tokens.digest("x").hex(), "worker", "w",
                             expires_at="2026-01-01T00:00:00Z")  # fmt: skip
        assert told(stand, local, over) == ("invalid_request",)


def reads(stand: Stand, caller: Caller) -> Refusal:
    """The issues of a read."""
    try:
        stand.fp.for_caller(caller).stats()
    except (Unauthenticated, ScopeRevoked) as error:
        return error.issues
    return ()
