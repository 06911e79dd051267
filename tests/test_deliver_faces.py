"""The dispatcher over every back: PostgreSQL, a service and its token, inside `serve`."""

from __future__ import annotations

import urllib.request
from contextlib import contextmanager

import psycopg
import pytest
from helpers import postgres
from helpers.deliver_life import Life
from helpers.delivering import Depot, depot
from helpers.receivers import Web
from helpers.service import Service
from helpers.working import comes_true

import fencepost
from fencepost.clock import SystemClock


@contextmanager
def on_postgres(folder):
    with postgres.database() as url, fencepost.open(url, create=True) as fp:
        yield Depot(fp, folder), url


def test_a_result_on_postgresql_has_its_effect(tmp_path, kit):
    with on_postgres(tmp_path) as (place, _), Web(kit.answer) as web:
        place.destination(web.url)
        place.many(120)
        place.deliver()
        assert {each.state for each in place.fp.tasks("out")} == {"done"}
    assert len(kit.effects()) == 120


def test_an_obligation_that_is_committed_late_is_delivered_though_later_ones_were(tmp_path, kit):
    """faults.md 26: its number is lower than that of what was delivered before it was there."""
    with on_postgres(tmp_path) as (place, url), Web(kit.answer) as web:
        place.destination(web.url)
        place.fp.queue_set("pages", destinations=["out"])
        late = place.fp.enqueue("pages", "late").task_id
        (held,) = place.fp.claim("pages", worker_id="w")
        with psycopg.connect(url) as connection:
            with place.fp.within(connection) as tx:
                tx.lease(late, worker_id="w", fence=held.fence).complete("late")
            # not committed yet: the application's own transaction goes on
            with fencepost.open(url) as other:
                other.enqueue("pages", "early")
                (lease,) = other.claim("pages", worker_id="w")
                lease.complete("early")
            place.deliver()
            assert [task for task, _ in kit.effects()] and late not in kit.effects()[0][0]
            connection.commit()
        place.deliver()
        assert [operation for operation, _ in kit.effects()][-1] == f"{late}:1"
        assert {each.state for each in place.fp.tasks("out")} == {"done"}


@pytest.fixture
def service(tmp_path):
    with depot(tmp_path, clock=SystemClock()) as place:
        pass
    with Service(tmp_path, store=str(place.folder / "store.db")) as made:
        yield made


def test_a_dispatcher_elsewhere_delivers_with_a_token_of_its_own(tmp_path, kit, service):
    with (
        Web(kit.answer) as web,
        fencepost.open(tmp_path / "store.db") as fp,
    ):
        place = Depot(fp, tmp_path)
        place.destination(web.url)
        tasks = place.results(*range(5))
        _, token = fp.token_create("far-away", "dispatcher")
        with fencepost.open(service.url, token=token) as remote:
            far = Depot(remote, tmp_path)
            made = far.dispatcher(max_seconds=60)
            made._options = made._options.__class__(
                (), "far-away", exit_when_empty=True, max_seconds=60
            )
            assert made.run() == "done"
        assert [each.state for each in place.obligations()] == ["done"] * 5
    assert sorted(each for each, _ in kit.effects()) == sorted(f"{task}:1" for task in tasks)


def test_serve_delivers_and_tells_its_counters(tmp_path, kit):
    with depot(tmp_path, clock=SystemClock()) as place, Web(kit.answer) as web:
        place.destination(web.url)
        place.results(1, 2, 3)
        store = str(tmp_path / "store.db")
        with Service(
            tmp_path, "--dev", "--deliver", store=store, XDG_STATE_HOME=str(tmp_path)
        ) as up:
            comes_true(lambda: len(kit.effects()) == 3, 30)
            comes_true(lambda: {each.state for each in place.obligations()} == {"done"}, 30)
            told = urllib.request.urlopen(f"{up.url}/metrics", timeout=10).read().decode()  # noqa: S310
        assert 'fencepost_deliveries_total{destination="out",outcome="delivered"} 3' in told


def test_the_command_line_says_what_became_of_it(tmp_path, kit):
    with depot(tmp_path, clock=SystemClock()) as place, Web(kit.answer) as web:
        place.destination(web.url)
        place.results(1, 2)
        with Life(tmp_path, "--exit-when-empty") as life:
            assert life.ends() == (
                0, {"ended": "done", "obligations": {"complete": 2}, "tries": {"delivered": 2}},
            )  # fmt: skip
        with Life(tmp_path, "pages", "--exit-when-empty") as life:
            assert life.ends()[0] == 2  # no destination


def test_a_dispatcher_that_begins_while_the_store_is_away_delivers_once_it_is_back(tmp_path, kit):
    """Beside a service nobody would begin it anew."""
    with depot(tmp_path) as place, Web(kit.answer) as web:
        place.destination(web.url)
        place.results(1)
        asked = []
        destinations = place.fp.destinations

        def away():
            asked.append(1)
            if len(asked) < 3:
                raise fencepost.Unavailable("the server is starting up")
            return destinations()

        place.fp.destinations = away
        with place.delivering():
            comes_true(lambda: len(kit.effects()) == 1)
