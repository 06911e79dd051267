"""Wake-up hints: who waits is woken by whoever commits, and nothing depends on it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import psycopg
import pytest
from helpers import postgres
from helpers.working import comes_true

import fencepost
from fencepost.clock import FakeClock
from fencepost.handle import waiting
from fencepost.server import news
from fencepost.storage.postgres import hints, talk

LONG = 50  # seconds that no claim of these tests is to wait out


@pytest.fixture
def url():
    with postgres.database() as plain:
        given = f"{plain}{'&' if '?' in plain else '?'}hints=1"
        fencepost.open(given, create=True).close()
        yield given


@pytest.fixture
def blind(monkeypatch):
    """Nobody finds a task by looking: a hint alone makes a claim that waits try."""
    monkeypatch.setattr(waiting, "worth_a_claim", lambda *_: False)


class Waiting:
    """A claim that waits in a thread, on a handle of its own as in another process."""

    def __init__(self, url, queue="work", seconds=LONG):
        self.found = None
        self._handle = fencepost.open(url)
        self._given = (queue, seconds)
        self._thread = threading.Thread(target=self._claim)
        self._thread.start()

    def _claim(self):
        queue, seconds = self._given
        with self._handle as fp:
            self.found = fp.claim(queue, worker_id="w", wait_seconds=seconds)

    def payloads(self, seconds=LONG - 10):
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "nothing has woken it"
        return [lease.payload for lease in self.found]


def listeners(url):
    with psycopg.connect(url.replace("hints=1", "application_name=test")) as connection:
        return connection.execute(
            "select pid from pg_stat_activity where datname = current_database() "
            "and (query like 'listen%' or query like 'select pg_notify%') and state = 'idle'"
        ).fetchall()


def test_a_claim_that_waits_is_woken_by_the_commit_of_another(url, blind):
    with fencepost.open(url) as fp:
        waits = Waiting(url)
        comes_true(lambda: listeners(url), LONG - 10)
        fp.enqueue("work", {"n": 1})
        assert waits.payloads() == [{"n": 1}]


def test_a_claim_finds_its_task_though_every_hint_is_lost(url, monkeypatch):
    monkeypatch.setattr(hints.Hints, "tell", lambda *_: None)
    with fencepost.open(url) as fp:
        waits = Waiting(url)
        fp.enqueue("work", {"n": 1})
        assert waits.payloads() == [{"n": 1}]


def test_where_every_hint_is_lost_a_claim_that_does_not_look_is_not_woken(url, blind, monkeypatch):
    """The net of the first test can fail."""
    monkeypatch.setattr(hints.Hints, "tell", lambda *_: None)
    with fencepost.open(url) as fp:
        waits = Waiting(url, seconds=2)
        comes_true(lambda: listeners(url), LONG - 10)
        fp.enqueue("work", {"n": 1})
        waits._thread.join()
        # at its end a claim tries once more, and finds it then
        assert waits.payloads() == [{"n": 1}]
        assert fp.now() - fp.task(waits.found[0].task_id).created_at > 1_000_000


def test_a_task_that_is_given_back_is_told_of_and_one_that_waits_for_its_time_is_not(url):
    told = []
    with fencepost.open(url) as fp, fp.hinted(told.append) as given:
        assert given
        fp.enqueue("work", 1, due_at="2999-01-01T00:00:00Z")
        assert told == []
        fp.enqueue("other", 1)
        (lease,) = fp.claim("other", worker_id="w")
        assert told == [("default", "other")]
        lease.release()
        assert told == [("default", "other")] * 2


def test_no_hint_is_in_the_transaction_that_it_tells_of(url, monkeypatch):
    asked = []
    real = talk.exchange

    def noted(link, asks):
        asked.append([ask.name for ask in [*link.first, *asks]])
        return (yield from real(link, asks))

    monkeypatch.setattr(talk, "exchange", noted)
    with fencepost.open(url) as fp:
        fp.enqueue("work", 1)
        comes_true(lambda: ["hint"] in asked, LONG - 10)
    assert all(names == ["hint"] for names in asked if "hint" in names)


def test_hints_come_again_after_their_connection_was_cut(url, blind, monkeypatch):
    monkeypatch.setattr(hints, "AGAIN", 1)
    with fencepost.open(url) as fp:
        waits = Waiting(url)
        comes_true(lambda: listeners(url), LONG - 10)
        (before,) = listeners(url)
        with psycopg.connect(url.replace("hints=1", "application_name=test")) as connection:
            connection.execute("select pg_terminate_backend(%s)", before)
        comes_true(lambda: listeners(url) not in ([], [before]), LONG - 10)
        fp.enqueue("work", {"n": 1})
        assert waits.payloads() == [{"n": 1}]


def test_a_hint_of_another_store_in_the_database_wakes_nobody(url):
    told = []
    own = hints.Hints(lambda: None)
    own._schema, own._pid = "public", 7
    with own._lock:
        own._listeners[0] = told.append
    for payload in ("s work app", "s work", "", "s work public", "work"):
        own._notified(psycopg.Notify("fencepost", payload, 1))
    own._notified(psycopg.Notify("fencepost", "s ours public", 7))
    own.close()
    assert told == [("s", "work")]


def test_a_queue_is_told_of_twenty_times_a_second_at_most():
    clock = FakeClock(10**15)
    pace = hints.Pace(clock)
    told = []
    for _ in range(1_000):  # one second
        pace.add([("s", "a")])
        told += pace.due()
        clock.advance(0.001)
    assert told == [("s", "a")] * 20
    assert pace.due() == [("s", "a")]
    pace.add([("s", "a"), ("s", "b")])
    assert pace.due() == [("s", "b")]
    assert pace.seconds() == 0.05
    clock.advance(1)
    pace.add([("s", "a")])
    assert pace.seconds() == 0
    assert pace.due() == [("s", "a")]
    assert pace.seconds() is None


@pytest.mark.parametrize(
    ("query", "told"),
    [("hints=2", "hints may only be 1"), ("hints=", "hints may only be 1"),
     ("hints=1&pooled=1", "leave out pooled=1")],
)  # fmt: skip
def test_what_cannot_give_hints_is_refused(query, told):
    with pytest.raises(fencepost.InvalidRequest, match=told):
        fencepost.open(f"postgresql://u@127.0.0.1/w?{query}")


def test_without_the_switch_nobody_listens_and_its_thread_ends_with_the_store(url):
    with fencepost.open(url.replace("hints=1", "application_name=x")) as fp:
        with fp.hinted(pytest.fail) as given:
            assert given is False
        fp.enqueue("work", 1)
        assert listeners(url) == []
    with fencepost.open(url) as fp:
        fp.enqueue("work", 1)
        comes_true(lambda: listeners(url), LONG - 10)
    assert "fencepost-hints" not in [thread.name for thread in threading.enumerate()]


class Bridge:
    """As much of a service as who waits there needs: its looks are counted."""

    def __init__(self):
        self.fp, self.looks, self.ready, self.hint = self, 0, {}, None

    @contextmanager
    def hinted(self, hint):
        self.hint = hint
        yield True

    async def read(self, _):
        self.looks += 1
        return False, dict(self.ready)


@pytest.mark.parametrize("place", [("s", "work"), ("s", "other")])
def test_a_service_looks_at_once_when_a_hint_tells_of_a_queue_that_is_waited_for(
    place, monkeypatch
):
    monkeypatch.setattr(news, "LOOK_SECONDS", 3_600)

    async def lives():
        bridge = Bridge()
        told = news.News(bridge)
        waits = asyncio.create_task(told.task_for([("s", "work")], None, LONG))
        while not bridge.looks:
            await asyncio.sleep(0.001)
        bridge.ready = {("s", "work"): 1}
        await asyncio.to_thread(bridge.hint, place)
        done, _ = await asyncio.wait([waits], timeout=LONG if place[1] == "work" else 0.05)
        looks = bridge.looks
        told.stop()
        await waits
        told._looking.cancel()
        return bool(done), looks

    assert asyncio.run(lives()) == ((True, 2) if place[1] == "work" else (False, 1))
