"""SIGKILL of a real `fencepost serve` between the commit and the answer (faults 62, 64): whoever
asks the next one with the same bytes is told the receipt that was committed."""

from __future__ import annotations

import pytest
from helpers import serve_kills
from helpers.children import result_of, start
from helpers.scratch import scratch

import fencepost


def lived(folder, seed, most):
    path = str(folder / "work.db")
    with fencepost.open(path, create=True) as fp:
        token = fp.token_create("op", "operator")[1]
    found = result_of(start(serve_kills.lives, path, token, seed, 50.0, most))
    with fencepost.open(path) as fp:
        assert fp.verify().clean
    return found


@pytest.mark.parametrize("seed", [1])
def test_killed_between_commit_and_answer_the_same_bytes_get_the_same_receipt(seed):
    with scratch() as folder:
        found = lived(folder, seed, 28)
    print(f"seed {seed}: {found}")
    assert found["wrong"] == []
    assert found["killed_between_commit_and_answer"] >= 18


def test_an_answer_that_differs_is_found(monkeypatch):
    """The control: each thing that could be untrue is told."""
    whole = serve_kills.Answer(200, {"idempotent-replayed": "true"}, b"a")
    judge = serve_kills._untrue
    assert judge(0, None, -9, 1, [whole, whole], 1) is None
    for told in (
        judge(0, None, -9, 1, [whole, whole._replace(body=b"b")], 1),
        judge(0, None, -9, 1, [whole._replace(headers={}), whole], 1),
        judge(0, None, -9, 1, [whole, whole], 2),
        judge(0, None, -9, 0, [whole._replace(headers={}), whole], 1),
        judge(0, whole, 0, 1, [whole, whole], 1),
        judge(5, whole._replace(body=b"c"), 0, 1, [whole, whole], 1),
        judge(5, None, -9, 1, [whole._replace(status=503), whole], 1),
    ):
        assert told
