"""token.create, token.revoke: who is let in, and until when."""

from __future__ import annotations

from typing import Any

from fencepost import canonical
from fencepost.clock import from_rfc3339, to_rfc3339
from fencepost.commands import Request, TokenCreate, TokenRevoke
from fencepost.machine.batch import Batch, Verdict, accept, refuse
from fencepost.model import EVERY_SCOPE, Caller, Receipt, TaskRow, Token
from fencepost.record import replace


def create(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """A new token, known by its digest. A digest that is known already is nobody's new secret."""
    command = request.command
    assert isinstance(command, TokenCreate)
    digest = bytes.fromhex(command.token_sha256)
    codes = batch.blocked()
    known = digest in batch.loaded.digests_of_tokens
    if known:
        codes.append("key_conflict")
    if codes:
        told = f"{command.verb}: this token is known already; make a new one" if known else ""
        return refuse(codes, command, told)
    ends = None if command.expires_at is None else from_rfc3339(str(command.expires_at))
    if ends is not None and ends <= batch.now:
        late = f"it is {to_rfc3339(batch.now)} in this store"
        return refuse(("invalid_request",), command, f"{command.verb}: expires_at is over; {late}")
    token = Token(
        "tok_" + batch.loaded.draw.task_id(batch.now).replace("-", ""),
        EVERY_SCOPE if command.every_scope else caller.scope, command.kind, command.actor,
        None if command.queues is None else frozenset(command.queues), batch.now, ends, None,
    )  # fmt: skip
    batch.loaded.tokens[token.token_id] = token
    batch.loaded.digests_of_tokens[digest] = token.token_id
    batch.changes.tokens.append((token, digest))
    receipt = batch.record(caller, request, (), note=_note(token), token_sha256=digest)
    return accept(receipt, **facts(receipt))


def _note(token: Token) -> str:
    """What the entry says of a token: who it makes of whoever shows it."""
    told = token.to_json()
    names = ("token_id", "kind", "actor", "queues", "expires_at")
    note = {name: told[name] for name in names}
    return canonical.dumps({**note, "every_scope": token.scope == EVERY_SCOPE}).decode()


def revoke(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """The token ends with this commit. One that has been revoked already stays as it is."""
    command = request.command
    assert isinstance(command, TokenRevoke)
    if codes := batch.blocked():
        return refuse(codes, command)
    token = batch.loaded.tokens[command.token_id]
    if token.revoked_at is None:
        batch.loaded.tokens[token.token_id] = replace(token, revoked_at=batch.now)
        batch.changes.revoked.append((batch.now, token.token_id))
    note = canonical.dumps({"token_id": token.token_id}).decode()
    receipt = batch.record(caller, request, (), note=note)
    return accept(receipt, **facts(receipt))


def facts(receipt: Receipt) -> dict[str, Any]:
    """What is told of a token, now and at every replay: what its entry says."""
    note: dict[str, Any] = receipt.entry["note"]
    return note
