"""The life of a task key (fault 118): docs/task-keys.md, row by row, alone and in a crowd.

The fault: a key that is released or kept at the wrong moment. Elsewhere a lost worker blocked
its key for ever, or the key came free while the task could still run.
"""

from __future__ import annotations

import re
import signal
from functools import partial
from pathlib import Path

import pytest
from helpers.children import ended, start
from helpers.lab import QUEUE, ask
from helpers.together import at_once
from helpers.work import claim_and_die

from fencepost import commands as c

PAGE = Path(__file__).resolve().parent.parent / "docs" / "task-keys.md"
KEY, PAYLOAD = "page-17", {"page": 17}
MONTH = 31 * 86_400


def lapse(lab):
    lab.claim()
    lab.clock.advance(60)


def killed(lab):
    assert ended(start(claim_and_die, str(lab.path), lab.clock.wall()))[0] == -signal.SIGKILL


def purge(lab):
    lab.claim().complete(1)
    lab.fp.purge(QUEUE)


def purge_twice(lab):
    purge(lab)
    lab.clock.advance(MONTH + 1)
    lab.offer("other")
    lab.claim().complete(1)
    lab.fp.purge(QUEUE)


def requeue(lab):
    lab.fp.requeue(lab.claim().complete(1).task_id)


SITUATIONS = {
    "is not there": None,
    "is ready": lambda lab: None,
    "is ready, but due later": lambda lab: lab.claim().fail(retry_seconds=3_600),
    "is leased": lambda lab: lab.claim(),
    "is leased, its lease has lapsed": lapse,
    "is leased, its worker was killed": killed,
    "has failed and waits for its retry": lambda lab: lab.claim().fail("not now"),
    "is blocked": lambda lab: lab.claim().fail(then="block"),
    "is dead": lambda lab: lab.claim().fail(then="give_up"),
    "is cancelled": lambda lab: lab.fp.cancel(lab.fp.task_by_key(QUEUE, KEY).task_id),
    "is done": lambda lab: lab.claim().complete(1),
    "is done and was requeued": requeue,
    "was purged": purge,
    "was purged, and 31 days later purge has run again": purge_twice,
    "was erased": lambda lab: lab.fp.erase(lab.fp.task_by_key(QUEUE, KEY).task_id),
}


def rows():
    """(situation, answer to the same payload, answer to another) as the page has them."""
    found = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    return [tuple(cell.replace("`", "") for cell in row) for row in found[1:]]


def test_the_page_and_this_test_know_the_same_situations():
    assert [row[0] for row in rows()] == list(SITUATIONS)


def brought_about(lab, situation):
    """The task in its situation; its id, or None where there was none."""
    lab.fp.queue_set(QUEUE, retain_seconds=0)
    if SITUATIONS[situation] is None:
        return None
    task_id = lab.offer(PAYLOAD, key=KEY)
    SITUATIONS[situation](lab)
    return task_id


def answer(handle, before, payload):
    """What an enqueue of the key says, in the page's words."""
    outcome = ask(handle, c.Enqueue(QUEUE, (c.NewTask(payload, KEY),)))
    if not outcome.accepted:
        assert len(outcome.issues) == 1
        return outcome.issues[0]
    return "that task, as it is" if outcome.task_ids == (before,) else "a new task"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_an_enqueue_with_a_known_key_answers_as_the_page_says(lab, row):
    situation, same, other = row
    before = brought_about(lab, situation)
    tasks = lab.dump()["fencepost_task"]
    if other != "a new task":  # it would take the key from the second question
        assert answer(lab.fp, before, {"page": 18}) == other
    assert answer(lab.fp, before, PAYLOAD) == same
    if same != "a new task":
        assert lab.dump()["fencepost_task"] == tasks


@pytest.mark.parametrize("situation", [row[0] for row in rows() if row[2] == "a new task"])
def test_where_the_key_is_free_another_payload_takes_it_too(lab, situation):
    before = brought_about(lab, situation)
    assert answer(lab.fp, before, {"page": 18}) == "a new task"
    assert answer(lab.fp, before, PAYLOAD) == "key_conflict"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_twenty_concurrent_enqueues_are_answered_alike_and_make_at_most_one_task(lab, row):
    situation, same, _ = row
    before = brought_about(lab, situation)
    number = len(lab.dump()["fencepost_task"])
    handles = [lab.open() for _ in range(4)]
    calls = [partial(answer, handles[place % 4], before, PAYLOAD) for place in range(20)]
    assert set(at_once(*calls)) == {same}
    assert len(lab.dump()["fencepost_task"]) == number + (same == "a new task")


def test_what_is_not_bound_stays_as_the_first_enqueue_had_it(lab):
    task_id = lab.offer(PAYLOAD, key=KEY, priority=1, max_attempts=2)
    again = lab.fp.enqueue(QUEUE, PAYLOAD, key=KEY, priority=9, max_attempts=7)
    task = lab.fp.task(task_id)
    assert again.task_id == task_id and (task.priority, task.max_attempts) == (1, 2)


def test_a_key_of_another_queue_or_scope_is_another_key(lab):
    first = lab.offer(PAYLOAD, key=KEY)
    elsewhere = lab.fp.enqueue("elsewhere", {"page": 18}, key=KEY).task_id
    other = lab.open(scope="other").enqueue(QUEUE, {"page": 19}, key=KEY).task_id
    assert len({first, elsewhere, other}) == 3


def test_a_follow_up_with_a_known_key_is_the_known_task(lab):
    known = lab.offer(PAYLOAD, key=KEY)
    lab.fp.cancel(known)
    lease = lab.lease()
    same = [{"queue": QUEUE, "payload": PAYLOAD, "key": KEY}]
    assert known in lease.complete(1, followups=same).task_ids
    lease = lab.lease()
    other = [{"queue": QUEUE, "payload": {"page": 18}, "key": KEY}]
    outcome = ask(lab.fp, c.Complete(lease.task_id, "w1", lease.fence, result=1, followups=other))
    assert outcome.issues == ("key_conflict",)
