"""What comes of a task: whom it obliges, and what another writer of the store has accepted."""

from __future__ import annotations

from .law import law
from .results import digest, owed
from .store import OUTBOX, Caller, Json, Store, command, equal, on_lease

LAST = 232_829  # the highest epoch that there can be: before no store's own
ENDS = ["done", "dead", "cancelled", "blocked"]


@law(controls="clock", verbs="complete fail cancel sweep queue.set")
def an_outcome_obliges_whoever_asked_for_it(store: Store) -> None:
    """Where a queue says which outcomes oblige a destination, each puts its message there in the
    commit that brings it about, by whatever command; and nothing else does."""
    store.settings(destinations=[OUTBOX], outcomes={OUTBOX: ENDS}, max_attempts=1)
    done, dead, held = store.lease("w1"), store.lease("w1"), store.lease("w1")
    store.accept(on_lease("complete", done, result="answer"))
    store.accept(on_lease("fail", dead, reason="torn"))
    store.accept(on_lease("fail", held, then="block"))
    open_task = store.offer()
    store.accept(command("cancel", task_id=open_task))
    lapsed = store.lease("w1")
    store.wait()
    store.accept(command("sweep"))
    about = {"done": done.task_id, "dead": dead.task_id, "blocked": held.task_id,
             "cancelled": open_task}  # fmt: skip
    for outcome, task_id in about.items():
        (message,) = owed(store, task_id)
        store.judge("obligation", message)
        equal(f"what is owed for {outcome}", (outcome, 1), (message["outcome"], message["round"]))
    equal("why it is dead", "torn", owed(store, dead.task_id)[0]["reason"])
    equal("what a lapse owes", ["dead"], [m["outcome"] for m in owed(store, lapsed.task_id)])


@law(verbs="complete import clock.reset queue.set", code="result_conflict")
def what_a_receiver_has_accepted_is_imported_once(store: Store) -> None:
    """A result that another writer's receiver has is recorded in whatever state the task is, under
    the lease that accepted it; known, it changes nothing, and another result of it is refused."""
    store.settings(destinations=[OUTBOX])
    store.accept(command("clock.reset"))  # as a restore does it: an epoch before this one
    lease = store.lease("w1")
    said: Json = {"task_id": lease.task_id, "epoch": 0, "fencing_token": 7, "evidence": "there"}
    first = command("import", revision=1, final=True, result="one", **said)
    receipt = store.accept(first)["receipt"]
    equal("replayed", receipt, store.accept(first)["receipt"])
    store.refuse(on_lease("complete", lease, result="late"), "task_done")
    (row,) = store.results(lease.task_id)
    equal("what is recorded", (1, digest('"one"')), (row["revision"], row["result_sha256"]))
    (message,) = owed(store, lease.task_id)
    equal("under which lease", (0, 7, True),
          (message["epoch"], message["fencing_token"], message["final"]))  # fmt: skip
    with store.unchanged("result_conflict"):
        again = command("import", revision=1, final=True, result="one", **said | {"evidence": 2})
        equal("what is known", None, store.accept(again)["receipt"])
        other = command("import", revision=1, final=True, result="two", **said)
        store.refuse(other, "result_conflict")
        gap = command("import", revision=3, final=True, result="two", **said)
        store.refuse(gap, "stale_revision")
        ahead = command("import", revision=2, final=True, result="two", **said | {"epoch": LAST})
        store.refuse(ahead, "unknown_fence")
        worker = command("import", Caller("worker", "w1"), revision=2, final=True, result="two",
                         **said)  # fmt: skip
        store.refuse(worker, "forbidden")
