"""The receiver: from the bytes of a request to the bytes of its answer."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from . import answers, clock, forgetting, rules, signing, wire
from .answers import Answer
from .desk import Desk, Job
from .keeping import Session
from .reading import Malformed, read_event, read_hello
from .store import EffectBroke, Store, Unavailable
from .wire import Event, Hello

log = logging.getLogger("fencepost.receiver")

Effect = Callable[[Any, Event], object]
"""What a delivery is for: called with the driver's connection, within the transaction in which the
receipt is written too. It must not commit and must do nothing outside the database. It may be
called again for the same event if the transaction was undone."""
Secrets = Sequence[str] | Callable[[], Sequence[str]]


class Reject(Exception):
    """Raised by an effect: this will never be possible. The sender gives up.

    `code` says why, in a word of yours; both are told to the sender.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code, self.detail = code, detail


class TryLater(Exception):
    """Raised by an effect: not now, but in so many seconds."""

    def __init__(self, seconds: float = 1) -> None:
        super().__init__(f"in {seconds:g} s")
        self.seconds = max(1, math.ceil(seconds))


class _EffectFailed(Exception):
    """Carries what an effect has raised past everything that is not the effect's."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Receiver:
    """Judges deliveries and brings their effects about, once.

    `store`           a SqliteStore or PostgresStore, of this receiver alone in this process.
    `effect`          what is to be done with an event; see Effect.
    `secrets`         `whsec_…`, the newest first: what comes is signed with one of them, answers
                      with all. A function is asked each time, so that they can be rotated.
    `name`            under which the state is kept; receipts carry it.
    `streams`         whether a stream may come here at all; all may if None.
    `allow_adopt`     whether a human may hand a stream to a writer without lineage.
    `adopt_secret`    which that has to be signed with, then, in place of the others.
    `max_body_bytes`  longer bodies are refused.
    `keep_events_seconds`    how long the data of an event is kept for a writer that has lost it;
                      None: as long as its receipt. 0: not at all.
    `keep_receipts_seconds`  how long a receipt is kept at least; see `tidy`.
    `now`             microseconds UTC since 1970.
    """

    def __init__(
        self,
        store: Store,
        effect: Effect,
        secrets: Secrets,
        *,
        name: str = "receiver",
        streams: Callable[[str], bool] | None = None,
        allow_adopt: bool = True,
        adopt_secret: str | None = None,
        max_body_bytes: int = wire.MAX_BODY_BYTES,
        keep_events_seconds: int | None = None,
        keep_receipts_seconds: int = forgetting.KEEP_RECEIPTS_SECONDS,
        now: Callable[[], int] = clock.wall,
    ) -> None:
        self.name, self.max_body_bytes, self.now = name, max_body_bytes, now
        self._effect, self._secrets, self._streams = effect, secrets, streams
        self._allow_adopt = allow_adopt
        self._adopt_keys = None if adopt_secret is None else [signing.secret_bytes(adopt_secret)]
        self._keep = forgetting.Keep(keep_events_seconds, keep_receipts_seconds)
        self._read: tuple[tuple[str, ...], list[bytes]] = ((), [])
        self.keys()
        self.desk = Desk(store, name, now)

    def keys(self) -> list[bytes]:
        """The secrets' keys, the newest first. ValueError for what is no secret."""
        secrets = self._secrets() if callable(self._secrets) else self._secrets
        if isinstance(secrets, str) or not secrets:
            raise ValueError("secrets is a list of one or more")
        if self._read[0] != (now := tuple(secrets)):  # read once, as long as they are the same
            self._read = (now, [signing.secret_bytes(secret) for secret in now])
        return self._read[1]

    def handle(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer to a POST; from any thread. `headers` are by lower-case name."""
        return self.submit(headers, body).result()

    def submit(self, headers: Mapping[str, str], body: bytes) -> Future[Answer]:
        """The same, for who would rather not wait in this thread."""
        message_id, found = self.admit(headers, body)
        signed: Future[Answer] = Future()
        if isinstance(found, Answer):
            signed.set_result(self.seal(message_id, found))
        else:
            self.desk.submit(found).add_done_callback(
                lambda done: signed.set_result(self.seal(message_id, done.result()))
            )
        return signed

    def admit(self, headers: Mapping[str, str], body: bytes) -> tuple[str | None, Answer | Job]:
        """What is to be done for a request, or already its answer; and the id to sign it with.

        None where the request was not signed by whoever has the secret: to a stranger nothing
        is signed.
        """
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type not in (wire.EVENT_TYPE, wire.HELLO_TYPE):
            return None, answers.problem("unsupported_media_type")
        if headers.get("content-encoding", "identity") != "identity":
            return None, answers.problem("unsupported_media_type", "content-encoding is not taken")
        if len(body) > self.max_body_bytes:
            return None, answers.problem("too_large", f"at most {self.max_body_bytes:,} bytes")
        try:
            message_id, adopting = self._signer(headers, body)
        except signing.BadSignature as error:
            return None, answers.problem("bad_signature", str(error))
        try:
            if content_type == wire.HELLO_TYPE:
                return message_id, self._greeting(read_hello(body), adopting)
            if adopting:
                return None, answers.problem("bad_signature", "signed with the secret to adopt")
            return message_id, self._delivery(read_event(body, message_id))
        except Malformed as error:
            return message_id, answers.problem("malformed", str(error))

    def _signer(self, headers: Mapping[str, str], body: bytes) -> tuple[str, bool]:
        """The id that was signed, and whether it was with the secret that is for adopting."""
        now = self.now() / clock.SECOND
        try:
            return signing.verify(self.keys(), headers, body, now).message_id, False
        except signing.BadSignature:
            if not self._adopt_keys:
                raise
        return signing.verify(self._adopt_keys, headers, body, now).message_id, True

    def _delivery(self, event: Event) -> Answer | Job:
        if self._streams is not None and not self._streams(event.stream):
            return answers.problem("stream_refused")
        return Job(event.stream, lambda session: self._deliver(session, event))

    def _greeting(self, hello: Hello, adopting: bool) -> Answer | Job:
        if self._streams is not None and not self._streams(hello.stream):
            return answers.problem("stream_refused")
        if adopting and hello.adopt is None:
            return answers.problem("adopt_forbidden", "this secret is for adopting alone")
        may_adopt = self._allow_adopt and adopting == bool(self._adopt_keys)
        return Job(hello.stream, lambda session: self._greet(session, hello, may_adopt))

    def _deliver(self, session: Session, event: Event) -> Answer:
        """Judge, and then effect, state and receipt together. The order is that of the rules."""
        held = session.held(event.stream)
        known, newest = session.find(held, event) if held else (None, None)
        stream = held.stream if held else None
        refusal = rules.judge_event(event, known, stream, newest)
        if refusal is not None:
            return answers.refused(refusal)
        if known is not None:
            return answers.accepted(known.receipt, replayed=True)
        assert held is not None  # else a hello was needed
        after, now = rules.after_event(event, held.stream), self.now()
        receipt = answers.receipt(self.name, event, after, now)
        try:
            with session.attempt() as connection:
                self._run(connection, event)
                session.store.check()
                session.record(held, event, receipt, after.position, now, self._keep.events != 0)
        except _EffectFailed as failed:
            return self._failure(session.store, event, failed.error)
        session.put(event.stream, after)
        return answers.accepted(receipt, replayed=False)

    def _run(self, connection: Any, event: Event) -> None:
        try:
            self._effect(connection, event)
        except BaseException as error:  # even SystemExit: the desk goes on
            raise _EffectFailed(error) from error

    def _failure(self, store: Store, event: Event, error: BaseException) -> Answer:
        """What the sender hears of an effect that raised. What it had done is undone already."""
        if isinstance(error, Reject):
            return answers.problem("rejected", error.detail, {"reason": error.code})
        if isinstance(error, TryLater):
            return answers.problem("unavailable", wait=error.seconds)
        if isinstance(error, EffectBroke | Unavailable) or store.passing(error):
            raise error  # the transaction is at fault, not the effect: the desk runs it again
        log.error("%s: the effect failed", event.operation, exc_info=error)
        return answers.problem("effect_failed")

    def _greet(self, session: Session, hello: Hello, may_adopt: bool) -> Answer:
        """Who holds the stream from now on, and all that the writer may not know of."""
        held = session.held(hello.stream)
        before = held.stream if held else None
        refusal = rules.judge_hello(hello, before, may_adopt)
        if refusal is not None and not hello.ask_only:
            return answers.refused(refusal)
        stream = before
        if held is None and not hello.ask_only and not session.add(hello.stream, hello.writer):
            return self._greet(session, hello, may_adopt)  # somebody was quicker: judge again
        if not hello.ask_only:
            stream = rules.after_hello(hello, before)
            session.put(hello.stream, stream)
            if before and before.writer != stream.writer:
                how = "adopted" if hello.adopt else "taken over"
                log.warning("%s: %s by epoch %d", hello.stream, how, stream.writer.epoch)
        held = session.held(hello.stream)
        found, more = session.accepted(held, hello.after, hello.limit) if held else ([], False)
        was = before.writer if before and stream and before.writer != stream.writer else None
        would = (refusal.code if refusal else "") if hello.ask_only else None
        return answers.greeted(self.name, stream, was, found, more, would)

    def seal(self, message_id: str | None, answer: Answer) -> Answer:
        """The answer, signed under the request's id."""
        headers = {"cache-control": "no-store", **answer.headers}
        if message_id is not None:
            seconds = self.now() // clock.SECOND
            headers |= signing.sign(self.keys(), message_id, seconds, answer.body)
        return Answer(answer.status, answer.body, headers)

    def tidy(self, run: Callable[[Job], Any] | None = None) -> None:
        """Drop what is older than it has to be kept; see `forgetting`. Call it once an hour or so.

        `run` is for who has the desk's work done in a thread of his own.
        """
        forgetting.tidy(run or (lambda job: self.desk.submit(job).result()), self._keep)

    def close(self) -> None:
        """Finish what has been handed in, then close the store."""
        self.desk.close()
