"""The laws of destinations: who says where obligations go, when nothing is delivered, and how far a
receiver has come."""

from __future__ import annotations

from typing import Any

from fencepost import commands as c
from fencepost import destinations
from fencepost.issues import NotFound
from fencepost.machine.fold import fold
from fencepost.model import Caller, Kind, Outcome
from fencepost.outward import Destination
from fencepost.rules.retry import backoff
from helpers.guards import REFUSED
from helpers.laws import law
from helpers.stand import QUEUE, SCOPE, SECOND, UNKNOWN, WORKER, Make, Stand

OUT, OTHER = "out", "other"
HOOK = "https://h.example/in?key=hidden"
HEAD, NEXT = "0a" * 32, "0b" * 32
FORBIDDEN, HIDDEN, STALE = ("forbidden",), ("not_found",), ("stale_sequence",)
SECRETS = [destinations.new_secret(lambda size, n=n: bytes([n]) * size) for n in range(10)]  # type: ignore[misc]


def told(stand: Stand, command: c.Command, kind: Kind = "operator", actor: str = "local") -> Any:
    """The issues of one command; what is refused changes nothing."""
    before = stand.dump()
    outcome = stand.ask(command, actor, kind)
    assert outcome.accepted or stand.dump() == before
    return outcome.issues


def owed(stand: Stand, *places: str) -> None:
    """One obligation on each of these queues, of one result."""
    stand.fp.queue_set(QUEUE, destinations=list(places))
    stand.leased().complete({"ok": True})


def placed(stand: Stand, queue: str = OUT, address: str = HOOK, **more: Any) -> Destination:
    """A destination, by default one that is fenced."""
    stand.fp.destination_set(queue, address, **{"class_": "fenced", **more})
    return stand.fp.destination(queue)


def claimed(stand: Stand, *queues: str, kind: Kind = "dispatcher") -> Outcome:
    """What a claim of all that is there comes to."""
    return stand.ask(c.Claim(WORKER, queues, limit=10), WORKER, kind)


@law
def a_destination_is_set_in_parts_and_what_is_left_out_stays(make: Make) -> None:
    with make() as stand:
        options = {"ordered": True, "timeout_seconds": 9, "headers": {"x-a": "b"}}
        made = placed(stand, options=options)
        assert made.to_json() == {
            "queue": OUT, "address": HOOK, "class": "fenced", "secrets": [], "stopped": None,
            "options": destinations.complete(options), "sequence": 0, "head": None, "heard": 0,
            "announced": None,
        }  # fmt: skip
        fp = stand.fp
        fp.destination_set(OUT, options={"timeout_seconds": None, "concurrency": 1})
        assert fp.destination(OUT).options == destinations.complete(
            {"ordered": True, "headers": {"x-a": "b"}, "concurrency": 1}
        )
        fp.destination_set(OUT, "http://h.example", class_="idempotent")
        fp.destination_set(OUT, stopped="it moves")
        now = fp.destination(OUT)
        assert (now.address, now.class_, now.stopped) == (
            "http://h.example", "idempotent", "it moves",
        )  # fmt: skip
        fp.destination_set(OUT, stopped=None)
        assert fp.destination(OUT).stopped is None and [d.queue for d in fp.destinations()] == [OUT]


@law
def a_queue_with_an_address_is_a_destination_for_good(make: Make) -> None:
    with make() as stand:
        owed(stand, OUT, OTHER)
        placed(stand)
        stand.fp.queue_set(QUEUE, destinations=[])
        rows = {row.queue: row.is_destination for row in stand.fp.queue_rows()}
        assert rows == {QUEUE: False, OUT: True, OTHER: False}
        assert len(claimed(stand, OUT).grants) == 1  # and what was owed is still delivered
        assert claimed(stand, OTHER).issues == FORBIDDEN
        placed(stand, "new")
        assert told(stand, c.Enqueue("new", ({"payload": 1},)), "producer") == FORBIDDEN


@law
def a_destination_is_brought_about_with_an_address_and_a_class(make: Make) -> None:
    with make() as stand:
        owed(stand, OUT)
        for command in (
            c.DestinationSet(OUT, stopped="why"), c.DestinationSet(OUT, class_="fenced"),
            c.DestinationSecret(OUT, SECRETS[0]), c.DestinationAdvance(OUT, 0, 1, HEAD),
        ):  # fmt: skip
            assert told(stand, command) == HIDDEN
        assert told(stand, c.DestinationSet(OUT, HOOK)) == ("invalid_request",)
        assert stand.fp.destinations() == []
        try:
            stand.fp.destination(OUT)
        except NotFound:
            return
        raise AssertionError("there is a destination without an address")


@law
def what_cannot_hold_together_is_no_destination(make: Make) -> None:
    with make() as stand:
        owed(stand, OTHER)
        placed(stand)
        stand.fp.destination_secret(OUT, SECRETS[0])
        wrong = [
            c.DestinationSet(QUEUE, HOOK, "fenced"),  # it has destinations
            c.DestinationSet("new", HOOK, "cas"),
            c.DestinationSet("new", "sqlite:/a#t", "unfenced"),
            c.DestinationSet("new", "s3://bucket", "fenced"),
            c.DestinationSet("new", HOOK, "fenced", {"region": "eu-1"}),
            c.DestinationSet("new", HOOK, "fenced", {"dedupe_seconds": 5}),
            c.DestinationSet("new", HOOK, "fenced", {"ordered": True, "concurrency": 2}),
            c.DestinationSet("new", "directory:/a", "cas", {"headers": {"a": "b"}}),
            c.DestinationSet(OUT, "directory:/a", "cas"),  # it has a secret
        ]
        for command in wrong:
            assert told(stand, command) == ("invalid_request",), command.members
        assert told(stand, c.QueueSet(OUT, {"destinations": ["new"]})) == ("invalid_request",)


@law
def an_unfenced_destination_is_never_tried_again_by_itself(make: Make) -> None:
    with make() as stand:
        owed(stand, OUT)
        placed(stand, class_="unfenced")
        assert stand.fp.queue(OUT).on_lapse == "reconcile"
        assert told(stand, c.QueueSet(OUT, {"on_lapse": "retry"})) == ("invalid_request",)
        assert told(stand, c.QueueSet(OUT, {"lease_seconds": 9})) == ()
        (grant,) = claimed(stand, OUT).grants
        stand.clock.advance(60)
        assert claimed(stand, OUT).grants == ()
        assert stand.fp.task(grant.task_id).state == "blocked"
        placed(stand, class_="fenced")
        assert told(stand, c.QueueSet(OUT, {"on_lapse": "retry"})) == ()


@law
def a_new_destination_gives_what_is_owed_attempts_for_three_days(make: Make) -> None:
    with make() as stand:
        owed(stand, OUT, OTHER)
        placed(stand)
        owed(stand, OUT, OTHER)
        before, after = (t.max_attempts for t in stand.fp.tasks(OUT))
        assert (before, after, stand.fp.queue(OUT).max_attempts) == (5, 112, 112)
        assert {t.max_attempts for t in stand.fp.tasks(OTHER)} == {5}  # nobody has said where
        settings = stand.fp.queue(OUT)
        waits = [backoff(each, settings, 0.5) / SECOND / 3_600 for each in range(1, after)]
        assert 74 < sum(waits) < 76  # hours
        stand.fp.queue_set(OUT, max_attempts=5)
        placed(stand, address=f"{HOOK}2")  # a later change leaves the number alone
        assert stand.fp.queue(OUT).max_attempts == 5
        stand.fp.queue_set("few", max_attempts=3)
        placed(stand, "few")
        assert stand.fp.queue("few").max_attempts == 3
        placed(stand, "new")
        assert stand.fp.queue("new").max_attempts == 112
        assert stand.fp.verify().problems == ()


@law
def a_stopped_destination_gives_nothing_and_says_why(make: Make) -> None:
    with make() as stand:
        owed(stand, OUT, OTHER)
        task_id = next(iter(stand.fp.tasks(OUT))).task_id
        assert told(stand, c.Claim(WORKER, ("none",)), "dispatcher", WORKER) == FORBIDDEN
        placed(stand, stopped="no stamps")
        for command in (c.Claim(WORKER, (OUT,)), c.Claim(WORKER, task_id=task_id)):
            refused = stand.ask(command, WORKER, "dispatcher")
            assert (refused.status, refused.issues) == ("blocked", ("queue_paused",))
            assert "out is stopped: no stamps" in refused.message
        (grant,) = claimed(stand, OUT, OTHER).grants
        assert grant.queue == OTHER
        owed(stand, OUT)  # what is owed goes on to come in
        stand.fp.destination_set(OUT, stopped=None)
        assert len(claimed(stand, OUT).grants) == 2


@law
def a_destination_that_is_only_named_is_worked_on_as_ever(make: Make) -> None:
    with make() as stand:
        owed(stand, OUT)
        assert stand.fp.destinations() == []
        (grant,) = claimed(stand, OUT).grants
        done = c.Complete(grant.task_id, WORKER, grant.fence, result="sent")
        assert told(stand, done, "dispatcher", WORKER) == ()


@law
def a_dispatcher_stops_and_moves_on_and_the_rest_is_the_operators(make: Make) -> None:
    with make() as stand:
        owed(stand, OUT)
        placed(stand)
        stand.task(queue=OTHER)
        everything = [
            c.DestinationSet(OUT, HOOK), c.DestinationSet(OUT, class_="idempotent"),
            c.DestinationSet(OUT, options={"rate": 5}), c.DestinationSet(OUT, stopped=None),
            c.DestinationSet(OUT, HOOK, stopped="why"), c.DestinationSecret(OUT, SECRETS[0]),
            c.DestinationAdvance(OUT, 1, 0),
        ]  # fmt: skip
        own = [c.DestinationSet(OUT, stopped="why"), c.DestinationAdvance(OUT, 0, 1, HEAD)]
        kinds: tuple[Kind, ...] = ("producer", "worker", "human", "auditor")
        for command in [*everything, *own]:
            for kind in kinds:
                assert told(stand, command, kind, WORKER) == FORBIDDEN, (kind, command.members)
        for command in everything:
            assert told(stand, command, "dispatcher", WORKER) == FORBIDDEN, command.members
        for command in [*own, *everything[-1:], *everything[:-1]]:
            kind = "dispatcher" if command in own else "operator"
            assert told(stand, command, kind, WORKER) == (), command.members
        beside = (c.DestinationSet(OTHER, stopped="why"), c.DestinationAdvance(OTHER, 0, 0))
        for command in beside:  # no destination at all
            assert told(stand, command, "dispatcher", WORKER) == HIDDEN
        mine = Caller(SCOPE, "dispatcher", WORKER, None, frozenset({OTHER}))
        for command in own:
            (outcome,) = stand.batch([(mine, c.Request.of(command))])
            assert outcome.issues == FORBIDDEN


@law
def a_dispatcher_resolves_on_destinations_alone(make: Make) -> None:
    with make() as stand:
        owed(stand, OUT)
        placed(stand)
        (grant,) = claimed(stand, OUT).grants
        blocked = c.Fail(grant.task_id, WORKER, grant.fence, then="block")
        assert told(stand, blocked, "dispatcher", WORKER) == ()
        lease = stand.leased()
        lease.fail(then="block")
        found = c.Resolve(grant.task_id, to="done", evidence={"position": 1})
        assert told(stand, c.Resolve(lease.task_id), "dispatcher", WORKER) == FORBIDDEN
        assert told(stand, found, "dispatcher", WORKER) == ()
        assert stand.fp.task(grant.task_id).state == "done"


@law
def a_position_is_compared_before_it_is_moved(make: Make) -> None:
    with make() as stand:
        placed(stand)
        placed(stand, OTHER)
        fp = stand.fp
        for wrong in (
            c.DestinationAdvance(OUT, 0, 1), c.DestinationAdvance(OUT, 0, 1, heard=3),
        ):  # fmt: skip
            assert told(stand, wrong) == ("invalid_request",)
        assert told(stand, c.DestinationAdvance(OUT, 0, 0, HEAD)) == STALE
        fp.destination_advance(OUT, expected_sequence=0, sequence=1, head=HEAD, heard=7)
        for late in (
            c.DestinationAdvance(OUT, 0, 1, HEAD), c.DestinationAdvance(OUT, 0, 0),
            c.DestinationAdvance(OUT, 2, 3, NEXT), c.DestinationAdvance(OUT, 1, 1, NEXT),
        ):  # fmt: skip
            refused = stand.ask(late)
            assert (refused.issues, dict(refused.facts)) == (STALE, {"sequence": 1})
        fp.destination_advance(OUT, expected_sequence=1, sequence=1, head=HEAD, announced=UNKNOWN)
        fp.destination_advance(OUT, expected_sequence=1, sequence=1)
        found = fp.destination(OUT)
        assert (found.sequence, found.head, found.heard, found.announced) == (1, HEAD, 7, UNKNOWN)
        fp.destination_advance(OUT, expected_sequence=1, sequence=5, head=NEXT)
        assert (fp.destination(OUT).sequence, fp.destination(OUT).head) == (5, NEXT)
        assert told(stand, c.DestinationAdvance(OUT, 5, 0, HEAD)) == ("invalid_request",)
        fp.destination_advance(OUT, expected_sequence=5, sequence=0, heard=0)
        found = fp.destination(OUT)
        assert (found.sequence, found.head, found.heard, found.announced) == (0, None, 0, UNKNOWN)


@law
def within_a_batch_a_destination_is_as_the_command_before_has_left_it(make: Make) -> None:
    with make() as stand:
        sent = [
            c.DestinationSet(OUT, HOOK, "fenced"), c.DestinationAdvance(OUT, 0, 1, HEAD),
            c.DestinationAdvance(OUT, 0, 1, HEAD), c.DestinationAdvance(OUT, 1, 2, NEXT),
            c.DestinationSet(OUT, stopped="full"), c.Claim(WORKER, (OUT,)),
        ]  # fmt: skip
        found = [outcome.issues for outcome in stand.fp.execute(list(sent))]
        assert found == [(), (), STALE, (), (), ("queue_paused",)]
        now = stand.fp.destination(OUT)
        assert (now.sequence, now.head, now.stopped) == (2, NEXT, "full")
        again = [c.DestinationAdvance(OUT, 2, 3, HEAD), c.DestinationAdvance(OUT, 3, 4, NEXT)]
        with stand.loaded(*again) as loaded:
            caller = stand.fp.as_caller("local").caller
            _, changes = fold([(caller, c.Request.of(command)) for command in again], loaded)
            ((presented, after),) = changes.destinations.values()
            assert (presented, after.sequence) == (2, 4)  # what the first has presented
        assert [outcome.issues for outcome in stand.fp.execute(list(again))] == [(), ()]
        assert stand.fp.destination(OUT).sequence == 4


@law
def a_new_secret_is_signed_with_first_and_older_ones_until_their_end(make: Make) -> None:
    with make() as stand:
        placed(stand)
        fp, start = stand.fp, stand.fp.now()

        def secrets() -> list[tuple[str, int | None]]:
            ends = ((s.secret, s.until) for s in fp.destination(OUT).secrets)
            return [(text, None if end is None else (end - start) // SECOND) for text, end in ends]

        first, second, third, fourth, *_ = SECRETS
        fp.destination_secret(OUT, first)
        fp.destination_secret(OUT, second, keep_seconds=100)
        assert secrets() == [(second, None), (first, 100)]
        stand.clock.advance(50)
        fp.destination_secret(OUT, third, keep_seconds=90)
        assert secrets() == [(third, None), (second, 140), (first, 100)]
        for known in (first, second, third):
            assert told(stand, c.DestinationSecret(OUT, known)) == ("key_conflict",)
        stand.clock.advance(50)  # at its very end it is over
        _, text = fp.destination_secret(OUT, fourth)
        assert text == fourth and [one for one, _ in secrets()] == [fourth, third, second]
        _, made = fp.destination_secret(OUT, keep_seconds=0)
        assert secrets() == [(made, None)] and destinations.SECRET.fullmatch(made)


@law
def secrets_are_for_what_is_signed_and_not_without_number(make: Make) -> None:
    with make() as stand:
        placed(stand, OTHER, "directory:/a", class_="cas")
        assert told(stand, c.DestinationSecret(OTHER, SECRETS[0])) == ("invalid_request",)
        placed(stand)
        for secret in SECRETS[: destinations.MAX_SECRETS]:
            stand.fp.destination_secret(OUT, secret)
        more = SECRETS[destinations.MAX_SECRETS]
        assert told(stand, c.DestinationSecret(OUT, more)) == ("invalid_request",)
        assert told(stand, c.DestinationSecret(OUT, more, 0)) == ()


@law
def a_destination_is_of_its_scope(make: Make) -> None:
    with make() as stand:
        placed(stand)
        other = stand.fp.as_caller("local", scope="t")
        assert other.destinations() == []
        for command in (
            c.DestinationSet(OUT, stopped="why"), c.DestinationSecret(OUT, SECRETS[0]),
            c.DestinationAdvance(OUT, 0, 1, HEAD),
        ):  # fmt: skip
            assert stand.ask(command, scope="t").issues == HIDDEN
        other.destination_set(OUT, "http://t.example", class_="fenced")
        assert stand.fp.destination(OUT).address == HOOK
        assert other.destination(OUT).address == "http://t.example"


@law
def what_lets_in_elsewhere_is_told_to_operator_and_dispatcher_alone(make: Make) -> None:
    with make() as stand:
        placed(stand, options={"headers": {"authorization": "hidden"}, "reconcile": HOOK})
        command = 'command:["post","--key","hidden"]'
        placed(stand, OTHER, command, class_="unfenced", options={"reconcile": ["hidden"]})
        placed(stand, "table", "postgresql://u:hidden@h/d#t")
        stand.fp.destination_secret(OUT, SECRETS[0])
        whole: tuple[Kind, ...] = ("operator", "dispatcher")
        for kind in whole:
            found = stand.fp.as_caller(WORKER, kind).destinations()
            assert found == stand.fp.destinations() and found[1].secrets[0].secret == SECRETS[0]
            assert found[1].address == HOOK
        others: tuple[Kind, ...] = ("producer", "worker", "human", "auditor")
        for kind in others:
            found = stand.fp.as_caller(WORKER, kind).destinations()
            said = str([one.to_json() for one in found])
            assert "hidden" not in said and SECRETS[0] not in said
            assert [one.address for one in found] == [
                "command:***", "https://h.example/***", "postgresql://u@h/d#t",
            ]  # fmt: skip
        mine = Caller(SCOPE, "dispatcher", WORKER, None, frozenset({OTHER}))
        assert [one.queue for one in stand.fp.for_caller(mine).destinations()] == [OTHER]


@law
def an_entry_tells_class_and_kind_and_nothing_that_lets_in(make: Make) -> None:
    with make() as stand:
        placed(stand, options={"headers": {"authorization": "hidden"}}, stopped="hidden why")
        stand.fp.destination_secret(OUT, SECRETS[0])
        stand.fp.destination_advance(OUT, expected_sequence=0, sequence=1, head=HEAD)
        stand.fp.seal()
        bodies = [view.body or b"" for view in stand.fp.entries()]
        verbs = [b"destination.set", b"destination.secret", b"destination.advance"]
        assert len(bodies) == 3
        for verb, body in zip(verbs, bodies, strict=True):
            assert b'"verb":"%s"' % verb in body and b'"queue":"out"' in body
            assert b'"note":{"class":"fenced","kind":"https"}' in body
            assert b"hidden" not in body and b"h.example" not in body
            assert SECRETS[0].encode() not in body and HEAD.encode() not in body
        assert stand.fp.verify().problems == ()


@law
def the_same_bytes_move_a_destination_once(make: Make) -> None:
    with make() as stand:
        placed(stand)
        moved = c.Request.of(c.DestinationAdvance(OUT, 0, 1, HEAD), "K")
        signed = c.Request.of(c.DestinationSecret(OUT, SECRETS[0]), "L")
        first = [stand.ask(request) for request in (moved, signed)]
        stand.fp.destination_advance(OUT, expected_sequence=1, sequence=2, head=NEXT)
        before = stand.dump()
        again = [stand.ask(request) for request in (moved, signed)]
        assert [one.receipt for one in again] == [one.receipt for one in first]
        assert all(one.replayed for one in again) and stand.dump() == before


@law
def a_write_past_the_position_that_was_presented_is_undone(make: Make) -> None:
    """By hand: the rules would have refused it."""
    with make() as stand:
        placed(stand)
        before = stand.dump()
        command = c.DestinationAdvance(OUT, 0, 1, HEAD)
        for presented in (1, None):
            with stand.loaded(command) as loaded:
                caller = stand.fp.as_caller("local").caller
                (verdict,), changes = fold([(caller, c.Request.of(command, "K"))], loaded)
                assert verdict.outcome.accepted
                ((place, (guard, after)),) = changes.destinations.items()
                assert guard == 0
                changes.destinations[place] = presented, after
                try:
                    stand.save(changes, loaded)
                except REFUSED:
                    continue
            raise AssertionError(f"it was written over {presented}")
        assert stand.dump() == before
