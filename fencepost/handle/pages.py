"""The same reading a page at a time, for faces that cannot hold an iterator open between two
questions. A page is (what it holds, the cursor behind it; 0: there is no more)."""

from __future__ import annotations

from fencepost import fields
from fencepost.handle.journal import EntryView, Journal, parsed
from fencepost.journal.checkpoint import Checkpoint
from fencepost.model import STATES, RefusedResult, Result, Task
from fencepost.rules import authority
from fencepost.storage import reading
from fencepost.storage.steps import rows_of


class Pages(Journal):
    """The pages of `tasks`, `results`, `refused`, `history`, `entries` and `checkpoints`."""

    def tasks_page(
        self, queue: str | None, state: str | None, after: int, limit: int
    ) -> tuple[list[Task], int]:
        """One page of tasks in the order of their enqueueing, without payloads."""
        fields.optional(fields.name)(queue, "queue")
        fields.optional(fields.one_of(*STATES))(state, "state")
        self._may_read()
        queues = authority.queues_seen(self.caller, queue)
        return self._store.read(reading.tasks(self.caller.scope, queues, state, after, limit))

    def results_page(self, task_id: str, after: int, limit: int) -> tuple[list[Result], int]:
        """One page of a task's accepted results. Raises NotFound."""
        row_id, _ = self._task(task_id, with_payload=False)
        page = self._store.read(reading.results(row_id, task_id, after, limit))
        return page, page[-1].revision if len(page) == limit else 0

    def refused_page(self, task_id: str, after: int, limit: int) -> tuple[list[RefusedResult], int]:
        """One page of what was kept aside for a task. Raises NotFound."""
        row_id, _ = self._task(task_id, with_payload=False)
        return self._store.read(reading.refused(row_id, task_id, after, limit))

    def history_page(self, task_id: str, after: int, limit: int) -> tuple[list[EntryView], int]:
        """One page of the entries whose target is this task. Raises NotFound."""
        row_id, _ = self._task(task_id, with_payload=False)
        found = self._store.read(reading.entries_of_task(row_id))
        numbers = [number for number, _ in found if number > after][:limit]
        stored = [self._store.read(reading.entry(number)) for number in numbers]
        views = [self._view(one) for one in stored if one is not None]
        return views, numbers[-1] if len(numbers) == limit else 0

    def entries_page(self, after: int, limit: int) -> tuple[list[EntryView], int]:
        """One page of the journal, from behind the entry `after` on."""
        fields.count(after, "after")
        self._may_read()
        self._store.listed()
        page = self._store.read(reading.entries(after, limit))
        return [self._view(stored) for stored in page], page[-1].number if len(page) == limit else 0

    def checkpoints_page(self, after: int, limit: int) -> tuple[list[Checkpoint], int]:
        """One page of the checkpoints of more than `after` entries, the smallest first."""
        self._may_read()
        rows = self._store.read(rows_of("checkpoints", after=after, limit=limit))
        return [parsed(body) for _, _, body in rows], rows[-1][0] if len(rows) == limit else 0

    def page_secret(self) -> bytes:
        """What cursors are signed with: 32 bytes that only this store has."""
        ((*_, secret),) = self._store.read(rows_of("store_about"))
        return bytes(secret)
