"""Queues that are each wrong in one rule, as real ones have been found to be. The kit has to fail
every one of them, and name the code that was missed.

Each is the reference with a small method replaced. `code` is the issue code that an honest queue
tells where this one errs (of a lost receipt, the one after which nothing may be left), `found_by`
the case that was written for it; others may find it too.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .reference_bytes import Row
from .reference_parts import Refused, remark
from .sqlite_reference import Reference, Rules, Transaction

BROKEN: dict[str, type[Broken]] = {}


class Broken(Reference):
    """A reference whose transactions break one rule."""

    code: ClassVar[str]
    found_by: ClassVar[str]

    def __init_subclass__(cls) -> None:
        BROKEN[cls.name] = cls


class Fault(Transaction):
    """What a broken queue does instead; its docstring says it in words."""

    name: ClassVar[str] = ""
    code: ClassVar[str] = ""
    found_by: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        told = {name: getattr(cls, name) for name in ("name", "code", "found_by", "__doc__")}
        type(cls.__name__, (Broken,), {**told, "transaction": cls})

    def honest_but(self, c: Row, t: Row, *codes: str) -> Rules:
        """The honest rules without these."""
        return [rule for rule in super().lease_rules(c, t) if rule[0] not in codes]


class CompletesByIdOnly(Fault):
    """A completion is guarded by the task's id and state: whoever sends it has done the task."""

    name, code = "completes-by-id-only", "wrong_worker"
    found_by = "another_worker_is_refused_alone"

    def lease_rules(self, c: Row, t: Row) -> Rules:
        blind = ("wrong_worker", "unknown_fence", "stale_fence", "lease_expired")
        return self.honest_but(c, t, *(blind if c.verb == "complete" else ()))


class AcceptsAfterExpiry(Fault):
    """A lease that ran out counts until somebody else has claimed the task."""

    name, code = "accepts-after-expiry", "lease_expired"
    found_by = "an_expired_or_replaced_lease_is_refused_at_the_owner"

    def lease_rules(self, c: Row, t: Row) -> Rules:
        return self.honest_but(c, t, "lease_expired")


class AcceptsAtTheBoundary(Fault):
    """The very instant at which a lease ends still belongs to it."""

    name, code = "accepts-at-the-boundary", "lease_expired"
    found_by = "the_exact_expiry_boundary_rejects_a_completion"

    def lease_rules(self, c: Row, t: Row) -> Rules:
        late = t.fence > 0 and self.now > t.lease_expires_at
        return [*self.honest_but(c, t, "lease_expired"), ("lease_expired", late)]


class ReplaysByKeyAlone(Fault):
    """A known key gets its receipt, whatever the bytes are that come with it."""

    name, code = "replays-by-key-alone", "idempotency_key_reused"
    found_by = "the_same_key_with_other_content_fails"

    def known_entry(self) -> Any:
        number, gone = self.filed("key", self.scope, self.actor, self.key) or (0, 0)
        return self.get("entry", number) if number and not gone else super().known_entry()


class FenceFromTheAttempt(Fault):
    """The attempt number serves as the fence, and goes down again when a task is released."""

    name, code = "fence-from-the-attempt", "stale_fence"
    found_by = "a_fence_is_not_an_attempt_number"

    def next_fence(self, t: Row) -> int:
        super().next_fence(t)
        return int(t.attempt) + 1


class LateRenewRevives(Fault):
    """A heartbeat asks who holds the task and not whether the lease has ended."""

    name, code = "late-renew-revives", "lease_expired"
    found_by = "a_renewal_moves_the_end_and_keeps_the_fence"

    def lease_rules(self, c: Row, t: Row) -> Rules:
        return self.honest_but(c, t, *(["lease_expired"] if c.verb == "renew" else []))


class ReclaimKeepsTheFence(Fault):
    """Only a task's first claim draws a fence: the next owner gets the same."""

    name, code = "reclaim-keeps-the-fence", "stale_fence"
    found_by = "a_reclaim_raises_the_fence_and_a_stale_submit_changes_nothing"

    def next_fence(self, t: Row) -> int:
        return int(t.fence) or super().next_fence(t)


class LateSuccessOverwritesCancel(Fault):
    """A completion does not look whether the task was cancelled meanwhile."""

    name, code = "late-success-overwrites-cancel", "task_cancelled"
    found_by = "cancelled_work_stays_cancelled_when_a_success_comes_late"

    def lease_rules(self, c: Row, t: Row) -> Rules:
        return self.honest_but(c, t, *(["task_cancelled"] if c.verb == "complete" else []))


class ReceiptOutsideTheTransaction(Fault):
    """The result is committed first; obligations and receipt come in a transaction of their own."""

    name, code = "receipt-outside-the-transaction", "store_unavailable"
    found_by = "when_the_outbox_insert_fails_result_and_receipt_roll_back_too"

    def add(self, given: Any, queue: str, entry_queue: str, role: str = "",
            parent: str | None = None) -> dict[str, Any]:
        if role == "obligation":
            self.db.execute("commit")
            self.db.execute("begin immediate")
        return super().add(given, queue, entry_queue, role, parent)


class RevokedScopeStillReplays(Fault):
    """Receipts are found before anybody asks whether the caller may still know of them."""

    name, code = "revoked-scope-still-replays", "scope_revoked"
    found_by = "a_revoked_scope_discloses_nothing_not_even_to_a_replay"

    def check_authority(self, c: Row, kind: str) -> None:
        try:
            super().check_authority(c, kind)
        except Refused as refusal:
            if refusal.issues != ["scope_revoked"] or not self.known_entry():
                raise


class AcceptsAStaleRevision(Fault):
    """The revision that a result was made for is taken and not compared."""

    name, code = "accepts-a-stale-revision", "stale_revision"
    found_by = "another_revision_is_refused_alone"

    def one_task(self, c: Row, t: Row) -> Row:
        return super().one_task(Row({**c, "expected_revision": None}), t)

    submit = complete = one_task


class ImportsWhateverIsSaid(Fault):
    """A revision that is there is taken for what a receiver has, without a look at its result."""

    name, code = "imports-whatever-is-said", "result_conflict"
    found_by = "what_a_receiver_has_accepted_is_imported_once"

    def adopt(self, c: Row, t: Row) -> Row:
        if c.revision <= t.revision:
            return self.accept(None, task_ids=[t.task_id], facts={"known": True})
        return super().adopt(c, t)


class MarkOfALateHolderStays(Fault):
    """The progress mark is written before anybody asks whose lease it is."""

    name, code = "mark-of-a-late-holder-stays", "stale_fence"
    found_by = "a_progress_mark_goes_to_the_next_attempt_and_its_holder_alone_writes_it"

    def renew(self, c: Row, t: Row) -> Row:
        self.put("task", t.task_id, Row({**t, **remark(c)}))
        self.db.execute("commit")
        self.db.execute("begin immediate")
        return super().renew(c, Row({**t, **remark(c)}))


class AcceptsTheRightFenceFromTheWrongWorker(Fault):
    """The fence alone is the lease: who knows the number may use it."""

    name, code = "right-fence-from-the-wrong-worker", "wrong_worker"
    found_by = "the_same_fence_with_a_wrong_holder_is_refused"

    def lease_rules(self, c: Row, t: Row) -> Rules:
        return self.honest_but(c, t, "wrong_worker")
