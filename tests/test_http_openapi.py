"""The OpenAPI document is valid, describes every path and nothing else, and says what is true: a
generator of requests finds no answer that it does not describe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from helpers.web import Served
from hypothesis import HealthCheck, settings
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fencepost.commands import COMMANDS, Request
from fencepost.server import openapi
from fencepost.server.examples import EXAMPLES
from fencepost.server.routes import ROUTES

DOCUMENT: dict[str, Any] = json.loads(json.dumps(openapi.made(ROUTES)))
EXAMPLES_EACH = 3
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance,
    response_schema_conformance,
]  # fmt: skip
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path_regex="events$")


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    with Served(settings={"max_wait_seconds": 0}) as served:
        served.operator = served.token("operator", "o", scope="own")  # type: ignore[attr-defined]
        served.fp.as_caller("o", scope="own").enqueue("q", 1, key="k")
        yield served


def test_the_document_is_valid_openapi_3_1() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"] == "3.1.0"


def test_every_path_is_described_and_none_that_is_not_there() -> None:
    described = {
        (method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item
    }
    assert described == {
        (route.method, route.path.replace(":path}", "}")) for route in ROUTES
    }  # fmt: skip
    names = [op["operationId"] for item in DOCUMENT["paths"].values() for op in item.values()]
    assert len(names) == len(set(names)) == len(ROUTES)


def test_a_command_and_an_answer_are_those_of_the_kits_contract() -> None:
    contract = json.loads(openapi.contract().replace("#/$defs/", "#/components/schemas/"))["$defs"]
    schemas = DOCUMENT["components"]["schemas"]
    own = {"accepted", "problem", "batch", "batch_outcomes", "listed_queue"}
    assert set(schemas) - set(contract) == own
    assert {name: schemas[name] for name in contract} == contract
    sent = {
        route.verb: DOCUMENT["paths"][route.path]["post"]["requestBody"]["content"]
        ["application/json"]["schema"]["$ref"]
        for route in ROUTES if route.verb in COMMANDS
    }  # fmt: skip
    assert sent == {verb: f"#/components/schemas/command.{verb}" for verb in COMMANDS}


def test_every_answer_is_described_but_what_another_store_may_say_otherwise() -> None:
    """`about` tells what the store stands on; OpenAPI's own document is described by OpenAPI."""
    bare = [
        op["operationId"]
        for item in DOCUMENT["paths"].values()
        for op in item.values()
        if {"schema": {"type": "object"}} in op["responses"]["200"]["content"].values()
    ]
    assert sorted(bare) == ["about", "openapi"]
    stats = DOCUMENT["paths"]["/v1/{scope}/stats"]["get"]["responses"]["200"]["content"]
    assert stats["application/json"]["schema"]["$ref"] == "#/components/schemas/stats"


def test_what_is_told_of_the_store_is_as_it_is_described(web: Served) -> None:
    for path, name in (("/v1/own/stats", "stats"), ("/problems/not_found", "problem")):
        answer = web.get(path, web.operator)  # type: ignore[attr-defined]
        (item,) = (item for item in DOCUMENT["paths"].values() for op in item.values()
                   if op["operationId"] == name)  # fmt: skip
        described = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        Draft202012Validator({**DOCUMENT, **described}).validate(answer.json)


@pytest.mark.parametrize("verb", COMMANDS)
def test_each_command_has_an_example_that_is_one(verb: str) -> None:
    command = EXAMPLES[verb]
    assert Request.read(json.dumps(command).encode()).command.verb == verb
    whole = {**DOCUMENT, "$ref": f"#/components/schemas/command.{verb}"}
    Draft202012Validator(whole).validate(command)


def test_what_is_served_is_this_document(web: Served) -> None:
    assert web.get("/openapi.json").json == DOCUMENT


@schema.parametrize()
@settings(
    max_examples=EXAMPLES_EACH, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_no_request_gets_an_answer_that_is_not_described(case: Any, web: Served) -> None:
    names = case.path_parameters or {}
    if "scope" in names:
        names["scope"] = "own"
    if isinstance(case.body, dict):  # as a client does it: the path agrees with the command
        for name in ("task_id", "queue"):
            if name in names and name in case.body:
                case.body[name] = names[name]
    answer = case.call(
        base_url=f"http://127.0.0.1:{web.port}",
        headers={"Authorization": f"Bearer {web.operator}"},  # type: ignore[attr-defined]
    )
    case.validate_response(answer, checks=CHECKS)
