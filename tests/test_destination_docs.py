"""The page on destinations is held against the code."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from helpers.shell import Shell
from test_docs import blocks, rows

from fencepost.cli.subcommands import SUBCOMMANDS
from fencepost.destinations import KINDS, MAY_BE, OPTIONS
from fencepost.outward import CLASSES

PAGE = "docs/deliveries.md"


def test_the_table_of_options_is_the_codes():
    table = rows(PAGE, "### Options")
    assert [row[0].strip("`") for row in table] == list(OPTIONS)
    for (_, default, allowed, where, meaning), (name, option) in zip(
        table, OPTIONS.items(), strict=True
    ):
        assert default.replace(",", "") == json.dumps(option.default).strip('"'), name
        kinds, _, classes = where.partition("; only ")
        assert (set(kinds.split(", ")) if kinds != "all" else KINDS) == option.kinds, name
        assert (set(classes.split(", ")) if classes else set(CLASSES)) == option.classes, name
        assert meaning == option.meaning, name
        if found := re.fullmatch(r"([\d,]+) to ([\d,]+)", allowed):
            low, high = (int(number.replace(",", "")) for number in found.groups())
            assert (option.check(low, name), option.check(high, name)) == (low, high)
            for beyond in (low - 1, high + 1):
                with pytest.raises(Exception, match="outside"):
                    option.check(beyond, name)


def test_the_tables_of_classes_and_addresses_are_the_codes():
    assert [row[0].strip("`") for row in rows(PAGE, "### What stands there")] == list(CLASSES)
    found = {}
    for forms, _, classes in rows(PAGE, "`unfenced` sets"):
        for kind in re.findall(r"`(\w+):", forms):
            found[kind] = set(classes.split(", "))
    assert found == MAY_BE


def test_the_commands_of_the_page_are_carried_out_as_they_stand(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    shell("init")
    block = blocks(PAGE, "")[0]
    for line in block.splitlines():
        words = shlex.split(line.partition(" > ")[0])[1:]
        assert shell(*words).code == 0, line


def test_each_example_of_the_verbs_is_carried_out(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    shell("init")
    (tmp_path / "own.secret").write_text("whsec_" + "A" * 32)
    shell("destination", "set", "archive", "https://h.example", "--class", "fenced")
    shell("destination", "advance", "archive", "--expected-sequence", 0, "--sequence", 20,
          "--head", "0a" * 32)  # fmt: skip
    examples = [
        example for name, verb in SUBCOMMANDS.items() if name.startswith("destination-")
        for example in verb.examples
    ]  # fmt: skip
    assert len(examples) > 7
    for example in examples:
        words = shlex.split(re.split(" [<>] ", example)[0].replace("HEX", "0b" * 32))[1:]
        assert shell(*words, stdin=b"https://t.example\n").code == 0, example
