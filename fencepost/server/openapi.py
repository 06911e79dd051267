"""The OpenAPI 3.1 document: the paths of `routes.py` with the objects of the kit's contract.

Nothing is described here a second time: a command's schema, an outcome's, a task's are those of
`queue_contract.json`, which the tests hold against the program's own types.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from importlib import resources
from typing import TYPE_CHECKING, Any

from fencepost import fields
from fencepost.issues import ISSUES
from fencepost.server.examples import EXAMPLES
from fencepost.version import VERSION

if TYPE_CHECKING:
    from fencepost.server.routes import Route

Json = dict[str, Any]


def made(routes: Sequence[Route]) -> Json:
    """The document as an object."""
    schemas = _schemas()
    paths: dict[str, Json] = {}
    for route in routes:
        path = route.path.replace(":path}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {"title": "Fencepost", "version": VERSION, "summary": SUMMARY},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


SUMMARY = "A work queue for workers that cannot be trusted to be alive, alone or online"


def contract() -> str:
    """The kit's contract, as text."""
    file = resources.files("fencepost.conformance").joinpath("queue_contract.json")
    return file.read_text(encoding="utf-8")


def _schemas() -> Json:
    """The contract's objects under the names that OpenAPI gives them, and those of HTTP alone."""
    found: Json = json.loads(contract().replace("#/$defs/", "#/components/schemas/"))["$defs"]
    outcome = deepcopy(found["outcome"])
    del outcome["properties"]["replayed"]
    outcome["required"].remove("replayed")
    accepted, refused = outcome.pop("oneOf")
    outcome["properties"]["status"] = {"const": "accepted"}
    outcome["properties"]["issues"] = {"type": "array", "maxItems": 0}
    del accepted, refused
    found["accepted"] = outcome | {
        "description": "An accepted command. A replay has the same bytes; a header tells it."
    }
    found["problem"] = _problem()
    found["listed_queue"] = _listed_queue()
    found["batch"] = _batch()
    found["batch_outcomes"] = _batch_outcomes(found["outcome"])
    return found


def _problem() -> Json:
    return {
        "description": "Why nothing was done (RFC 9457). `code` leads `issues`.",
        "type": "object",
        "properties": {
            "type": {"type": "string"}, "title": {"type": "string"},
            "status": {"type": "integer"}, "detail": {"type": "string"},
            "code": {"enum": list(ISSUES)},
            "issues": {"type": "array", "items": {"enum": list(ISSUES)}, "minItems": 1},
            "outcome": {"enum": ["failed", "blocked"]},
            "facts": {"type": "object"}, "retryable": {"type": "boolean"},
        },
        "required": ["type", "title", "status", "detail", "code", "issues", "outcome", "facts",
                     "retryable"],
    }  # fmt: skip


def _listed_queue() -> Json:
    return {
        "description": "A queue as a list shows it.",
        "type": "object",
        "properties": {"queue": _ref("name"), "is_destination": {"type": "boolean"},
                       "settings": _ref("queue_settings")},
        "required": ["queue", "is_destination", "settings"],
    }  # fmt: skip


def _batch() -> Json:
    member = {
        "type": "object",
        "properties": {"command": _ref("command"), "key": _ref("key")},
        "required": ["command"], "additionalProperties": False,
    }  # fmt: skip
    commands = {"type": "array", "items": member, "minItems": 1, "maxItems": fields.MAX_BATCH}
    return {
        "description": "Commands that go in together. Each is all or nothing; the batch is not.",
        "type": "object",
        "properties": {"commands": commands},
        "required": ["commands"], "additionalProperties": False,
    }  # fmt: skip


def _batch_outcomes(outcome: Json) -> Json:
    member = deepcopy(outcome)
    del member["properties"]["replayed"]
    member["required"].remove("replayed")
    for each in member["oneOf"]:
        each["properties"].pop("replayed", None)
    return {
        "description": "An outcome a command, in their order; which of them were replayed.",
        "type": "object",
        "properties": {
            "status": {"enum": ["accepted", "incomplete"]},
            "outcomes": {"type": "array", "items": member},
            "replayed": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        },
        "required": ["status", "outcomes", "replayed"],
    }


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


# -- operations

PATH_SCHEMAS = {
    "scope": "name", "queue": "name", "task_id": "task_id", "key": "key", "number": "fence",
    "code": "code",
}  # fmt: skip
TEXT = {"type": "string"}
PAGED = {"page_size": {"type": "integer", "minimum": 0}, "page_token": TEXT}
WAIT = {"wait_seconds": {"type": "integer", "minimum": 0, "maximum": fields.MAX_WAIT_SECONDS}}
QUERIES: dict[str, Json] = {
    "claim": WAIT, "claim_of_a_queue": WAIT,
    "tasks": {**PAGED, "queue": _ref("name"), "state": _ref("state")},
    "results": PAGED, "refused": PAGED, "history": PAGED, "checkpoints": PAGED,
    "entries": {**PAGED, "after": {"type": "integer", "minimum": 0}},
    "receipt": {"actor": _ref("name")},
    "consistency": {"size": _ref("fence")},
    "events": {"after": {"type": "integer", "minimum": 0}},
}  # fmt: skip
ONE = {
    "task": "task", "task_by_key": "task", "receipt": "receipt", "scope": "scope",
    "queue": "listed_queue", "destination": "destination", "proof": "proof",
    "consistency": "consistency_proof", "stats": "stats",
}  # fmt: skip
MANY = {
    "tasks": ("tasks", "task"), "results": ("results", "result"),
    "refused": ("refused", "refused_result"), "history": ("entries", "entry_view"),
    "entries": ("entries", "entry_view"), "checkpoints": ("checkpoints", "checkpoint"),
    "tokens": ("tokens", "token"), "queues": ("queues", "listed_queue"),
    "destinations": ("destinations", "destination"),
    "writers": ("writers", "recognised_writer"),
}  # fmt: skip
FEW: dict[str, Json] = {  # members of answers that are no object of the contract
    "seal": {"checkpoint": _ref("checkpoint")},
    "problem": {"code": {"enum": list(ISSUES)}, "title": TEXT, "advice": TEXT,
                "status": {"type": "integer"}, "retryable": {"type": "boolean"}},
}  # fmt: skip
TEXTS = {"livez": "text/plain", "readyz": "text/plain", "metrics": "text/plain",
         "events": "text/event-stream"}  # fmt: skip


def _operation(route: Route) -> Json:
    told = (route.run.__doc__ or "").strip()
    if route.verb and route.verb != "batch":
        told = f"Send the command `{route.verb}`. The body is its bytes; the path agrees with it."
    found: Json = {
        "operationId": route.name,
        "summary": told.partition("\n")[0],
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if route.verb:
        name = "batch" if route.verb == "batch" else f"command.{route.verb}"
        content = {"schema": _ref(name), "examples": {route.verb: {"value": _example(route.verb)}}}
        found["requestBody"] = {"required": True, "content": {"application/json": content}}
    if route.open:
        found["security"] = []
    return found


def _example(verb: str) -> Json:
    if verb != "batch":
        return EXAMPLES[verb]
    return {"commands": [{"command": EXAMPLES["enqueue"], "key": "page-17"}]}


def _parameters(route: Route) -> list[Json]:
    path = [part.strip("{}").partition(":")[0] for part in route.path.split("/")
            if part.startswith("{")]  # fmt: skip
    found: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": _ref(PATH_SCHEMAS[name])}
        for name in path
    ]
    found += [
        {"name": name, "in": "query", "schema": schema}
        for name, schema in QUERIES.get(route.name, {}).items()
    ]
    if route.verb and route.verb != "batch":
        found.append({"name": "Idempotency-Key", "in": "header", "schema": _ref("key"),
                      "description": "Bare, or quoted as a structured-field string."})  # fmt: skip
    return found


def _responses(route: Route) -> Json:
    problem = {"description": "Refused; nothing was done.",
               "content": {"application/problem+json": {"schema": _ref("problem")}}}  # fmt: skip
    if route.name in TEXTS:
        answer = {TEXTS[route.name]: {"schema": TEXT}}
    else:
        answer = {"application/json": {"schema": _answer(route)}}
    return {"200": {"description": "Done, or done before.", "content": answer},
            "4XX": problem, "5XX": problem}  # fmt: skip


def _answer(route: Route) -> Json:
    if route.verb:
        return _ref("batch_outcomes" if route.verb == "batch" else "accepted")
    if route.name in ONE:
        return _ref(ONE[route.name])
    if route.name in MANY:
        name, item = MANY[route.name]
        return {
            "type": "object",
            "properties": {name: {"type": "array", "items": _ref(item)},
                           "next_page_token": TEXT},
            "required": [name, "next_page_token"],
        }  # fmt: skip
    if route.name in FEW:
        return {"type": "object", "properties": FEW[route.name], "required": list(FEW[route.name])}
    return {"type": "object"}
