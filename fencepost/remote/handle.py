"""The handle of a store behind a service: the same methods, arguments, answers and exceptions."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fencepost import fields
from fencepost.clock import Clock, SystemClock
from fencepost.commands import Claim, Command, Request
from fencepost.handle.closing import Closing
from fencepost.handle.lease import Moment
from fencepost.handle.verbs import accepted, random_key, request_of
from fencepost.issues import ClockSkew, InvalidRequest, OutcomeUnknown, Unavailable
from fencepost.model import Outcome
from fencepost.remote import answers, paths
from fencepost.remote.asking import Ask, Asking, Failed, Heard, service_time, waited
from fencepost.remote.origin import Secret, origin_of
from fencepost.remote.reads import Reads, unavailable
from fencepost.remote.skew import Skew
from fencepost.remote.transport import Answer, Lost, NotSent, Transport
from fencepost.version import VERSION

if TYPE_CHECKING:
    from concurrent.futures import Future

    from fencepost.remote.sending import Sending

DEADLINE_SECONDS = 60.0
TRY_SECONDS = 20.0
MAX_SKEW_SECONDS = 30.0
PROBE_SECONDS = 5.0
HEADERS = {
    "Accept": "application/json, application/problem+json",
    "User-Agent": f"fencepost/{VERSION}",
}


class RemoteHandle(Reads, Closing):
    """One store behind a service, one scope, one token. May be shared by threads, and be used on
    in a forked child, which opens connections of its own.

    Commands are sent again with the same bytes and key until an answer comes or the deadline is
    over. Then OutcomeUnknown is raised with the key where one may have arrived, and Unavailable
    where surely none did.
    """

    def __init__(
        self, transport: Transport, asking: Asking, scope: str, skew: Skew, clock: Clock
    ) -> None:
        self._transport = transport
        self._asking = asking
        self._scope = scope
        self._skew = skew
        self._sending: Sending | None = None
        self.clock = clock

    def __repr__(self) -> str:
        return f"<RemoteHandle {self._transport.origin} scope {self._scope}>"

    def close(self) -> None:
        """Finish what was sent and close the connections. A second call does nothing."""
        if self._sending is not None:
            self._sending.close()
        self._transport.close()

    @property
    def address(self) -> str:
        """The service's URL."""
        return str(self._transport.origin)

    @property
    def scope_name(self) -> str:
        """The scope whose tasks this handle sees."""
        return self._scope

    @property
    def skew_seconds(self) -> float | None:
        """How far this machine's clock is ahead of the service's (negative: behind), as far as is
        certain by the last answer; None before the first."""
        return self._skew.seconds

    def steady(self) -> int:
        return self.clock.steady()

    # -- sending

    def send(self, commands: Sequence[Command | Request]) -> Future[list[Outcome]]:
        """Hand commands in without waiting; the future gives one outcome each.

        They are sent by at most 8 daemon threads, and calls may overtake one another. For asyncio
        wrap it with `asyncio.wrap_future`.
        """
        if self._sending is None:
            from fencepost.remote.sending import Sending

            self._sending = Sending()
        requests = [_keyed(command) for command in commands]
        return self._sending.send(lambda: self.execute(requests))

    def execute(self, commands: Sequence[Command | Request]) -> list[Outcome]:
        """One outcome each, in batches of at most 1,000 commands and 8 MiB.

        Raises Unavailable (or ClockSkew, for claims) where nothing was done. Once something was,
        every command has an outcome: of those whose answer did not come `outcome_unknown`, and of
        those that were not sent any more `store_unavailable`.
        """
        requests = [_keyed(command) for command in commands]
        found: list[Outcome] = []
        for piece in paths.slices(requests):
            try:
                found += self._piece(piece)
            except OutcomeUnknown as error:
                found += [_unknown(request, str(error)) for request in piece]
                return found + _unsent(requests[len(found) :], Unavailable(_AFTER))
            except Unavailable as error:
                if not found:
                    raise
                return found + _unsent(requests[len(found) :], error)
        return found

    def _piece(self, piece: list[Request]) -> list[Outcome]:
        if any(isinstance(request.command, Claim) for request in piece):
            self._mind_the_clock()
        if len(piece) == 1:
            return [self._one(piece[0]).value]
        body = paths.batch_body(piece)
        ask = Ask("POST", paths.of_scope(self._scope, "batch"), _headers(None), body)

        def read(answer: Answer, tries: int) -> list[Outcome]:
            return answers.outcomes(answer, piece, tries)

        found: list[Outcome] = self._told(ask, None, read).value
        return found

    def _one(self, request: Request, wait_seconds: int = 0) -> Heard[Outcome]:
        ask = Ask(
            "POST", paths.of_command(self._scope, request), _headers(request.key), request.body,
            paths.repeatable(request), wait_seconds,
        )  # fmt: skip
        return self._told(
            ask, _key_of(request), lambda answer, tries: answers.outcome(answer, request, tries)
        )

    def _told(self, ask: Ask, key: str | None, read: Callable[[Answer, int], Any]) -> Heard[Any]:
        def judge(answer: Answer, tries: int) -> Any:
            self._skew.note(answer)
            return read(answer, tries)

        try:
            return self._asking.ask(ask, judge)
        except Failed as error:
            if error.reached:
                raise OutcomeUnknown(f"it may have been carried out: {error}", key) from None
            raise unavailable(error) from None

    # -- claims and the clock

    def claimed(self, request: Request, wait_seconds: int) -> tuple[Outcome, Moment]:
        request = _keyed(request.command) if request.key is None else request
        self._mind_the_clock()
        heard = self._one(request, wait_seconds)
        return accepted(heard.value), _moment(heard, wait_seconds)

    def timed_outcome_of(self, command: Command, key: str | None) -> tuple[Outcome, Moment]:
        heard = self._one(request_of(command, key))
        return accepted(heard.value), _moment(heard, 0)

    def _mind_the_clock(self) -> None:
        """Before a claim: raise ClockSkew where this machine's clock is too far off by now."""
        skew = self._skew
        if skew.max_seconds is None or (skew.seconds is not None and not skew.too_far):
            return
        try:  # not known yet, or it may have been set right since
            skew.note(
                self._transport.exchange("GET", "/livez", HEADERS, None, PROBE_SECONDS, fresh=True)
            )
        except (Lost, NotSent):
            return  # the claim itself will tell
        if skew.too_far:
            raise ClockSkew(
                f"this machine's clock is {skew.words} the service's, and {skew.max_seconds:g} s "
                "are allowed: set it (NTP), then claim again; nothing was claimed"
            )


_AFTER = "it was not sent: the answer to one before it did not come"


def _headers(key: str | None) -> dict[str, str]:
    headers = {**HEADERS, "Content-Type": "application/json"}
    if key is not None:
        headers["Idempotency-Key"] = f'"{key}"'
    return headers


def _keyed(command: Command | Request) -> Request:
    """The request as it is sent. A claim too has a key of its own unless it was made without one:
    its answer may get lost, and the key brings the same leases again."""
    if isinstance(command, Claim):
        return Request.of(command, random_key())
    return request_of(command)


def _key_of(request: Request) -> str | None:
    """What to ask again with: a lease command's own bytes are its key."""
    return request.key or (request.sha256.hex() if request.command.self_keyed else None)


def _unknown(request: Request, message: str) -> Outcome:
    facts = {"key": _key_of(request)}
    return Outcome("failed", (OutcomeUnknown.code,), message, facts=facts)


def _unsent(requests: Sequence[Request], error: Unavailable) -> list[Outcome]:
    return [Outcome("failed", (error.code,), str(error))] * len(requests)


def _moment(heard: Heard[Outcome], wait_seconds: int) -> Moment:
    """From when a lease counts. What was given by the last try was given after that was sent, and
    after the service had waited as long as it says; a replay may be as old as the first try."""
    sent, received = heard.answer.sent[0], heard.answer.received[0]
    told = service_time(heard.answer)
    if heard.value.replayed:
        return Moment(heard.first, sent, told)
    held = waited(heard.answer) if wait_seconds else 0
    begun = sent + (held if held <= received - sent else 0)
    return Moment(begun, begun, told)


def open_remote(
    url: str,
    *,
    scope: str = "default",
    token: str | None = None,
    cafile: str | None = None,
    allow_plaintext: bool = False,
    deadline_seconds: float = DEADLINE_SECONDS,
    try_seconds: float = TRY_SECONDS,
    max_skew_seconds: float | None = MAX_SKEW_SECONDS,
    clock: Clock | None = None,
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = random.random,
) -> RemoteHandle:
    """A handle on the service at `url` (`https://host[:port][/path]`). Nothing is asked of it yet.

    The token is `token`, or else FENCEPOST_TOKEN. `cafile` names the one CA that is trusted, in
    place of the system's. `allow_plaintext` sends the token over http:// to another machine too.
    `deadline_seconds` bounds a request with all its tries (a long poll's waiting beside it),
    `try_seconds` how long one try waits for a sign of an answer. `max_skew_seconds` None lets a
    machine claim whose clock is wrong. `clock`, `sleep` and `jitter` are for tests.
    Proxies of the environment are not used.
    """
    fields.name(scope, "scope")
    for name, seconds in (("deadline_seconds", deadline_seconds), ("try_seconds", try_seconds)):
        if not 0 < seconds < float("inf"):
            raise InvalidRequest(f"{name}: {seconds!r} is not a number of seconds above 0")
    given = token if token is not None else os.environ.get("FENCEPOST_TOKEN") or None
    secret = None if given is None else Secret(given)
    clock = clock or SystemClock()
    transport = Transport(
        origin_of(url), secret, clock, cafile=cafile, allow_plaintext=allow_plaintext
    )
    asking = Asking(transport, clock, deadline_seconds, try_seconds, sleep, jitter)
    return RemoteHandle(transport, asking, scope, Skew(max_skew_seconds), clock)
