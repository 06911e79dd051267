"""Makes the completion files: `python tests/helpers/completing.py` writes those in the package."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "fencepost" / "cli" / "completions"
MADE_WITH = "1.13.0"  # the version of shtab that the committed files come from
SHELLS = ("bash", "zsh", "fish")
FILES = re.compile(r"\b(FILE|PATH|TARGET|APP\.db)\b")
WORDS = re.compile(r"[a-z_]+(\|[a-z_]+)+")


def completion(shell: str) -> str:
    """The completion file of a shell, from the table of subcommands."""
    import shtab

    from fencepost.cli.parser import whole_parser
    from fencepost.cli.subcommands import SUBCOMMANDS

    parser = whole_parser(SUBCOMMANDS)
    (verbs,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for action in (a for p in (parser, *verbs.choices.values()) for a in p._actions):
        hint = action.metavar or ""
        if isinstance(hint, str) and FILES.search(hint):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif isinstance(hint, str) and WORDS.fullmatch(hint):
            action.choices = hint.split("|")
    return str(shtab.complete(parser, shell)).rstrip() + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    FOLDER.mkdir(exist_ok=True)
    for shell in SHELLS:
        (FOLDER / f"fencepost.{shell}").write_text(completion(shell), encoding="utf-8")
