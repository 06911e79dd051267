"""`import`: what receivers have accepted, a JSON object a line, into a store that was restored."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from itertools import islice
from typing import Any

from fencepost.canonical import Json
from fencepost.cli import inputs
from fencepost.cli.interrupts import Interrupts
from fencepost.cli.output import Out
from fencepost.cli.store import open_store
from fencepost.commands import Import, Request
from fencepost.deliveries import importing
from fencepost.handle import Verbs
from fencepost.issues import InvalidRequest
from fencepost.parts import build

AT_ONCE = 100


def import_(args: Namespace, out: Out) -> int:
    """Record the lines in their order. What is refused is told, and the rest goes on: each line is
    a fact of its own. Returns the exit code of the first refusal, else 0."""
    if args.source is None:
        raise InvalidRequest("import: give a FILE of JSON lines, or - for standard input")
    with (
        inputs.opened(args.source, "import") as file,
        open_store(args) as fp,
        Interrupts() as interrupts,
    ):
        return Importing(args, out, fp).run(inputs.lines(file), interrupts)


class Importing:
    """One run, and how far it has come."""

    def __init__(self, args: Namespace, out: Out, fp: Verbs) -> None:
        self.args, self.out, self.fp = args, out, fp
        self.recorded = self.known = self.others = self.refused = self.code = 0

    def run(self, lines: Iterator[tuple[int, bytes]], interrupts: Interrupts) -> int:
        """All lines. Ctrl-C is heard between two batches."""
        try:
            while some := list(islice(lines, AT_ONCE)):
                with interrupts.held():
                    self._send([(n, request) for n, line in some if (request := self._of(n, line))])
        except InvalidRequest as error:
            raise InvalidRequest(f"{error}; before it: {self._done()}") from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{self._done()}; send the same file again: nothing is recorded twice"
            ) from None
        if not self.out.json:
            self.out.say(self._done())
        return self.code

    def _of(self, number: int, line: bytes) -> Request | None:
        """The command of a line; None where it is of no result."""
        command = command_of(inputs.json_of(line, f"line {number}"), f"line {number}")
        if command is None:
            self.others += 1
            return None
        return Request.of(command, self.args.key and f"{self.args.key}.{number}")

    def _send(self, sent: list[tuple[int, Request]]) -> None:
        outcomes = self.fp.execute([request for _, request in sent])
        for (number, request), outcome in zip(sent, outcomes, strict=True):
            if not outcome.accepted:
                self.refused += 1
                told = outcome._replace(message=f"line {number}: {outcome.message}")
                code = self.out.refusal(told, request)
                self.code = self.code or code
                continue
            fresh = outcome.receipt is not None and not outcome.replayed
            self.recorded += fresh
            self.known += not fresh
            if self.out.json:
                self.out.data(outcome.to_json())
        sys.stdout.flush()  # whoever reads along sees each batch as it is committed

    def _done(self) -> str:
        told = f"{self.recorded} results recorded, {self.known} were known"
        told += f", {self.refused} refused" if self.refused else ""
        return told + (f", {self.others} of no result passed over" if self.others else "")


def command_of(given: Json, what: str) -> Import | None:
    """The command that a line stands for: its own members, or a receiver's receipt with the event
    that it has accepted. None for an event of no result."""
    if type(given) is not dict:
        raise InvalidRequest(f"{what}: give an object")
    if "event" in given:
        return _of_receipt(given, what)
    if "fence" in given and "fencing_token" not in given:  # as receipts name it
        given["fencing_token"] = given.pop("fence")
    given.pop("verb", None)
    return build(Import, importing.agreeing(given, what), what)


def _of_receipt(given: dict[str, Any], what: str) -> Import | None:
    try:
        members = importing.members_of(given)
    except (KeyError, TypeError, AttributeError):
        raise InvalidRequest(
            f"{what}: neither an event nor a receipt that says what was accepted"
        ) from None
    if members is None:
        return None
    evidence = {name: value for name, value in given.items() if name != "event"}
    return build(Import, {**importing.agreeing(members, what), "evidence": evidence}, what)
