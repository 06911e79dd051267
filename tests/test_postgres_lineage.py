"""Which change of a PostgreSQL store's server is a copy's: with it alone deliveries stop."""

from __future__ import annotations

import pytest
from helpers import postgres

import fencepost
from fencepost.lineage import UNHEARD
from fencepost.storage.postgres import writer


def offered(url):
    """A store with a destination."""
    with fencepost.open(url, create=True) as fp:
        fp.queue_set("q", destinations=["out"])
        fp.destination_set("out", "https://example.org/in", class_="fenced")


def after(url):
    """Who writes once something is written, and whether deliveries are stopped."""
    with fencepost.open(url) as fp:
        fp.enqueue("q", 1)
        return fp.writers()[-1], fp.destination("out").stopped


def test_a_database_that_was_copied_delivers_nothing_until_a_person_says_so():
    with postgres.database() as url:
        offered(url)
        with postgres.database(template=postgres.name_of(url)) as copy:
            found, stopped = after(copy)
            assert (found.why, found.epoch, stopped) == ("another database", UNHEARD, "copied")
            with fencepost.open(copy) as fp:
                fp.destination_set("out", stopped=None)
            assert after(copy) == (found, None)
        assert after(url)[1] is None, "the original goes on"


CHANGES = {
    "another cluster": ("system_identifier = 1", "copied"),
    "another database": ("database_oid = 1", "copied"),
    "another timeline": ("timeline = 'FFFFFFFF'", None),
    "started": ("started_at = '2000-01-01T00:00:00Z'", None),
}


@pytest.mark.parametrize("why", CHANGES)
def test_a_standby_that_takes_over_and_a_restart_stop_nothing(why):
    change, stops = CHANGES[why]
    with postgres.database() as url:
        offered(url)
        postgres.admin(f"update fencepost_store set {change}", database=postgres.name_of(url))
        found, stopped = after(url)
        assert (found.why, stopped) == (why, stops)


def test_every_change_is_told_apart_by_one_word():
    assert {*CHANGES} == {*writer.COPIES, "another timeline", "started"}
