"""A target behind HTTP: a stranger's by its URL, or the product behind a real server with controls.

Everything that a case sends or reads goes over HTTP under the token of its caller; such tokens are
made in the same way, by one that may make any (an operator's of every scope). A lost answer is told
as `outcome_unknown`, and nothing is sent twice.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .adapters import Broken, Stdio, Unusable, compact
from .cases.store import Json
from .http_reading import READS, Reading, Refused
from .http_wire import (
    JSON,
    Lost,
    Origin,
    Wire,
    new_token,
    outcome_of,
    post_of,
    value_of,
)

HERE = Path(__file__).resolve().parent
TOKEN = "FENCEPOST_TOKEN"  # the name of a variable
# Whom the cases call, so that their tokens are there before a case begins to count entries:
# scope, kind, actors. Anybody else's is made when he is first met.
CALLERS = (
    ("lab", "operator", "op w1"),
    ("lab", "worker", "w1 w2 w3 w4 feed mallory"),
    ("lab", "producer", "w1"),
    ("lab", "human", "ann w1"),
    ("lab", "dispatcher", "mailer w1"),
    ("lab", "auditor", "w1"),
    ("elsewhere", "operator", "op"),
    ("elsewhere", "worker", "w1 w9"),
)


class Service:
    """One service as the callers of a case see it: their tokens and their names of scopes."""

    def __init__(self, url: str, root: str, seconds: float, ending: str = "") -> None:
        try:
            self.origin = Origin.of(url)
        except ValueError as error:
            raise Unusable(str(error)) from None
        self.root, self.seconds, self.ending = root, seconds, ending
        self.wire = self.connect()
        self.tokens: dict[tuple[str, str, str], str] = {}
        self.earlier: list[Json] = []  # entries of earlier cases: they are not read again

    def moved(self, url: str) -> None:
        """The same service at another address."""
        self.wire.close()
        self.origin = Origin.of(url)
        self.wire = self.connect()

    def connect(self) -> Wire:
        """A new connection."""
        return Wire(self.origin, self.seconds)

    def scope_of(self, scope: str) -> str:
        """What a case's scope is called here."""
        return scope + self.ending

    def begin(self) -> None:
        """Make the tokens of all whom the cases call."""
        for scope in dict.fromkeys(scope for scope, _, _ in CALLERS):
            self._make([
                (scope, kind, actor)
                for there, kind, actors in CALLERS if there == scope
                for actor in actors.split()
            ])  # fmt: skip

    def token(self, caller: Json) -> str:
        """The caller's token."""
        who = (caller["scope"], caller["kind"], caller["actor"])
        if who not in self.tokens:
            self._make([who])
        return self.tokens[who]

    def _make(self, callers: Iterable[tuple[str, str, str]]) -> None:
        made = {who: new_token() for who in callers}
        commands = []
        for (_, kind, actor), text in made.items():
            digest = sha256(text.encode()).hexdigest()
            command: Json = {"verb": "token.create", "token_sha256": digest, "kind": kind,
                             "actor": actor}  # fmt: skip
            # clock.reset is about the whole store, so only an operator of every scope may send it
            if kind == "operator":
                command["every_scope"] = True
            commands.append({"command": command, "key": digest})
        scope = self.scope_of(next(iter(made))[0])
        body = json.dumps({"commands": commands}).encode()
        told = self.ask("POST", f"/v1/{scope}/batch", self.root, body, {"Content-Type": JSON})
        if told.get("status") != "accepted":
            raise Unusable(f"no token could be made: {compact(told)[:300]}")
        self.tokens |= made

    def ask(self, method: str, target: str, token: str, *more: Any) -> Any:
        """What is told there. Raises Broken where no answer of the wire comes."""
        try:
            return value_of(self.wire.ask(method, target, token, *more))
        except Lost as error:
            raise Broken(f"{method} {target[:80]}: {error}") from None


class OverHttp:
    """An adapter of services behind HTTP, one an owner."""

    service_type = Service

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.services: dict[str, Service] = {}

    def scope_of(self, owner: str, scope: str) -> str:
        """What the target calls this scope of a case."""
        return self.services[owner].scope_of(scope)

    # -- commands

    def send(self, owner: str, caller: Json, body: str, key: str | None) -> Json:
        return self.sent(self.services[owner].wire, owner, caller, body, key)

    def sent(self, wire: Wire, owner: str, caller: Json, body: str, key: str | None) -> Json:
        """The outcome of one command over this connection."""
        service = self.services[owner]
        post = post_of(service.scope_of(caller["scope"]), caller["kind"], body, key)
        try:
            token = service.token(caller)
            return outcome_of(wire.ask("POST", post.target, token, post.body, post.headers))
        except Lost as error:
            return unknown(str(error))

    def race(self, sends: list[Json]) -> list[Json]:
        wires = [self.services[one["owner"]].connect() for one in sends]
        for one in sends:
            self.services[one["owner"]].token(one["caller"])
        outcomes: list[Json] = [{}] * len(sends)
        start = threading.Barrier(len(sends))

        def run(place: int) -> None:
            start.wait()
            outcomes[place] = self.sent(wires[place], **sends[place])

        threads = [threading.Thread(target=run, args=(place,)) for place in range(len(sends))]
        for thread in threads:
            thread.start()
        for thread, wire in zip(threads, wires, strict=True):
            thread.join()
            wire.close()
        return outcomes

    # -- reading

    def read(self, owner: str, caller: Json, what: str, **names: Any) -> Any:
        service = self.services[owner]
        token = service.token(caller)
        return READS[what](Reading(service, service.scope_of(caller["scope"]), token), **names)

    # -- what a bare service has no door for

    def advance(self, seconds: float) -> None:
        raise NotImplementedError("no clock to set")

    def advance_microseconds(self, microseconds: int) -> None:
        raise NotImplementedError("no clock to set")

    def fail_next(self, owner: str, place: str) -> None:
        raise NotImplementedError("no fail-points")

    def copy(self, source: str, target: str, pinned: bool) -> None:
        raise NotImplementedError("no copies")

    def close(self) -> None:
        for service in self.services.values():
            service.wire.close()


class Bare(OverHttp):
    """A service at a URL. A fresh store is a pair of scopes that nobody has used; so nobody else
    may write there meanwhile, since the journal and the fences are the whole store's."""

    def __init__(self, url: str, seconds: float) -> None:
        super().__init__(seconds)
        self.url, self.root = url, os.environ.get(TOKEN, "")
        self.run, self.number = os.urandom(4).hex(), 0
        self.service = Service(url, self.root, seconds)
        if not self.root:
            raise Unusable(f"http:URL needs a token in {TOKEN}: of an operator of every scope")

    def describe(self) -> Json:
        info = self.service.ask("GET", "/openapi.json", self.root).get("info", {})
        contract = json.loads((HERE / "queue_contract.json").read_text(encoding="utf-8"))
        names = contract["$defs"]
        return {
            "name": str(info.get("title", "")), "version": str(info.get("version", "")),
            "controls": ["fresh", "threads"], "operations": names["verb"]["enum"],
            "principals": names["kind"]["enum"],
        }  # fmt: skip

    def fresh(self, owner: str) -> None:
        if owner != "A":
            raise NotImplementedError("one store only")
        self.number += 1
        service = Service(self.url, self.root, self.seconds, f"-{self.run}-{self.number}")
        service.wire, service.earlier = self.service.wire, self.service.earlier
        reading = Reading(service, service.scope_of("lab"), self.root)
        try:
            service.earlier.extend(reading.pages("journal/entries", after=len(service.earlier)))
        except Refused as refused:
            code = refused.outcome["issues"][0]
            why = f"the token in {TOKEN} is no operator's of every scope: {code}"
            raise Unusable(why) from None
        service.begin()
        self.services[owner] = service

    def close(self) -> None:
        self.service.wire.close()


class Served(OverHttp):
    """The product behind its real server, a process an owner, with controls. A failure around the
    commit kills that process; another opens the file as it was left."""

    def __init__(self, seconds: float, seed: int, environ: dict[str, str] | None) -> None:
        super().__init__(seconds)
        self.argv = [sys.executable, str(HERE / "product_http.py"), str(seed)]
        self.environ = environ
        self.folder = TemporaryDirectory(prefix="fencepost-conform-")
        self.children: dict[str, Stdio] = {}
        self.paths: dict[str, str] = {}
        self.places: dict[str, str] = {}  # owner: where its next command fails
        self.opened = self.microseconds = 0

    def describe(self) -> Json:
        told: Json = self.child("A").describe()
        return told

    def child(self, owner: str) -> Stdio:
        """The owner's process."""
        if owner not in self.children:
            self.children[owner] = Stdio(self.argv, self.seconds, self.environ)
        return self.children[owner]

    def fresh(self, owner: str) -> None:
        told = self._open(owner, self._path(), create=True)
        service = self.services[owner] = self._service(told["url"], told["token"])
        service.begin()

    def copy(self, source: str, target: str, pinned: bool) -> None:
        path = self._path()
        self.child(source).ask("copy", path=path)
        told = self._open(target, path, pinned=pinned)
        first = self.services[source]
        service = self.services[target] = self._service(told["url"], first.root)
        service.tokens = dict(first.tokens)

    def _service(self, url: str, root: str) -> Service:
        return self.service_type(url, root, self.seconds)

    def _path(self) -> str:
        self.opened += 1
        return str(Path(self.folder.name) / f"{self.opened}.db")

    def _open(self, owner: str, path: str, **how: bool) -> Json:
        if owner in self.services:
            self.services[owner].wire.close()
        self.paths[owner] = path
        self.places.pop(owner, None)
        moved = self.microseconds
        told: Json = self.child(owner).ask("open", path=path, microseconds=moved, **how)
        return told

    def advance(self, seconds: float) -> None:
        self.advance_microseconds(round(seconds * 1_000_000))

    def advance_microseconds(self, microseconds: int) -> None:
        self.microseconds += microseconds
        for owner in self.services:
            self.child(owner).advance_microseconds(microseconds)

    def fail_next(self, owner: str, place: str) -> None:
        self.child(owner).ask("fail_next", place=place)
        self.places[owner] = place

    def send(self, owner: str, caller: Json, body: str, key: str | None) -> Json:
        place = self.places.pop(owner, None)
        self.services[owner].token(caller)
        outcome = super().send(owner, caller, body, key)
        if place == "obligation_insert":
            self.child(owner).ask("mend")
        elif place is not None:  # it has died of it
            self.child(owner).close()
            self.services[owner].moved(self._open(owner, self.paths[owner])["url"])
        return outcome

    def close(self) -> None:
        super().close()
        for child in self.children.values():
            child.close()
        self.folder.cleanup()


def unknown(why: str) -> Json:
    """The outcome of a command whose answer nobody has heard."""
    return {
        "status": "failed", "issues": ["outcome_unknown"], "message": why, "receipt": None,
        "task_ids": [], "leases": [], "replayed": False, "facts": {},
    }  # fmt: skip
