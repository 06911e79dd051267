"""The shelter feed (seed 1): its nine verdicts and its seven published hashes, from our state.

The seed chains `prev|step|state` with SHA-256, 16 hex digits. Here `state` is read from the
store: rows are `[task key, sha256(raw text of the result)[:16]]`, leases are the task's last
fence. The labels and the steps that were refused are kept by this case itself: our journal has
no refusals. The seed's own program stands in tests/seeds/ and is run beside ours.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from itertools import pairwise

import pytest
from helpers.lab import QUEUE, Lab, ask, completion, raw, submission
from helpers.texts import seed

from fencepost import Request
from fencepost.journal import checkpoint

PUBLISHED = seed(1)
VERDICT_OF = {
    (): "ACCEPTED",
    ("duplicate_result",): "REJECTED_DUPLICATE",
    ("lease_expired",): "REJECTED_EXPIRED_LEASE",
    ("stale_fence",): "REJECTED_STALE_TOKEN",
}
WORKER = "feed"


def short(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Feed:
    """The seed's outbox, played on the product: one snapshot is one task named S1."""

    def __init__(self, path):
        self.lab = Lab(path, obligations=False)
        self.lab.offer({"snapshot": "S1"}, key="S1", max_attempts=2)
        self.chain = []
        self.states = []
        self.verdicts = []

    def state(self):
        fp = self.lab.fp
        tasks = list(fp.tasks(QUEUE))
        rows = sorted([t.key, short(r.value)] for t in tasks for r in fp.results(t.task_id))
        leases = {task.key: task.fence for task in tasks if task.fence}
        return json.dumps({"rows": rows, "leases": leases}, sort_keys=True)

    def checkpoint(self, step):
        before = self.chain[-1][1] if self.chain else "GENESIS"
        self.states.append(self.state())
        self.chain.append([step, short(f"{before}|{step}|{self.states[-1]}")])

    def check(self, step, expected, observed):
        same = expected == observed
        self.verdicts.append(
            {"step": step, "expected": expected, "observed": observed, "pass": same}
        )

    def lease(self, step):
        (lease,) = self.lab.fp.claim(QUEUE, worker_id=WORKER, lease_seconds=60)
        self.checkpoint(step)
        return lease

    def submit(self, step, lease, text, key):
        outcome = ask(self.lab.fp, self.request(lease, text, key))
        self.checkpoint(step)
        return VERDICT_OF[outcome.issues]

    def request(self, lease, text, key):
        return Request.of(submission(lease, text), key)

    def count(self):
        return self.lab.counts()[0]


def play(path):
    """The seed's steps in its order; same worker both times, distinct keys, no revision given."""
    feed = Feed(path)
    t1 = feed.lease("lease_S1_T1")
    feed.check("lease issues monotonic token", True, t1.fence == 1)
    said = feed.submit("submit_T1", t1, "shelter-count:42", "k1")
    feed.check("fresh submit accepted", "ACCEPTED", said)
    said = feed.submit("dup_submit_T1", t1, "shelter-count:42", "k2")
    observed = [said, feed.count()]
    feed.check("duplicate rejected, row count still 1", ["REJECTED_DUPLICATE", 1], observed)
    feed.lab.clock.advance(120)
    said = feed.submit("stale_submit_after_expiry", t1, "shelter-count:43", "k3")
    observed = [said, feed.count()]
    expected = ["REJECTED_EXPIRED_LEASE", 1]
    feed.check("expired-lease stale submit rejected, rows still 1", expected, observed)
    t2 = feed.lease("re_lease_S1_T2")
    feed.check("re-lease token monotonic", True, t2.fence == 2)
    said = feed.submit("resubmit_T2", t2, "shelter-count:43", "k4")
    feed.check("fresh-lease resubmit accepted", "ACCEPTED", said)
    said = feed.submit("old_token_after_re_lease", t1, "shelter-count:44", "k5")
    observed = [said, feed.count()]
    feed.check("superseded token rejected, rows still 2", ["REJECTED_STALE_TOKEN", 2], observed)
    feed.check("checkpoint chain length", 7, len(feed.chain))
    feed.check("checkpoint hashes unique per step", 7, len({h for _, h in feed.chain}))
    feed.lab.close()
    return feed


@pytest.fixture
def feed(tmp_path):
    return play(tmp_path / "feed.db")


def test_the_nine_published_verdicts_come_from_the_products_answers(feed):
    assert feed.verdicts == PUBLISHED["observed_verdicts"]
    assert len(feed.verdicts) == 9 and all(verdict["pass"] for verdict in feed.verdicts)
    assert PUBLISHED["all_pass"] is True


def test_the_seven_published_hashes_are_reproduced_from_the_stores_state(feed):
    assert feed.chain == PUBLISHED["checkpoint_chain"]


def test_the_final_row_count_is_the_published_one(feed):
    with raw(feed.lab.path) as own:
        (found,) = own.execute("select count(*) from fencepost_result").fetchall()
    assert found == (PUBLISHED["final_row_count"],) == (2,)


def chained(log):
    """The hashes of a log of (step, state)."""
    hashes, before = [], "GENESIS"
    for step, state in log:
        before = short(f"{before}|{step}|{state}")
        hashes.append(before)
    return hashes


def test_playing_the_log_again_gives_the_same_chain(feed, tmp_path):
    again = play(tmp_path / "again.db")
    assert (again.chain, again.states) == (feed.chain, feed.states)


@pytest.mark.parametrize("place", range(7))
def test_tampering_with_one_step_breaks_the_chain_from_there_on(feed, place):
    log = list(zip([step for step, _ in feed.chain], feed.states, strict=True))
    hashes = [hash_ for _, hash_ in feed.chain]
    assert chained(log) == hashes
    log[place] = (log[place][0], log[place][1] + " ")
    found = chained(log)
    assert found[:place] == hashes[:place]
    assert not set(found[place:]) & set(hashes)


def test_the_seeds_own_program_publishes_what_we_reproduce(feed):
    done = subprocess.run(
        [sys.executable, "-I", "-c", PUBLISHED["harness"]], capture_output=True, check=True
    )
    told = json.loads(done.stdout)
    assert told["checkpoints"] == feed.chain and told["verdicts"] == feed.verdicts
    assert (told["rows"], told["all_pass"]) == (2, True)


# The seed's invariants


def test_invariant_1_the_fencing_token_is_monotonic_per_snapshot_lease(tmp_path):
    lab = Lab(tmp_path / "feed.db")
    tasks = [lab.offer(n, max_attempts=9) for n in range(3)]
    fences = {task_id: [] for task_id in tasks}
    for _ in range(5):
        for lease in lab.fp.claim(QUEUE, worker_id=WORKER, limit=3):
            fences[lease.task_id].append(lease.fence)
        lab.clock.advance(60)
    lab.close()
    for drawn in fences.values():
        assert len(drawn) == 5 and drawn == sorted(set(drawn))


@pytest.mark.parametrize("token", ["older", "current", "newer"])
@pytest.mark.parametrize("moment", ["before the expiry", "at the expiry", "after it"])
def test_invariant_2_a_submit_is_accepted_only_under_the_current_token_within_the_lease(
    lab, token, moment
):
    """The seed allows `clock <= expiry`; half-open is stricter and satisfies its `only if`."""
    old = lab.lease()
    lab.clock.advance(60)
    new = lab.claim()
    seconds = {"before the expiry": 59.999_999, "at the expiry": 60, "after it": 61}[moment]
    lab.clock.advance(seconds)
    fence = {"older": old.fence, "current": new.fence, "newer": new.fence + 1}[token]
    worker = lab.fp.lease(new.task_id, worker_id="w1", fence=fence)
    outcome = ask(lab.fp, submission(worker, "x"))
    allowed = token == "current" and lab.fp.now() <= new.lease_expires_at
    assert not outcome.accepted or allowed
    assert outcome.accepted == (token == "current" and moment == "before the expiry")
    assert lab.counts()[0] == int(outcome.accepted)


def test_invariant_3_duplicates_of_a_snapshot_and_its_payload_never_insert_twice(lab):
    lease = lab.lease()
    lease.submit("shelter-count:42", key="k1")
    for number in range(5):
        outcome = ask(lab.fp, submission(lease, "shelter-count:42", expected_revision=number))
        assert outcome.issues[0] == "duplicate_result"
    assert lab.counts() == (1, 1, 1)
    receipt = lease.complete("shelter-count:42", key="k2")
    assert receipt.revision == 1 and lab.counts()[0] == 1


def test_invariant_4_accepted_steps_are_only_appended_and_checkpoints_chain(lab):
    """Our own chain of steps is the journal: append-only, sealed under heads that name the one
    before. A refused step leaves nothing."""
    lease = lab.lease()
    kept = lab.dump()["fencepost_entry"]
    for number in range(3):
        lease.submit(number)
        entries = lab.dump()["fencepost_entry"]
        assert entries[: len(kept)] == kept and len(entries) == len(kept) + 1
        kept = entries
        with lab.fp._store.turn():
            assert lab.fp._store.seal(lab.clock.wall(), 1_000) == 0
    assert [row[0] for row in kept] == list(range(1, len(kept) + 1))
    assert ask(lab.fp, completion(lease, "late", epoch=9)).issues == ("stale_epoch",)
    assert lab.dump()["fencepost_entry"] == kept
    with lab.sql() as own:
        bodies = own.execute("select body from fencepost_checkpoint order by size").fetchall()
    heads = [checkpoint.parse(body) for (body,) in bodies]
    assert len(heads) >= 3 and heads[-1].size == len(kept)
    for before, head in pairwise(heads):
        assert (head.previous_size, head.previous_sha256) == (before.size, before.sha256())
