"""Commands over HTTP: one at its own path, or many as a batch. The bytes of a command are the body
itself, or its raw slice of the batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial

from fencepost import canonical
from fencepost.clock import SECOND
from fencepost.commands import Claim, Complete, Request, Review, Submit
from fencepost.engine.call import weight
from fencepost.engine.transact import failed
from fencepost.handle.journal import turned_away
from fencepost.handle.waiting import asked_of, worth_a_claim
from fencepost.issues import FencepostError, InvalidRequest, Refused
from fencepost.machine.needs import Sent
from fencepost.model import Caller, Outcome
from fencepost.rules.authority import MAY
from fencepost.server import asked as reading
from fencepost.server.answers import Answer, Fault, Headers, of_outcome, outcome_body
from fencepost.server.asked import Asked, Receive
from fencepost.server.service import Service, caller_of
from fencepost.server.slices import members

LONG_BODY = 64 * 1024  # from here on a thread reads it: the loop has others to serve
FEW = 20  # outcomes whose answer is made at once; of more a thread makes it
UNITS_AT_ONCE = 1_000  # tasks that a batch touches in one turn to write: others wait meanwhile


async def command(service: Service, asked: Asked, receive: Receive, verb: str) -> Answer:
    """One command. `verb` is the path's; the body must agree with the path."""
    caller = caller_of(asked)
    if verb not in MAY[caller.kind]:
        await service.bridge.read(service.handle(asked).check_token)
        raise turned_away("forbidden")
    given = asked.ask(*(("wait_seconds",) if verb == "claim" else ()))
    longest = service.settings.max_wait_seconds
    wait = reading.whole(given.get("wait_seconds"), "wait_seconds", 0, longest, 0)
    revision = reading.bound_revision(asked)
    request = await _request(service, asked, receive)
    _agree(asked, request, verb)
    if revision is not None:
        _restates(request, revision)
    waited: Headers = ()
    if isinstance(request.command, Claim):
        outcome, waited = await claim(service, caller, request, request.command, wait, receive)
    else:
        (outcome,) = await execute(service, [(caller, request)])
    if outcome.issues == ("unauthenticated",):
        raise turned_away("unauthenticated")
    answer = of_outcome(outcome, precondition=revision is not None)
    return answer._replace(headers=answer.headers + waited)


async def _request(service: Service, asked: Asked, receive: Receive) -> Request:
    reading.check_media(asked)
    key = reading.idempotency_key(asked)
    body = await service.body(asked, receive)
    if len(body) > LONG_BODY:
        return await service.bridge.parse(partial(Request.read, body, key), len(body))
    return Request.read(body, key)


def _agree(asked: Asked, request: Request, verb: str) -> None:
    command = request.command
    if command.verb != verb:
        raise InvalidRequest(f"the path says {verb}, the command's verb is {command.verb}")
    task_id = asked.params.get("task_id")
    if task_id is not None and getattr(command, "task_id", None) != task_id:
        raise InvalidRequest("the command's task_id is not the one of the path")
    queue = asked.params.get("queue")
    if queue is None:
        return
    named = command.queues if isinstance(command, Claim) else (getattr(command, "queue", None),)
    if named != (queue,):
        raise InvalidRequest("the command's queue is not the one of the path")


def _restates(request: Request, revision: int) -> None:
    """`If-Match` binds nothing by itself: the command's own bytes do."""
    command = request.command
    bound = None
    if isinstance(command, Submit | Complete):
        bound = command.expected_revision
    elif isinstance(command, Review):
        bound = command.revision
    if bound != revision:
        raise InvalidRequest(
            "If-Match restates the revision that the command binds (expected_revision of submit "
            "and complete, revision of review); this command "
            + ("binds none" if bound is None else f"binds {bound}")
        )


# -- sending


async def execute(service: Service, sent: Sequence[Sent]) -> list[Outcome]:
    """The outcomes, counted and told to whoever waits for them."""
    outcomes = await _sent(service, sent)
    meters = service.meters
    for (caller, request), outcome in zip(sent, outcomes, strict=True):
        if not outcome.accepted:
            continue
        meters.replays += outcome.replayed
        meters.commands[request.command.verb] += not outcome.replayed
        if isinstance(request.command, Claim):
            service.limits.claimed(caller, len(outcome.grants))
            if outcome.receipt is not None:
                service.news.asked(asked_of(caller.scope, request.command, request.key))
    service.news.committed(sent[0][0].scope, outcomes)
    return outcomes


async def _sent(service: Service, sent: Sequence[Sent]) -> list[Outcome]:
    """In as many turns as it takes. Once something was done, what goes wrong is told to each."""
    outcomes: list[Outcome] = []
    for piece in _pieces(sent):
        try:
            outcomes += await service.bridge.send(piece)
        except FencepostError as error:
            if not outcomes:
                raise
            return outcomes + [failed(error)] * (len(sent) - len(outcomes))
    return outcomes


def _pieces(sent: Sequence[Sent]) -> Iterator[list[Sent]]:
    piece: list[Sent] = []
    units = 0
    for caller, request in sent:
        units += weight(request.command)
        if piece and units > UNITS_AT_ONCE:
            yield piece
            piece, units = [], weight(request.command)
        piece.append((caller, request))
    yield piece


async def claim(
    service: Service, caller: Caller, request: Request, command: Claim, wait: int,
    receive: Receive,
) -> tuple[Outcome, Headers]:  # fmt: skip
    """A claim; with `wait` it is made when there is something to claim, or when the time is over.

    One that has waited and finds nothing leaves nothing, and may be asked again under its key. Who
    asks again while it waits ends its waiting. The header says how long it waited (seconds), so
    that the client need not count it from his lease. For a client that has hung up meanwhile it is
    not made: nobody would work on what it got.
    """
    service.limits.claim(caller)
    service.news.asked(asked_of(caller.scope, command, request.key))
    if service.stopping.is_set():
        raise Fault(503, "the service is stopping; nothing was done", "store_unavailable")
    if not wait or command.queues is None:
        (outcome,) = await execute(service, [(caller, request)])
        return outcome, ()
    begun = service.clock.steady()
    request = request._replace(waits=True)
    seen = await service.bridge.read(partial(_claimable, service, caller, request, command))
    while True:
        passed = (service.clock.steady() - begun) / SECOND
        going_on = seen or await _wait(service, caller, request, command, wait - passed, receive)
        waited = f"{(service.clock.steady() - begun) / SECOND:.6f}".encode()
        (outcome,) = await execute(service, [(caller, request)])
        # of those who were woken others may have been quicker, also at another service
        if not going_on or not outcome.accepted or outcome.receipt is not None:
            return outcome, ((b"fencepost-waited", waited),)
        seen = False


async def _wait(
    service: Service, caller: Caller, request: Request, command: Claim, seconds: float,
    receive: Receive,
) -> bool:  # fmt: skip
    """Wait until there may be something: True. False where the claim has to be answered with what
    it finds: the time is over, it is asked for again, or too many wait already. Raises Fault where
    the client has hung up meanwhile."""
    if seconds <= 0 or service.stopping.is_set() or not service.limits.enter_waiting(caller):
        return False
    places = [(caller.scope, queue) for queue in command.queues or ()]
    asked = asked_of(caller.scope, command, request.key)
    waiting = asyncio.ensure_future(service.news.task_for(places, asked, seconds))
    gone = asyncio.ensure_future(reading.gone(receive))
    try:
        await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise Fault(400, "the connection ended while the claim waited; nothing was done")
        return waiting.result()
    finally:
        service.limits.leave_waiting(caller)
        waiting.cancel()
        gone.cancel()


def _claimable(service: Service, caller: Caller, request: Request, command: Claim) -> bool:
    """In a thread: a task is there, or the receipt of this very claim is. Or the claim will be
    refused: then it waits for nothing, since how long it waits would tell what is not his to see.
    """
    handle = service.fp.for_caller(caller)
    try:
        if not handle.may_wait(command):
            return True
    except Refused:
        return True
    return worth_a_claim(handle, request, command)


# -- a batch


async def batch(service: Service, asked: Asked, receive: Receive) -> Answer:
    """Many commands, in one transaction where they fit into a turn (UNITS_AT_ONCE); an outcome
    each."""
    caller = caller_of(asked)
    asked.ask()
    reading.check_media(asked)
    if asked.header(b"idempotency-key") is not None:
        raise Fault(400, "a batch has no key: give each command its own, as its member `key`")
    if asked.header(b"if-match") is not None:
        raise Fault(400, "a batch has no If-Match: each command binds its own revision")
    settings = service.settings
    body = await service.body(asked, receive)
    look = partial(_requests, body, settings.max_batch)
    requests = await service.bridge.parse(look, len(body))
    claimed = sum(weight(each.command) for each in requests if each.command.verb == "claim")
    if claimed > settings.max_batch_claims:
        raise InvalidRequest(
            f"batch: its claims ask for {claimed} tasks, and the answer holds them all; at most "
            f"{settings.max_batch_claims}: send it in parts"
        )
    if claimed:
        service.limits.claim(caller)
        if service.stopping.is_set():
            raise Fault(503, "the service is stopping; nothing was done", "store_unavailable")
    outcomes = await execute(service, [(caller, request) for request in requests])
    if all(outcome.issues == ("unauthenticated",) for outcome in outcomes):
        raise turned_away("unauthenticated")
    if len(outcomes) <= FEW:
        return _of_batch(outcomes)
    return await service.bridge.read(partial(_of_batch, outcomes))


def _of_batch(outcomes: Sequence[Outcome]) -> Answer:
    status = "accepted" if all(outcome.accepted for outcome in outcomes) else "incomplete"
    replayed = [place for place, outcome in enumerate(outcomes) if outcome.replayed]
    bodies = b",".join(outcome_body(outcome) for outcome in outcomes)
    return Answer(
        200,
        canonical.join(
            {
                "status": canonical.dumps(status),
                "outcomes": b"[" + bodies + b"]",
                "replayed": canonical.dumps(replayed),
            }
        ),
    )


def _requests(body: bytes, limit: int) -> list[Request]:
    found = members(body, limit)
    requests = []
    for place, (raw, key) in enumerate(found):
        try:
            requests.append(Request.read(raw, key))
        except InvalidRequest as error:
            raise InvalidRequest(f"commands/{place}: {error}; nothing was done") from None
    return requests
