"""Bytes to values, strictly: what two readers could understand in two ways is refused."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

from .wire import (
    KINDS,
    MAX_ACCEPTED,
    MAX_LINEAGE,
    SEQUENCE_DIGITS,
    SOURCE,
    Event,
    Hello,
    Writer,
    outcome_operation,
    result_operation,
)

MAX_INTEGER = 10**15 - 1

_BEFORE, _AFTER = b'{"data":', b',"datacontenttype":'
_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")
_SEQUENCE = re.compile(rf"[0-9]{{{SEQUENCE_DIGITS}}}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NAME = r"[A-Za-z0-9_][A-Za-z0-9._:@-]{0,63}"
_STREAM = re.compile(rf"[!-.0-~]{{1,128}}/{_NAME}/{_NAME}")
_SOURCE = re.compile(re.escape(SOURCE) + _STREAM.pattern)
_SUBJECT = re.compile(rf"{_NAME}/{_UUID.pattern}")
# Six digits and Z, always: then the order of the texts is the order of the times.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_HELLO = {
    "hello", "stream", "epoch", "incarnation", "lineage", "after", "limit", "sequence", "head",
    "adopt", "ask_only",
}  # fmt: skip


class Malformed(Exception):
    """Not what the protocol says. The text names the member, and shows nothing of its value."""


def read_event(body: bytes, message_id: str) -> Event:
    """The event in a body whose signature is good; `message_id` is what was signed with it.

    The data are the bytes between `{"data":` and the last `,"datacontenttype":`; in the canonical
    form they stand first, and no later member can hold those characters, since all of them are
    strings, in which a quotation mark is escaped.
    """
    end = body.rfind(_AFTER)
    if not body.startswith(_BEFORE) or end < 0:
        raise Malformed('an event begins with {"data": and then has "datacontenttype"')
    data = body[len(_BEFORE) : end]
    value = _json(data, "data")
    if type(value) is not dict:
        raise Malformed("data is not an object")
    members = _json(b'{"data":0' + body[end:], "event")
    if type(members) is not dict or members.pop("data") != 0:
        raise Malformed("data stands twice")
    if set(map(type, members.values())) != {str}:
        raise Malformed("every member of an event but data is a string")
    if members.get("specversion") != "1.0":
        raise Malformed("specversion is not 1.0")
    if members.get("datacontenttype") != "application/json":
        raise Malformed("datacontenttype is not application/json")
    if members.get("id") != message_id:
        raise Malformed("id is not the webhook-id")
    source = _matching(members, "source", _SOURCE)
    sequence, previous = _place(members)
    kind = KINDS.get(members.get("type", ""))
    if kind is None:
        raise Malformed("type is none of the protocol's")
    subject = _matching(members, "subject", _SUBJECT)
    fence, revision = _number(members, "fpfence"), _number(members, "fprevision")
    return Event(
        id=message_id,
        stream=source[len(SOURCE) :],
        kind=kind,
        subject=subject,
        time=_matching(members, "time", _TIME),
        sequence=sequence,
        previous=previous,
        writer_epoch=_number(members, "fpwriterepoch"),
        incarnation=_matching(members, "fpincarnation", _UUID),
        epoch=_number(members, "fpepoch"),
        fence=fence,
        revision=revision,
        round=_round(members, kind, subject.rpartition("/")[2], fence, revision),
        operation=members["fpoperation"],
        data=data,
        data_sha256=hashlib.sha256(data).digest(),
        result_sha256=_result_digest(value),
        final=final if type(final := value.get("final")) is bool else None,
    )


def read_hello(body: bytes) -> Hello:
    """The hello in a body whose signature is good."""
    members = _json(body, "hello")
    if type(members) is not dict or members.get("hello") != 1 or members["hello"] is True:
        raise Malformed('a hello is an object with "hello":1')
    if unknown := members.keys() - _HELLO:
        raise Malformed(f"a hello has no member {min(unknown)!a}")
    lineage = members.get("lineage")
    if type(lineage) is not list or not 1 <= len(lineage) <= MAX_LINEAGE:
        raise Malformed(f"lineage is not a list of 1 to {MAX_LINEAGE:,} writers")
    writers = tuple(_writer(pair, "lineage") for pair in lineage)
    if any(older.epoch >= newer.epoch for older, newer in itertools.pairwise(writers)):
        raise Malformed("lineage does not go from the oldest epoch to the newest")
    writer = _writer([members.get("epoch"), members.get("incarnation")], "epoch or incarnation")
    if writers[-1] != writer:
        raise Malformed("lineage does not end with the writer that says hello")
    adopt, ask_only = members.get("adopt"), members.get("ask_only", False)
    if type(ask_only) is not bool:
        raise Malformed("ask_only is not true or false")
    sequence, head = members.get("sequence"), members.get("head")
    if sequence is None and head is not None:
        raise Malformed("a head has a sequence")
    return Hello(
        stream=_matching(members, "stream", _STREAM),
        writer=writer,
        lineage=writers,
        after=_integer(members.get("after", 0), "after", 0, MAX_INTEGER),
        limit=_integer(members.get("limit", MAX_ACCEPTED), "limit", 1, MAX_ACCEPTED),
        sequence=None if sequence is None else _integer(sequence, "sequence", 0, MAX_INTEGER),
        head=None if head is None else bytes.fromhex(_matching(members, "head", _DIGEST)),
        adopt=None if adopt is None else _adopted(adopt),
        ask_only=ask_only,
    )


def _result_digest(data: dict[str, Any]) -> str | None:
    found = data.get("result_sha256")
    return found if type(found) is str and _DIGEST.fullmatch(found) else None


def _place(members: Mapping[str, Any]) -> tuple[int | None, bytes | None]:
    """Where in an ordered stream it stands: both members or none."""
    if ("sequence" in members) != ("fpprevious" in members):
        raise Malformed("sequence and fpprevious go together")
    if "sequence" not in members:
        return None, None
    sequence = int(_matching(members, "sequence", _SEQUENCE))
    if not sequence:
        raise Malformed("a sequence begins with 1")
    return sequence, bytes.fromhex(_matching(members, "fpprevious", _DIGEST))


def _round(members: Mapping[str, Any], kind: str, task_id: str, fence: int, revision: int) -> int:
    """The round of an outcome that is no result. The operation must be the name of this effect."""
    operation = members.get("fpoperation", "")
    if kind == "result":
        if revision < 1 or operation != result_operation(task_id, revision):
            raise Malformed("fpoperation is not <task id>:<revision> of a result")
        return 0
    text = operation[len(task_id) + 1 :].partition(":")[0]
    if _NUMBER.fullmatch(text) is None or operation != outcome_operation(
        task_id, int(text), fence, kind
    ):
        raise Malformed("fpoperation is not <task id>:<round>:<fence>:<outcome>")
    return int(text)


def _adopted(value: Any) -> Writer:
    if type(value) is not dict or value.keys() != {"epoch", "incarnation"}:
        raise Malformed("adopt is not an object of epoch and incarnation")
    return _writer([value["epoch"], value["incarnation"]], "adopt")


def _writer(pair: Any, what: str) -> Writer:
    if type(pair) is not list or len(pair) != 2:
        raise Malformed(f"{what}: a writer is [epoch, incarnation]")
    epoch, incarnation = pair
    if type(incarnation) is not str or _UUID.fullmatch(incarnation) is None:
        raise Malformed(f"{what}: an incarnation is a UUID in lowercase")
    return Writer(_integer(epoch, what, 0, MAX_INTEGER), incarnation)


def _integer(value: Any, what: str, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise Malformed(f"{what} is not an integer from {low} to {high:,}")
    return value


def _number(members: Mapping[str, Any], name: str) -> int:
    return int(_matching(members, name, _NUMBER))


def _matching(members: Mapping[str, Any], name: str, form: re.Pattern[str]) -> str:
    value = members.get(name)
    if type(value) is not str or form.fullmatch(value) is None:
        raise Malformed(f"{name} is missing or not of its form")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member stands twice")
    return found


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_constant)


def _json(raw: bytes, what: str) -> Any:
    try:
        text = raw.decode("utf-8")
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is no text
    except RecursionError:
        raise Malformed(f"{what} is nested too deep") from None
    except (ValueError, UnicodeError):
        raise Malformed(f"{what} is not JSON in UTF-8 with each member once") from None
    return value
