"""What users hold: the handle of a store, the lease of a task, the caller's transaction."""

from fencepost.handle.handle import Handle, open_handle
from fencepost.handle.lease import Lease
from fencepost.handle.verbs import Verbs
from fencepost.handle.within import Transaction

__all__ = ["Handle", "Lease", "Transaction", "Verbs", "open_handle"]
