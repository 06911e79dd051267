"""What a worker leaves on its way, as the handle of either kind has it; and what never shows it."""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager

import pytest
from helpers.stand import QUEUE, WORKER, Stand, binding
from helpers.web import Served

import fencepost
from fencepost import commands as c
from fencepost.fields import MAX_LOG_BYTES, MAX_PROGRESS_BYTES
from fencepost.handle.lease import tidy_log

SECRET = "zxq-secret"


@contextmanager
def local():
    with Stand() as stand:
        yield stand.fp


@contextmanager
def served():
    with Served() as web:
        url = f"http://127.0.0.1:{web.port}"
        token = web.token("operator", "local")
        with fencepost.open(url, token=token, scope="default") as fp:
            yield fp


@pytest.fixture(params=[local, served], ids=["local", "served"])
def fp(request):
    with request.param() as fp:
        yield fp


def claimed(fp, worker=WORKER):
    (lease,) = fp.claim(QUEUE, worker_id=worker)
    return lease


def test_the_way_of_a_task_that_is_done_in_four_tries(fp):
    task_id = fp.enqueue(QUEUE, "work").task_id
    first = claimed(fp)
    assert first.progress is None
    first.renew(30, progress={"line": 40}, log="forty")
    assert first.progress is None, "what the claim found, and not what was said since"
    first.release(progress={"line": 41})
    second = claimed(fp, "v")
    assert (second.progress, fp.task(task_id).log) == ({"line": 41}, "forty")
    second.fail("broken", retry_seconds=0, progress=0, log="it broke")
    third = claimed(fp)
    assert third.progress == 0
    third.release(log="")
    fourth = claimed(fp)
    assert (fourth.progress, fp.task(task_id).log) == (0, "")
    fourth.submit("row", log="one row")
    assert fp.task(task_id).log == "one row"
    done = fourth.complete(log="all rows")
    assert fourth.complete(log="all rows") == done
    assert (fp.task(task_id).progress, fp.task(task_id).log) == (0, "all rows")


def test_the_largest_of_each_is_kept_and_one_byte_more_is_refused(fp):
    fp.enqueue(QUEUE, "work")
    lease = claimed(fp)
    most = "x" * (MAX_PROGRESS_BYTES - 2)
    lease.renew(progress=most, log="é" * (MAX_LOG_BYTES // 2))
    task = fp.task(lease.task_id)
    assert (task.progress, task.log) == (most, "é" * (MAX_LOG_BYTES // 2))
    with pytest.raises(fencepost.InvalidRequest, match="65537 bytes; at most 65536"):
        lease.renew(progress=most + "x")
    (told,) = fp.execute([c.Renew(**binding(lease), log="x" * MAX_LOG_BYTES)])
    assert told.accepted
    with pytest.raises(fencepost.InvalidRequest, match="16385 bytes; at most 16384"):
        c.Renew(**binding(lease), log="x" * (MAX_LOG_BYTES + 1))


def test_a_log_is_never_in_the_way_of_ending_an_attempt(fp):
    fp.enqueue(QUEUE, "work")
    lease = claimed(fp)
    lease.fail(then="give_up", log="begin \ud800 " + "é" * 20_000 + " end")
    log = fp.task(lease.task_id).log
    assert log.startswith("…é") and log.endswith("é end") and len(log.encode()) <= MAX_LOG_BYTES


@pytest.mark.parametrize("text", ["", "x" * MAX_LOG_BYTES, "é" * (MAX_LOG_BYTES // 2), "a\nb"])
def test_a_log_that_fits_stays_as_it_is(text):
    assert tidy_log(text) == text


@pytest.mark.parametrize("start", range(8))
def test_a_log_that_is_cut_is_cut_between_characters(start):
    kept = tidy_log("x" * start + "𝄞€é" * 3_000)
    assert kept is not None and kept[0] == "…"
    assert ("𝄞€é" * 3_000).endswith(kept[1:])
    assert MAX_LOG_BYTES - 3 <= len(kept.encode()) <= MAX_LOG_BYTES
    assert tidy_log(None) is None


def test_no_entry_and_no_log_of_the_program_holds_a_word_of_it(caplog):
    caplog.set_level(logging.DEBUG)
    with Stand() as stand:
        task_id = stand.task()
        stand.claim().renew(progress=SECRET, log=SECRET)
        stand.clock.advance(60)
        lease = stand.claim()
        lease.release(progress=[SECRET], log=SECRET)
        again = stand.claim()
        assert again.progress == [SECRET]
        with pytest.raises(fencepost.LeaseLost):
            lease.renew(progress="theirs", log=SECRET)
        done = again.complete({"row": 1}, log=SECRET)
        journal = [view.body for view in stand.fp.entries()]
        assert len(journal) == 6, "a renew leaves none"
        told = json.dumps([body.decode() for body in journal] + [done.to_json()])
        assert SECRET not in told
        assert SECRET not in caplog.text + json.dumps(stand.fp.stats()) + repr(again)
        assert stand.fp.task(task_id).log == SECRET
        assert stand.fp.verify().problems == ()
