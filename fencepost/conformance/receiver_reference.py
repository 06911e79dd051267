"""A receiver in memory, from docs/receivers.md alone: it shares nothing with the receivers' kit.

It is the oracle that the cases were tried on, and what to copy from for another language. Its
effects are the receipts that it keeps; a real receiver writes both in one transaction. As a program
it takes `{"headers": …, "body": …}` a line and answers `{"status": …, "headers": …, "body": …}`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import os
import re
import sys
import time
from typing import Any

Json = dict[str, Any]
EVENT, HELLO = "application/cloudevents+json", "application/vnd.fencepost.hello+json"
ZEROS = "0" * 64
NAME, UUID = r"[A-Za-z0-9_][A-Za-z0-9._:@-]{0,63}", r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NUMBER, DIGEST = r"0|[1-9][0-9]{0,14}", r"[0-9a-f]{64}"
STREAM = rf"[!-.0-~]{{1,128}}/{NAME}/{NAME}"
FORMS = {
    "specversion": r"1\.0", "datacontenttype": "application/json", "id": r"[!-\-/-~]{1,255}",
    "source": f"/fencepost/{STREAM}", "subject": f"{NAME}/{UUID}",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "fpincarnation": UUID,
    "fpwriterepoch": NUMBER, "fpepoch": NUMBER, "fpfence": NUMBER, "fprevision": NUMBER,
    "type": r"dev\.fencepost\.(result\.accepted|task\.(done|dead|cancelled|blocked))\.v1",
}  # fmt: skip
MEMBERS = {
    "hello", "stream", "epoch", "incarnation", "lineage", "after", "limit", "sequence", "head",
    "adopt", "ask_only",
}  # fmt: skip


class No(Exception):
    """A refusal."""

    def __init__(self, status: int, code: str, **more: Any) -> None:
        super().__init__(code)
        self.status, self.body = status, {"code": code, "status": status, **more}


class Stream:
    """All that is kept of a stream."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.incarnation: str | None = None
        self.sequence, self.head = 0, ZEROS
        self.effects: list[Json] = []  # receipt bytes, event, operation, digest
        self.newest: dict[tuple[str, str], Json] = {}

    def holder(self) -> Json:
        """What a refused writer has to know."""
        return {
            "epoch": self.epoch, "incarnation": self.incarnation, "sequence": self.sequence,
            "head": self.head,
        }  # fmt: skip


class Reference:
    """The rules, each a method, so that a test can take one away."""

    tolerance = 300

    def __init__(self, secret: str) -> None:
        self.key = base64.b64decode(secret.removeprefix("whsec_"))
        self.streams: dict[str, Stream] = {}

    # -- the request

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, body. To a stranger nothing is signed."""
        signed, replayed = False, False
        try:
            kind = self.kind(headers)
            self.check_signature(headers, body)
            signed = True
            if kind == HELLO:
                said = self.hello(self.read_hello(body))
                status, told = 200, json.dumps(said, separators=(",", ":")).encode()
            else:
                told, replayed = self.deliver(self.read_event(headers, body))
                status = 200
        except No as no:
            status, told = no.status, json.dumps(no.body, separators=(",", ":")).encode()
        given = self.sign(headers["webhook-id"], told) if signed else {}
        return status, {**given, **({"idempotent-replayed": "true"} if replayed else {})}, told

    def kind(self, headers: dict[str, str]) -> str:
        """By the content type, whose parameters say nothing."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (EVENT, HELLO):
            raise No(415, "unsupported_media_type")
        return kind

    def signature(self, message_id: str, stamp: str, body: bytes) -> str:
        content = f"{message_id}.{stamp}.".encode() + body
        return "v1," + base64.b64encode(hmac.digest(self.key, content, "sha256")).decode()

    def sign(self, message_id: str, body: bytes) -> dict[str, str]:
        """Of an answer: under the request's id, with our time."""
        stamp = str(int(time.time()))
        return {
            "webhook-id": message_id, "webhook-timestamp": stamp,
            "webhook-signature": self.signature(message_id, stamp, body),
        }  # fmt: skip

    def check_signature(self, headers: dict[str, str], body: bytes) -> None:
        """One of the listed signatures is right, and it was made not long ago."""
        message_id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not re.fullmatch(FORMS["id"], message_id) or not re.fullmatch(NUMBER, stamp):
            raise No(401, "bad_signature")
        right = self.signature(message_id, stamp, body).encode()
        listed = headers.get("webhook-signature", "").split(" ")
        if not any([hmac.compare_digest(right, item.encode()) for item in listed]):  # noqa: C419
            raise No(401, "bad_signature")
        if abs(time.time() - int(stamp)) > self.tolerance:
            raise No(401, "bad_signature")

    # -- reading

    def read_event(self, headers: dict[str, str], body: bytes) -> Json:
        """The members, with `data` as its bytes and what follows from the others."""
        end = body.rfind(b',"datacontenttype":')
        if not body.startswith(b'{"data":') or end < 0:
            raise No(400, "malformed")
        data, event = body[8:end], parsed(b'{"data":0' + body[end:])
        if (
            not isinstance(parsed(data), dict)
            or not isinstance(event, dict)
            or event.pop("data") != 0
        ):
            raise No(400, "malformed")
        if any(type(value) is not str for value in event.values()):
            raise No(400, "malformed")
        for name, form in FORMS.items():
            if not re.fullmatch(form, event.get(name, ""), re.ASCII):
                raise No(400, "malformed")
        if event["id"] != headers["webhook-id"]:
            raise No(400, "malformed")
        self.read_place(event)
        kind, task = event["type"].split(".")[-2], event["subject"].rpartition("/")[2]
        kind = "result" if kind == "accepted" else kind
        counted, tail = event["fprevision"], ""
        if kind != "result":
            counted, tail = NUMBER, f":{event['fpfence']}:{kind}"
        found = re.fullmatch(f"{task}:({counted}){tail}", event.get("fpoperation", ""))
        if found is None or (kind == "result" and event["fprevision"] == "0"):
            raise No(400, "malformed")
        round = 0 if kind == "result" else int(found[1])
        order = (*(int(event[f"fp{name}"]) for name in ("epoch", "fence", "revision")), round)
        return {**event, "data": data, "kind": kind, "order": order}

    def read_place(self, event: Json) -> None:
        """Sequence and head before: both or none."""
        if ("sequence" in event) != ("fpprevious" in event):
            raise No(400, "malformed")
        if "sequence" in event:
            right = re.fullmatch("[0-9]{15}", event["sequence"], re.ASCII)
            if not right or not re.fullmatch(DIGEST, event["fpprevious"]):
                raise No(400, "malformed")

    def read_hello(self, body: bytes) -> Json:
        """A hello, with what it may leave out filled in."""
        hello = parsed(body)
        try:
            lineage = [tuple(pair) for pair in hello["lineage"]]
            right = hello["hello"] == 1 and not hello.keys() - MEMBERS
            right &= lineage[-1] == (hello["epoch"], hello["incarnation"])
            right &= all(a[0] < b[0] for a, b in itertools.pairwise(lineage))
            right &= re.fullmatch(STREAM, hello["stream"]) is not None
            hello = {"after": 0, "limit": 1000, "sequence": None, "head": None, **hello}
            right &= hello["after"] >= 0 and 1 <= hello["limit"] <= 1000
        except (TypeError, KeyError, ValueError, IndexError, AttributeError):
            right = False
        if not right:
            raise No(400, "malformed")
        return {**hello, "lineage": lineage}

    # -- an event, in the order of judging

    def deliver(self, event: Json) -> tuple[bytes, bool]:
        """The receipt, and whether it was given before."""
        stream = self.stream(event["source"].removeprefix("/fencepost/"))
        digest = hashlib.sha256(event["data"]).hexdigest()
        known = self.known(stream, event)
        if known is not None:
            self.check_data(known, digest)
            return known["receipt"], True
        self.check_writer(stream, event)
        self.check_place(stream, event)
        self.check_order(stream, event)
        return self.bring_about(stream, event, digest), False

    def stream(self, name: str) -> Stream:
        return self.streams.setdefault(name, Stream())

    def known(self, stream: Stream, event: Json) -> Json | None:
        return next((e for e in stream.effects if e["operation"] == event["fpoperation"]), None)

    def check_data(self, known: Json, digest: str) -> None:
        if known["digest"] != digest:
            raise No(409, "effect_conflict", known_data_sha256=known["digest"])

    def check_writer(self, stream: Stream, event: Json) -> None:
        """The writer that holds the stream, and no other."""
        epoch = int(event["fpwriterepoch"])
        if stream.epoch is None:
            raise No(409, "hello_needed", **stream.holder())
        self.check_epoch(stream, epoch)
        self.check_fork(stream, epoch, event["fpincarnation"])
        if epoch > stream.epoch:
            raise No(409, "hello_needed", **stream.holder())

    def check_epoch(self, stream: Stream, epoch: int) -> None:
        if stream.epoch is not None and epoch < stream.epoch:
            raise No(409, "old_epoch", **stream.holder())

    def check_fork(self, stream: Stream, epoch: int, incarnation: str) -> None:
        if epoch == stream.epoch and incarnation != stream.incarnation:
            raise No(409, "fork", **stream.holder())

    def check_place(self, stream: Stream, event: Json) -> None:
        """What comes next, and nothing beside the order."""
        if "sequence" not in event:
            right = stream.sequence == 0
        else:
            right = int(event["sequence"]) == stream.sequence + 1
            right &= event["fpprevious"] == stream.head
        if not right:
            raise No(409, "gap", **stream.holder())

    def check_order(self, stream: Stream, event: Json) -> None:
        """Results are compared with results of their task, never leases of deliveries."""
        newest = stream.newest.get((event["subject"], event["kind"]))
        if newest is not None and event["order"] <= newest["order"]:
            epoch, fence, revision, _ = newest["order"]
            told = {"epoch": epoch, "fence": fence, "revision": revision}
            told["operation"] = newest["fpoperation"]
            raise No(409, "stale_result", newest=told)

    def bring_about(self, stream: Stream, event: Json, digest: str) -> bytes:
        """Effect, state and receipt together."""
        epoch, fence, revision, _ = event["order"]
        sequence = int(event["sequence"]) if "sequence" in event else None
        about = json.loads(event["data"])
        receipt = {
            "status": "accepted", "receiver": "reference", "operation": event["fpoperation"],
            "stream": event["source"].removeprefix("/fencepost/"), "id": event["id"],
            "result_sha256": about.get("result_sha256"), "final": about.get("final"),
            "at": event["time"],
            "type": event["kind"], "subject": event["subject"], "data_sha256": digest,
            "epoch": int(event["fpwriterepoch"]), "incarnation": event["fpincarnation"],
            "result_epoch": epoch, "fence": fence, "revision": revision, "sequence": sequence,
            "position": len(stream.effects) + 1,
            "accepted_at": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()),
        }  # fmt: skip
        body = json.dumps(receipt, separators=(",", ":")).encode()
        stream.effects.append({"receipt": body, "digest": digest, "event": event["data"],
                               "operation": event["fpoperation"]})  # fmt: skip
        stream.newest[event["subject"], event["kind"]] = event
        if sequence is not None:
            name = event["fpoperation"].encode()
            stream.head = hashlib.sha256(
                b"fencepost-stream-v1\0" + bytes.fromhex(stream.head) + sequence.to_bytes(8, "big")
                + len(name).to_bytes(2, "big") + name + bytes.fromhex(digest)
            ).hexdigest()  # fmt: skip
            stream.sequence = sequence
        return body

    # -- a hello

    def hello(self, hello: Json) -> Json:
        """Who holds the stream now, and what was accepted after what the writer knows."""
        stream = self.stream(hello["stream"])
        before = (stream.epoch, stream.incarnation)
        try:
            self.judge_hello(stream, hello)
            would = None
        except No as no:
            if not hello.get("ask_only"):
                raise
            would = no.body["code"]
        if not hello.get("ask_only"):
            stream.epoch, stream.incarnation = hello["epoch"], hello["incarnation"]
        found = stream.effects[hello["after"] :][: hello["limit"]]
        moved = before[0] is not None and before != (stream.epoch, stream.incarnation)
        told = {
            "status": "ok", "receiver": "reference", **stream.holder(),
            "was": {"epoch": before[0], "incarnation": before[1]} if moved else None,
            "position": len(stream.effects), "forgotten": 0,
            "accepted": [{**json.loads(e["receipt"]), "event": json.loads(e["event"])}
                         for e in found],
            "more": hello["after"] + len(found) < len(stream.effects),
        }  # fmt: skip
        return {**told, "would": would} if hello.get("ask_only") else told

    def judge_hello(self, stream: Stream, hello: Json) -> None:
        """Lineage, or a human's word over the writer that he has seen."""
        adopt, own = hello.get("adopt"), (hello["epoch"], hello["incarnation"])
        here = (stream.epoch, stream.incarnation)
        if stream.epoch is None or own == here:
            if adopt and stream.epoch is None:
                raise No(409, "moved", **stream.holder())
            if own == here:
                self.check_head(stream, hello)
            return
        self.check_epoch(stream, hello["epoch"])
        if adopt:
            self.check_adopt(stream, adopt)
            return
        self.check_lineage(stream, hello)
        self.check_head(stream, hello)

    def check_adopt(self, stream: Stream, adopt: Json) -> None:
        if (adopt["epoch"], adopt["incarnation"]) != (stream.epoch, stream.incarnation):
            raise No(409, "moved", **stream.holder())

    def check_lineage(self, stream: Stream, hello: Json) -> None:
        if (stream.epoch, stream.incarnation) not in hello["lineage"]:
            raise No(409, "fork", **stream.holder())

    def check_head(self, stream: Stream, hello: Json) -> None:
        """As many ordered deliveries on both sides, but not the same ones."""
        known = hello["sequence"] == stream.sequence and hello["head"] is not None
        if known and hello["head"] != stream.head:
            raise No(409, "fork", **stream.holder())


def parsed(raw: bytes) -> Any:
    """JSON with each member once, and nothing that JSON has not."""

    def once(pairs: list[tuple[str, Any]]) -> Json:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError
        return dict(pairs)

    def never(name: str) -> Any:
        raise ValueError(name)

    try:
        return json.loads(raw.decode(), object_pairs_hook=once, parse_constant=never)
    except (ValueError, RecursionError):
        raise No(400, "malformed") from None


def serve(made: Reference) -> None:
    """A line in, a line out."""
    for line in sys.stdin:
        asked = json.loads(line)
        status, headers, body = made.answer(asked["headers"], asked["body"].encode())
        told = {"status": status, "headers": headers, "body": body.decode()}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    serve(Reference(os.environ["FENCEPOST_RECEIVER_SECRET"]))
