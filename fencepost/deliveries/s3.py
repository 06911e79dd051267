"""Deliveries into a bucket of an S3-compatible store: an object an effect, under the same name as
in a directory (`directory.name_of`), written only where there is none (`If-None-Match: *`).

boto3 (`fencepost[s3]`) knows the signatures, the addresses and the errors. What it has made goes
out by `http.Exchange`, as all deliveries over HTTP do: to an address that was judged, within the
time, and so that it is known whether a byte was sent. Credentials come from where boto3 looks for
them: the environment, a profile, the machine's role.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from fencepost.clock import SECOND, SystemClock
from fencepost.deliveries.directory import evidence, name_of
from fencepost.deliveries.event import Event
from fencepost.deliveries.flights import Unheard
from fencepost.deliveries.http import Exchange, Unsent
from fencepost.deliveries.places import Greeting, Place, Try
from fencepost.fields import MAX_BODY_BYTES
from fencepost.issues import InvalidRequest

DIGEST = "fencepost-sha256"
LATER = frozenset({409, 429, 503})
"""Nothing was done, come again: 409 is a race of conditional writes."""
UNSURE = frozenset({500, 502, 504})
OWN_HEADERS = frozenset({"host", "user-agent", "content-length", "expect", "connection"})
MOST = MAX_BODY_BYTES + 65_536  # of an answer: an object that is looked at
_CLOCK = SystemClock()


class S3Sender:
    """Writes to one bucket. See `places.Sender`."""

    greets = False

    def __init__(self, place: Place, now: Callable[[], float]) -> None:
        self._errors, self._response, self._s3 = _client(place)
        bucket, _, prefix = place.address.removeprefix("s3://").partition("/")
        self._bucket, self._prefix = bucket, prefix.rstrip("/") + "/" if prefix else ""
        # one that keeps no condition is given none: the name alone makes a repetition harmless
        self._condition = {"IfNoneMatch": "*"} if place.kind == "cas" else {}
        self._timeout = float(place.options["timeout_seconds"])
        self._private = bool(place.options["allow_private"])
        self._keep = int(place.options["concurrency"])
        self._exchanges: dict[str, Exchange] = {}
        self._lock = threading.Lock()
        self._own = threading.local()  # of each thread: until when, and whether it has asked
        self._s3.meta.events.register("before-send.s3", self._exchanged)

    def send(self, event: Event, seconds: float) -> Try:
        name = self._prefix + name_of(event)
        self._own.until = _CLOCK.steady() + round(min(seconds, self._timeout) * SECOND)
        self._own.asked = False
        try:
            told = self._s3.put_object(
                Bucket=self._bucket, Key=name, Body=event.data, ContentType="application/json",
                Metadata={DIGEST: event.data_sha256.hex()}, **self._condition,
            )  # fmt: skip
        except self._errors.ClientError as error:
            return self._refused(error, name, event)
        except Exception as error:  # noqa: BLE001  # boto3 raises what its parts do
            return self._broken(error)
        return Try("delivered", evidence=evidence(name, event, etag=told.get("ETag", "")))

    def greet(self, body: bytes, seconds: float) -> Greeting:
        return Greeting(0, None, "a bucket knows no writers")

    def close(self) -> None:
        with self._lock:
            for exchange in self._exchanges.values():
                exchange.close()
        self._s3.close()

    def _exchanged(self, request: Any, **_: Any) -> Any:
        """In place of boto3's own sending. Raises Unsent or Unheard."""
        if request.method not in ("PUT", "GET"):  # it looks for the region of the bucket
            raise Unsent("the bucket is not in this region")
        parts = urlsplit(request.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        with self._lock:
            exchange = self._exchanges.get(origin)
            if exchange is None:
                exchange = self._exchanges[origin] = Exchange(
                    origin, allow_private=self._private, max_bytes=MOST, keep=self._keep
                )
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        headers = {
            name: value.decode() if isinstance(value, bytes) else str(value)
            for name, value in request.headers.items() if name.lower() not in OWN_HEADERS
        }  # fmt: skip
        body = request.body or b""
        content = body if isinstance(body, bytes) else body.read()
        left = max(0.001, (self._own.until - _CLOCK.steady()) / SECOND)
        self._own.asked = True
        answer = exchange.send(request.method, path, headers, content, left)
        return self._response(request.url, answer.status, answer.headers, _Raw(answer.body))

    def _broken(self, error: Exception) -> Try:
        """No answer: whether a byte can have been sent. The text of boto3's own errors may hold an
        address."""
        if isinstance(error, Unsent | InvalidRequest):
            return Try("unsent", str(error))
        if isinstance(error, Unheard):
            return Try("unanswered", str(error))
        kind = type(error).__name__
        if not self._own.asked:  # no credentials, a name that cannot be
            return Try("unsent", f"nothing was sent: {kind}")
        return Try("unanswered", f"the answer cannot be read: {kind}")

    def _refused(self, error: Any, name: str, event: Event) -> Try:
        status, code = _status(error)
        if status == 412:
            return self._there(name, event)
        if status in LATER:
            return Try("later", f"the store asks for time ({status} {code})")
        if status in UNSURE:
            return Try("unanswered", f"the store had no answer ({status} {code})")
        return Try("failed", f"the store answered {status} {code}")

    def _there(self, name: str, event: Event) -> Try:
        """An object has the name: the same bytes are the same effect, whoever wrote them."""
        content = event.data
        try:
            found = self._s3.get_object(
                Bucket=self._bucket, Key=name, Range=f"bytes=0-{len(content)}"
            )
            same = found["Body"].read() == content
        except self._errors.ClientError as error:
            status, _ = _status(error)
            if status != 416:  # nothing is in it
                return Try("later", f"what is there cannot be read ({status})")
            same = False
        except Exception as error:  # noqa: BLE001  # as above; the first answer said that it is there
            return Try("later", f"what is there cannot be read: {type(error).__name__}")
        if not same:
            return Try("effect_conflict", f"{name} is there with other content")
        etag = found.get("ETag", "")
        return Try("delivered", evidence=evidence(name, event, etag=etag))


class _Raw(io.BytesIO):
    """A body as boto3 reads one."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()


def _client(place: Place) -> tuple[Any, Any, Any]:
    """boto3's exceptions, its answer, its client for this place. Raises InvalidRequest without it,
    or for what it refuses."""
    try:
        import boto3
        import botocore.awsrequest
        import botocore.config
        import botocore.exceptions
    except ImportError:
        raise InvalidRequest(
            "deliveries to s3: need boto3; install it with: pip install 'fencepost[s3]'"
        ) from None
    options = place.options
    config = botocore.config.Config(
        retries={"total_max_attempts": 1},  # what a try has come to is for `judging.py`
        request_checksum_calculation="when_required",  # not every store knows the newer ones
        response_checksum_validation="when_required",
        s3={"addressing_style": "path" if options["endpoint"] else "auto"},
    )
    try:
        client = boto3.session.Session().client(
            "s3", endpoint_url=options["endpoint"], region_name=options["region"], config=config
        )
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise InvalidRequest(f"s3: {type(error).__name__}") from None
    return botocore.exceptions, botocore.awsrequest.AWSResponse, client


def _status(error: Any) -> tuple[int, str]:
    """The status and the store's word for it, if it is one."""
    told = error.response
    status = told.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = str(told.get("Error", {}).get("Code", ""))
    return int(status), code if code.isalnum() and len(code) <= 64 else ""
