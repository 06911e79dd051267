"""Where tokens lie: what no file may hold, what `verify` says of their rows, what the command line
tells and keeps to itself."""

from __future__ import annotations

import json
import logging
import shutil

import pytest
from helpers.lab import START, raw
from helpers.laws_tokens import let_in
from helpers.shell import Shell
from helpers.stand import QUEUE, SCOPE, Stand
from helpers.workload import every_verb, opened

from fencepost import commands as c
from fencepost import tokens
from fencepost.clock import FakeClock
from fencepost.issues import Forbidden, InvalidRequest, KeyReused, NotFound, Refused
from fencepost.model import Caller
from fencepost.storage import reading

pytestmark = pytest.mark.usefixtures("same_disk")


def files_of(path):
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}


def test_a_token_is_in_no_file_entry_answer_or_log_and_its_digest_in_no_entry(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "work.db"
    with opened(path) as fp:
        receipt, text = fp.token_create("laptop-3", "worker", queues=["pages"])
        digest = tokens.digest(text)
        token = fp.read(reading.token_by_sha256(digest))
        caller = token.caller("lab")
        worker = fp.for_caller(caller)
        assert worker.claim("pages", worker_id="laptop-3") == []
        wrong = fp.execute([c.TokenCreate(digest.hex(), "worker", "w")])
        fp.token_revoke(token.token_id)
        with pytest.raises(Refused) as refused:
            worker.enqueue("pages", 1)
        while_open = files_of(path)
        fp.seal()
        entries = [view.to_json() for view in fp.entries()]
        told = [str(refused.value), repr(wrong), repr(fp.tokens()), repr(receipt), str(entries),
                repr(refused.value.outcome), repr(token), repr(caller)]  # fmt: skip
        bodies = b"".join(view.body for view in fp.entries())
    assert "work.db-wal" in while_open
    assert any(digest in content for content in while_open.values())
    for name, content in {**while_open, **files_of(path)}.items():
        for part in (text.encode(), text[3:46].encode()):
            assert part not in content, name
    for line in (*told, caplog.text):
        assert text[3:46] not in line and digest.hex() not in line
    assert digest not in bodies and digest.hex().encode() not in bodies


# --- verify ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A closed store that has lived through every verb: one token counts, one is revoked."""
    path = tmp_path_factory.mktemp("history") / "work.db"
    clock = FakeClock(START)
    with opened(path, clock) as fp:
        every_verb(fp, clock)
        fp.seal()
        assert fp.verify().clean
        alive, revoked = sorted(fp.tokens(), key=lambda token: token.revoked_at is not None)
        assert revoked.revoked_at is not None and alive.revoked_at is None
        return path, alive.token_id, revoked.token_id


ADDED = (
    "insert into fencepost_token select 'tok_' || ?, zeroblob(32), scope, kind, actor, queues, "
    "created_at, expires_at, null from fencepost_token where revoked_at is null"
)
EDITS = {
    "kind": "'operator'", "actor": "'v'", "scope": "'*'", "queues": "null",
    "created_at": "created_at + 1", "expires_at": "expires_at + 1", "revoked_at": "1",
    "sha256": "zeroblob(32)",
}  # fmt: skip
ALIKE = {"queues": ["'[\"next\"]'", "'{'", "'[]'", "''"], "expires_at": ["null"]}


@pytest.mark.parametrize(
    ("column", "value"),
    [*EDITS.items(), *((name, value) for name, values in ALIKE.items() for value in values)],
)
def test_verify_names_a_token_and_the_column_that_no_entry_has_left_so(
    history, tmp_path, column, value
):
    path, alive, _ = history
    edit = f"update fencepost_token set {column} = {value} where token_id = ?"
    (problem,) = problems_after(path, tmp_path, edit, (alive,))
    assert (problem.code, problem.place) == ("token", f"token {alive}")
    assert f"its {column} so" in problem.message


def problems_after(path, tmp_path, statement, values):
    copy = tmp_path / "copy.db"
    shutil.copyfile(path, copy)
    with raw(copy) as connection:
        assert connection.execute(statement, values).rowcount == 1
    with opened(copy) as fp:
        return fp.verify().problems


def test_verify_names_a_token_that_was_let_in_again_taken_away_or_added(history, tmp_path):
    path, alive, revoked = history
    edits = {
        revoked: ("update fencepost_token set revoked_at = null where token_id = ?", (revoked,)),
        alive: ("delete from fencepost_token where token_id = ?", (alive,)),
        "tok_" + "0" * 32: (ADDED, ("0" * 32,)),
    }  # fmt: skip
    for token_id, (statement, values) in edits.items():
        (problem,) = problems_after(path, tmp_path, statement, values)
        assert (problem.code, problem.place) == ("token", f"token {token_id}")


BENDS = {
    "another kind": ('"kind":"worker"', '"kind":"wizard"'),
    "another actor": ('"actor":"w"', '"actor":"a b"'),
    "a stray member": ('"kind":"worker"', '"kind":"worker","later":1'),
    "no id of a token": ('"token_id":"tok_', '"token_id":"tok-'),
    "every scope, in other words": ('"every_scope":false', '"every_scope":0'),
}


@pytest.mark.parametrize("bend", BENDS)
def test_verify_says_what_is_wrong_with_the_note_of_an_entry_not_sealed_yet(tmp_path, bend):
    path = tmp_path / "work.db"
    with opened(path) as fp:
        fp.token_create("w", "worker")
    with raw(path) as connection:
        old, new = (text.encode() for text in BENDS[bend])
        ((body,),) = connection.execute("select body from fencepost_entry").fetchall()
        note = body.index(b'"note"')
        assert old in body[note:]
        body = body[:note] + body[note:].replace(old, new)
        connection.execute("update fencepost_entry set body = ?", (body,))
    with opened(path) as fp:
        assert "entry_form" in {problem.code for problem in fp.verify().problems}


def test_an_entry_that_ends_a_token_of_another_scope_or_none_is_named(tmp_path):
    path = tmp_path / "work.db"
    with opened(path) as fp:
        receipt, _ = fp.token_create("w", "worker")
        fp.token_revoke(receipt.entry["note"]["token_id"])
    with raw(path) as connection:
        ((body,),) = connection.execute(
            "select body from fencepost_entry where number = 2"
        ).fetchall()
        for wrong in (body.replace(b'"scope":"lab"', b'"scope":"bal"'),
                      body.replace(b'"tok_0', b'"tok_f'),
                      body.replace(b'"token_id"', b'"token_ic"')):  # fmt: skip
            assert wrong != body
            connection.execute("update fencepost_entry set body = ? where number = 2", (wrong,))
            with opened(path) as fp:
                found = {(p.code, p.place) for p in fp.verify().problems}
            assert ("entry_form", "entry 2") in found


# --- reads ----------------------------------------------------------------------------------------


def test_receipts_and_proofs_of_other_queues_are_not_there():
    with Stand() as stand:
        mine = stand.fp.enqueue(QUEUE, 1, idempotency_key="mine")
        stand.fp.enqueue("other", 1, idempotency_key="theirs")
        erased = stand.fp.enqueue("other", 1, idempotency_key="erased").task_id
        stand.fp.erase(erased)
        worker = stand.fp.for_caller(let_in(stand, queues=(QUEUE,)))
        assert worker.receipt("mine", actor="local") == mine
        assert worker.prove(mine).number == mine.number
        for key in ("theirs", "erased", "never"):
            with pytest.raises(NotFound) as refused:
                worker.receipt(key, actor="local")
            assert key in str(refused.value) and "erased" not in str(refused.value).replace(key, "")
        with pytest.raises(NotFound):
            worker.prove(2)


def test_what_is_of_the_whole_store_or_scope_is_not_for_tokens_of_a_part():
    with Stand() as stand:
        stand.task()
        handles = {
            name: stand.fp.for_caller(let_in(stand, kind, **more))
            for name, (kind, more) in {
                "everywhere": ("operator", {"every_scope": True}),
                "scope": ("operator", {}), "queue": ("operator", {"queues": (QUEUE,)}),
                "auditor": ("auditor", {}), "worker": ("worker", {}),
            }.items()
        }  # fmt: skip
        asks = {
            "verify": lambda fp: fp.verify(), "about": lambda fp: fp.about(),
            "seal": lambda fp: fp.seal(), "tokens": lambda fp: fp.tokens(),
        }  # fmt: skip
        allowed = {"verify": {"everywhere"}, "about": {"everywhere"},
                   "seal": {"everywhere", "scope"},
                   "tokens": {"everywhere", "scope", "auditor"}}  # fmt: skip
        for ask, call in asks.items():
            for name, handle in handles.items():
                if name in allowed[ask]:
                    call(handle)
                    continue
                with pytest.raises(Forbidden):
                    call(handle)


def test_a_handle_of_python_may_be_bound_to_queues_without_a_token():
    with Stand() as stand:
        stand.task(queue="other")
        caller = Caller(SCOPE, "worker", "w", queues=frozenset({QUEUE}))
        with pytest.raises(Forbidden):
            stand.fp.for_caller(caller).claim("other", worker_id="w")
        assert list(stand.fp.for_caller(caller).tasks()) == []


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    made = Shell(tmp_path, capsys, monkeypatch)
    assert made("init").code == 0
    return made


def test_a_token_alone_is_on_standard_output_and_in_nothing_else(shell):
    ran = shell("token", "create", "laptop-3", "--kind", "worker", "--queue", "b", "--queue", "a")
    text = ran.out.strip()
    assert ran.code == 0 and ran.out == text + "\n" and tokens.check(text)
    assert text not in ran.err and "worker laptop-3 in scope default" in ran.err
    (listed,) = shell("token", "list", "--json").lines
    assert (listed["kind"], listed["actor"], listed["queues"]) == ("worker", "laptop-3", ["a", "b"])
    assert (listed["scope"], listed["expires_at"], listed["revoked_at"]) == ("default", None, None)
    token_id = listed["token_id"]
    assert f"fencepost token revoke {token_id}" in ran.err
    assert "does not count any more" in shell("token", "revoke", token_id).out
    assert "revoked" in shell("token-list").out and text not in shell("token", "list").out


def test_with_json_the_token_is_a_member_of_the_one_object(shell):
    made = shell.json("token", "create", "ana", "--kind", "human", "--expires-seconds", "60")
    assert tokens.check(made["token"]) and made["status"] == "accepted"
    assert made["facts"]["kind"] == "human"
    (listed,) = shell("token", "list", "--json").lines
    assert listed["token_id"] == made["facts"]["token_id"]
    assert listed["expires_at"] == made["facts"]["expires_at"] > listed["created_at"]


def test_a_token_of_every_scope_is_listed_in_each(shell):
    shell("--scope", "x", "token", "create", "ops", "--kind", "operator", "--every-scope")
    shell("token", "create", "w", "--kind", "worker", "--expires-at", "2099-01-01T00:00:00Z")
    listed = [row["scope"] for row in shell("token", "list", "--json").lines]
    assert sorted(listed) == ["*", "default"]
    assert [row["scope"] for row in shell("--scope", "y", "token", "list", "--json").lines] == ["*"]
    assert "every scope" in shell("token", "list").out


@pytest.mark.parametrize("words", [
    ("token",), ("token", "steal"), ("token", "create", "w"),
    ("token", "create", "w", "--kind", "wizard"),
    ("token", "create", "w", "--kind", "worker", "--queue", "a", "--every-scope"),
    ("token", "create", "w", "--kind", "worker", "--expires-seconds", "0"),
    ("token", "create", "w", "--kind", "worker", "--expires-seconds", "1", "--expires-at",
     "2099-01-01T00:00:00Z"),
    ("token", "create", "w", "--kind", "worker", "--expires-at", "2001-01-01T00:00:00Z"),
    ("token", "revoke", "laptop-3"),
])  # fmt: skip
def test_what_makes_no_sense_is_bad_usage_and_makes_no_token(shell, words):
    ran = shell(*words)
    assert ran.code == 2 and ran.out == "" and "fp_" not in ran.err
    assert shell("token", "list", "--json").lines == []


def test_a_token_whose_secret_was_made_elsewhere_is_sent_as_its_digest(shell):
    digest = tokens.digest(tokens.make()).hex()
    request = {"verb": "token.create", "token_sha256": digest, "kind": "auditor", "actor": "a"}
    ran = shell("token", "create", "--request", "-", "--key", "k",
                stdin=json.dumps(request).encode())  # fmt: skip
    assert ran.code == 0 and "lets in auditor a" in ran.out
    again = shell("token", "create", "--request", "-", "--key", "j",
                  stdin=json.dumps(request).encode())  # fmt: skip
    assert again.code == 3 and "key_conflict" in again.err


def test_a_lost_answer_is_looked_for_in_the_list(tmp_path):
    """The token cannot be told twice, so the same key does not make the same command again."""
    with opened(tmp_path / "work.db") as fp:
        fp.token_create("w", "worker", idempotency_key="k")
        with pytest.raises(KeyReused):
            fp.token_create("w", "worker", idempotency_key="k")
        assert len(fp.tokens()) == 1
        with pytest.raises(InvalidRequest):
            fp.token_create("w", "wizard")
