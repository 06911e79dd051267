"""The parts of a drill: `owner.py` (one owner of a store, here or in a process of its own),
`places.py` (receivers that are real), `checks.py` (what has to be true at the end)."""
