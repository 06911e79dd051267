"""The shelter feed: its seven steps, and the seven hashes that were published for them."""

from __future__ import annotations

import hashlib
import json

from .law import law
from .store import QUEUE, Lease, Store, command, equal, on_lease, said, worker

PUBLISHED = (
    ("lease_S1_T1", "189d8297be46d8cc"),
    ("submit_T1", "5b8176d671771464"),
    ("dup_submit_T1", "a74fce4af8e8e712"),
    ("stale_submit_after_expiry", "0c0c09a4598d0a60"),
    ("re_lease_S1_T2", "bbdaef1e51adfda5"),
    ("resubmit_T2", "366041ec613624f1"),
    ("old_token_after_re_lease", "5bd6a7426f103e9c"),
)


def short(text: str) -> str:
    """The feed's digest."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def state(store: Store) -> str:
    """What the feed hashes, read from the target: rows are [task key, digest of the raw text],
    leases are the last fence of each task."""
    tasks = store.tasks(QUEUE)
    rows = sorted(
        [task["key"], short(result["value"])]
        for task in tasks
        for result in store.results(task["task_id"])
    )
    leases = {task["key"]: task["fencing_token"] for task in tasks if task["fencing_token"]}
    return json.dumps({"rows": rows, "leases": leases}, sort_keys=True)


@law(controls="clock", verbs="submit", code="lease_expired")
def the_shelter_feed_gives_its_seven_published_hashes(store: Store) -> None:
    """A feed that goes on after its lease has run out: duplicates, expired and superseded tokens
    are refused, two rows stand at the end, and the chain of checkpoints is the published one."""
    chain: list[tuple[str, str]] = []

    def checkpoint(step: str) -> None:
        before = chain[-1][1] if chain else "GENESIS"
        chain.append((step, short(f"{before}|{step}|{state(store)}")))

    def lease(step: str) -> Lease:
        sent = command("claim", worker("feed"), worker_id="feed", queues=[QUEUE], lease_seconds=60)
        (told,) = store.accept(sent)["leases"]
        checkpoint(step)
        return Lease(task_id, "feed", told["fencing_token"], told)

    def submit(step: str, under: Lease, text: str, key: str, verdict: str) -> None:
        outcome = store.send(on_lease("submit", under, key, result=text))
        equal(step, verdict, said(outcome), verdict.partition(": ")[2] or None)
        checkpoint(step)

    task_id = store.offer({"snapshot": "S1"}, key="S1", max_attempts=2)
    first = lease("lease_S1_T1")
    equal("the first fence ever", 1, first.fence)
    submit("submit_T1", first, "shelter-count:42", "k1", "accepted")
    submit("dup_submit_T1", first, "shelter-count:42", "k2", "failed: duplicate_result")
    store.wait(120)
    submit("stale_submit_after_expiry", first, "shelter-count:43", "k3", "failed: lease_expired")
    second = lease("re_lease_S1_T2")
    equal("the second fence", 2, second.fence)
    submit("resubmit_T2", second, "shelter-count:43", "k4", "accepted")
    submit("old_token_after_re_lease", first, "shelter-count:44", "k5", "failed: stale_fence")
    equal("rows", 2, len(store.results(task_id)))
    equal("the chain", PUBLISHED, tuple(chain))
