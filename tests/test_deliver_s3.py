"""Deliveries into a bucket: each effect is an object that is written once, under a name that says
under which fence it was accepted. The bucket stands on moto's server, over real HTTP."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import signal
import sys
import threading
import time
from http.client import HTTPConnection

import pytest
from helpers.deliver_life import SINK_STEPS, Life
from helpers.delivering import depot
from helpers.receivers import Reply, Web, http
from helpers.sinks import VOICE, bucket, event, sender

from fencepost import canonical
from fencepost.clock import SystemClock
from fencepost.deliveries.directory import name_of
from fencepost.deliveries.event import event_of

PREFIX = "from/pages"
OF_THE_WAY = ("content-length", "transfer-encoding", "connection")
ADDRESS = f"s3://effects/{PREFIX}"


@pytest.fixture(scope="module")
def server():
    with bucket() as made:
        yield made


@pytest.fixture
def store(server, monkeypatch):
    """An empty bucket, and credentials for it."""
    server.empty()
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-word")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    return server


@pytest.fixture
def place(tmp_path):
    with depot(tmp_path, clock=SystemClock()) as made:
        yield made


@pytest.fixture
def made(store):
    one = sending(store.endpoint)
    yield one
    one.close()


def sending(endpoint, class_="cas", address=ADDRESS, **options):
    return sender(address, class_, **{"endpoint": endpoint, "allow_private": True, **options})


def destined(place, endpoint, class_="cas", **options):
    place.destination(ADDRESS, class_, secret=None, endpoint=endpoint, **options)


def states(place):
    return [each.state for each in place.obligations()]


def through(server, bend):
    """An answerer that hands a request on to the bucket's server, and bends what comes back."""

    def answer(asked):
        method, path, _ = asked.line.split(" ")
        way = HTTPConnection(server.endpoint.removeprefix("http://"), timeout=20)
        way.request(method, path, asked.body, {**asked.headers, "connection": "close"})
        came = way.getresponse()
        body = came.read()
        told = [pair for pair in came.getheaders() if pair[0].lower() not in OF_THE_WAY]
        way.close()
        lines = "".join(f"{name}: {value}\r\n" for name, value in told)
        head = f"HTTP/1.1 {came.status} X\r\n{lines}content-length: {len(body)}\r\n\r\n"
        return bend(asked, head.encode() + body)

    return answer


# -- what arrives


def test_every_effect_is_an_object_of_the_obligations_bytes_with_its_digest_as_evidence(
    place, store
):
    destined(place, store.endpoint)
    tasks = place.results({"n": 1}, "zwei \u2028", 3.5)
    assert place.deliver().counts == {"complete": 3}
    found = store.objects()
    for task, obligation in zip(tasks, place.obligations(), strict=True):
        evidence = place.evidence(obligation.task_id)
        content = found.pop(evidence["name"])
        assert evidence["name"].startswith(f"{PREFIX}/pages/{task}/")
        assert json.loads(content) == obligation.payload
        assert evidence["sha256"] == hashlib.sha256(content).hexdigest()
        assert evidence["etag"].strip('"') == hashlib.md5(content).hexdigest()  # noqa: S324
        head = store.client.head_object(Bucket=store.NAME, Key=evidence["name"])
        assert head["Metadata"] == {"fencepost-sha256": evidence["sha256"]}
        assert head["ContentType"] == "application/json"
    assert found == {}


def test_names_are_those_of_a_directory_below_the_prefix(store):
    for address in ("s3://effects", "s3://effects/", "s3://effects/a/b", "s3://effects/a/b/"):
        one = sending(store.endpoint, address=address)
        assert one.send(event(), 5).word == "delivered"
        one.close()
    assert set(store.objects()) == {name_of(event()), f"a/b/{name_of(event())}"}


def test_an_effect_again_is_there_and_other_bytes_under_its_name_are_a_conflict(made, store):
    first = made.send(event(result="a"), 5)
    again = made.send(event(result="a"), 5)
    assert first == again and first.word == "delivered"
    before = store.objects()
    tried = made.send(event(result="b"), 5)
    assert tried.word == "effect_conflict" and name_of(event()) in tried.told
    assert store.objects() == before


@pytest.mark.parametrize("other", [b"", b"x", "shorter", "longer"])
def test_what_is_not_wholly_of_these_bytes_is_a_conflict(made, store, other):
    told = event()
    content = {"shorter": told.data[:-1], "longer": told.data + b" "}.get(other, other)
    store.write(f"{PREFIX}/{name_of(told)}", content)
    assert made.send(told, 5).word == "effect_conflict"


def test_to_a_store_without_conditions_none_is_sent_and_the_same_name_is_the_same_effect(store):
    seen = []

    def bend(asked, reply):
        seen.append(asked.headers)
        return reply

    with Web(through(store, bend)) as web:
        for class_ in ("idempotent", "cas"):
            one = sending(web.url.removesuffix("/hook"), class_)
            assert one.send(event(), 5).word == "delivered"
            one.close()
    assert ["if-none-match" in each for each in seen] == [False, True, False]  # put, put, get
    assert len(store.objects()) == 1


def test_what_arrives_is_signed_as_version_4_says(store):
    """moto's server takes any signature: this is what another would look at."""
    seen = []

    def bend(asked, reply):
        seen.append(asked)
        return reply

    with Web(through(store, bend)) as web:
        one = sending(web.url.removesuffix("/hook"))
        one.send(event(result="ä /+"), 5)
        one.send(event(result="ä /+"), 5)
        one.close()
    assert [each.line.split()[0] for each in seen] == ["PUT", "PUT", "GET"]
    for asked in seen:
        told = dict(re.findall(r"(\w+)=([^, ]+)", asked.headers["authorization"]))
        assert told["Signature"] == _signature(asked, told, "hidden-word")
        must = {"host", "x-amz-content-sha256", "x-amz-date"}
        if asked.line.startswith("PUT"):
            must |= {"if-none-match", "x-amz-meta-fencepost-sha256", "content-type"}
            assert asked.headers["x-amz-content-sha256"] == hashlib.sha256(asked.body).hexdigest()
        assert must <= set(told["SignedHeaders"].split(";"))


def _signature(asked, told, secret):
    """AWS Signature Version 4 of a request as it came."""
    method, path, _ = asked.line.split(" ")
    path, _, query = path.partition("?")
    names = told["SignedHeaders"].split(";")
    lines = [method, path, query, *(f"{name}:{asked.headers[name]}" for name in names), "",
             ";".join(names), asked.headers["x-amz-content-sha256"]]  # fmt: skip
    _, *scope = told["Credential"].split("/")
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", asked.headers["x-amz-date"], "/".join(scope), digest])
    key = f"AWS4{secret}".encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


# -- what does not


@pytest.mark.parametrize(("answer", "word"), [
    (http(200), "delivered"), (http(409), "later"), (http(503), "later"), (http(429), "later"),
    (http(500), "unanswered"), (http(502), "unanswered"), (http(403), "failed"),
    (http(404), "failed"), (http(501), "failed"), (None, "unanswered"),
    (b"no HTTP at all\r\n\r\n", "unanswered"), (Reply(http(200)[:20], close=True), "unanswered"),
    (http(301), "unsent"),
])  # fmt: skip
def test_what_the_stores_answer_says_of_a_delivery(store, answer, word):
    with Web(lambda asked: answer) as web:
        one = sending(web.url.removesuffix("/hook"))
        tried = one.send(event(), 5)
        one.close()
    assert tried.word == word, tried
    assert "hidden-word" not in tried.told


def test_an_answer_that_was_lost_is_found_at_the_next_try(place, store):
    lost = []

    def bend(asked, reply):
        if asked.line.startswith("PUT") and not lost:
            lost.append(asked)
            return None
        return reply

    with Web(through(store, bend)) as web:
        destined(place, web.url.removesuffix("/hook"))
        place.fp.queue_set("out", backoff_seconds=0)
        place.results(1)
        place.deliver()
    (task,) = place.obligations()
    assert (task.state, task.attempt, len(lost)) == ("done", 2, 1)
    assert len(store.objects()) == 1


def test_a_store_that_is_not_there_costs_no_attempt(place, store):
    with Web(lambda asked: http(200)) as web:
        endpoint = web.url.removesuffix("/hook")
    destined(place, endpoint)
    place.fp.queue_set("out", max_attempts=1)
    place.results(1)
    place.deliver(max_seconds=1)
    (task,) = place.obligations()
    assert (task.state, task.attempt) == ("ready", 0)
    destined(place, store.endpoint)
    place.deliver()
    assert states(place) == ["done"] and len(store.objects()) == 1


def test_without_credentials_nothing_is_sent_and_no_attempt_is_lost(place, store, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    destined(place, store.endpoint)
    place.results(1)
    place.deliver(max_seconds=1)
    (task,) = place.obligations()
    assert (task.state, task.attempt) == ("ready", 0) and store.objects() == {}


def test_a_store_in_ones_own_network_is_refused_unless_it_is_allowed(store):
    one = sending(store.endpoint, allow_private=False)
    tried = one.send(event(), 5)
    one.close()
    assert tried.word == "unsent" and "not public" in tried.told and store.objects() == {}


def test_one_that_drips_its_answer_is_left_in_time(store):
    with Web(lambda asked: Reply(http(200, b"x" * 100), piece=1, pause=0.2)) as web:
        one = sending(web.url.removesuffix("/hook"))
        begun = time.monotonic()
        assert one.send(event(), 0.5).word == "unanswered"
        assert time.monotonic() - begun < 5
        one.close()


def test_one_that_is_closed_while_it_sends_ends_within_its_time(store):
    asked, go = threading.Event(), threading.Event()

    def hangs(_):
        asked.set()
        go.wait(20)

    with Web(hangs) as web:
        one, came = sending(web.url.removesuffix("/hook")), []
        thread = threading.Thread(target=lambda: came.append(one.send(event(), 1)))
        thread.start()
        assert asked.wait(20)
        one.close()
        thread.join(10)
        go.set()
    assert [each.word for each in came] == ["unanswered"]


def test_many_at_once_leave_one_object_each(place, store):
    destined(place, store.endpoint, concurrency=8)
    place.many(60)
    place.deliver()
    assert states(place) == ["done"] * 60 and len(store.objects()) == 60


def test_two_dispatchers_of_which_one_has_lost_its_lease_leave_each_object_once(place, store):
    """The first stands still with its bytes under way, and goes on when the second has written
    them: what it is told then is that they are there."""
    held, go, onward = threading.Event(), threading.Event(), through(store, lambda asked, it: it)

    def slow(asked):
        held.set()
        go.wait(30)
        return onward(asked)

    with Web(slow) as web:
        place.results(1)
        (obligation,) = place.obligations()
        late = event_of(obligation.task_id, canonical.dumps(obligation.payload), VOICE)
        one, came = sending(web.url.removesuffix("/hook"), timeout_seconds=30), []
        thread = threading.Thread(target=lambda: came.append(one.send(late, 30)))
        thread.start()
        assert held.wait(30)
        destined(place, store.endpoint)
        place.deliver()
        before = store.objects()
        assert states(place) == ["done"] and len(before) == 1
        go.set()
        thread.join(30)
        one.close()
    assert came[0].word == "delivered" and store.objects() == before


@pytest.mark.parametrize("step", SINK_STEPS["s3"])
def test_a_dispatcher_killed_at_any_step_leaves_each_object_once(place, store, step):
    destined(place, store.endpoint, concurrency=1)
    place.fp.queue_set("out", lease_seconds=600, max_attempts=1)
    tasks = place.results(*range(4))
    with Life(place.folder, "--exit-when-empty", step=step, after=SINK_STEPS["s3"][step]) as life:
        assert life.ends()[0] == -signal.SIGKILL, (place.folder / "deliver.err").read_text()
    with Life(place.folder, "--exit-when-empty", "--max-seconds", "30") as life:
        assert life.ends()[0] == 0
    assert states(place) == ["done"] * 4
    assert all(each.attempt == 1 for each in place.obligations())
    assert [name.split("/")[3] for name in sorted(store.objects())] == sorted(tasks)


def test_without_boto3_the_others_are_delivered_to_and_it_is_said_what_is_missing(
    place, tmp_path, monkeypatch, caplog
):
    monkeypatch.setitem(sys.modules, "boto3", None)
    (tmp_path / "out").mkdir()
    place.destination(
        f"directory:{tmp_path}/out", "cas", secret=None, allow_private=None, timeout_seconds=None
    )
    place.destination(ADDRESS, "cas", queue="odd", secret=None)
    place.results(1, queue="others", out="odd")
    place.results(1)
    assert place.dispatcher().run() == "left"
    assert states(place) == ["done"] and place.obligations("odd")[0].attempt == 0
    assert any("fencepost[s3]" in each.getMessage() for each in caplog.records)


def test_no_credential_stands_in_a_reason_a_log_or_a_result(place, store, caplog):
    caplog.set_level("DEBUG", logger="fencepost")
    with Web(lambda asked: http(403, b"hidden-word")) as web:
        destined(place, web.url.removesuffix("/hook"))
        place.results(1)
        place.deliver()
    told = json.dumps([each.to_json() for each in place.obligations()])
    told += "".join(each.getMessage() for each in caplog.records if "fencepost" in each.name)
    assert "403" in told and "hidden-word" not in told
