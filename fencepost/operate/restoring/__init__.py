"""A copy of a store that is to live: restored from a backup, or adopted where it stands.

A copy knows nothing of what happened after it was made. So before it serves it begins as another
writer, tells every receiver so, and records what they have accepted meanwhile. In this order:

1. `copying.py`: the backup is checked and copied, under a name that nobody opens
2. `steps.py`, `begin`: receivers are asked for their epochs; a new writer begins above them all
3. `receivers.py`: each receiver is told, and what it has accepted is imported
4. `steps.py`: erasures made since the backup are made again, tokens revoked, secrets changed
5. deliveries go on, and the store gets its name

`progress.py` remembers what is done, so that an interrupted run goes on. `receipt.py` is what
people are shown at the end.
"""
