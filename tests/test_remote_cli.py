"""The command line with a URL in place of a path: every verb, told as for a file."""

from __future__ import annotations

import json

import pytest
from helpers import stub
from helpers.remote import TOKEN
from helpers.stand import QUEUE, SCOPE, Stand

from fencepost.cli.main import main
from fencepost.cli.subcommands import SUBCOMMANDS
from fencepost.clock import SystemClock


@pytest.fixture
def service(monkeypatch, capsys):
    for name in ("FENCEPOST_STORE", "FENCEPOST_SCOPE", "FENCEPOST_ACTOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FENCEPOST_TOKEN", TOKEN)
    with Stand() as stand, stub.serving(stand.fp, clock=SystemClock()) as served:

        def run(*words):
            code = main(["--store", served.url, "--scope", SCOPE, *words])
            told = capsys.readouterr()
            assert TOKEN not in told.out + told.err
            return code, told.out, told.err

        served.run, served.stand = run, stand
        yield served


def objects(told):
    return [json.loads(line) for line in told.splitlines()]


def test_the_way_of_a_task_at_the_command_line(service):
    code, out, _ = service.run("--json", "enqueue", QUEUE, '{"page": 17}', "--task-key", "p/17")
    task_id = objects(out)[0]["task_ids"][0]
    assert code == 0
    code, out, _ = service.run("--json", "claim", QUEUE, "--worker", "w")
    (lease,) = objects(out)[0]["leases"]
    bound = [task_id, "--worker", "w", "--fence", str(lease["fencing_token"])]
    assert service.run("renew", *bound, "--lease-seconds", "90")[0] == 0
    first = service.run("--json", "complete", *bound, '"text"')
    again = service.run("--json", "complete", *bound, '"text"')
    assert objects(first[1])[0]["receipt"] == objects(again[1])[0]["receipt"]
    assert objects(again[1])[0]["replayed"] is True
    code, out, err = service.run("complete", *bound, '"other"')
    assert code == 3 and "task_done" in err


READS = [
    ("show", f"{QUEUE}/k"), ("list",), ("list", "--state", "ready"), ("results", f"{QUEUE}/k"),
    ("refused", f"{QUEUE}/k"), ("stats",), ("queues",), ("journal",),
    ("journal", "--task", "TASK"), ("receipt", "key"), ("receipt", "key", "--prove"), ("seal",),
]  # fmt: skip


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_what_is_read_there_is_told_as_it_is_here(service, words, monkeypatch, capsys):
    receipt = service.stand.fp.enqueue(QUEUE, {"é": 1}, key="k", idempotency_key="key")
    service.stand.fp.queue_set("more", lease_seconds=5)
    words = [receipt.task_id if word == "TASK" else word for word in words]
    code, out, err = service.run("--json", *words)
    assert code == 0, err
    from fencepost.cli import journal, reads

    class Here:
        def __enter__(self):
            return service.stand.fp

        def __exit__(self, *_):
            pass

    for module in (journal, reads):
        monkeypatch.setattr(module, "open_store", lambda args: Here())
    assert main(["--scope", SCOPE, "--json", *words]) == 0
    assert capsys.readouterr().out == out


def test_every_verb_that_opens_a_store_can_take_a_url_or_says_what_to_do(service):
    task_id = service.stand.task()
    told = {
        "verify": ["verify"], "backup": ["backup", "x"], "doctor": ["doctor"],
        "init": ["init"], "migrate": ["migrate"], "uninstall": ["uninstall", "--force"],
    }  # fmt: skip
    for words in told.values():
        code, _, err = service.run(*words)
        assert code == 2 and ("service's own machine" in err or "not a store" in err), err
    settings = [("sweep",), ("purge",), ("queue-set", QUEUE, "lease_seconds=9"),
                ("scope-set-policy", "2"), ("clock-reset",),
                ("cancel", task_id), ("requeue", task_id), ("erase", task_id)]  # fmt: skip
    for words in settings:
        code, _, err = service.run(*words)
        assert code == 0, (words, err)
    assert set(told) <= set(SUBCOMMANDS)


def test_many_lines_are_enqueued(service, tmp_path):
    source = tmp_path / "tasks.jsonl"
    source.write_text("\n".join(map(str, range(600))))
    code, out, err = service.run("enqueue", QUEUE, "--from", str(source))
    assert code == 0 and "600 tasks in 3 commands" in out, err


def test_who_sends_is_the_tokens_to_say(service, monkeypatch):
    code, _, err = service.run("--actor", "mallory", "stats")
    assert code == 2 and "the token says who you are" in err
    monkeypatch.setenv("FENCEPOST_ACTOR", "somebody")  # of the shell, for files
    assert service.run("stats")[0] == 0


def test_a_claim_at_the_command_line_whose_answer_is_lost_is_asked_for_again(service):
    service.stand.task("x")
    service.script.extend([stub.right, stub.lost])  # the first looks at the clock
    code, out, _ = service.run("--json", "claim", QUEUE, "--worker", "w")
    assert code == 0 and len(objects(out)[0]["leases"]) == 1
    assert objects(out)[0]["replayed"] is True


def test_a_wrong_clock_is_told_with_its_code(service):
    service.offset = 500.0
    code, _, err = service.run("claim", QUEUE, "--worker", "w")
    assert code == 6 and "clock_skew: this machine's clock is" in err


def test_a_refusal_of_the_service_has_its_exit_code(service):
    service.script.append(stub.refusing("unauthenticated"))
    assert service.run("stats")[0] == 3
    service.script.append(stub.saying(302, Location="https://login.example"))
    code, _, err = service.run("stats")
    assert code == 6 and "redirect" in err


def test_a_url_with_a_token_in_it_is_refused_and_not_shown(service, capsys):
    assert main(["--store", f"https://{TOKEN}@host", "stats"]) == 2
    told = capsys.readouterr()
    assert TOKEN not in told.out + told.err and "FENCEPOST_TOKEN" in told.err
