"""Deliveries into a bucket of an S3-compatible store: an object an effect, under the same name as
in a directory (`directory.name_of`), written only where there is none (`If-None-Match: *`).

With boto3 (`fencepost[s3]`), which knows the signatures and the errors; it tries nothing again by
itself, since what a try has come to is for `judging.py`. Credentials come from its own places:
the environment, a profile, the machine's role.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from fencepost.deliveries import guard
from fencepost.deliveries.directory import evidence, name_of
from fencepost.deliveries.event import Event
from fencepost.deliveries.places import Greeting, Place, Try
from fencepost.issues import InvalidRequest

DIGEST = "fencepost-sha256"
LATER = frozenset({409, 429, 503})
"""Nothing was done, come again: 409 is a race of conditional writes."""


class S3Sender:
    """Writes to one bucket. See `places.Sender`."""

    greets = False

    def __init__(self, place: Place, now: Callable[[], float]) -> None:
        self._errors, self._s3 = _client(place)
        bucket, _, prefix = place.address.removeprefix("s3://").partition("/")
        self._bucket, self._prefix = bucket, prefix.rstrip("/") + "/" if prefix else ""
        self._private = bool(place.options["allow_private"])
        self._endpoint: str = self._s3.meta.endpoint_url

    def send(self, event: Event, seconds: float) -> Try:
        name = self._prefix + name_of(event)
        digest = hashlib.sha256(event.data).hexdigest()
        try:
            guard.permitted(guard.target_of(self._endpoint), allow_private=self._private)
            told = self._s3.put_object(
                Bucket=self._bucket, Key=name, Body=event.data, IfNoneMatch="*",
                ContentType="application/json", Metadata={DIGEST: digest},
            )  # fmt: skip
        except (guard.Refused, InvalidRequest, OSError) as error:
            return Try("unsent", f"nothing was sent: {error}")
        except self._errors.ClientError as error:
            return self._refused(error, name, event)
        except self._errors.BotoCoreError as error:
            return self._unheard(error)
        return Try("delivered", evidence=evidence(name, event.data, etag=told.get("ETag", "")))

    def greet(self, body: bytes, seconds: float) -> Greeting:
        return Greeting(0, None, "a bucket knows no writers")

    def close(self) -> None:
        self._s3.close()

    def _unheard(self, error: Exception) -> Try:
        """Whether a byte can have been sent, by the kind of the error alone: its text may hold an
        address."""
        kind = type(error).__name__
        unsent = (
            self._errors.EndpointConnectionError, self._errors.ConnectTimeoutError,
            self._errors.NoCredentialsError, self._errors.PartialCredentialsError,
            self._errors.SSLError, self._errors.ProxyConnectionError,
            self._errors.ParamValidationError,
        )  # fmt: skip
        if isinstance(error, unsent):
            return Try("unsent", f"nothing was sent: {kind}")
        return Try("unanswered", f"the answer did not come: {kind}")

    def _refused(self, error: Any, name: str, event: Event) -> Try:
        status, code = _status(error)
        if status == 412:
            return self._there(name, event)
        if status in LATER:
            return Try("later", f"the store asks for time ({status} {code})")
        if status in (500, 502, 504):
            return Try("unanswered", f"the store had no answer ({status} {code})")
        return Try("failed", f"the store answered {status} {code}")

    def _there(self, name: str, event: Event) -> Try:
        """An object has the name: the same bytes are the same effect, whoever wrote them."""
        try:
            found = self._s3.get_object(Bucket=self._bucket, Key=name)
            with found["Body"] as body:
                same = body.read(len(event.data) + 1) == event.data
        except self._errors.ClientError as error:
            return Try("later", f"what is there cannot be read ({_status(error)[0]})")
        except (self._errors.BotoCoreError, OSError) as error:
            return Try("later", f"what is there cannot be read: {type(error).__name__}")
        if not same:
            return Try("effect_conflict", f"{name} is there with other content")
        return Try("delivered", evidence=evidence(name, event.data, etag=found.get("ETag", "")))


def _client(place: Place) -> tuple[Any, Any]:
    """boto3's exceptions, and its client for this place. Raises InvalidRequest without boto3."""
    try:
        import boto3
        import botocore.config
        import botocore.exceptions
    except ImportError:
        raise InvalidRequest(
            "deliveries to s3: need boto3; install it with: pip install fencepost[s3]"
        ) from None
    options = place.options
    config = botocore.config.Config(
        connect_timeout=10, read_timeout=options["timeout_seconds"],
        retries={"total_max_attempts": 1}, max_pool_connections=options["concurrency"],
        s3={"addressing_style": "path" if options["endpoint"] else "auto"},
    )  # fmt: skip
    client = boto3.client(
        "s3", endpoint_url=options["endpoint"], region_name=options["region"], config=config
    )
    return botocore.exceptions, client


def _status(error: Any) -> tuple[int, str]:
    told = error.response
    status = told.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = str(told.get("Error", {}).get("Code", ""))
    return int(status), code if code.isalnum() else ""
