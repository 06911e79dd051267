"""The outbox of a worker without a network: take tasks, leave, work for days, come back.

    from fencepost import offline
    with offline.open("offline.db", create=True, worker_id="laptop-3") as box:
        box.take(fp, "pages", limit=50, lease_seconds=5 * 86_400)
        while task := box.next():                        # from here on without a network
            box.record(task.task_id, read(task.payload))
        box.sync(fp)                                     # with one again

What was recorded survives a kill and a power cut; a sync may be broken off anywhere and run again.
See docs/offline.md.
"""

from fencepost.offline.outbox import Outbox
from fencepost.offline.outbox import open_outbox as open
from fencepost.offline.values import Conflict, Kept, Recorded, Report, Verified

__all__ = ["Conflict", "Kept", "Outbox", "Recorded", "Report", "Verified", "open"]
