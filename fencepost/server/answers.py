"""What goes back: an answer's bytes and headers, made the same way for every path.

The body of an accepted command is canonical JSON of its outcome, in which everything comes from
the stored entry; so a replay has the same bytes, and only the header `Idempotent-Replayed` tells
it from the first answer.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from http import HTTPStatus
from typing import Any, NamedTuple

from fencepost import canonical
from fencepost.issues import ISSUES, FencepostError, OutcomeUnknown, Refused
from fencepost.model import Grant, Outcome

JSON = b"application/json"
PROBLEM = b"application/problem+json"
Headers = tuple[tuple[bytes, bytes], ...]
RETRY_SECONDS = b"1"


class Answer(NamedTuple):
    """Status, bytes and what is special in the headers. `stream` takes the place of the bytes."""

    status: int
    body: bytes = b""
    media: bytes = JSON
    headers: Headers = ()
    code: str = ""
    stream: AsyncIterator[bytes] | None = None


class Fault(Exception):
    """A request that HTTP itself refuses: it is no command, so no rule has judged it."""

    def __init__(
        self, status: int, detail: str, code: str = "invalid_request", headers: Headers = ()
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.code, self.headers = status, detail, code, headers


# -- what is told


def grant_body(grant: Grant) -> bytes:
    """One lease. Its content is spliced in: it is canonical already, and may be long."""
    members = grant._replace(payload=None, progress=None).to_json()
    encoded = {name: canonical.dumps(value) for name, value in members.items()}
    if grant.payload is not None:
        encoded["payload"] = grant.payload
    if grant.progress is not None:
        encoded["progress"] = grant.progress
    return canonical.join(encoded)


def outcome_body(outcome: Outcome) -> bytes:
    """The outcome as the contract has it, but without `replayed`: a header tells that."""
    members = outcome._replace(grants=()).to_json()
    del members["replayed"]
    encoded = {name: canonical.dumps(value) for name, value in members.items()}
    encoded["leases"] = b"[" + b",".join(map(grant_body, outcome.grants)) + b"]"
    return canonical.join(encoded)


def told(value: Any, *headers: tuple[bytes, bytes]) -> Answer:
    """A value that was asked for."""
    return Answer(200, canonical.dumps(value), headers=headers)


def of_outcome(outcome: Outcome, *, precondition: bool = False) -> Answer:
    """The answer to one command. `precondition`: a header restated the revision it binds."""
    if not outcome.accepted:
        return problem(outcome, precondition=precondition)
    replayed = ((b"idempotent-replayed", b"true"),) if outcome.replayed else ()
    return Answer(200, outcome_body(outcome), headers=replayed)


# -- what is refused (RFC 9457)


def problem(outcome: Outcome, *, precondition: bool = False) -> Answer:
    """A refusal as problem details."""
    code = outcome.issues[0]
    status = ISSUES[code].http
    if precondition and code == "stale_revision":
        status = HTTPStatus.PRECONDITION_FAILED
    facts = outcome.to_json()["facts"]
    return _problem(status, code, outcome.message, outcome.issues, outcome.status, facts)


def of_error(error: FencepostError) -> Answer:
    """What was raised, as problem details."""
    if isinstance(error, Refused):
        return problem(error.outcome)
    facts = {"key": error.key} if isinstance(error, OutcomeUnknown) else {}
    code = error.code if error.code in ISSUES else "store_unavailable"
    return _problem(ISSUES[code].http, code, str(error), (code,), ISSUES[code].status, facts)


def of_fault(fault: Fault) -> Answer:
    """The same for what no rule has judged."""
    answer = _problem(fault.status, fault.code, fault.detail, (fault.code,), "failed", {})
    return answer._replace(headers=tuple({**dict(answer.headers), **dict(fault.headers)}.items()))


def _problem(
    status: int,
    code: str,
    detail: str,
    issues: tuple[str, ...],
    outcome: str,
    facts: dict[str, Any],
) -> Answer:
    issue = ISSUES[code]
    members: dict[str, Any] = {
        "type": f"/problems/{code}",
        "title": issue.meaning,
        "status": int(status),
        "detail": detail,
        "code": code,
        "issues": issues,
        "outcome": outcome,
        "facts": facts,
        "retryable": issue.retry,
    }
    headers: Headers = ()
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers = ((b"retry-after", RETRY_SECONDS),)
    return Answer(int(status), canonical.dumps(members), PROBLEM, headers, code)


def digest_header(body: bytes) -> bytes:
    """RFC 9530: SHA-256 of the content."""
    return b"sha-256=:" + b64encode(sha256(body).digest()) + b":"
