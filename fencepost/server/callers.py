"""Who is asking. A token is looked up by its digest once and remembered, since nothing of it can
change but its end; whether it has ended is judged each time: by the transaction that carries a
command out, and by the handle before it shows anything."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from fencepost import fields, tokens
from fencepost.issues import ISSUES, InvalidRequest
from fencepost.model import Caller, Token
from fencepost.server.answers import Fault
from fencepost.server.asked import Asked
from fencepost.server.bridge import Bridge
from fencepost.server.limits import Limits
from fencepost.storage import reading

REMEMBERED = 4_096
CHALLENGE = b'Bearer realm="fencepost"'


class Callers:
    """Recognises callers. With `dev` everybody is the operator, of whatever scope he names."""

    def __init__(self, bridge: Bridge, limits: Limits, *, dev: bool) -> None:
        self._bridge = bridge
        self._limits = limits
        self._dev = dev
        self._known: OrderedDict[bytes, Token] = OrderedDict()

    async def recognise(self, asked: Asked) -> Caller:
        """The caller, for the scope that the path names. Fault 401, 404, or 429 above its rate,
        wherever it asks."""
        scope = _checked(asked.params.get("scope", ""))
        if self._dev:
            local = Caller(scope or "default", "operator", "local")
            self._limits.ask(local)
            return local
        token = await self._token(asked)
        own = token.caller(token.scope)
        assert own is not None
        self._limits.ask(own)
        caller = token.caller(scope or token.scope)
        if caller is None:
            await self._bridge.read(self._bridge.fp.for_caller(own).check_token)
            raise unknown()
        return caller

    async def _token(self, asked: Asked) -> Token:
        given = asked.header(b"authorization")
        if given is None:
            raise _unauthenticated("send a token: Authorization: Bearer fp_…", CHALLENGE)
        kind, _, text = given.partition(" ")
        text = text.strip()
        if kind.lower() != "bearer" or not tokens.check(text):
            raise not_counting()
        digest = tokens.digest(text)
        token = self._known.get(digest)
        if token is None:
            look = partial(self._bridge.fp.read, reading.token_by_sha256(digest))
            token = await self._bridge.read(look)
            if token is None:
                raise not_counting()
            self._remember(digest, token)
        return token

    def _remember(self, digest: bytes, token: Token) -> None:
        self._known[digest] = token
        self._known.move_to_end(digest)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def _checked(scope: str) -> str:
    """What cannot be a scope's name is no scope that anybody has: it is not there."""
    try:
        return scope and fields.name(scope, "scope")
    except InvalidRequest:
        raise unknown() from None


def unknown() -> Fault:
    """The same words for whatever is not there and whatever is not to be seen."""
    issue = ISSUES["not_found"]
    return Fault(404, f"{issue.meaning}; {issue.advice}", "not_found")


def not_counting() -> Fault:
    """One answer for whatever token is wrong: never made, mistyped, over, revoked."""
    return _unauthenticated("this token does not count", CHALLENGE + b', error="invalid_token"')


def _unauthenticated(detail: str, challenge: bytes) -> Fault:
    return Fault(401, detail, "unauthenticated", ((b"www-authenticate", challenge),))
