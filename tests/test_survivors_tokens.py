"""What the machine decides of tokens and what the journal's reader holds a token's row against."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from helpers.folding import history
from helpers.stand import SECOND, Stand

from fencepost import commands as c
from fencepost.clock import to_rfc3339
from fencepost.journal.entry import commit
from fencepost.journal.problems import Findings
from fencepost.journal.roster import Roster, TokenLine
from fencepost.record import replace

DIGEST, OTHER = sha256(b"one").hexdigest(), sha256(b"two").hexdigest()
UNKNOWN = "tok_" + "0" * 32


def create(stand, digest=DIGEST, key=None, **options):
    return stand.ask(c.TokenCreate(digest, **{"kind": "worker", "actor": "w", **options}), key=key)


def rows(stand):
    return stand.connection.execute(
        "select token_id, sha256, kind, actor, queues, created_at, expires_at, revoked_at "
        "from fencepost_token order by created_at"
    ).fetchall()


def test_a_token_says_what_it_makes_of_whoever_shows_it_now_and_when_sent_again():
    with Stand() as stand:
        now = stand.fp.now()
        end = to_rfc3339(now + 5 * SECOND)
        told = create(stand, key="k", queues=("r", "q"), expires_at=end)
        token_id = told.facts["token_id"]
        assert told.facts == {
            "token_id": token_id, "kind": "worker", "actor": "w", "queues": ["q", "r"],
            "expires_at": end, "every_scope": False,
        }  # fmt: skip
        assert told.receipt.entry["note"] == told.facts
        assert told.receipt.entry["token"] == commit(
            b"token", told.receipt.salt, bytes.fromhex(DIGEST)
        ).hex()  # fmt: skip
        (row,) = rows(stand)
        assert row[:4] == (token_id, bytes.fromhex(DIGEST), "worker", "w")
        assert (json.loads(row[4]), *row[5:]) == (["q", "r"], now, now + 5 * SECOND, None)
        again = create(stand, key="k", queues=("r", "q"), expires_at=end)
        assert (again.replayed, again.facts, again.receipt) == (True, told.facts, told.receipt)
        everywhere = create(stand, OTHER, kind="operator", every_scope=True)
        assert everywhere.facts["every_scope"] is True
        assert (everywhere.facts["queues"], everywhere.facts["expires_at"]) == (None, None)
        assert stand.fp.verify().problems == ()


def test_a_digest_makes_one_token_also_within_a_batch():
    with Stand() as stand:
        make = c.TokenCreate(DIGEST, kind="worker", actor="w")
        other = c.TokenCreate(DIGEST, kind="worker", actor="v")
        told = stand.fp.execute([make, other])
        assert [o.issues for o in told] == [(), ("key_conflict",)]
        assert create(stand).issues == ("key_conflict",)
        assert "known already" in create(stand).message
        assert len(rows(stand)) == 1


@pytest.mark.parametrize(("later", "made"), [(-1, False), (0, False), (1, True)])
def test_a_token_that_would_be_over_at_once_is_not_made(later, made):
    with Stand() as stand:
        end = to_rfc3339(stand.fp.now() + later)
        told = create(stand, expires_at=end)
        assert told.issues == (() if made else ("invalid_request",))
        assert len(rows(stand)) == made


def test_a_token_is_revoked_once_and_the_first_time_stands():
    with Stand() as stand:
        token_id = create(stand).facts["token_id"]
        first = stand.fp.now()
        told = stand.ask(c.TokenRevoke(token_id), key="r")
        assert (told.facts, told.receipt.entry["note"]) == ({"token_id": token_id},) * 2
        stand.clock.advance(1)
        assert stand.ask(c.TokenRevoke(token_id), key="r2").accepted
        assert stand.ask(c.TokenRevoke(token_id), key="r").facts == {"token_id": token_id}
        assert [row[7] for row in rows(stand)] == [first]
        assert stand.ask(c.TokenRevoke(UNKNOWN)).issues == ("not_found",)
        assert stand.fp.verify().problems == ()


def test_a_token_made_and_revoked_in_one_batch_is_revoked():
    with Stand() as stand:
        token_id = create(stand).facts["token_id"]
        told = stand.fp.execute([c.TokenRevoke(token_id), c.TokenRevoke(token_id)])
        assert [o.status for o in told] == ["accepted"] * 2
        assert rows(stand)[0][7] == stand.fp.now()


def test_a_token_can_be_revoked_in_the_batch_that_makes_it():
    with Stand() as stand:
        token_id = create(stand).facts["token_id"]  # what the same draws give again
    with Stand() as stand:
        make = c.TokenCreate(DIGEST, kind="worker", actor="w")
        told = stand.fp.execute([make, c.TokenRevoke(token_id)])
        assert [o.issues for o in told] == [(), ()]
        assert [(row[0], row[7]) for row in rows(stand)] == [(token_id, stand.fp.now())]


# --- the journal's reader ---------------------------------------------------------------------

SALT = b"s" * 32
NOTE = {"token_id": UNKNOWN, "kind": "worker", "actor": "w", "queues": ["q"],
        "expires_at": "1970-01-01T00:00:09.000000Z", "every_scope": False}  # fmt: skip
LINE = TokenLine(
    UNKNOWN, bytes.fromhex(DIGEST), "s", "worker", "w", '["q"]', 2 * SECOND, 9 * SECOND, None
)
ENTRY = {"at": "1970-01-01T00:00:02.000000Z", "scope": "s",
         "token": commit(b"token", SALT, bytes.fromhex(DIGEST)).hex()}  # fmt: skip


def folded(*entries, salt=SALT):
    """A roster that has taken these (verb, note, more members)."""
    roster = Roster()
    row = replace(history()[0], salt=salt)
    for verb, note, more in entries:
        roster.take(row, {**ENTRY, "verb": verb, "note": note, **more})
    return roster


def made(**changed):
    return "token.create", {**NOTE, **changed}, {}


def ended(token_id=UNKNOWN, second=4, **more):
    at = f"1970-01-01T00:00:0{second}.000000Z"
    return "token.revoke", {"token_id": token_id}, {"at": at, **more}


def told(roster, *lines):
    findings = Findings()
    for line in lines:
        roster.check(line, findings)
    roster.check_rest(findings)
    return [(p.code, p.place, p.message) for p in findings.all()]


def test_a_token_row_is_as_its_entries_have_left_it():
    assert told(folded(made()), LINE) == []
    over = LINE._replace(revoked_at=4 * SECOND)
    assert told(folded(made(), ended(), ended(second=5)), over) == []
    assert told(folded(made(every_scope=True)), LINE._replace(scope="*")) == []
    whole = LINE._replace(queues=None, expires_at=None)
    assert told(folded(made(queues=None, expires_at=None)), whole) == []
    assert told(folded(made(every_scope=True), ended(scope="x")),
                over._replace(scope="*")) == []  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value"),
    [("scope", "x"), ("kind", "operator"), ("actor", "v"), ("queues", None), ("queues", "["),
     ("queues", '["r"]'), ("created_at", 1), ("expires_at", None), ("revoked_at", 4),
     ("sha256", bytes(32))],
)  # fmt: skip
def test_a_column_of_a_token_that_no_entry_has_left_so_is_named(column, value):
    line = LINE._replace(**{column: value})
    where = f"token {UNKNOWN}"
    assert told(folded(made()), line) == [("token", where, f"no entry has left its {column} so")]


def test_a_digest_is_not_asked_for_where_the_opening_is_gone():
    assert told(folded(made(), salt=None), LINE._replace(sha256=bytes(32))) == []


def test_a_token_without_an_entry_and_an_entry_without_its_token_are_named():
    where = f"token {UNKNOWN}"
    assert told(folded(), LINE) == [("token", where, "no entry has made it")]
    assert told(folded(made())) == [("token", where, "its row is missing")]
    assert told(folded(made()), LINE, LINE) == [("token", where, "no entry has made it")]


@pytest.mark.parametrize(
    "entries",
    [[made(more=1)], [("token.create", {}, {})], [made(every_scope=0)], [made(kind="king")],
     [made(actor="a b")], [made(queues=["a b"])], [made(queues=["q", "a b"])],
     [made(token_id="tok_1")], [made(), made()], [ended()], [made(), ended("tok_" + "1" * 32)],
     [made(), ended(scope="x")], [made(), ("token.revoke", {**NOTE}, {})],
     [made(), ("token.revoke", {"token_id": UNKNOWN, "more": 1}, {})]],
)  # fmt: skip
def test_a_note_of_a_token_that_no_verb_leaves_is_refused(entries):
    with pytest.raises(ValueError, match=r"\S"):
        folded(*entries)
