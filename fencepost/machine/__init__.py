"""Decides what commands do to rows: pure, no clock, no randomness, no SQL, no I/O.

`needs.py` says which rows to load, `fold.py` folds a batch of commands over them one after
another (two commands on one task see each other), and each other file holds a group of verbs.
What comes out are `Changes` for the store to write in one transaction, and one `Verdict` a
command. The rules themselves stand in `fencepost.rules`.
"""
