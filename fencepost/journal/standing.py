"""What the journal says of queues and scopes: settings, destinations, policy, floor."""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import Any

from fencepost.journal.problems import Findings
from fencepost.model import QueueSettings, Scope
from fencepost.record import dataclass, replace
from fencepost.rules.destinations import ATTEMPTS, DEFAULT_ATTEMPTS
from fencepost.rules.owing import owed

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue's row: its settings as they are stored (JSON), whether it is a destination."""

    id: int
    scope: str
    queue: str
    settings: str
    is_destination: bool


class Standing:
    """The settings of queues and scopes, folded from the entries that changed them."""

    def __init__(self) -> None:
        self._settings: dict[Place, dict[str, Any]] = {}
        self._storage: dict[Place, list[tuple[int, bool]]] = {}
        self._destinations: set[Place] = set()
        self._addressed: set[Place] = set()
        self._scopes: dict[str, Scope] = {}

    def take(self, number: int, entry: dict[str, Any]) -> None:
        """Fold one entry. ValueError if its note is not what the verb leaves."""
        verb, note, scope = entry["verb"], entry.get("note"), entry["scope"]
        if verb == "queue.set":
            self._queue_set(number, (scope, entry["queue"]), note)
        elif verb == "scope.set_policy" and note is not None:
            self._scope(scope, note, {"policy_version", "retain_seconds"})
        elif verb == "scope.revoke" and note is not None:
            self._scope(scope, note, {"revoked"})
        elif verb == "destination.set":
            self._destination_set((scope, entry["queue"]), note)

    def _queue_set(self, number: int, place: Place, note: Any) -> None:
        unknown = set(note) - set(DEFAULTS)
        if unknown:
            raise ValueError(f"there are no settings {sorted(unknown)}")
        self._settings.setdefault(place, {}).update(note)
        if "result_storage" in note:
            changes = self._storage.setdefault(place, [])
            changes.append((number, note["result_storage"] == "content"))
        if "destinations" in note:
            self._destinations = {
                (scope, name)
                for (scope, _), settings in self._settings.items()
                for name in settings.get("destinations", ())
            }

    def _destination_set(self, place: Place, note: Any) -> None:
        settings = self._settings.setdefault(place, {})
        if place not in self._addressed:
            self._addressed.add(place)
            if settings.get("max_attempts", DEFAULT_ATTEMPTS) == DEFAULT_ATTEMPTS:
                settings["max_attempts"] = ATTEMPTS
        if note.get("class") == "unfenced":
            settings["on_lapse"] = "reconcile"

    def _scope(self, name: str, note: dict[str, Any], allowed: set[str]) -> None:
        if set(note) - allowed:
            raise ValueError(f"its note has {sorted(note)}, not {sorted(allowed)}")
        before = self._scopes.get(name, Scope(name))
        if note.get("policy_version", before.policy_version + 1) <= before.policy_version:
            raise ValueError("the policy version does not rise")
        self._scopes[name] = replace(before, **note)

    def owed(self, place: Place, outcome: str) -> list[str]:
        """Whom this outcome of a task of the queue obliges, by now."""
        settings = self._settings.get(place, {})
        return owed(settings.get("destinations", []), settings.get("outcomes", {}), outcome)

    def keeps_content(self, place: Place, number: int) -> bool:
        """Whether the queue kept results (not only digests) when entry `number` was written."""
        changes = self._storage.get(place, [])
        found = bisect_right(changes, (number, True))
        return changes[found - 1][1] if found else True

    def check_queue(self, row: QueueLine, findings: Findings) -> None:
        """The row of a queue against what the entries have set; the rest must be defaults."""
        place = row.scope, row.queue
        expected = {**DEFAULTS, **self._settings.pop(place, {})}
        try:
            stored = {**DEFAULTS, **json.loads(row.settings)}
        except (ValueError, TypeError):
            stored = {}
        wrong = sorted(expected.keys() ^ stored.keys())
        wrong += [name for name, value in expected.items() if stored.get(name) != value]
        if row.is_destination != (place in self._destinations | self._addressed):
            wrong.append("is_destination")
        self._destinations.discard(place)
        self._addressed.discard(place)
        if wrong:
            where = f"queue {row.scope}/{row.queue}"
            findings.tell("settings", where, f"no entry has set {', '.join(sorted(wrong))} so")

    def check_scope(self, row: Scope, findings: Findings) -> None:
        """The row of a scope."""
        if self._scopes.pop(row.scope, Scope(row.scope)) != row:
            findings.tell("settings", f"scope {row.scope}", "it is not as its entries have set it")

    def check_rest(self, findings: Findings) -> None:
        """Called last: what entries have set and no row has."""
        for place in self._settings.keys() | self._destinations | self._addressed:
            findings.tell("settings", f"queue {place[0]}/{place[1]}", "its row is missing")
        for name in self._scopes:
            findings.tell("settings", f"scope {name}", "its row is missing")


DEFAULTS = QueueSettings().to_json()
