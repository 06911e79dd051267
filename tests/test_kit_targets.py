"""Targets that do not behave: whatever a program does, each case gets a verdict and a reason."""

from __future__ import annotations

import json

import pytest
from helpers.kit import judged, program, verdict

BOUNDARY = "the_exact_expiry_boundary_rejects_a_completion"
ORDER = "the_higher_priority_is_claimed_first_and_then_the_older"
DESCRIBED = {
    "name": "odd", "version": "1", "controls": ["fresh", "clock"],
    "operations": ["enqueue", "claim", "complete"], "principals": ["operator", "worker"],
}  # fmt: skip
# A target that describes itself and then does what `odd` says with every other question.
ODD = f"""
import json, os, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked["op"] == "describe":
        print(json.dumps({{"id": asked["id"], "ok": {DESCRIBED!r}}}), flush=True)
        continue
    %s
"""


def odd(folder, what, seconds=5):
    return program(folder / "odd.py", ODD % what, seconds=seconds)


ENDINGS = {
    "time.sleep(600)": "fresh: no answer within 0.5 s; it was ended",
    "sys.exit('out of luck')": "fresh: the target died (exit code 1): 'out of luck'",
    "os.kill(os.getpid(), 9)": "fresh: the target died (exit code -9)",
    "os.close(1); time.sleep(600)": "fresh: the target died",
    "print('hello', flush=True)": "fresh: the answer is not JSON: 'hello\\n'",
    "print('\\x1b[2J', flush=True)": "fresh: the answer is not JSON: '\\x1b[2J\\n'",
    "print('[' * 100000, flush=True)": "fresh: the answer is not JSON: '[[[",
    "print(json.dumps({'id': 99, 'ok': None}), flush=True)": "is not to request 2",
    "print(json.dumps([1]), flush=True)": "is not to request 2",
    "print(json.dumps({'id': 2}), flush=True)": "none of ok, unavailable and error",
    "print(json.dumps({'id': 2, 'error': 'no disk'}), flush=True)": "met an error: 'no disk'",
    "print('x' * 1000, end='', flush=True); time.sleep(600)": "no answer within 0.5 s",
}


@pytest.mark.parametrize(("what", "told"), ENDINGS.items())
def test_a_target_that_does_not_answer_fails_the_case_with_a_reason(tmp_path, what, told):
    run = judged(odd(tmp_path, what, seconds=0.5), [BOUNDARY])
    found = verdict(run, BOUNDARY)
    assert found["verdict"] == "failed" and run.status() == "failed"
    assert found["expected"] == "an answer of the protocol"
    assert told in found["observed"]


def test_a_target_that_broke_is_started_anew_for_the_next_case(tmp_path):
    run = judged(odd(tmp_path, "sys.exit(7)"), [BOUNDARY, ORDER])
    assert [verdict(run, name)["verdict"] for name in (BOUNDARY, ORDER)] == ["failed"] * 2
    assert "describe" not in verdict(run, ORDER)["observed"]


def test_a_target_that_reads_nothing_is_ended_in_time(tmp_path):
    adapter = odd(tmp_path, "time.sleep(600)", seconds=0.5)
    adapter.describe()
    with pytest.raises(Exception, match="no answer within"):
        adapter.send("A", {}, "x" * 10_000_000, None)
    adapter.close()


def test_what_a_target_says_it_cannot_do_is_unavailable_with_its_own_words(tmp_path):
    what = "print(json.dumps({'id': asked['id'], 'unavailable': 'no clean store'}), flush=True)"
    run = judged(odd(tmp_path, what), [BOUNDARY])
    found = verdict(run, BOUNDARY)
    assert (found["verdict"], found["why"]) == ("unavailable", "fresh: no clean store")
    assert run.status() == "incomplete"


@pytest.mark.parametrize("answer", [{}, {"status": "accepted"}, {"status": "fine", "issues": []}])
def test_an_outcome_of_another_shape_fails_the_case(tmp_path, answer):
    what = f"print(json.dumps({{'id': asked['id'], 'ok': {answer!r}}}), flush=True)"
    found = verdict(judged(odd(tmp_path, what), [BOUNDARY]), BOUNDARY)
    assert (found["verdict"], found["expected"]) == ("failed", "the contract's $defs/outcome")


@pytest.mark.parametrize("answer", [None, [], "outcome", 7])
def test_an_answer_that_is_no_object_fails_the_case(tmp_path, answer):
    what = f"print(json.dumps({{'id': asked['id'], 'ok': {answer!r}}}), flush=True)"
    found = verdict(judged(odd(tmp_path, what), [BOUNDARY]), BOUNDARY)
    assert found["verdict"] == "failed" and "is not an object" in found["observed"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "describe: the target died"),
        ("print('hi', flush=True)\nimport time\ntime.sleep(600)", "describe: the answer is not"),
        ("raise SystemExit('no licence')", "no licence"),
        (ODD.replace("'odd'", "''") % "pass", "describe: /name"),
        (ODD.replace("'fresh'", "'magic'") % "pass", "describe: /controls"),
    ],
)
def test_a_target_that_does_not_say_what_it_is_blocks_the_run(tmp_path, text, told):
    run = judged(program(tmp_path / "odd.py", text), [BOUNDARY, ORDER])
    assert run.status() == "blocked"
    assert run.issues() == ["target_unusable", "case_skipped"]
    for name in (BOUNDARY, ORDER):
        found = verdict(run, name)
        assert found["verdict"] == "blocked" and told in found["why"]
    assert run.document("stdio")["target"]["name"] == "unknown"


def test_a_document_of_a_run_that_went_wrong_keeps_the_contract_and_is_json(tmp_path):
    run = judged(odd(tmp_path, "print('\\x00\\ud800', flush=True)"), [BOUNDARY])
    text = json.dumps(run.document("stdio"))
    assert json.loads(text)["status"] == "failed"
    run.junit("stdio").encode()
