"""Who is asking. A token is looked up by its digest; whether it still counts is judged anew inside
the transaction for commands, and by a fresh look for everything that is read."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from fencepost import fields, tokens
from fencepost.issues import ISSUES, InvalidRequest
from fencepost.model import Caller, Token
from fencepost.server.answers import Fault
from fencepost.server.asked import Asked
from fencepost.server.bridge import Bridge
from fencepost.storage import reading

REMEMBERED = 4_096
CHALLENGE = b'Bearer realm="fencepost"'


class Callers:
    """Recognises callers. With `dev` everybody is the operator, of whatever scope he names."""

    def __init__(self, bridge: Bridge, *, dev: bool) -> None:
        self._bridge = bridge
        self._dev = dev
        self._known: OrderedDict[bytes, Token] = OrderedDict()

    async def recognise(self, asked: Asked, *, fresh: bool) -> Caller:
        """The caller, for the scope that the path names. Fault 401 or 404.

        `fresh` looks the token up now; otherwise one seen before will do, since the transaction
        that carries the command out judges it again.
        """
        scope = asked.params.get("scope", "")
        if self._dev:
            return Caller(_checked(scope), "operator", "local")
        token = await self._token(asked, fresh=fresh)
        caller = token.caller(_checked(scope) if scope else token.scope)
        if caller is None:
            raise unknown()
        return caller

    async def _token(self, asked: Asked, *, fresh: bool) -> Token:
        given = asked.header(b"authorization")
        if given is None:
            raise _unauthenticated("send a token: Authorization: Bearer fp_…", CHALLENGE)
        kind, _, text = given.partition(" ")
        text = text.strip()
        if kind.lower() != "bearer" or not tokens.check(text):
            raise not_counting()
        digest = tokens.digest(text)
        token = None if fresh else self._known.get(digest)
        if token is None:
            token = await self._bridge.read(partial(self._look, digest))
            if token is None:
                self._known.pop(digest, None)
                raise not_counting()
            self._remember(digest, token)
        return token

    def _look(self, digest: bytes) -> Token | None:
        """In a thread: the token, if it counts by the store's time."""
        fp = self._bridge.fp
        token = fp.read(reading.token_by_sha256(digest))
        if token is None or token.revoked_at is not None:
            return None
        return token if token.expires_at is None or fp.now() < token.expires_at else None

    def _remember(self, digest: bytes, token: Token) -> None:
        self._known[digest] = token
        self._known.move_to_end(digest)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def forget(self, asked: Asked) -> None:
        """After the transaction has refused a token that was remembered."""
        given = asked.header(b"authorization") or ""
        self._known.pop(tokens.digest(given.partition(" ")[2].strip()), None)


def _checked(scope: str) -> str:
    try:
        fields.name(scope or "default", "scope")
    except InvalidRequest as error:
        raise Fault(400, str(error)) from None
    return scope or "default"


def unknown() -> Fault:
    """The same words for whatever is not there and whatever is not to be seen."""
    issue = ISSUES["not_found"]
    return Fault(404, f"{issue.meaning}; {issue.advice}", "not_found")


def not_counting() -> Fault:
    """One answer for whatever token is wrong: never made, mistyped, over, revoked."""
    return _unauthenticated("this token does not count", CHALLENGE + b', error="invalid_token"')


def _unauthenticated(detail: str, challenge: bytes) -> Fault:
    return Fault(401, detail, "unauthenticated", ((b"www-authenticate", challenge),))
