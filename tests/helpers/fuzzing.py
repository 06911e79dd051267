"""What reads foreign bytes, and the laws of each reader that hold for any bytes whatever.

A target takes bytes, asserts its laws and says whether they were accepted. The main suite feeds it
seeded mutants (test_fuzz.py), torture feeds it what atheris makes (torture/parts/fuzz.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from fencepost import canonical, parts
from fencepost.clock import FakeClock, from_rfc3339, to_rfc3339
from fencepost.commands import Request
from fencepost.issues import InvalidRequest, JournalBroken
from fencepost.journal import checkpoint, proof, reading
from fencepost.model import QueueSettings
from helpers import folding, strict_json, wires
from helpers.lab import START
from helpers.mutants import Mutant, bent
from helpers.workload import every_verb, opened

ROOMY = 1 << 30
# Seconds of the processor that a reader may take: a fixed part, and a part for each byte.
BASE_SECONDS, SECONDS_A_BYTE = 0.25, 4e-6


@dataclass(frozen=True)
class Target:
    """`attempt` holds the laws for some bytes, `seeds` are good inputs, `grown` are (head, piece,
    tail) of inputs that are made long by repeating the piece, `planted` what it must find."""

    attempt: Callable[[bytes], bool]
    seeds: Callable[[], list[bytes]]
    grown: tuple[tuple[bytes, bytes, bytes], ...]
    planted: tuple[Mutant, ...]


def attempt(target: Target, raw: bytes) -> bool:
    """The laws of the target, and that of time. AssertionError or whatever the reader raises."""
    began = time.thread_time()
    accepted = target.attempt(raw)
    took = time.thread_time() - began
    assert took < BASE_SECONDS + SECONDS_A_BYTE * len(raw), f"{took:.2f} s for {len(raw)} bytes"
    return accepted


# --- the readers ------------------------------------------------------------------------------


def json_reader(raw: bytes) -> bool:
    """A value or InvalidRequest, as an independent reader says; and the same canonical bytes."""
    try:
        value = canonical.loads(raw, max_bytes=ROOMY)
    except InvalidRequest:
        assert strict_json.read(raw) is strict_json.REFUSED, "refused without a reason"
        return False
    reference = strict_json.read(raw)
    assert reference is not strict_json.REFUSED, "accepted what two readers read in two ways"
    once = canonical.dumps(value)
    assert once == canonical.dumps(reference)
    assert canonical.dumps(canonical.loads(once, max_bytes=ROOMY)) == once
    return True


def command_reader(raw: bytes) -> bool:
    """A request or InvalidRequest. What was sent is what is bound: no member lost or changed."""
    try:
        request = Request.read(raw)
    except InvalidRequest:
        return False
    given = canonical.loads(raw, max_bytes=ROOMY)
    assert isinstance(given, dict)
    assert (request.body, request.sha256) == (raw, sha256(raw).digest())
    command = request.command
    for name, value in given.items():
        assert command.members[name] == canonical.dumps(_normal(name, value)), name
    once = command.encoded_object()
    again = Request.read(once)
    assert again.command == command
    assert again.command.encoded_object() == once == canonical.dumps(json.loads(once))
    assert again.result_sha256 == request.result_sha256
    return True


def _normal(name: str, value: Any) -> Any:
    """The value as a command keeps it: times of new tasks in UTC with six digits."""
    if name not in ("tasks", "followups"):
        return value
    return [
        {**new, "due_at": to_rfc3339(from_rfc3339(new["due_at"]))} if "due_at" in new else new
        for new in value
    ]


def entry_reader(raw: bytes) -> bool:
    """An entry or ValueError; an accepted entry is in canonical form."""
    try:
        entry = reading.read(raw)
    except ValueError:
        return False
    assert canonical.dumps(entry) == raw
    assert reading.read(raw, strict=False) == entry
    return True


def checkpoint_reader(raw: bytes) -> bool:
    """A checkpoint or ValueError; its text is these very bytes."""
    try:
        head = checkpoint.parse(raw)
    except ValueError:
        return False
    assert head.text() == raw
    assert checkpoint.parse(head.text()) == head
    return True


def proof_reader(raw: bytes) -> bool:
    """A proof or InvalidRequest; its JSON is what was given, and to check it is a yes or a no."""
    try:
        members: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return False
    accepted = False
    for kind in (proof.Proof, proof.ConsistencyProof):
        try:
            read = kind.from_json(members)
        except InvalidRequest:
            continue
        accepted = True
        assert read.to_json() == members
        try:
            read.check()
        except JournalBroken:
            assert not read.verify()
        else:
            assert read.verify()
    return accepted


def journal_fold(raw: bytes) -> bool:
    """Any bytes in the place of an entry: verify finds problems and never raises."""
    place = len(raw) % len(folding.history())
    found = folding.with_other_bytes(place, raw, more=2)  # they meet what the wreck has left
    try:
        reading.read(raw)
    except ValueError:
        told = {(problem.code, problem.place) for problem in found}
        assert ("entry_form", f"entry {place + 1}") in told
        return False
    return True


# --- good inputs ------------------------------------------------------------------------------


@cache
def lived() -> dict[str, list[Any]]:
    """Entries, checkpoints and proofs of a small history."""
    clock = FakeClock(START)
    with opened(":memory:", clock) as fp:
        fp.enqueue("q", 1)
        first = fp.seal()
        every_verb(fp, clock)
        last = fp.seal()
        proofs = [fp.prove(number).to_json() for number in (1, 7)]
        grown = fp.prove_consistency(first).to_json()
    return {
        "entries": [row.body for row in folding.history() if row.body is not None],
        "checkpoints": [first.text(), last.text()],
        "proofs": [json.dumps(found).encode() for found in (*proofs, grown)],
    }


def some_json() -> list[bytes]:
    """Values of every kind, and whatever else this file knows that is JSON."""
    return [
        b'{"a":[1,-2.5,true,null,"\\u00e9\\n"],"b":{"c":{}}}', b" [ ] ", b'"text"', b"-0.0", b"17",
        b'{"\xf0\x9f\x98\x80":1,"\xee\x80\x80":2}', b"[" * 63 + b"1e-7" + b"]" * 63,
        *lived()["entries"][:5], *some_commands(),
    ]  # fmt: skip


def some_commands() -> list[bytes]:
    """Every verb, plainly and with every member that it may have."""
    least = [wires.body(verb, members) for verb, members in wires.LEAST.items()]
    most = [wires.body(verb, {**wires.LEAST[verb], **wires.MORE.get(verb, {})})
            for verb in wires.LEAST]  # fmt: skip
    every_setting = {"queue": "q", "settings": QueueSettings().to_json()}
    return [*least, *most, wires.body("queue.set", every_setting)]


DEEP = ((b"", b"[", b""), (b"", b'{"a":', b""), (b"[" * 60, b"[],", b"1" + b"]" * 60))
LONG = (
    (b'"', b"a", b'"'), (b'"', b"\\u0041", b'"'), (b"", b"7", b""), (b"0.", b"3", b""),
    (b"1e", b"0", b"1"), (b"[", b"1,", b"1]"), (b"[", b"-1.5e-7,", b"1]"), (b"", b" ", b"1"),
    (b'{"', b"k", b'":1}'), (b"{", b'"a":1,', b'"b":1}'), (b'"', "é".encode(), b'"'),
)  # fmt: skip
IN_A_COMMAND = (
    (b'{"queue":"q","tasks":[', b'{"payload":1},', b'{"payload":1}],"verb":"enqueue"}'),
    (b'{"queue":"q","tasks":[{"payload":"', b"x", b'"}],"verb":"enqueue"}'),
    (b'{"queue":"', b"q", b'","tasks":[{"payload":1}],"verb":"enqueue"}'),
    (b'{"queues":[', b'"q",', b'"q"],"verb":"claim","worker_id":"w"}'),
    (b'{"verb":"sweep","', b"v", b'":1}'),
)
TARGETS: dict[str, Target] = {
    "json_reader": Target(
        json_reader, some_json, (*DEEP, *LONG), (
            bent("NaN is a number", canonical._check_float, "not math.isfinite(number)", "False",
                 "json_reader"),
            Mutant("a member may stand twice", lambda patch: patch.setattr(
                canonical, "_decode", json.JSONDecoder().decode), "json_reader"),
            bent("an integer of any size", canonical._check,
                 "not -MAX_INTEGER <= value <= MAX_INTEGER", "False", "json_reader"),
        ),
    ),
    "command_reader": Target(
        command_reader, some_commands, (*DEEP, *IN_A_COMMAND), (
            bent("a digest of another spelling", Request._sealed.__func__,
                 "canonical.sha256(body)", "canonical.sha256(command.encoded_object())",
                 "command_reader"),
            bent("null is as good as nothing", parts.build,
                 "is None and spec.encode is not any_json", "is any_json", "command_reader"),
        ),
    ),
    "entry_reader": Target(
        entry_reader, lambda: lived()["entries"], (*DEEP, *LONG), (
            bent("any spelling of the same JSON", reading._form, "canonical.dumps(entry) != body",
                 "False", "entry_reader"),
            bent("a task of any kind", reading._items,
                 "not all(type(item) is dict for item in items)", "False", "entry_reader"),
        ),
    ),
    "journal_fold": Target(
        journal_fold, lambda: lived()["entries"], DEEP, (
            bent("numbers of any kind", reading._integer,
                 "type(value) is not int or not 0 <= value <= high", "False", "journal_fold"),
        ),
    ),
    "checkpoint_reader": Target(
        checkpoint_reader, lambda: lived()["checkpoints"],
        ((b"fencepost/", b"w", b"\n"), (b"", b"\n", b""), (b"fencepost/w\n", b"9", b"\n")), (
            bent("leading zeros", checkpoint._parse_size, "not _SIZE.fullmatch(text)",
                 "not text.isdigit()", "checkpoint_reader"),
            bent("two spellings of one hash", checkpoint._parse_hash, "or _base64(data) != text",
                 "", "checkpoint_reader"),
        ),
    ),
    "proof_reader": Target(
        proof_reader, lambda: lived()["proofs"],
        ((b'{"old":"","new":"","path":[', b'"",', b'""]}'),), (
            bent("hex in capitals", proof._path, "or hash_.hex() != text", "", "proof_reader"),
        ),
    ),
}  # fmt: skip
