"""The client against the service itself, over a real socket."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
from helpers.stand import QUEUE, SCOPE
from helpers.web import Served

import fencepost
from fencepost import commands as c
from fencepost.issues import Forbidden, NotFound, Unauthenticated


@contextmanager
def client(web, kind="operator", actor="", *, scope="default", **more):
    token = web.token(kind, actor, scope=scope, **more)
    url = f"http://127.0.0.1:{web.port}"
    with fencepost.open(url, token=token, scope=scope) as fp:
        yield fp


def test_the_way_of_a_task_over_the_service():
    with Served() as web, client(web) as operator, client(web, "worker", "w") as worker:
        receipt = operator.enqueue(QUEUE, {"n": 1}, key="a/b..%2F?")
        assert operator.task_by_key(QUEUE, "a/b..%2F?").task_id == receipt.task_id
        (lease,) = worker.claim(QUEUE, worker_id="w", lease_seconds=50)
        assert 45 < lease.remaining() <= 50
        lease.renew(90)
        assert 85 < lease.remaining() <= 90
        done = lease.complete({"text": "é"}, key="k")
        assert lease.complete({"text": "é"}, key="k") == done
        assert worker.receipt("k") == done
        assert operator.prove(done).verify()
        assert abs(worker.skew_seconds) < 1
        with pytest.raises(fencepost.TaskDone):
            lease.complete("another")
        with pytest.raises(Forbidden):
            worker.enqueue(QUEUE, 1)
        outcomes = operator.execute([c.Enqueue(QUEUE, (c.NewTask(n),)) for n in range(1_200)])
        assert all(outcome.accepted for outcome in outcomes)


def test_everything_that_can_be_read_is_the_same_beside_the_service_and_through_it():
    with Served() as web:
        here = web.fp.as_caller("local", scope=SCOPE)
        here.enqueue_many(QUEUE, [{"payload": {"n": n, "é": [1.5, None]}} for n in range(230)])
        one, two, _ = here.claim(QUEUE, worker_id="w", limit=3)
        one.submit({"draft": 1})
        one.complete({"a": "é"}, followups=[{"queue": "next", "payload": 1}])
        two.fail("no luck: \x07", then="block")
        here.erase(here.enqueue(QUEUE, "gone").task_id)
        here.seal()
        with client(web, scope=SCOPE) as there:
            for read in (
                lambda fp: list(fp.tasks()), lambda fp: list(fp.tasks(QUEUE, state="done")),
                lambda fp: fp.task(one.task_id), lambda fp: list(fp.results(one.task_id)),
                lambda fp: list(fp.refused(one.task_id)), lambda fp: list(fp.history(one.task_id)),
                lambda fp: list(fp.entries()), lambda fp: list(fp.entries(2)),
                lambda fp: list(fp.checkpoints()), lambda fp: fp.stats()["queues"],
                lambda fp: fp.queue(QUEUE), lambda fp: fp.scope(), lambda fp: fp.tokens(),
                lambda fp: fp.writers(),
                lambda fp: [(row.queue, row.settings) for row in fp.queue_rows()],
                lambda fp: fp.seal(), lambda fp: fp.prove(3),
                lambda fp: fp.prove_consistency(next(fp.checkpoints())),
            ):  # fmt: skip
                assert read(there) == read(here)
            with pytest.raises(NotFound):
                there.results("01900000-0000-7000-8000-000000000000")
            with pytest.raises(Forbidden):
                there.about()  # of the whole store
        with client(web, scope=SCOPE, every_scope=True) as there:
            assert set(there.about()) == set(web.fp.about())


def test_a_claim_that_waits_is_woken_and_has_its_whole_lease():
    with Served() as web, client(web, "worker", "w") as worker:
        worker.scope()
        found = []
        thread = threading.Thread(
            target=lambda: found.extend(
                worker.claim(QUEUE, worker_id="w", wait_seconds=30, lease_seconds=5)
            )
        )
        thread.start()
        service = web.server.config.app.service
        while service.limits.waiting == 0 and thread.is_alive():
            thread.join(0.01)
        thread.join(1)
        web.fp.enqueue(QUEUE, "new")
        thread.join(20)
        (lease,) = found
        assert lease.payload == "new" and 4 < lease.remaining() <= 5, "not counted: a second"


def test_a_token_is_made_and_revoked_through_the_service():
    with Served() as web, client(web) as operator:
        receipt, text = operator.token_create("w", "worker")
        url = f"http://127.0.0.1:{web.port}"
        with fencepost.open(url, token=text) as worker:
            assert worker.claim(QUEUE, worker_id="w") == []
            (made,) = [token for token in operator.tokens() if token.actor == "w"]
            operator.token_revoke(made.token_id)
            with pytest.raises(Unauthenticated):
                worker.claim(QUEUE, worker_id="w")
        assert text not in receipt.body.decode()
