"""What several processes were told of a task could have happened one command after the other.

Recordings of real processes on one store are judged by a model of one task that was written apart
from the product (helpers/linear_model.py, which says how it takes time). The judge is judged as
well: by histories made by hand, each with a twin that must not be; by a search without any wit;
and by faults planted in the product, which recordings of real processes must show.

A seed replays what is asked, not when: a failure prints the place where the line breaks off.
"""

from __future__ import annotations

import random
from functools import reduce
from itertools import permutations

import pytest
from helpers import linear_history
from helpers.children import result_of, start
from helpers.linear import Event, check
from helpers.linear_history import Call, in_line, with_what_happened
from helpers.linear_model import SECOND, OneTask, Op, Receipt
from helpers.linear_plants import PLANTS, with_faults
from helpers.linear_run import recorded

START = 1_000 * SECOND
TASK = OneTask(START, 3, "retry", 1)


# --- histories made by hand -------------------------------------------------------------------


def op(verb, call, back, at=None, number=0, item=None, **more):
    """An operation between two seconds; with `at`, accepted then and recorded as that entry."""
    receipt = None if at is None else Receipt(number, START + int(at * SECOND), f"body {number}")
    key = more.pop("key", f"key {call} {number}")
    first, last = START + int(call * SECOND), START + int(back * SECOND)
    asked = Op(verb, first, last, key=key, sha=more.pop("sha", key), receipt=receipt, item=item)
    return Event(first, last, asked._replace(**more))


def claim(call, back, at, number, fence, worker="w1", before="ready", revision=0, seconds=10):
    item = before, "leased", fence, revision
    return op("claim", call, back, at, number, item, worker=worker, seconds=seconds, one=True)


def complete(call, back, at, number, fence=1, worker="w1", digest="a", revision=1, **more):
    item = more.pop("item", ("leased", "done", fence, revision))
    return op(
        "complete", call, back, at, number, item, worker=worker, fence=fence, digest=digest, **more
    )


def submit(call, back, at, number, digest, revision, **more):
    item = "leased", "leased", 1, revision
    return op("submit", call, back, at, number, item, worker="w1", fence=1, digest=digest, **more)


def refused(verb, call, back, *issues, fence=1, worker="w1", **more):
    return op(verb, call, back, status="refused", issues=issues, fence=fence, worker=worker, **more)


def read(call, back, state, fence=1, worker="w1", attempt=1, revision=0, end=10.2):
    row = state, fence, worker, attempt, 1, revision, START + int(end * SECOND), START
    return op("task", call, back, row=row)


def shown(call, back, grant, fence=1):
    """What a claim of this fence shows beside its receipt: (fence, revision, attempt, end)."""
    told = grant and (*grant[:3], START + int(grant[3] * SECOND))
    return op("shown", call, back, fence=fence, grant=told)


def renew(call, back, end, seconds=10, **more):
    told_end = START + int(end * SECOND)
    return op("renew", call, back, worker="w1", fence=1, seconds=seconds, told_end=told_end, **more)


FIRST = claim(0, 1, 0.2, 1, 1)
AGAIN = claim(11, 12, 11, 2, 2, "w2", "leased")
# what it is: a history that may be, and its twin, which differs in one thing and may not be
TWINS = {
    "a stale completion is accepted": (
        [FIRST, AGAIN, refused("complete", 13, 14, "wrong_worker", "stale_fence")],
        [FIRST, AGAIN, complete(13, 14, 13, 3)],
    ),
    "a lease that has ended is honoured": (
        [FIRST, complete(10, 11, 10.1, 2)],
        [FIRST, complete(10, 11, 10.2, 2)],
    ),
    "a lease that lives is said to have ended": (
        [FIRST, refused("release", 10, 10.3, "lease_expired")],
        [FIRST, refused("release", 10, 10.1, "lease_expired")],
    ),
    "a lease that lives is claimed": (
        [FIRST, claim(10, 11, 10.2, 2, 2, "w2", "leased")],
        [FIRST, claim(10, 11, 10.1, 2, 2, "w2", "leased")],
    ),
    "a claim finds nothing where there is something": (
        [FIRST, op("claim", 10, 11, worker="w2", one=True, room=True)],
        [FIRST, op("claim", 10.5, 11, worker="w2", one=True, room=True)],
    ),
    "a fence is given twice": (
        [FIRST, claim(11, 12, 11, 2, 2, "w2", "leased")],
        [FIRST, claim(11, 12, 11, 2, 1, "w2", "leased")],
    ),
    "two results are one revision": (
        [FIRST, submit(1, 3, 2, 2, "a", 1), submit(1, 3, 2, 3, "b", 2)],
        [FIRST, submit(1, 3, 2, 2, "a", 1), submit(1, 3, 2, 3, "b", 1)],
    ),
    "a result is recorded twice in a round": (
        [FIRST, submit(1, 3, 2, 2, "a", 1), complete(4, 5, 4, 3, digest="a", revision=1)],
        [FIRST, submit(1, 3, 2, 2, "a", 1), complete(4, 5, 4, 3, digest="a", revision=2)],
    ),
    "a task is completed twice": (
        [FIRST, complete(1, 3, 2, 2), refused("complete", 1, 3, "task_done", names=2)],
        [FIRST, complete(1, 3, 2, 2), complete(1, 3, 2, 3, digest="b", revision=2,
                                               item=("done", "done", 1, 2))],
    ),
    "a read goes back": (
        [FIRST, complete(1, 6, 2, 2), read(2, 3, "leased"), read(4, 5, "done", revision=1)],
        [FIRST, complete(1, 6, 2, 2), read(2, 3, "done", revision=1), read(4, 5, "leased")],
    ),
    "an acknowledged completion is lost": (
        [FIRST, complete(1, 3, 2, 2), read(2.5, 5, "leased")],
        [FIRST, complete(1, 3, 2, 2), read(3.5, 5, "leased")],
    ),
    "a refusal tells of what had not happened yet": (
        [FIRST, complete(1, 3, 2, 2), refused("release", 0.5, 2, "task_done", names=2)],
        [FIRST, complete(1.5, 3, 2, 2), refused("release", 0.5, 1.2, "task_done", names=2)],
    ),
    "a refusal leaves out an issue": (
        [FIRST, AGAIN, refused("renew", 13, 14, "wrong_worker", "stale_fence")],
        [FIRST, AGAIN, refused("renew", 13, 14, "wrong_worker")],
    ),
    "asked again another receipt is told": (
        [FIRST, complete(1, 3, 2, 2, key="k"), complete(4, 5, 2, 2, key="k", replayed=True)],
        [FIRST, complete(1, 3, 2, 2, key="k"), complete(4, 5, 2, 3, key="k", replayed=True)],
    ),
    "asked again it is judged anew": (
        [FIRST, complete(1, 3, 2, 2, key="k"), complete(2, 5, 2, 2, key="k", replayed=True)],
        [FIRST, complete(1, 3, 2, 2, key="k"), refused("complete", 4, 5, "task_done", names=2,
                                                       digest="a", key="k")],
    ),
    "a key is taken by other bytes": (
        [FIRST, complete(1, 3, 2, 2, key="k"),
         refused("complete", 4, 5, "idempotency_key_reused", key="k", sha="other")],
        [FIRST, complete(1, 3, 2, 2, key="k"),
         complete(4, 5, 4, 3, key="k", sha="other", item=("done", "done", 1, 1))],
    ),
    "a renewal moves the end beyond what it asked for": (
        [FIRST, renew(2, 3, 12.5), read(4, 5, "leased", end=12.5)],
        [FIRST, renew(2, 3, 13.5), read(4, 5, "leased", end=13.5)],
    ),
    "a renewal of a dead worker moves the end though it was never made": (
        [FIRST, renew(2, 3, 0, status="unknown"), read(4, 5, "leased", end=12.9)],
        [FIRST, renew(2, 3, 0, status="unknown"), read(4, 5, "leased", end=14)],
    ),
    "a renewal is told an end before the one that it asked for": (
        [FIRST, renew(2, 3, 12.5), renew(4, 5, 12.5, seconds=8), complete(4, 6, 4.3, 2)],
        [FIRST, renew(2, 3, 12.5), renew(4, 5, 12.5, seconds=9), complete(4, 6, 4.3, 2)],
    ),
    "a claim shows more than has happened": (
        [FIRST, submit(0.1, 1, 0.2, 2, "a", 1), shown(0, 1, (1, 1, 1, 10.2))],
        [FIRST, submit(1.1, 2, 1.2, 2, "a", 1), shown(0, 1, (1, 1, 1, 10.2))],
    ),
    "a claim that is told again shows a lease that is over": (
        [FIRST, complete(1, 2, 1.5, 2), shown(3, 4, None)],
        [FIRST, complete(1, 2, 1.5, 2), shown(3, 4, (1, 1, 1, 10.2))],
    ),
    "a claim that is told again leaves out a lease that lives": (
        [FIRST, shown(10, 10.3, None)],
        [FIRST, shown(10, 10.1, None)],
    ),
    "an entry stands before one that had been told already": (
        [FIRST, submit(1, 2, 1.5, 2, "a", 1), submit(3, 4, 3.5, 3, "b", 2)],
        [FIRST, submit(1, 2, 1.5, 3, "a", 1), submit(3, 4, 3.5, 2, "b", 2)],
    ),
}  # fmt: skip


def holds(events, most_steps=100_000):
    return check(in_line(events), TASK.first(), TASK.step, most_steps).holds


@pytest.mark.parametrize("what", TWINS)
def test_a_history_that_may_be_is_let_pass_and_its_twin_is_not(what):
    may, may_not = TWINS[what]
    assert holds(may) is True
    assert holds(may_not) is False, what


def test_the_place_where_a_line_breaks_off_is_shown():
    history = in_line(TWINS["an acknowledged completion is lost"][1])
    text = linear_history.shown_end(history, check(history, TASK.first(), TASK.step))
    assert "2 of 3 stand in a line" in text and "then it is Was(state='done', fence=1" in text
    assert "cannot be [1003500000, 1005000000] verb=task" in text and "row=('leased', 1," in text


# --- the search -------------------------------------------------------------------------------


def without_wit(events, first, step):
    """The same question put to every order there is."""

    def fits(order):
        late = (
            order[j].back < order[i].call for i in range(len(order)) for j in range(i, len(order))
        )
        return not any(late) and reduce(
            lambda states, e: {new for s in states for new in step(s, e.op)}, order, {first}
        )  # fmt: skip

    return any(fits(order) for order in permutations(events))


def register(state, asked):
    """A number that is written, read, raised if it is as expected, or perhaps written."""
    verb, value = asked
    if verb == "write":
        return [value]
    if verb == "perhaps":
        return [state, value]
    if verb == "raise":
        return [state + 1] if state == value else []
    return [state] if state == value else []


def a_register_history(chance):
    verbs = ("write", "read", "read", "raise", "perhaps")
    return [
        Event(call, call + chance.randrange(5), (chance.choice(verbs), chance.randrange(3)))
        for call in chance.choices(range(8), k=chance.randint(1, 5))
    ]


def test_the_search_finds_what_a_search_of_all_orders_finds():
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance, found = random.Random(seed), []
    for _ in range(1_500):
        history = a_register_history(chance)
        found.append(check(history, 0, register).holds)
        assert found[-1] == without_wit(history, 0, register), history
    assert 150 < sum(found) < 1_350, "one of the two answers was hardly ever right"


def test_so_it_does_for_histories_of_a_task_whose_times_are_shaken():
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance, found = random.Random(seed), []
    for may, may_not in TWINS.values():
        for history in (may, may_not) * 8:
            shaken = in_line([shake(chance, event) for event in history])
            found.append(check(shaken, TASK.first(), TASK.step).holds)
            assert found[-1] == without_wit(shaken, TASK.first(), TASK.step), shaken
    assert {True, False} == set(found)


def shake(chance, event):
    """It began earlier and ended later than it did, by up to three seconds."""
    call, back = (chance.randrange(3 * SECOND) * chance.randrange(2) for _ in range(2))
    call, back = max(event.call - call, START), event.back + back
    return Event(call, back, event.op._replace(first=call, last=back))


def test_a_search_that_takes_too_long_gives_up_and_says_so():
    writes = [Event(0, 9, ("write", n)) for n in range(9)] + [Event(10, 11, ("read", 99))]
    assert check(writes, 0, register, 50).holds is None
    assert check(writes, 0, register).holds is False


def test_a_long_history_of_four_takes_about_a_step_for_each_operation():
    history = [Event(n, n + 3, ("write", n)) for n in range(3_000)]
    verdict = check([*history, Event(4_000, 4_001, ("read", 2_999))], 0, register)
    assert verdict.holds is True and verdict.steps < 10_000


# --- what is not known ------------------------------------------------------------------------


def a_call(name, told=None, again="", call=1, back=2):
    return Call(name, call, back, {"body": "{}"}, told, again)


def outcome(number, replayed):
    receipt = {"number": number} if number else None
    return {"outcome": {"receipt": receipt, "replayed": replayed, "leases": ["then"]}}


def test_what_is_told_again_to_a_second_asking_has_happened_at_the_first():
    first = a_call("first", call=1, back=5)
    second = a_call("second", outcome(7, True), again="first", call=8, back=9)
    one, two = sorted(with_what_happened([first, second], {"first": second}))
    assert (one.call, one.back) == (1, 5)
    assert one.told["outcome"] == {"receipt": {"number": 7}, "replayed": False, "leases": None}
    assert two == second


def test_what_the_second_asking_has_done_itself_has_not_happened_before():
    first = a_call("first")
    for number in (7, 0):
        second = a_call("second", outcome(number, False), again="first")
        assert list(with_what_happened([first, second], {"first": second})) == [first, second]


def test_a_second_asking_that_had_no_answer_has_not_done_it_once_more():
    done = a_call("done", outcome(7, False))
    repeated = a_call("repeated")
    asked = a_call("asked", outcome(7, True), again="repeated")
    calls = [done, repeated, asked]
    assert list(with_what_happened(calls, {"repeated": asked})) == calls


# --- real processes ---------------------------------------------------------------------------

LANES = {  # processes, threads in each, how they are killed; operations and lives of each
    "processes of one thread": (4, 1, ("step", "commit", "moment"), 400, 8),
    "threads that share commits": (3, 4, ("step", "commit", "moment"), 150, 6),
    "a store that dies between commit and answer": (3, 1, ("commit",), 300, 10),
}
LONGEST = 20  # seconds; a busy machine needs more for as many operations


@pytest.mark.parametrize("lane", LANES)
def test_what_processes_were_told_could_have_happened_in_a_line(lane, tmp_path):
    seed = random.randrange(10**6)
    found = result_of(start(recorded, str(tmp_path), seed, LONGEST, *LANES[lane]))
    wrong = found.pop("wrong")
    print(f"seed {seed}: {found}")
    assert not wrong, "\n".join(wrong)
    assert found["gave_up"] == found["not_linearizable"] == 0
    assert found["operations"] > 500 and found["killed"] > 0
    assert found["unknown"] >= found["unknown_settled"] > 0
    if LANES[lane][2] == ("commit",):
        assert found["settled_as_happened"] > 0


def test_a_history_that_nobody_could_judge_is_a_failure(tmp_path):
    found = result_of(start(recorded, str(tmp_path), 1, LONGEST, 2, 1, (), 30, 1, 1))
    assert found["gave_up"] == found["histories"] > 0
    assert all(line.startswith("gave up: task") for line in found["wrong"])


@pytest.fixture(scope="module")
def planted():
    """What a recording has found of each planted fault."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    return result_of(start(with_faults, seed))


@pytest.mark.parametrize("fault", PLANTS)
def test_a_planted_fault_is_seen_in_what_processes_were_told(planted, fault):
    found = planted[fault]
    print({what: found.get(what) for what in ("rounds", "operations", "not_linearizable")})
    assert found.get("not_linearizable", 0) > 0, found
