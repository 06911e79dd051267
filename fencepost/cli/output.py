"""What the program says: JSON or text on stdout, messages on stderr, nothing from outside raw."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.cli.terminal import clean, clip, columns, print_table
from fencepost.issues import ISSUES, FencepostError
from fencepost.storage.address import without_password

if TYPE_CHECKING:
    from argparse import Namespace

    from fencepost.commands import Request
    from fencepost.model import Outcome

INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141
ADVISED = {"journal_broken", "guard_tripped"}  # the other messages say what to do themselves
PREVIEW = 400  # characters of content that text mode shows of one value


def json_line(value: Any) -> str:
    """One line of JSON in ASCII: every control, C1 and bidi character is an escape."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class Out:
    """Where one run prints. `json` says for whom: programs read JSON, people text."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    def data(self, value: Any) -> None:
        """One JSON object as a line."""
        print(json_line(value))

    def say(self, *lines: object) -> None:
        """Lines for people, made safe."""
        for line in lines:
            print(clean(line))

    def note(self, text: object) -> None:
        """A message on stderr."""
        print(f"fencepost: {clean(text)}", file=sys.stderr, flush=True)

    def table(
        self, head: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()
    ) -> None:
        """A table for people."""
        styles = {"dead": "bad", "blocked": "warn", "done": "good", "leased": "strong"}
        print_table(sys.stdout, head, rows, right=right, styles=styles)

    def refusal(self, outcome: Outcome, sent: Request | None = None) -> int:
        """Tell an outcome that is not accepted; returns the exit code of its leading issue."""
        code = outcome.issues[0]
        if code == "outcome_unknown" and sent is not None:
            outcome = outcome._replace(message=f"{outcome.message}; {asking(sent)}")
        if self.json:
            self.data(outcome.to_json())
        facts = outcome.to_json()["facts"].items()
        told = [f"{name} {value}" for name, value in facts if value is not None and name != "key"]
        if len(outcome.issues) > 1:
            told.append(f"also: {', '.join(outcome.issues[1:])}")
        return self.complain(code, outcome.message, "; ".join(told))

    def failure(self, error: FencepostError, sent: Request | None = None) -> int:
        """Tell what was raised; a refusal keeps its outcome. Returns the exit code."""
        from fencepost.model import Outcome

        known = getattr(error, "outcome", None)
        return self.refusal(known or Outcome("failed", (error.code,), str(error)), sent)

    def complain(self, code: str, message: str, told: str = "") -> int:
        """The one line on stderr; returns the code's exit code."""
        issue = ISSUES.get(code)
        if self.json:
            facts = {"code": code, "message": message, "exit": exit_code(code)}
            advice = {"advice": issue.advice} if issue else {}
            print(json_line({**facts, **advice}), file=sys.stderr, flush=True)
            return exit_code(code)
        extra = f" ({told})" if told else ""
        if issue is not None and code in ADVISED:
            extra += f"; {issue.advice}"
        self.note(f"{code}: {message}{extra}")
        return exit_code(code)


def exit_code(code: str) -> int:
    """The exit code of an issue, from the one table."""
    issue = ISSUES.get(code)
    return INTERNAL if issue is None else issue.exit


def preview(value: Any) -> str:
    """A JSON value on one line, cut where it is long."""
    text = clean(json.dumps(value, ensure_ascii=False))
    return clip(text, max(PREVIEW, columns(sys.stdout) - 12))


def again(args: Namespace, *words: str) -> str:
    """A command line for this store and scope, ready to be pasted; without a password."""
    flags = []
    for name in ("store", "scope"):
        if name in args.given:
            flags += [f"--{name}", without_password(getattr(args, name))]
    return shlex.join(["fencepost", *flags, *words])


def asking(sent: Request | None) -> str:
    """How to learn what became of a command whose answer was not heard."""
    if sent is None:
        return "nothing was sent"
    if sent.command.verb == "token.create":
        return "to learn whether it was carried out, look at: fencepost token list"
    if sent.command.verb == "destination.secret":
        return "the secret may count or not, and nobody has been shown it: make another one"
    if sent.key is not None:
        return (
            "to learn whether it was carried out, send the same command again with "
            f"--key {sent.key}"
        )
    if sent.command.self_keyed:
        return "to learn whether it was carried out, send the same command again"
    return "leases that it may have taken end by themselves"
