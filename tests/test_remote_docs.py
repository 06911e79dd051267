"""The page on the client holds what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.remote import TOKEN
from helpers.stand import Stand
from helpers.stub import serving

from fencepost.clock import SystemClock
from fencepost.remote import asking, handle, paths, sending, transport

PAGE = (Path(__file__).parent.parent / "docs" / "http-client.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("place", range(len(BLOCKS)))
def test_the_python_of_the_page_runs(place, monkeypatch, capsys):
    monkeypatch.setenv("FENCEPOST_TOKEN", TOKEN)
    with Stand() as stand, serving(stand.fp, clock=SystemClock()) as stub:
        code = BLOCKS[place].replace("https://queue.example", stub.url)
        exec(compile(code, f"block {place}", "exec"), {"__name__": "page"})  # noqa: S102  our page
        assert capsys.readouterr().out
        assert {task.state for task in stand.fp.tasks()} == {"done"}
        assert {seen.headers["authorization"] for seen in stub.seen} == {f"Bearer {TOKEN}"}


def test_the_numbers_of_the_page_are_the_code_s():
    for text in (
        f"`deadline_seconds` ({handle.DEADLINE_SECONDS:g})",
        f"`try_seconds` ({handle.TRY_SECONDS:g})",
        f"`max_skew_seconds` ({handle.MAX_SKEW_SECONDS:g};",
        f"at most {paths.MAX_BATCH:,} commands and {paths.MAX_BATCH_BYTES >> 20} MiB",
        f"up to {transport.MAX_KEPT} are kept", f"up to {sending.THREADS} daemon threads",
        f"after {asking.FIRST_PAUSE} s, doubling to {asking.LONGEST_PAUSE:g} s",
    ):  # fmt: skip
        assert text in " ".join(PAGE.split()), text
