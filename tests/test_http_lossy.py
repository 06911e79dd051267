"""What a network does to a request or its answer at any byte: the effect is at most one, and who
asks until he hears an answer is told the receipt (faults 60 and 62)."""

from __future__ import annotations

import json

import pytest
from helpers.lossy import TABLE, Fault, Lossy
from helpers.lossy_kit import Patient
from helpers.lossy_laws import LEAVES, MADE, Bench
from helpers.web import Served

from fencepost.clock import FakeClock
from fencepost.commands import COMMANDS
from fencepost.conformance.http_wire import Origin

START = 1_767_225_600_000_000


@pytest.fixture(scope="module")
def bench():
    settings = {"max_requests_per_second": 10**9, "max_claimed_per_minute": 10**9}
    with Served(clock=FakeClock(START), settings=settings) as web:
        yield Bench(web)


class Once:
    """A network that does this fault to the first request and none to those after it."""

    def __init__(self, fault):
        self.fault = fault

    def __call__(self, request):
        fault, self.fault = self.fault, None
        return fault


def asked(bench, ask, fault):
    """The answer that is heard at last, and how often it was asked."""
    with Lossy(bench.web.port, Once(fault)) as proxy:
        wire = Patient(Origin.of(f"http://127.0.0.1:{proxy.port}"), 20)
        try:
            token = bench.tokens[ask.kind]
            answer = wire.ask("POST", ask.target, token, ask.body, ask.headers)
        finally:
            wire.close()
    return answer, wire.lost + 1


def one_effect(bench, verb, fault):
    ask = bench.made(verb)
    before = bench.entries()
    answer, tries = asked(bench, ask, fault)
    assert bench.entries() - before == LEAVES.get(verb, 1), "effects"
    again = bench.web.ask(
        "POST", ask.target, ask.body, token=bench.tokens[ask.kind], headers=ask.headers
    )
    assert bench.entries() - before == LEAVES.get(verb, 1), "asked once more"
    replayed = fault.what in ("answer cut", "request twice")  # the answer heard is not the first
    if verb == "erase" and replayed:
        assert answer.status == again.status == 410
        return tries
    assert answer.status == 200, answer.body
    if verb == "erase":  # what is erased takes its receipt with it
        assert again.status == 410
        return tries
    if verb == "batch":
        assert again.json["replayed"] == [0, 1]
        assert [o["receipt"] for o in again.json["outcomes"]] == receipts(answer)
        return tries
    assert again.body == answer.body
    if verb != "renew":
        assert again.headers["idempotent-replayed"] == "true"
        assert replayed == (answer.headers.get("idempotent-replayed") == "true")
    return tries


def receipts(answer):
    return [outcome["receipt"] for outcome in json.loads(answer.body)["outcomes"]]


def test_every_verb_is_tried():
    assert set(MADE) == {*COMMANDS, "batch"}


@pytest.mark.parametrize("verb", MADE)
def test_wherever_the_network_hurts_it_a_command_has_one_effect_and_its_receipt(bench, verb):
    lost = 0
    for fault in TABLE:
        try:
            lost += one_effect(bench, verb, fault) - 1
        except AssertionError as error:
            raise AssertionError(f"{verb}, {fault}: {error}") from error
    assert lost >= len(TABLE) - 4, "a fault that is not heard is none"
    assert bench.web.fp.verify().clean


def test_a_client_that_draws_a_new_key_for_each_try_is_found(bench, monkeypatch):
    """The control: the table sees an effect that happens twice."""
    ask = Patient.ask

    def careless(wire, method, target, token, body, headers):
        wire.tries = 1
        for number in range(9):
            try:
                key = {"Idempotency-Key": f"{headers['Idempotency-Key']}-{number}"}
                return ask(wire, method, target, token, body, {**headers, **key})
            except Exception:  # noqa: BLE001, S112  # the careless client asks again
                continue
        raise AssertionError("never answered")

    monkeypatch.setattr(Patient, "ask", careless)
    with pytest.raises(AssertionError, match="effects"):
        one_effect(bench, "enqueue", Fault("answer cut", "before"))
