"""What is known of a living task while the journal is read: packed, since there may be millions.

Measured: 260 bytes a task, dict included (100,000 tasks: 25 MB).
"""

from __future__ import annotations

from struct import Struct

from fencepost.model import STATES
from fencepost.record import dataclass

_PACKED = Struct("<32sB9q")
UNKNOWN = -1


@dataclass(slots=True)
class Seen:
    """A task by the last entry that named it. Row ids and entries are UNKNOWN where the entry
    that told them has been purged with another task.

    `last` is the last entry that named it, `entry` the last that changed it, `row` its row id,
    `parent` that of the task whose result brought it about (0: none).
    """

    after: bytes
    state: int
    fence: int
    revision: int
    last: int
    entry: int
    created: int
    row: int
    parent: int
    changed_at: int
    granted_at: int

    @property
    def state_name(self) -> str:
        return STATES[self.state]

    def pack(self) -> bytes:
        return _PACKED.pack(
            self.after, self.state, self.fence, self.revision, self.last, self.entry,
            self.created, self.row, self.parent, self.changed_at, self.granted_at,
        )  # fmt: skip

    @classmethod
    def unpack(cls, raw: bytes) -> Seen:
        return cls(*_PACKED.unpack(raw))


def task_number(task_id: str) -> int:
    """A task id as a number: the smallest key that a dict can have of it."""
    return int(task_id.replace("-", ""), 16)


def task_name(number: int) -> str:
    """The task id of the number."""
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
