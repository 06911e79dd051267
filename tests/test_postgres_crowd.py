"""Processes and threads that do the same to one PostgreSQL store at the same time."""

from __future__ import annotations

from collections import Counter

import pytest
from helpers import pg_crowd
from helpers.children import results_of, start
from helpers.lab import QUEUE
from helpers.pg_side import sides


@pytest.fixture
def made():
    with sides(clock=False) as ready:
        yield ready
        ready.sound()


def crowd(made, function, *arguments, count=4, meanwhile=None):
    """What each of so many processes returned; all of them have begun at once. What is to be done
    meanwhile is done at least once, and until they have ended."""
    with pg_crowd.closed_gate(made.url) as gathered:
        children = [
            start(function, made.url, *each) for each in arguments * (count // len(arguments))
        ]
        gathered(len(children))
    while meanwhile is not None and (meanwhile() or any(each.poll() is None for each in children)):
        pass
    return results_of(children)


def test_identical_commands_of_sixteen_threads_have_one_effect_and_one_receipt_each(made):
    rounds = 12
    told = [each for found in crowd(made, pg_crowd.same_commands, (4, rounds)) for each in found]
    assert len(told) == 16
    for name, known in told[0].items():
        assert {each.get(name) for each in told} == {known}, name
    # a claim whose tasks are in the hands of its own copy may find none, and so do all its copies
    completed = sum(name.startswith("complete") for name in told[0])
    assert completed > 0
    ((tasks, results, entries),) = made.sql(
        "select (select count(*) from fencepost_task), (select count(*) from fencepost_result), "
        "(select count(*) from fencepost_entry)"
    )
    assert (tasks, results, entries) == (2 * rounds, completed, 2 * rounds + completed)


def test_no_task_goes_to_two_and_no_claim_has_more_than_it_asked_for(made):
    made.fp.enqueue_many(QUEUE, [{"payload": n, "priority": n % 3} for n in range(600)])
    told = crowd(made, pg_crowd.claim_all, ("a", 7), ("b", 1), ("c", 30), ("d", 100))
    for each, limit in zip(told, (7, 1, 30, 100), strict=True):
        assert max(each["sizes"], default=0) <= limit
    taken = [task_id for each in told for task_id, _ in each["taken"]]
    assert len(taken) == len(set(taken)) == 600
    fences = [fence for each in told for _, fence in each["taken"]]
    assert len(set(fences)) == 600


def test_scopes_and_queues_that_many_bring_into_being_are_there_once(made):
    told = crowd(made, pg_crowd.bring_into_being, (1, 4, 4), (2, 4, 4), (3, 4, 4), (4, 4, 4))
    assert told == [[]] * 4
    ((scopes, queues, tasks),) = made.sql(
        "select (select count(*) from fencepost_scope), (select count(*) from fencepost_queue), "
        "(select count(*) from fencepost_task)"
    )
    assert (scopes, queues, tasks) == (4, 16, 16)


def looked_at(fp):
    """At any moment, by whoever looks: what is there agrees with the journal."""
    assert fp.verify().problems == ()


def test_everything_at_once_leaves_a_sound_store_and_every_result_once(made):
    made.fp.queue_set(QUEUE, retain_seconds=1, destinations=["outbox"])
    seeds = ((11, 2.0), (12, 2.0), (13, 2.0), (14, 2.0))
    told = crowd(made, pg_crowd.storm, *seeds, meanwhile=lambda: looked_at(made.fp))
    assert [each["wrong"] for each in told] == [[]] * 4
    results = [tuple(result) for each in told for result in each["results"]]
    assert len(results) > 20, "the storm was a calm"
    assert max(Counter(task_id for task_id, _ in results).values()) == 1
    numbers = {number for (number,) in made.sql("select number from fencepost_entry")}
    assert {number for _, number in results} <= numbers
