"""What an answer means: a value, a verdict, not now, or nothing that Fencepost would say."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from fencepost.commands import Request
from fencepost.issues import ISSUES
from fencepost.journal.entry import commit
from fencepost.model import Outcome, Receipt
from fencepost.remote import reading
from fencepost.remote.asking import Busy, retry_after
from fencepost.remote.transport import Answer, Lost

T = TypeVar("T")
NOTHING_DONE = frozenset({"store_unavailable", "rate_limited"})
LONGEST_DETAIL = 2_000


def value(answer: Answer, read: Callable[[Any], T]) -> T | Outcome:
    """What `read` makes of the answer's JSON, or the refusal. Raises Lost or Busy."""
    if answer.status != 200:
        return refusal(answer)
    return _read(answer, read)


def outcome(answer: Answer, request: Request, tries: int) -> Outcome:
    """The outcome of one command."""
    if answer.status != 200:
        return _once_more(refusal(answer), answer, tries)
    replayed = answer.headers.get("Idempotent-Replayed") == "true"

    def read(given: Any) -> Outcome:
        return _own(reading.outcome(given, replayed=replayed), request)

    return _read(answer, read)


def outcomes(answer: Answer, requests: Sequence[Request], tries: int) -> list[Outcome]:
    """The outcomes of a batch, one each. What was refused as a whole was refused to each."""
    if answer.status != 200:
        return [_once_more(refusal(answer), answer, tries)] * len(requests)

    def read(given: Any) -> list[Outcome]:
        replayed = frozenset(given["replayed"])
        return [
            _own(reading.outcome(members, replayed=place in replayed), request)
            for place, (members, request) in enumerate(
                zip(given["outcomes"], requests, strict=True)
            )
        ]

    return _read(answer, read)


def _own(found: Outcome, request: Request) -> Outcome:
    """The outcome, whose receipt must be that of these very bytes: an answer to somebody else's
    request (a proxy mixed them up) is none."""
    if found.receipt is not None and (
        found.receipt.request_sha256 != request.sha256 or not opens(found.receipt)
    ):
        raise ValueError("the receipt is of another command")
    return found


def opens(receipt: Receipt) -> bool:
    """Whether the opening beside the entry is the one that the entry commits to."""
    found = commit(b"request", receipt.salt, receipt.request_sha256).hex()
    return bool(receipt.entry.get("request") == found)


def _read(answer: Answer, read: Callable[[Any], T]) -> T:
    try:
        return read(_json(answer, "application/json"))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        what = error.args[0] if error.args else type(error).__name__
        raise Lost(f"the answer is not what Fencepost answers: {str(what)[:200]}") from None


def _json(answer: Answer, media: str) -> Any:
    said = (answer.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    if said != media or (answer.headers.get("Content-Encoding") or "identity") != "identity":
        raise ValueError(f"{media} was expected")
    return json.loads(answer.body, parse_constant=_no_number)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# -- refusals


def refusal(answer: Answer) -> Outcome:
    """The verdict of problem details (RFC 9457). Raises Busy where another try may help, and,
    final, for what the service itself would not say: then the request went no further."""
    status = answer.status
    if 300 <= status < 400:
        raise Busy(
            f"HTTP {status}: it redirects{_where(answer)}, and a redirect is never followed; name "
            "the service's own URL",
            reached=False, final=True,
        )  # fmt: skip
    problem = _problem(answer)
    code = None if problem is None else problem.issues[0]
    pause = retry_after(answer)
    if problem is None:
        if status < 400 or status >= 500 or status in (408, 425, 429):
            raise Busy(f"HTTP {status}, and no word why", reached=status != 429, pause=pause)
        said = f"HTTP {status} from something that is not Fencepost, or not at this path"
        raise Busy(said, reached=False, final=True)
    if code in NOTHING_DONE or status in (408, 429):
        code = code if code in NOTHING_DONE else "store_unavailable"
        raise Busy(problem.message, reached=False, pause=pause, code=code)
    if code in ("outcome_unknown", "internal") or (status >= 500 and code not in ISSUES):
        raise Busy(problem.message, reached=True, pause=pause)
    return problem


def _problem(answer: Answer) -> Outcome | None:
    try:
        given = _json(answer, "application/problem+json")
        issues = reading.texts(given["issues"])
        kind = given["outcome"]
        if not issues or kind not in ("failed", "blocked"):
            return None
        detail = reading.text(given["detail"])[:LONGEST_DETAIL]
        return Outcome(kind, issues, detail, facts=reading.facts(given["facts"]))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def _where(answer: Answer) -> str:
    """Where a redirect leads: scheme and host alone, since the rest may hold anything."""
    try:
        parts = urlsplit(answer.headers.get("Location") or "")
        return f" to {parts.scheme}://{parts.hostname}" if parts.hostname else ""
    except ValueError:
        return ""


def _once_more(found: Outcome, answer: Answer, tries: int) -> Outcome:
    """The refusal; but what was checked here and is called malformed there was most likely
    spoilt on the way, and is sent once more."""
    if answer.status == 400 and tries == 0:
        raise Busy(found.message, reached=False)
    return found
