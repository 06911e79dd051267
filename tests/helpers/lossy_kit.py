"""The conformance kit's adapter behind a lossy proxy: it asks with the same bytes under the same
key until it hears an answer, as a client does."""

from __future__ import annotations

import json
from typing import Any

from fencepost.conformance.cases.store import LEASE_VERBS, Json
from fencepost.conformance.http_target import Served, Service
from fencepost.conformance.http_wire import Answer, Lost, Origin, Wire
from fencepost.conformance.targets import environment
from helpers.lossy import Lossy, Plan

TRIES = 100
# Without a key these are sent again only if they surely did not arrive. Under one the first three
# would leave an entry even where they find nothing; a renewal has no receipt, and a second one at
# the limit of a hold is refused; an erasure takes its own receipt, so a second one is told so.
NOT_TWICE = ("claim", "sweep", "purge", "renew", "erase")


class Patient(Wire):
    """A connection that asks again until it hears an answer."""

    def __init__(self, origin: Origin, seconds: float, tries: int = TRIES) -> None:
        super().__init__(origin, seconds)
        self.tries = tries
        self.lost = 0

    def ask(self, *given: Any, **more: Any) -> Answer:
        for _ in range(self.tries - 1):
            try:
                return super().ask(*given, **more)
            except Lost:
                self.lost += 1
        return super().ask(*given, **more)


class PatientService(Service):
    """A service that is asked so."""

    def connect(self) -> Wire:
        return Patient(self.origin, self.seconds)


class Through(Served):
    """The product behind its server behind the proxy, one an owner.

    What has no key and is no command on a lease is given one, as the product's handles do. An
    answer to what this adapter has never been answered before is the first one to it, though the
    service may have seen the bytes twice.
    """

    service_type = PatientService

    def __init__(self, plan: Plan, seconds: float = 20, seed: int = 1) -> None:
        super().__init__(seconds, seed, environment())
        self.plan = plan
        self.proxies: dict[str, Lossy] = {}
        self.number = 0
        self.answered: set[tuple[Any, ...]] = set()

    def _open(self, owner: str, path: str, **how: bool) -> Json:
        told = super()._open(owner, path, **how)
        port = Origin.of(told["url"]).port
        proxy = self.proxies.get(owner)
        if proxy is None:
            proxy = self.proxies[owner] = Lossy(port, self.plan).__enter__()
        proxy.upstream = port
        return {**told, "url": f"http://127.0.0.1:{proxy.port}"}

    def send(self, owner: str, caller: Json, body: str, key: str | None) -> Json:
        proxy, wire = self.proxies[owner], self.services[owner].wire
        self.services[owner].token(caller)
        key = self._key(body, key)
        place = self.places.get(owner)
        dies = place is not None
        assert isinstance(wire, Patient)
        proxy.quiet, wire.tries = dies, 1 if dies else TRIES
        proxy.undelivered_only = verb_of(body) in NOT_TWICE and (
            key is None or verb_of(body) == "erase"
        )
        try:
            outcome = super().send(owner, caller, body, key)
        finally:
            proxy.quiet = proxy.undelivered_only = False
            wire.tries = TRIES
        known = (self.paths[owner], *caller.values(), key, body)
        first = known not in self.answered
        if place in (None, "after_commit"):
            self.answered.add(known)
        if dies or not first:
            return outcome
        return {**outcome, "replayed": False}

    def _key(self, body: str, key: str | None) -> str | None:
        verb = verb_of(body)
        if key is not None or verb in (*LEASE_VERBS, *NOT_TWICE, ""):
            return key
        self.number += 1
        return f"patient-{self.number}"

    def race(self, sends: list[Json]) -> list[Json]:
        proxies = [self.proxies[one["owner"]] for one in sends]
        for proxy in proxies:
            proxy.quiet = True
        try:
            return super().race(sends)
        finally:
            for proxy in proxies:
                proxy.quiet = False

    def close(self) -> None:
        super().close()
        for proxy in self.proxies.values():
            proxy.__exit__()


def verb_of(body: str) -> str:
    """The verb of a command; empty where none can be read."""
    try:
        members = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    verb = members.get("verb") if isinstance(members, dict) else None
    return verb if isinstance(verb, str) else ""
