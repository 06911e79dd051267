"""Laws of what a worker leaves on its way: progress for the next attempt, a log for people."""

from __future__ import annotations

from typing import Any

from fencepost import commands as c
from helpers.laws import law
from helpers.laws_purge import at_once
from helpers.stand import QUEUE, SCOPE, WORKER, Make, Stand, binding

MARK: dict[str, Any] = {"line": 40}


def left(stand: Stand, task_id: str) -> tuple[Any, str | None]:
    """Progress and log of a task, as people see them."""
    task = stand.fp.task(task_id)
    return task.progress, task.log


@law
def what_an_attempt_leaves_is_given_to_the_next_one(make: Make) -> None:
    ways = {"renew": c.Renew, "fail": c.Fail, "release": c.Release}
    for verb, kind in ways.items():
        with make() as stand:
            lease = stand.leased()
            assert lease.progress is None
            stand.ask(kind(**binding(lease), progress=MARK, log="said"), WORKER)
            stand.clock.advance(60)
            again = stand.claim("v")
            assert again.progress == MARK, verb
            assert (again.task_id, left(stand, again.task_id)) == (lease.task_id, (MARK, "said"))
            again.fail()  # says nothing, and so leaves what is there
            stand.clock.advance(60)
            assert stand.claim("v").progress == MARK


@law
def every_verb_of_a_lease_may_leave_a_log(make: Make) -> None:
    more: dict[str, dict[str, Any]] = {"submit": {"result": 1}}
    for verb in ("renew", "submit", "complete", "fail", "release"):
        with make() as stand:
            lease = stand.leased()
            command = c.COMMANDS[verb](**binding(lease), **more.get(verb, {}), log=verb)
            assert stand.ask(command, WORKER).accepted
            assert left(stand, lease.task_id) == (None, verb)


@law
def each_word_replaces_its_like_and_leaves_the_other(make: Make) -> None:
    second: tuple[tuple[dict[str, Any], Any], ...] = (
        ({"progress": False}, (False, "one")), ({"log": ""}, (1, "")), ({}, (1, "one")),
    )  # fmt: skip
    for said, together in second:
        for batched in (False, True):
            with make() as stand:
                lease = stand.leased()
                commands = (
                    c.Renew(**binding(lease), progress=1, log="one"),
                    c.Renew(**binding(lease), **said),
                )
                if batched:
                    at_once(stand, *commands)
                else:
                    for command in commands:
                        assert stand.ask(command, WORKER).accepted
                assert left(stand, lease.task_id) == together


@law
def a_claim_that_is_asked_again_tells_the_progress_of_now(make: Make) -> None:
    with make() as stand:
        stand.task()
        request = c.Request.of(c.Claim(WORKER, (QUEUE,)), "K")
        (grant,) = stand.ask(request, WORKER).grants
        assert grant.progress is None
        stand.fp.lease(grant.task_id, worker_id=WORKER, fence=grant.fence).renew(progress=MARK)
        (again,) = stand.ask(request, WORKER).grants
        assert again.progress == b'{"line":40}' and again.fence == grant.fence


@law
def a_new_round_begins_without_the_words_of_the_last(make: Make) -> None:
    for how in ("requeue", "review", "batch"):
        with make() as stand:
            lease, other = stand.leased(), stand.leased("v")
            other.renew(progress="other", log="other")
            lease.submit({"row": 1})
            end = c.Complete(**binding(lease), log="end")
            lease.renew(progress=MARK, log="said")
            if how == "batch":
                told = at_once(stand, end, c.Requeue(lease.task_id))
                assert all(outcome.accepted for outcome in told)
            else:
                stand.ask(end, WORKER)
                if how == "requeue":
                    stand.fp.requeue(lease.task_id)
                else:
                    human = stand.fp.as_caller("anna", "human")
                    human.review(lease.task_id, 1, "rejected", requeue=True)
            assert left(stand, lease.task_id) == (None, None)
            assert stand.claim_of(lease.task_id).progress is None
            assert left(stand, other.task_id) == ("other", "other")


@law
def a_new_round_of_a_batch_keeps_what_is_left_in_it(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        lease.renew(progress="old", log="old")
        lease.fail(then="give_up")
        fence = lease.fence + 1  # as the claim of the batch will draw it
        told = at_once(
            stand, c.Requeue(lease.task_id), c.Claim(WORKER, task_id=lease.task_id),
            c.Renew(lease.task_id, WORKER, fence, progress=MARK),
        )  # fmt: skip
        assert [outcome.accepted for outcome in told] == [True] * 3
        assert left(stand, lease.task_id) == (MARK, None)


@law
def a_person_who_says_try_again_gives_the_progress_on(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        lease.fail(then="block", progress=MARK, log="said")
        stand.fp.resolve(lease.task_id, "retry")
        assert stand.claim("v").progress == MARK


@law
def who_lists_tasks_is_shown_no_words_and_another_scope_none_at_all(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        lease.renew(progress=MARK, log="said")
        (listed,) = stand.fp.tasks()
        assert (listed.progress, listed.log) == (None, None)
        command = c.Renew(**binding(lease), progress="theirs", log="theirs")
        assert stand.ask(command, WORKER, scope="elsewhere").issues == ("not_found",)
        assert left(stand, lease.task_id) == (MARK, "said")
        assert stand.fp.caller.scope == SCOPE
