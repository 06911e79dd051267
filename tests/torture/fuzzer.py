"""atheris on one target, in a process of its own (libFuzzer ends the process that it runs in).

`python -m torture.fuzzer TARGET SECONDS SEED FOLDER [PLANTED]`: good inputs and the dictionary go
to FOLDER, and so does what breaks a law. With PLANTED that bug is planted first.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import atheris
import pytest

with atheris.instrument_imports(include=["fencepost"]):
    import fencepost.handle  # noqa: F401  everything that a target reaches

from helpers.fuzzing import TARGETS, attempt
from helpers.mutating import WORDS, Mutator

LONGEST = 4_096
# The shares of mutants that the main suite's mutator makes, of a good input and of what
# libFuzzer hands on; the rest are libFuzzer's own.
OF_GOOD, OF_FOUND = 0.25, 0.25


def prepared(name: str, folder: Path) -> Path:
    """The good inputs as libFuzzer's corpus, and the words as its dictionary."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True)
    for number, raw in enumerate(TARGETS[name].seeds()):
        (corpus / str(number)).write_bytes(raw)
    words = ("".join(f"\\x{byte:02x}" for byte in word) for word in WORDS if len(word) <= 64)
    (folder / "words").write_text("".join(f'"{word}"\n' for word in words))
    return corpus


def main(name: str, seconds: str, seed: str, place: str, planted: str = "") -> None:
    """Fuzz until the time is over or a law is broken (exit code 77)."""
    target, folder = TARGETS[name], Path(place)
    corpus = prepared(name, folder)
    for bug in target.planted:
        if bug.name == planted:
            bug.plant(pytest.MonkeyPatch())
    ours = Mutator(target.seeds(), random.Random())

    def mutate(raw: bytes, longest: int, chance: int) -> bytes:
        ours.draw.seed(chance)
        which = ours.draw.random()
        if which < OF_GOOD + OF_FOUND:
            return (ours.one() if which < OF_GOOD else ours.of(raw))[:longest]
        return atheris.Mutate(raw, longest)  # type: ignore[no-any-return]

    flags = [
        sys.argv[0], f"-max_total_time={seconds}", f"-seed={int(seed) % (1 << 31) + 1}",
        f"-dict={folder / 'words'}", f"-artifact_prefix={folder}/", f"-max_len={LONGEST}",
        "-print_final_stats=1", "-timeout=20", "-rss_limit_mb=2000", str(corpus),
    ]  # fmt: skip
    atheris.Setup(flags, lambda raw: attempt(target, raw) and None, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
