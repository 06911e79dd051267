"""Destinations over HTTP and at the command line: as in Python, and no secret on the way."""

from __future__ import annotations

import json

import pytest
from helpers.shell import Shell
from helpers.stand import QUEUE, UNKNOWN
from helpers.web import Served
from helpers.wires import SECRET

import fencepost
from fencepost import commands as c
from fencepost import destinations
from fencepost.issues import Forbidden, NotFound, QueuePaused, StaleSequence

ADDRESS = "https://h.example/hidden?key=hidden"
HEAD = "0a" * 32


def client(web, kind="operator", actor="", **more):
    url = f"http://127.0.0.1:{web.port}"
    return fencepost.open(url, token=web.token(kind, actor, **more), scope="default")


# -- over HTTP


def test_a_destination_is_set_signed_for_moved_and_read_through_a_service():
    with Served() as web, client(web) as fp:
        fp.queue_set(QUEUE, destinations=["out"])
        fp.destination_set("out", ADDRESS, class_="fenced", options={"ordered": True})
        _, first = fp.destination_secret("out")
        _, second = fp.destination_secret("out", SECRET, keep_seconds=60)
        fp.destination_advance("out", expected_sequence=0, sequence=1, head=HEAD, announced=UNKNOWN)
        with pytest.raises(StaleSequence) as stale:
            fp.destination_advance("out", expected_sequence=0, sequence=1, head=HEAD)
        assert dict(stale.value.outcome.facts) == {"sequence": 1}
        found = fp.destination("out")
        assert fp.destinations() == [found] == web.fp.destinations()
        assert [one.secret for one in found.secrets] == [second, first] and second == SECRET
        assert found.secrets[1].until is not None
        with pytest.raises(NotFound):
            fp.destination("none")


def test_a_dispatcher_at_a_service_sees_the_secrets_of_its_queues_and_stops_what_is_gone():
    with Served() as web:
        web.fp.queue_set(QUEUE, destinations=["out", "other"])
        for queue in ("out", "other"):
            web.fp.destination_set(queue, ADDRESS, class_="fenced")
            web.fp.destination_secret(queue, SECRET)
        with client(web, "dispatcher", "d", queues=["out"]) as fp:
            (found,) = fp.destinations()
            assert (found.queue, found.address, found.secrets[0].secret) == ("out", ADDRESS, SECRET)
            with pytest.raises(NotFound):
                fp.destination("other")
            for change in ({"address": ADDRESS}, {"stopped": None}):
                with pytest.raises(Forbidden):
                    fp.destination_set("out", **change)
            fp.destination_set("out", stopped="it has gone (410)")
            with pytest.raises(QueuePaused, match="out is stopped: it has gone"):
                fp.claim("out", worker_id="d")
        for kind in ("worker", "producer", "human", "auditor"):
            with client(web, kind, f"a-{kind}") as fp:
                told = json.dumps([one.to_json() for one in fp.destinations()])
                assert "hidden" not in told and SECRET not in told
                assert "https://h.example/***" in told
        assert SECRET not in "".join(web.log) and "hidden" not in "".join(web.log)


def test_a_claim_that_waits_on_a_stopped_destination_is_refused_once_something_is_owed():
    with Served() as web:
        web.fp.queue_set(QUEUE, destinations=["out"])
        web.fp.destination_set("out", ADDRESS, class_="fenced", stopped="no stamps")
        web.fp.enqueue(QUEUE, 1)
        web.fp.claim(QUEUE, worker_id="w")[0].complete(1)
        with client(web, "dispatcher", "d") as fp, pytest.raises(QueuePaused):
            fp.claim("out", worker_id="d", wait_seconds=30)


# -- at the command line


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    made = Shell(tmp_path, capsys, monkeypatch)
    assert made("init").code == 0
    return made


def test_the_way_of_a_destination_at_the_command_line(shell):
    ran = shell("destination", "set", "out", ADDRESS, "--class", "fenced",
                "--option", "timeout_seconds=9", "--option", "reconcile=https://r.example/q?k=hidden",
                "--option", 'headers={"authorization":"hidden"}')  # fmt: skip
    assert (ran.code, ran.out.splitlines()[0]) == (0, "destination.set: out is set")
    told = shell("destination", "show", "out", "--json").json
    assert told["address"] == "https://h.example/hidden?***"
    assert told["options"] == destinations.complete({
        "timeout_seconds": 9, "reconcile": "https://r.example/q?***",
        "headers": {"authorization": "***"},
    })  # fmt: skip
    assert shell("destination", "set", "out", "--option", "timeout_seconds=null").code == 0
    assert shell("destination", "show", "out", "--json").json["options"]["timeout_seconds"] == 30
    ran = shell("destination", "advance", "out", "--expected-sequence", 0, "--sequence", 2,
                "--head", HEAD)  # fmt: skip
    assert ran.code == 0
    again = shell("destination", "advance", "out", "--expected-sequence", 0, "--sequence", 2,
                  "--head", HEAD)  # fmt: skip
    assert again.code == 3 and "stale_sequence" in again.err and "sequence 2" in again.err
    assert shell("destination", "stop", "out", "--reason", "no stamps").code == 0
    listed = shell("destination", "list").out
    assert "stopped: no stamps" in listed and "fenced" in listed and "=hidden" not in listed
    shown = shell("destination", "show", "out").out
    assert "no stamps" in shown and "authorization" in shown and "Bearer" not in shown
    assert shell("destination", "start", "out").code == 0
    assert shell("destination", "list", "--json").json["stopped"] is None
    assert shell("verify").code == 0


def test_a_secret_is_made_and_shown_alone_and_once(shell):
    shell("destination", "set", "out", ADDRESS, "--class", "fenced")
    ran = shell("destination", "secret", "out")
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    text = ran.out.strip()
    assert destinations.SECRET.fullmatch(text) and text not in ran.err
    told = shell("destination", "secret", "out", "--keep-seconds", 0, "--json").json
    assert told["status"] == "accepted" and told["secret"] != text
    with fencepost.open("fencepost.db") as fp:
        assert [one.secret for one in fp.destination("out").secrets] == [told["secret"]]
    for verb in (("destination", "show", "out"), ("destination", "list"), ("journal",)):
        for json_too in ((), ("--json",)):
            said = shell(*verb, *json_too)
            assert told["secret"] not in said.out + said.err


def test_a_secret_of_ones_own_is_read_from_a_file_and_never_printed(shell, tmp_path):
    shell("destination", "set", "out", ADDRESS, "--class", "fenced")
    (tmp_path / "own").write_text(SECRET + "\n")
    ran = shell("destination", "secret", "out", "--secret-file", "own")
    assert ran.code == 0 and SECRET not in ran.out + ran.err
    other = destinations.new_secret()
    ran = shell("destination", "secret", "out", "--secret-file", "-", stdin=other.encode())
    assert ran.code == 0 and other not in ran.out + ran.err
    with fencepost.open("fencepost.db") as fp:
        assert [one.secret for one in fp.destination("out").secrets] == [other, SECRET]
    for wrong in (b"", b"two\nlines\n", b"password"):
        ran = shell("destination", "secret", "out", "--secret-file", "-", stdin=wrong)
        assert ran.code == 2 and "password" not in ran.out + ran.err
    assert shell("destination", "secret", "out", "--secret-file", "none").code == 2


def test_an_address_is_read_from_standard_input_so_that_no_list_of_processes_shows_it(shell):
    address = "postgresql://u:hidden@h/d#t"
    given = address.encode() + b"\n"
    ran = shell("destination", "set", "out", "-", "--class", "fenced", stdin=given)
    assert ran.code == 0
    with fencepost.open("fencepost.db") as fp:
        assert fp.destination("out").address == address
    said = shell("destination", "show", "out")
    assert "postgresql://u@h/d#t" in said.out and "hidden" not in said.out


@pytest.mark.parametrize(("words", "code"), [
    (("set", "out"), 2), (("set", "out", ADDRESS), 2), (("show", "none"), 4),
    (("start", "none"), 4), (("secret", "none"), 4),
    (("set", "out", "ftp://h", "--class", "cas"), 2),
    (("set", "out", ADDRESS, "--class", "cas"), 2), (("set", "out", ADDRESS, "--class", "best"), 2),
    (("set", "out", ADDRESS, "--class", "fenced", "--option", "retries=3"), 2),
    (("set", "out", ADDRESS, "--class", "fenced", "--option", "rate"), 2),
    (("set", "out", ADDRESS, "--class", "fenced", "--option", "rate=1", "--option", "rate=2"), 2),
    (("stop", "out"), 2), (("advance", "none", "--expected-sequence", "0", "--sequence", "0"), 4),
])  # fmt: skip
def test_what_is_wrong_is_told_with_the_code_of_its_kind(shell, words, code):
    ran = shell("destination", *words)
    assert ran.code == code and ran.err.count("\n") == 1 and not ran.out
    assert shell("destination", "list").out == ""


def test_a_batch_and_a_command_of_ones_own_bytes_are_taken_too(shell):
    body = b'{"verb": "destination.set", "queue": "out", "address": "http://h/", "class": "fenced"}'
    assert shell("destination", "set", "--request", "-", stdin=body).code == 0
    with fencepost.open("fencepost.db") as fp:
        found = fp.execute([
            c.DestinationAdvance("out", 0, 1, HEAD), c.DestinationAdvance("out", 1, 2, HEAD),
        ])  # fmt: skip
        assert [one.status for one in found] == ["accepted"] * 2
