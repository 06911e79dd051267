"""Claims and leases: who holds a task, in which order, for how long, and what it costs."""

from __future__ import annotations

from datetime import datetime, timedelta

from .law import law
from .store import (
    OPERATOR,
    QUEUE,
    Store,
    command,
    equal,
    leases_of,
    on_lease,
    replayed,
    rising,
    worker,
)


def instant(text: str) -> datetime:
    """A time of the contract."""
    return datetime.fromisoformat(text)


def written(moment: datetime) -> str:
    """A time as the contract writes it."""
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


@law(controls="clock", verbs="release", code="stale_fence")
def fences_only_rise_over_all_tasks(store: Store) -> None:
    """One counter for the whole store: whatever task it is for, each claim takes a higher fence,
    after a release and after a lapse too."""
    fences = []
    tasks = [store.offer(number, max_attempts=9) for number in range(3)]
    for _ in range(3):
        for task_id in tasks:
            lease = store.claim("w1", task_id=task_id)
            fences.append(lease.fence)
            if len(fences) % 2:
                store.accept(on_lease("release", lease))
        store.wait()
    rising(fences)


@law(controls="clock", verbs="complete")
def the_attempt_is_charged_at_the_claim(store: Store) -> None:
    """A worker that dies without a word has used its attempt: a poison task runs out and ends
    dead, and its last worker is told so."""
    task_id = store.offer(max_attempts=2)
    for attempt in (1, 2):
        lease = store.claim(f"w{attempt}")
        equal("attempt", attempt, lease.told["attempt"])
        equal("attempt as it is read", attempt, store.task(task_id)["attempt"])
        store.wait()
    equal("leases after the last attempt", [], store.take("w3"))
    equal("state", "dead", store.task(task_id)["state"])
    with store.unchanged("task_dead"):
        store.refuse(on_lease("complete", lease), "task_dead", "lease_expired")


@law(verbs="release")
def a_release_gives_the_attempt_back_and_keeps_the_fence(store: Store) -> None:
    """A task handed back unworked can be claimed at once, in the same attempt, under a new
    fence."""
    lease = store.lease("w1", max_attempts=1)
    store.accept(on_lease("release", lease))
    task = store.task(lease.task_id)
    equal("state, attempt and fence", ("ready", 0, lease.fence),
          (task["state"], task["attempt"], task["fencing_token"]))  # fmt: skip
    again = store.claim("w2")
    equal("attempt", 1, again.told["attempt"])
    rising((lease.fence, again.fence))


@law(controls="clock", verbs="renew complete", code="lease_expired")
def a_renewal_moves_the_end_and_keeps_the_fence(store: Store) -> None:
    """A heartbeat extends the lease from now on and never shortens it, leaves no entry, and cannot
    revive a lease."""
    lease = store.lease("w1")
    store.wait(59)
    before = len(store.entries())
    told = store.accept(on_lease("renew", lease, lease_seconds=60))
    equal("receipt and entries", (None, before), (told["receipt"], len(store.entries())))
    task = store.task(lease.task_id)
    equal("fence", lease.fence, task["fencing_token"])
    moved = instant(task["lease_expires_at"]) - instant(lease.told["lease_expires_at"])
    equal("the end moved by", timedelta(seconds=59), moved)
    store.accept(on_lease("renew", lease, lease_seconds=1))
    equal("the end after a shorter one", task["lease_expires_at"],
          store.task(lease.task_id)["lease_expires_at"])  # fmt: skip
    store.wait(59)
    equal("leases for another", [], store.take("w2"))
    store.wait(1)
    with store.unchanged("lease_expired"):
        store.refuse(on_lease("renew", lease, lease_seconds=60), "lease_expired")
        store.refuse(on_lease("complete", lease), "lease_expired")


@law(controls="clock", verbs="renew queue.set", code="lease_too_long")
def no_renewal_goes_past_the_hold_limit(store: Store) -> None:
    """However often it is renewed, a fence is held for max_hold_seconds at most."""
    store.settings(lease_seconds=60, max_hold_seconds=100)
    lease = store.lease("w1")
    store.wait(50)
    store.accept(on_lease("renew", lease))
    task = store.task(lease.task_id)
    held = instant(task["lease_expires_at"]) - instant(task["granted_at"])
    equal("held", timedelta(seconds=100), held, "lease_too_long")
    store.wait(49)
    with store.unchanged("lease_too_long"):
        store.refuse(on_lease("renew", lease), "lease_too_long")
    store.wait(1)
    store.refuse(on_lease("renew", lease), "lease_expired")


@law(verbs="renew queue.set", code="lease_too_long")
def nobody_may_ask_for_a_lease_longer_than_the_queue_allows(store: Store) -> None:
    """A claim and a renewal beyond max_lease_seconds are refused."""
    store.settings(max_lease_seconds=120)
    lease = store.lease("w1")
    store.offer()
    with store.unchanged("lease_too_long"):
        asked = command("claim", worker("w2"), worker_id="w2", queues=[QUEUE], lease_seconds=121)
        store.refuse(asked, "lease_too_long")
        store.refuse(on_lease("renew", lease, lease_seconds=121), "lease_too_long")
    store.accept(on_lease("renew", lease, lease_seconds=120))


@law()
def the_higher_priority_is_claimed_first_and_then_the_older(store: Store) -> None:
    """Claims take the higher priority first, and among equals what was enqueued first."""
    names = ("low", "high", "old", "new")
    ranks = {"low": -1, "high": 5}
    ids = {name: store.offer(name, priority=ranks.get(name, 0)) for name in names}
    first = store.take("w1", limit=2)
    then = store.take("w1", limit=4)
    wanted = [ids[name] for name in ("high", "old", "new", "low")]
    equal("the order", wanted, [lease.task_id for lease in (*first, *then)])


@law(controls="clock")
def a_task_is_not_claimed_before_its_time(store: Store) -> None:
    """A task with a later due time waits, to the microsecond, and no process has to move it."""
    now = instant(store.task(store.offer())["created_at"])
    store.claim("w1")
    due = store.offer("later", due_at=written(now + timedelta(seconds=30)))
    store.wait_microseconds(29_999_999)
    equal("leases before its time", [], store.take("w2"))
    store.wait_microseconds(1)
    equal("the lease at its time", due, store.claim("w2").task_id)


@law(verbs="complete queue.set", code="queue_paused")
def a_paused_queue_takes_no_claims_and_no_tasks(store: Store) -> None:
    """A pause stops claims and enqueues; leases that run may finish, their follow-ups pass, and a
    claim of several queues passes the paused one by."""
    lease = store.lease("w1")
    store.offer()
    store.settings(paused=True)
    with store.unchanged("queue_paused"):
        claim = command("claim", worker("w2"), worker_id="w2", queues=[QUEUE])
        store.refuse(claim, "queue_paused")
        store.refuse(command("enqueue", queue=QUEUE, tasks=[{"payload": 1}]), "queue_paused")
    follow = [{"queue": QUEUE, "payload": "next"}]
    store.accept(on_lease("complete", lease, followups=follow))
    beside = store.offer(queue="open")
    taken = store.take("w2", queues=[QUEUE, "open"], limit=9)
    equal("leases beside a paused queue", [beside], [lease.task_id for lease in taken])
    store.settings(paused=False)
    equal("leases", 2, len(store.take("w2", limit=9)))


@law(controls="clock", verbs="complete")
def a_replayed_claim_gives_the_leases_that_still_live(store: Store) -> None:
    """A claim sent again under its key gets its receipt and what is left of its leases: it takes
    nothing new, and revives nothing."""
    for number in range(3):
        store.offer(number)
    sent = command("claim", worker("w1"), "claim-1", worker_id="w1", queues=[QUEUE], limit=2)
    first = store.accept(sent)
    leases = leases_of(first)
    equal("leases", 2, len(leases))
    again = replayed(store.send(sent), first)
    equal("leases of the replay", first["leases"], again["leases"])
    store.accept(on_lease("complete", leases[0]))
    left = leases_of(replayed(store.send(sent), first))
    equal("leases left", [leases[1].task_id], [lease.task_id for lease in left])
    store.wait()
    equal("leases after their end", [], replayed(store.send(sent), first)["leases"])


@law(controls="clock", verbs="renew fail requeue", code="stale_fence")
def a_progress_mark_goes_to_the_next_attempt_and_its_holder_alone_writes_it(store: Store) -> None:
    """What a worker says of how far it has come outlives it: the next claim is given it. A worker
    that has lost its lease writes none, whatever else it knows. A new round begins without."""
    first = store.lease("w1", max_attempts=9)
    equal("the mark of a first attempt", None, first.told["progress"])
    store.accept(on_lease("renew", first, progress={"page": 17}, log="seventeen read"))
    store.wait()
    second = store.claim("w1")
    equal("the mark given to the next", {"page": 17}, second.told["progress"])
    with store.unchanged("stale_fence"):
        late = on_lease("renew", first, progress={"page": 18}, log="late")
        store.refuse(late, "stale_fence")
        store.refuse(on_lease("fail", first, progress={"page": 18}), "stale_fence")
    store.accept(on_lease("renew", second))
    task = store.task(second.task_id)
    equal("after a renewal without one", ({"page": 17}, "seventeen read"),
          (task["progress"], task["log"]))  # fmt: skip
    store.accept(on_lease("fail", second, progress={"page": 20}, retry_seconds=0))
    third = store.claim("w2")
    equal("the mark that a failure has left", {"page": 20}, third.told["progress"])
    with store.unchanged("wrong_worker"):
        store.refuse(on_lease("renew", third, worker_id="w1", progress=1), "wrong_worker")
    store.accept(on_lease("fail", third, then="give_up"))
    store.accept(command("requeue", task_id=third.task_id))
    equal("the mark of a new round", None, store.claim("w1").told["progress"])


@law(controls="clock", verbs="sweep queue.set")
def a_sweep_settles_lapsed_leases(store: Store) -> None:
    """A lapsed lease is settled: with attempts left the task waits to be tried again, without it
    is dead, and where the queue asks for a person it is blocked. Live leases stay."""
    store.settings("careful", on_lapse="reconcile")
    tired = store.lease("w1", max_attempts=1)
    fresh = store.lease("w1")
    careful = store.claim("w1", task_id=store.offer(queue="careful"))
    store.wait()
    live = store.lease("w1")
    swept = store.accept(command("sweep"))["task_ids"]
    settled = {tired.task_id: "dead", fresh.task_id: "ready", careful.task_id: "blocked"}
    equal("what was settled", set(settled), set(swept))
    states = {task["task_id"]: task["state"] for task in store.tasks()}
    equal("states", {**settled, live.task_id: "leased"}, states)
    equal("a second sweep", [], store.accept(command("sweep"))["task_ids"])


@law(controls="clock", verbs="queue.set")
def a_lapsed_lease_can_be_claimed_at_once_without_a_sweep(store: Store) -> None:
    """Nothing depends on anyone sweeping: at its very end a lease can be taken over, unless the
    queue wants a person to look first."""
    old = store.lease("w1")
    store.settings("careful", on_lapse="reconcile")
    careful = store.claim("w1", task_id=store.offer(queue="careful"))
    equal("leases while it lives", [], store.take("w2"))
    store.wait()
    equal("the lease after it", old.task_id, store.claim("w2").task_id)
    equal("leases where a person has to look", [], store.take("w2", queues=["careful"]))
    equal("its state", "blocked", store.task(careful.task_id)["state"])


@law()
def an_unknown_queue_is_empty_and_a_claim_creates_nothing(store: Store) -> None:
    """A claim that finds nothing is accepted, gives nothing and leaves nothing."""
    store.offer()
    with store.unchanged():
        sent = command("claim", worker("w1"), worker_id="w1", queues=["nowhere"])
        outcome = store.accept(sent)
        equal("what it gave", (None, []), (outcome["receipt"], outcome["leases"]))
        equal("tasks there", [], store.tasks("nowhere", OPERATOR))
