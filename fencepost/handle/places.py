"""What can be read of queues, scope and tokens, and who may read at all."""

from __future__ import annotations

from typing import Any

from fencepost import fields
from fencepost.clock import to_rfc3339
from fencepost.commands import Claim
from fencepost.handle import masking
from fencepost.handle.journal import turned_away
from fencepost.handle.pages import Pages
from fencepost.issues import error_for
from fencepost.machine.rows import QueueRow
from fencepost.model import EVERY_SCOPE, Outcome, QueueSettings, Scope, Token, Writer
from fencepost.outward import Destination
from fencepost.rules import authority
from fencepost.storage import reading
from fencepost.storage.rows import destination_row, queue_row
from fencepost.storage.steps import rows_of


class Places(Pages):
    """Queues with their settings, the scope, and who is let in."""

    def queue(self, queue: str) -> QueueSettings:
        """The settings of a queue. Raises NotFound."""
        return self.queue_row(queue).settings

    def queue_row(self, queue: str) -> QueueRow:
        """One queue and its settings. Raises NotFound."""
        fields.name(queue, "queue")
        for row in self.queue_rows():
            if row.queue == queue:
                return row
        raise error_for(not_found(f"scope {self.caller.scope} has no queue {queue}"))

    def queue_rows(self) -> list[QueueRow]:
        """All queues of the scope, by name."""
        self._may_read()
        rows = self._store.read(rows_of("queues_of_scope", scope=self.caller.scope))
        return [
            row for row in map(queue_row, rows)
            if not authority.hidden_queue(self.caller, row.queue)
        ]  # fmt: skip

    def destination(self, queue: str) -> Destination:
        """Where the obligations of a queue go. Its secrets, and what may be one in its address and
        headers, are told to operator and dispatcher alone. Raises NotFound."""
        fields.name(queue, "queue")
        for destination in self.destinations():
            if destination.queue == queue:
                return destination
        raise error_for(not_found(f"scope {self.caller.scope} has no destination {queue}"))

    def destinations(self) -> list[Destination]:
        """All destinations of the scope that have an address, by name; as `destination` tells
        them."""
        self._may_read()
        rows = self._store.read(rows_of("destinations_of_scope", scope=self.caller.scope))
        found = [
            destination_row(queue, columns) for _, queue, *columns in rows
            if not authority.hidden_queue(self.caller, queue)
        ]  # fmt: skip
        shown = authority.sees_secrets(self.caller)
        return found if shown else [masking.for_others(one) for one in found]

    def scope(self) -> Scope:
        """The scope of this handle: policy version, revocation, retention."""
        self._may_read()
        return self._scope()

    def _scope(self) -> Scope:
        rows = self._store.read(rows_of("scopes", names=[self.caller.scope]))
        if not rows:
            return Scope(self.caller.scope)
        name, policy_version, revoked, retain_seconds = rows[0]
        return Scope(name, policy_version, bool(revoked), retain_seconds)

    def tokens(self) -> list[Token]:
        """The tokens of the scope, those that have ended too, in the order in which they were
        made; to who is of every scope also those that reach it from there. Raises Forbidden to
        all but operator and auditor."""
        self._only(*authority.SEES_ALL)
        found = self._store.read(reading.tokens_of_scope(self.caller.scope))
        if self.caller.every_scope:
            found += self._store.read(reading.tokens_of_scope(EVERY_SCOPE))
        return sorted(found, key=lambda token: token.token_id)

    def writers(self) -> tuple[Writer, ...]:
        """The lineage of the store: each writer that was recognised, the oldest first; the last
        one writes now. Raises Forbidden to all but operator, dispatcher and auditor."""
        self._may_read()
        if self.caller.kind not in authority.SEES_WRITERS:
            raise turned_away("forbidden")
        return self._store.read(reading.writers())

    def may_wait(self, command: Claim) -> bool:
        """Whether the caller may learn when there is something on the queues of this claim. Raises
        what reading does."""
        self._may_read()
        refused = authority.forbidden(self.caller, command)
        return not (refused or authority.beyond_queues(self.caller, command))

    def any_token(self) -> bool:
        """Whether a token has ever been made in this store."""
        return bool(self._store.read(rows_of("any_token")))

    def _may_read(self) -> None:
        """A token that does not count any more shows nothing at all, a revoked scope nothing but
        to the store's operator and auditor."""
        self.check_token()
        if not authority.sees_every_scope(self.caller) and self._scope().revoked:
            raise turned_away("scope_revoked")

    def check_token(self) -> None:
        """Raises Unauthenticated where the caller's token does not count any more."""
        caller = self.caller
        if caller.token is None:
            return
        token = self._store.read(reading.token_by_id(caller.token))
        if code := authority.unauthenticated(caller, token, self.now()):
            raise turned_away(code)


def stats_json(found: dict[str, Any]) -> dict[str, Any]:
    """What `stats` has found, as every face tells it. The clock's jumps are not among it."""
    rows = [{**row, "since": row["since"] and to_rfc3339(row["since"])} for row in found["queues"]]
    return {"scope": found["scope"], "now": to_rfc3339(found["now"]), "queues": rows}


def not_found(message: str) -> Outcome:
    """The refusal of a read."""
    return Outcome("failed", ("not_found",), message)
