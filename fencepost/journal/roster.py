"""What the journal says of tokens: who was let in as whom, and who has been shut out."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from fencepost.clock import from_rfc3339
from fencepost.fields import NAME, TOKEN_ID
from fencepost.journal.entry import commit
from fencepost.journal.problems import Findings
from fencepost.journal.reading import EntryRow
from fencepost.model import EVERY_SCOPE, KINDS
from fencepost.record import dataclass


class TokenLine(NamedTuple):
    """A token's row as it is stored. `queues` is JSON."""

    token_id: str
    sha256: bytes
    scope: str
    kind: str
    actor: str
    queues: str | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None


@dataclass(slots=True)
class Known:
    """What entries have said of a token; `token` is the commitment to its digest (hex)."""

    row: dict[str, Any]
    token: str
    salt: bytes | None


NOTED = {"token_id", "kind", "actor", "queues", "expires_at", "every_scope"}


class Roster:
    """All tokens, folded from the entries that made and ended them."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}

    def take(self, row: EntryRow, entry: dict[str, Any]) -> None:
        """Fold one entry. ValueError if its note is not what the verb leaves."""
        if entry["verb"] == "token.create":
            self._create(row, entry, entry["note"])
        elif entry["verb"] == "token.revoke":
            self._revoke(entry, entry["note"])

    def _create(self, row: EntryRow, entry: dict[str, Any], note: dict[str, Any]) -> None:
        if note.keys() != NOTED or type(note["every_scope"]) is not bool:
            raise ValueError(f"it has {sorted(note)}, not {sorted(NOTED)}")
        names, ends = note["queues"], note["expires_at"]
        named = (note["actor"], *(() if names is None else names))
        if note["kind"] not in KINDS or not all(map(NAME.fullmatch, named)):
            raise ValueError("it makes nobody of whoever shows the token")
        token_id = note["token_id"]
        if TOKEN_ID.fullmatch(token_id) is None or token_id in self._known:
            raise ValueError(f"{token_id!a} is no id of a new token")
        told = {
            "scope": EVERY_SCOPE if note["every_scope"] else entry["scope"],
            "kind": note["kind"], "actor": note["actor"], "queues": names,
            "created_at": from_rfc3339(entry["at"]),
            "expires_at": None if ends is None else from_rfc3339(ends), "revoked_at": None,
        }  # fmt: skip
        self._known[token_id] = Known(told, entry["token"], row.salt)

    def _revoke(self, entry: dict[str, Any], note: dict[str, Any]) -> None:
        known = self._known.get(note["token_id"]) if note.keys() == {"token_id"} else None
        if known is None or known.row["scope"] not in (EVERY_SCOPE, entry["scope"]):
            raise ValueError("it ends a token that is not there")
        if known.row["revoked_at"] is None:
            known.row["revoked_at"] = from_rfc3339(entry["at"])

    def check(self, line: TokenLine, findings: Findings) -> None:
        """The row of a token against what its entries say."""
        place = f"token {line.token_id}"
        known = self._known.pop(line.token_id, None)
        if known is None:
            findings.tell("token", place, "no entry has made it")
            return
        have = {**line._asdict(), "queues": _parsed(line.queues)}
        wrong = [name for name, value in known.row.items() if have[name] != value]
        salt = known.salt
        if salt is not None and commit(b"token", salt, line.sha256).hex() != known.token:
            wrong.append("sha256")
        if wrong:
            findings.tell("token", place, f"no entry has left its {', '.join(sorted(wrong))} so")

    def check_rest(self, findings: Findings) -> None:
        """Called last: what entries have made and no row is there of."""
        for token_id in self._known:
            findings.tell("token", f"token {token_id}", "its row is missing")


def _parsed(queues: str | None) -> Any:
    try:
        return None if queues is None else json.loads(queues)
    except ValueError:
        return queues
