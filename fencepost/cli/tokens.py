"""Who is let in over the network: tokens are made here, shown once, listed and ended."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from fencepost import fields, tokens
from fencepost.cli.output import Out, again
from fencepost.cli.store import open_store
from fencepost.cli.verbs import send
from fencepost.clock import SECOND, to_rfc3339
from fencepost.commands import TokenCreate, TokenRevoke
from fencepost.handle.verbs import request_of
from fencepost.issues import InvalidRequest
from fencepost.model import EVERY_SCOPE, Token


def create(args: Namespace, out: Out) -> int:
    """The token alone goes to stdout, so that it can be sent to a file; the rest to stderr."""
    if args.expires_at is not None and args.expires_seconds is not None:
        raise InvalidRequest("token create: give --expires-at or --expires-seconds, not both")
    text = tokens.make()
    with open_store(args) as fp:
        command = TokenCreate(
            tokens.digest(text).hex(), args.kind, args.name,
            None if args.queues is None else tuple(args.queues), _ends(args, fp.now),
            args.every_scope,
        )  # fmt: skip
        args.sent = request = request_of(command, args.key)
        (outcome,) = fp.execute([request])
    if not outcome.accepted:
        return out.refusal(outcome, request)
    token_id = str(outcome.facts["token_id"])
    if out.json:
        out.data({**outcome.to_json(), "token": text})
        return 0
    print(text, flush=True)
    where = "every scope" if args.every_scope else f"scope {args.scope}"
    until = outcome.facts["expires_at"] or "it is revoked"
    out.note(f"{token_id}: {args.kind} {args.name} in {where}, until {until}")
    out.note("the token is shown this once; the store keeps only its SHA-256")
    out.note(f"revoke it: {again(args, 'token', 'revoke', token_id)}")
    return 0


def _ends(args: Namespace, now: Callable[[], int]) -> str | None:
    if args.expires_seconds is None:
        ends: str | None = args.expires_at
        return ends
    return to_rfc3339(now() + fields.seconds(args.expires_seconds, "expires_seconds") * SECOND)


def list_tokens(args: Namespace, out: Out) -> int:
    with open_store(args) as fp:
        found, now = fp.tokens(), fp.now()
    if out.json:
        for token in found:
            out.data(token.to_json())
        return 0
    if not found:
        out.note(f"nobody is let in to scope {args.scope}")
        return 0
    head = ("token", "kind", "actor", "reaches", "made", "state")
    rows = [
        (t.token_id, t.kind, t.actor, _reach(t), to_rfc3339(t.created_at), _state(t, now))
        for t in found
    ]
    out.table(head, rows)
    return 0


def _reach(token: Token) -> str:
    if token.scope == EVERY_SCOPE:
        return "every scope"
    return "all queues" if token.queues is None else ", ".join(sorted(token.queues))


def _state(token: Token, now: int) -> str:
    if token.revoked_at is not None:
        return f"revoked {to_rfc3339(token.revoked_at)}"
    if token.expires_at is None:
        return "counts"
    ends = to_rfc3339(token.expires_at)
    return f"counts until {ends}" if now < token.expires_at else f"over since {ends}"


def revoke(args: Namespace, out: Out) -> int:
    return send(args, out, TokenRevoke(args.token_id))
