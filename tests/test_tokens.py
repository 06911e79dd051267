"""What a token is, and the one table of what each kind may do, tried with every verb."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from helpers.laws_tokens import let_in, told
from helpers.stand import SCOPE, Stand
from helpers.wires import LEAST, body

from fencepost import tokens
from fencepost.commands import COMMANDS, Request
from fencepost.model import KINDS, Caller
from fencepost.rules.authority import IN_REVOKED_SCOPE, MAY

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


# --- the text -----------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [0, 1, 61, 62, 2**255, 2**256 - 1])
def test_a_token_holds_all_bits_of_its_secret_in_the_published_form(secret):
    asked = []
    text = tokens.make(lambda size: asked.append(size) or secret.to_bytes(size, "big"))
    assert asked == [32]
    assert re.fullmatch(r"fp_[0-9A-Za-z]{49}", text) and tokens.check(text)
    number = 0
    for digit in text[3:46]:
        number = number * 62 + DIGITS.index(digit)
    assert number == secret


def test_the_checksum_is_the_crc_32_of_all_that_stands_before_it():
    # written out by hand, so that a client of another language can hold itself against it
    text = tokens.make(lambda size: bytes(range(size)))
    assert text == "fp_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf0IbDVE"
    assert tokens.digest(text).hex() == (
        "87229bd7f024a9dc51b7d6934a8ecfe69f5c1031ec2ee2499586bc14f873988e"
    )


def test_any_one_character_that_was_mistyped_is_seen_without_a_look_at_the_store():
    text = tokens.make()
    for place in range(3, len(text)):
        for other in DIGITS:
            wrong = text[:place] + other + text[place + 1 :]
            assert tokens.check(wrong) == (other == text[place]), (text, wrong)
    for place in range(3, len(text) - 1):
        swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
        assert tokens.check(swapped) == (swapped == text), (text, swapped)


def test_what_is_no_token_at_all_is_none():
    text = tokens.make()
    wrong = ["", "fp_", text[:-1], text + "0", text + "\n", " " + text, text[3:], text.upper(),
             "fq_" + text[3:], text[:-1] + "é", text[:10] + "\u0661" + text[11:],
             text.replace("fp_", "fp-")]  # fmt: skip
    assert [found for found in wrong if tokens.check(found)] == []


def test_no_two_tokens_are_alike():
    assert len({tokens.make() for _ in range(1_000)}) == 1_000


# --- who may do what ------------------------------------------------------------------------------


def told_by_the_page() -> dict[str, set[str]]:
    """The table of docs/tokens.md: kind, verbs."""
    page = Path(__file__).parent.parent.joinpath("docs", "tokens.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE)
    table = {kind: set(re.findall(r"`([\w.]+)`", cell)) for kind, cell in rows}
    table["operator"] = set(COMMANDS) - table["operator"]  # "all but"
    return table


def test_the_page_says_what_each_kind_may_do():
    assert told_by_the_page() == {kind: set(verbs) for kind, verbs in MAY.items()}
    assert set(MAY) == set(KINDS)


@pytest.fixture(scope="module")
def stand():
    """Scopes `s`, a revoked one and another, each with tokens of every kind."""
    with Stand() as made:
        made.callers = {
            (scope, kind): let_in(made, kind, "w", scope)
            for scope, kind in product((SCOPE, "gone", "other"), KINDS)
        }
        for scope in (SCOPE, "gone"):
            made.fp.as_caller("local", scope=scope).queue_set("from", destinations=["owed"])
        for kind in KINDS:
            made.callers["all", kind] = let_in(made, kind, "w", every_scope=True)
        made.fp.as_caller("local", scope="gone").revoke()
        yield made


def verdict(stand, caller, verb):
    """The leading issue of the least command of that verb; what it would change is undone."""
    members = LEAST[verb]
    if (caller.kind, verb) == ("dispatcher", "claim"):  # which works on destinations alone
        members = {**members, "queues": ["owed"]}
    request = Request.read(body(verb, members), None if verb in ("sweep", "purge") else "k")
    main = stand.store._main
    transactor = stand.fp._writer.transactor
    main.begin()
    try:
        done, _ = transactor.fold(main, [(caller, request)])
    finally:
        main.rollback()
    (outcome,) = done.outcomes
    return outcome.issues[0] if outcome.issues else "accepted"


@pytest.mark.parametrize(("kind", "verb"), list(product(KINDS, COMMANDS)))
def test_each_kind_of_token_sends_its_own_verbs_in_its_own_scope_and_no_others(stand, kind, verb):
    may = verb in told_by_the_page()[kind]
    own, gone = stand.callers[SCOPE, kind], stand.callers["gone", kind]
    bound = may and verb != "clock.reset"  # which concerns the whole store
    later = {"accepted", "not_found", "stale_policy"}  # of a rule after these
    said = verdict(stand, own, verb)
    assert said in later if bound else said == "forbidden"
    # somebody else's token never becomes another caller's
    for wrong in (stand.callers["other", kind].token, gone.token, "tok_" + "0" * 32):
        stolen = Caller(SCOPE, own.kind, own.actor, wrong, None, every_scope=False)
        assert verdict(stand, stolen, verb) == "unauthenticated"
    assert verdict(stand, gone, verb) == ("scope_revoked" if bound else "forbidden")
    above = replace(own, scope="gone", token=stand.callers["all", kind].token, every_scope=True)
    said = verdict(stand, above, verb)
    if may and not (kind == "operator" and verb in IN_REVOKED_SCOPE):
        assert said == "scope_revoked"
    else:
        assert said in later if may else said == "forbidden"


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_token_acts_for_its_own_worker_alone(stand, kind):
    lease = {"task_id": LEAST["renew"]["task_id"], "worker_id": "v", "fencing_token": 1}
    for verb in ("claim", "renew", "submit", "complete", "fail", "release"):
        members = {**LEAST[verb], **(lease if verb != "claim" else {"worker_id": "v"})}
        request = Request.read(body(verb, members))
        issues = told(stand, stand.callers[SCOPE, kind], request.command)
        assert issues == ((("not_found",) if verb != "claim" else ()) if kind == "operator"
                          else ("forbidden",)), (kind, verb)  # fmt: skip
