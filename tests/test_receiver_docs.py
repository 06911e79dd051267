"""docs/receivers.md is held against the kit: what stands there can be relied on in any language."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.receiving import Sender

from fencepost.receiver import Receiver, SqliteStore, answers, rules, signing, wire
from fencepost.receiver import reading as reads
from fencepost.receiver.chain import START, next_head

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "receivers.md").read_text(encoding="utf-8")


def table(first_cell):
    """The rows of the table whose head begins with this cell."""
    after = PAGE.split(f"| {first_cell} |", 1)[1]
    lines = after[: after.index("\n\n")].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_codes_of_the_page_are_the_kit_s_in_its_order():
    shown = {code.strip("`"): (int(status), what) for code, status, what in table("code")}
    assert shown == wire.CODES
    assert list(shown) == list(wire.CODES)


def test_the_heads_of_the_page_are_right():
    (first, second) = table("head before")
    head = next_head(START, 1, "a:1", bytes(32))
    assert first[2:] == ["`a:1`", "32 × `00`", f"`{head.hex()}`"]
    assert second[4] == f"`{next_head(head, 2, 'é:2', bytes([1]) * 32).hex()}`"


def test_the_signature_of_the_page_is_right():
    text = PAGE[PAGE.index("A signature, from the specification") :]
    secret, message_id, stamp, body, made = re.findall(r"`([^`]+)`", text)[:5]
    key = signing.secret_bytes(secret)
    assert signing.signature(key, message_id, int(stamp), body.encode()) == made


def test_every_member_of_events_hellos_and_receipts_stands_there():
    named = {name for row in table("member") for name in re.findall(r"`(\w+)`", row[0])}
    sent = Sender().event(ordered=True)
    event = reads.read_event(sent.body, sent.id)
    assert named == {*json.loads(sent.body)}
    hellos = PAGE[PAGE.index("a writer announces itself") :]
    told = set(
        re.findall(r"^\| ((?:`\w+` ?)+)\|", hellos[: hellos.index("## What is kept")], re.MULTILINE)
    )
    assert {name for cell in told for name in re.findall(r"`(\w+)`", cell)} == reads._HELLO
    stream = rules.Stream(wire.Writer(1, "x"))
    receipt = json.loads(answers.receipt("r", event, stream, 0))
    shown = PAGE[PAGE.index("**200, a receipt**") : PAGE.index("**200 to a hello**")]
    assert set(receipt) <= set(re.findall(r"`(\w+)`", shown))
    told = json.loads(answers.greeted("r", stream, None, [], False, "").body)
    shown = PAGE[PAGE.index("**200 to a hello**") : PAGE.index("**A refusal**")]
    assert set(told) <= set(re.findall(r"`(\w+)`", shown))


def test_the_arguments_and_their_defaults_are_the_kit_s():
    shown = {
        name for row in table("argument of `Receiver`") for name in re.findall(r"`(\w+)`", row[0])
    }
    taken = set(Receiver.__init__.__annotations__) - {"return", "store", "effect", "now"}
    assert shown == taken
    assert Receiver.__init__.__kwdefaults__["max_body_bytes"] == 2 * 1024 * 1024
    assert Receiver.__init__.__kwdefaults__["keep_receipts_seconds"] == 90 * 86_400


def test_the_python_of_the_page_runs_and_does_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    made = {}
    exec(compile(block, "receivers.md", "exec"), made)  # noqa: S102
    made["connection"].close()
    receiver, key, sender = made["receiver"], signing.secret_bytes(made["secret"]), Sender()

    def send(sent):
        return receiver.handle(sent.headers(int(time.time()), key), sent.body)

    assert send(sender.hello()).status == 200
    assert send(sender.event(1, value={"text": "page 17"})).status == 200
    assert send(sender.event(2, value={})).status == 422
    receiver.close()
    store = SqliteStore("pages.db")
    store.open()
    assert store.connection.execute("select text from page").fetchall() == [("page 17",)]
    store.close()


@pytest.mark.parametrize(
    "line", re.findall(r"^(python -m fencepost\.receiver .*)$", PAGE, re.MULTILINE)
)
def test_the_lines_of_the_page_are_understood(line, tmp_path):
    words = shlex.split(line.split(">")[0].strip())
    words = [sys.executable, *words[1:3], *([words[3]] if words[3][0] != "-" else []), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=50,
                          cwd=ROOT, env={**os.environ, "COLUMNS": "200"})  # fmt: skip
    for option in re.findall(r"--[a-z-]+", line):
        assert option in done.stdout
