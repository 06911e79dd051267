"""Deliveries: what results oblige to is brought to its destination, and what became of it recorded.

An obligation is a task, so whoever delivers is a worker on the destinations' queues; only the work
itself is here. See docs/deliveries.md.
"""
