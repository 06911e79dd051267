"""What is uncertain is looked up: found, not found, or a person has to look."""

from __future__ import annotations

import json
import sys
import time

import pytest
from helpers.delivering import depot
from helpers.receivers import SECRET, Web, http

from fencepost.deliveries.reconcile import read
from fencepost.receiver import signing


@pytest.fixture
def place(tmp_path):
    with depot(tmp_path) as made:
        yield made


def lost(place, web, reconcile=None):
    """One result whose delivery to an unfenced destination was read and not answered."""
    place.destination(web.url, "unfenced")
    (task,) = place.results("x")
    web.answer = lambda asked: None
    place.deliver()
    if reconcile is not None:
        place.fp.destination_set("out", options={"reconcile": reconcile})
    return task


def found(**more):
    return http(200, json.dumps({"found": True, **more}).encode())


ABSENT = http(404, b'{"found": false}')


@pytest.mark.parametrize(
    ("answer", "state", "sent"),
    [
        (found(evidence={"row": 7}), "done", 1),
        (ABSENT, "done", 2),
        (http(200, b'{"found": false}'), "done", 2),
        (http(404, b"<html>no such page</html>"), "blocked", 1),
        (http(404), "blocked", 1),
        (http(200, b'{"found": "yes"}'), "blocked", 1),
        (http(200, b"[]"), "blocked", 1),
        (http(500, b'{"found": false}'), "blocked", 1),
        (http(302, b'{"found": false}', location="/"), "blocked", 1),
        (http(200, b'{"found": true, "found": false}'), "blocked", 1),
        (http(200, b" " * 70_000), "blocked", 1),
        (None, "blocked", 1),
    ],
    ids=range(12),
)
def test_only_a_plain_yes_or_no_settles_an_uncertain_effect(place, answer, state, sent):
    with Web(lambda asked: None) as web, Web(lambda asked: answer) as who:
        task = lost(place, web, reconcile=f"http://127.0.0.1:{who.port}/ask?of=out")
        (before,) = place.obligations()
        web.answer = lambda asked: http(200)
        place.deliver()
        (after,) = place.obligations()
        assert (after.state, len(web.asked)) == (state, sent)
        assert who.asked[-1].line == f"GET /ask?of=out&operation={task}%3A1 HTTP/1.1"
        key = signing.secret_bytes(SECRET)
        signing.verify([key], who.asked[-1].headers, b"", time.time())
    if sent == 2:  # the same id and the same bytes
        assert len({each.body for each in web.asked}) == 1
    if state == "done" and sent == 1:
        assert place.evidence(after.task_id) == {"reconciled": {"row": 7}}
    assert before.task_id == after.task_id


@pytest.mark.parametrize(
    ("said", "code", "state"),
    [('{"found": true}', 0, "done"), ('{"found": true}', 1, "blocked"), ("found", 0, "blocked")],
)
def test_a_command_is_asked_with_the_operation_as_its_last_word(place, said, code, state, tmp_path):
    script = tmp_path / "ask.py"
    script.write_text(
        f"import sys; open({str(tmp_path / 'asked')!r}, 'w').write(sys.argv[1]); "
        f"print({said!r}); sys.exit({code})"
    )
    with Web(lambda asked: None) as web:
        task = lost(place, web, reconcile=[sys.executable, str(script)])
        place.deliver()
        assert (tmp_path / "asked").read_text() == f"{task}:1"
        assert place.obligations()[0].state == state and len(web.asked) == 1


def test_what_is_lost_again_is_not_asked_about_again_at_once(place):
    with Web(lambda asked: None) as web, Web(lambda asked: ABSENT) as who:
        lost(place, web, reconcile=f"http://127.0.0.1:{who.port}/")
        place.deliver()
        assert (len(who.asked), len(web.asked)) == (1, 2)
        assert place.obligations()[0].state == "blocked"


def test_a_person_settles_what_no_reconciler_knows_and_the_journal_says_who_and_why(place):
    with Web(lambda asked: None) as web:
        lost(place, web)
        (task,) = place.obligations()
        receipt = place.fp.resolve(
            task.task_id, "done", evidence={"seen by": "Ada"}, fence=task.fence, reason="asked them"
        )
        assert receipt.entry["verb"] == "resolve"
        assert place.evidence(task.task_id) == {"seen by": "Ada"}
        assert place.fp.task(task.task_id).state == "done" and len(web.asked) == 1


def test_a_contradiction_is_for_a_person_alone(place):
    """An effect of the same name and other data is known: to look it up would find it."""
    with Web(lambda asked: found()) as who, Web(lambda asked: None) as web:
        url = f"http://127.0.0.1:{who.port}/"
        place.destination(web.url, "unfenced", reconcile=url)
        place.results("x")
        (lease,) = place.fp.claim("out", worker_id="d")
        lease.fail("effect_conflict: the receiver has other data", then="block")
        place.deliver()
        assert place.obligations()[0].state == "blocked" and who.asked == []


def test_what_says_found_twice_says_nothing():
    assert read(True, b'{"found": false, "found": true}').word == "unknown"
    assert read(True, b'{"found": true, "evidence": {"a": 1}}').evidence == {"a": 1}
