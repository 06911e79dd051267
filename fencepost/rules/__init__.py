"""Decisions only: each rule of the product stands here once.

A rule takes values and returns an issue code or None; it knows no store, no clock and no SQL.
The order in which codes lead is the order of `fencepost.issues.ISSUES`.
A stale fence is refused in `fence.py`; what state may follow which is in `lifecycle.py`.
"""
