"""WHERE A STALE FENCE IS REFUSED: rules 5 to 10, met by every command of a worker on a lease.

Each rule is one function of the command, the task and the moment, and returns its code or
None. A lease is `[granted_at, lease_expires_at)`, half-open: at the very instant of its end it
has ended, whether or not anyone else has claimed. After a lease the task keeps its last
worker, fence and end, so that all of this can be told about a late command; a task that was
never claimed has fence 0 and nothing to be stale against. The same fence stands again as a
guard in the SQL of `storage`, compared with what the command presented.
"""

from __future__ import annotations

from fencepost.commands import LeaseCommand
from fencepost.model import TaskRow
from fencepost.rules.lifecycle import lease_state
from fencepost.rules.moment import Moment


def stale_epoch(command: LeaseCommand, task: TaskRow, moment: Moment) -> str | None:
    """5: the lease is from below the floor, or the command names another epoch than it has."""
    below = task.fence > 0 and task.epoch < moment.floor
    wrong = command.epoch is not None and command.epoch != task.epoch
    return "stale_epoch" if below or wrong else None


def stale_policy(command: LeaseCommand, task: TaskRow, moment: Moment) -> str | None:
    """6: the scope's policy was raised since the claim, or the command names another."""
    raised = task.fence > 0 and task.policy_version != moment.policy_version
    named = command.policy_version
    wrong = named is not None and named != task.policy_version
    return "stale_policy" if raised or wrong else None


def wrong_worker(command: LeaseCommand, task: TaskRow, moment: Moment) -> str | None:
    """8: somebody else holds the lease, or held the last one."""
    return "wrong_worker" if command.worker_id != task.worker_id else None


def unknown_fence(command: LeaseCommand, task: TaskRow, moment: Moment) -> str | None:
    """9: a fence that this task never had. Forged, or the database was rolled back."""
    return "unknown_fence" if command.fence > task.fence else None


def stale_fence(command: LeaseCommand, task: TaskRow, moment: Moment) -> str | None:
    """9: the task was claimed again since this fence was drawn."""
    return "stale_fence" if command.fence < task.fence else None


def lease_expired(command: LeaseCommand, task: TaskRow, moment: Moment) -> str | None:
    """10: the lease has ended by the store's clock."""
    ended = task.fence > 0 and moment.now >= task.lease_expires_at
    return "lease_expired" if ended else None


def held_last(command: LeaseCommand, task: TaskRow) -> bool:
    """Of the very worker and fence that hold the task, or held it last: rules 8 and 9 are met."""
    return command.worker_id == task.worker_id and command.fence == task.fence


LEASE_RULES = (
    stale_epoch,
    stale_policy,
    lease_state,
    wrong_worker,
    unknown_fence,
    stale_fence,
    lease_expired,
)


def lease_issues(command: LeaseCommand, task: TaskRow, moment: Moment) -> list[str]:
    """All codes of rules 5 to 10 that apply, in order; empty for the holder of a live lease."""
    return [code for rule in LEASE_RULES if (code := rule(command, task, moment)) is not None]


def lapsed(task: TaskRow, moment: Moment) -> bool:
    """A lease that has ended by time or by the floor, though no command has said so yet."""
    ended = moment.now >= task.lease_expires_at or task.epoch < moment.floor
    return task.state == "leased" and ended


def moved_on(fence: int | None, task: TaskRow) -> str | None:
    """9, for cancel, requeue, resolve and erase: the fence that their author saw, if given."""
    if fence is None or fence == task.fence:
        return None
    return "unknown_fence" if fence > task.fence else "stale_fence"


def unknown_lineage(epoch: int, own: int) -> str | None:
    """9, for import: a result that this store does not know was accepted in an epoch that is not
    before its own. The file was rolled back and goes on as if nothing had happened: the fences that
    it gives would be below those that receivers have seen."""
    return "unknown_fence" if epoch >= own else None


def next_fence(last_fence: int, epoch: int) -> int:
    """The fence after `last_fence`: it only rises, and an epoch e begins above `e << 32`."""
    return max(last_fence, epoch << 32) + 1


def needs_new_epoch(fence: int, epoch: int) -> bool:
    """True when the 2^32 fences of an epoch are used up."""
    return fence >> 32 > epoch
