"""The one test command: `python3 tests/run.py [pytest arguments]`.

It makes a virtual environment of its own, so that a bare Python is enough and the caller's own
packages are left alone; then it runs ruff, mypy and pytest, all three even where one fails, so that
one run tells everything. The last line is pytest's own.
The environment lies in `.venv-test/` (FENCEPOST_TEST_VENV names another place) and is made anew
only when tests/requirements.txt, pyproject.toml or the Python changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "tests" / "requirements.txt"
STAMP = "fencepost-test.stamp"  # its presence also marks the folder as ours to remove


def venv_folder(variable: str = "FENCEPOST_TEST_VENV", name: str = ".venv-test") -> Path:
    """Where the environment lies; relative names are taken from the caller's folder."""
    return Path(os.environ.get(variable) or ROOT / name).absolute()


def venv_python(folder: Path) -> Path:
    """The interpreter inside the environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def fingerprint(extra: Sequence[str] = ()) -> str:
    """Digest of all that decides what the environment holds: another value, another environment."""
    parts = [sys.version, os.path.realpath(sys.executable), str(ROOT), *extra]
    digest = hashlib.sha256("\n".join(parts).encode())
    for path in (REQUIREMENTS, ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def say(step: str) -> None:
    """Announce a step before it starts, in order with what the step itself prints."""
    print(f"==> {step}", flush=True)


def run(step: str, *command: str | Path) -> int:
    """Run one command from the checkout's root and return its exit code."""
    say(step)
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment.pop("PYTHONPATH", None)  # the checkout is installed; nothing else may come in
    code = subprocess.call([str(part) for part in command], cwd=ROOT, env=environment)
    return 128 - code if code < 0 else code  # ended by a signal: as a shell says it


def missing_venv() -> str | None:
    """What to install when this Python cannot make virtual environments, else None."""
    try:
        import ensurepip
        import venv
    except ImportError:
        major, minor = sys.version_info[:2]
        return (
            "This Python cannot make a virtual environment: its venv or ensurepip module is "
            "missing.\nOn Debian or Ubuntu install it with:\n"
            f"    apt-get install python3-venv      (or python{major}.{minor}-venv)\n"
            "Then run this command again."
        )
    del ensurepip, venv
    return None


def remove_old(folder: Path) -> str | None:
    """Remove an environment made earlier; refuse a folder that this program did not make."""
    if not folder.exists():
        return None
    if any(folder.iterdir()) and not (folder / STAMP).exists():
        return f"{folder} exists and was not made by tests/run.py: remove it or name another place."
    shutil.rmtree(folder)
    return None


def prepare(folder: Path, extra: Sequence[str] = ()) -> int:
    """Make or reuse the environment, with `extra` packages in it; 0 when it is ready."""
    stamp, wanted = folder / STAMP, fingerprint(extra)
    if venv_python(folder).exists() and stamp.exists() and stamp.read_text() == wanted:
        say(f"reuse the environment in {folder}")
        return 0
    if problem := missing_venv() or remove_old(folder):
        print(problem, file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    stamp.write_text("unfinished")
    if code := run(f"make an environment in {folder}", sys.executable, "-m", "venv", folder):
        return code
    pip = [venv_python(folder), "-m", "pip", "-qq", "install"]  # quiet but for errors
    # Wheels only: the test machine needs no compiler.
    tools = [*pip, "--only-binary", ":all:", "-r", REQUIREMENTS, *extra]
    if code := run(" ".join(["install tests/requirements.txt", *extra]), *tools):
        return code
    # Without isolation the build uses the hatchling just installed and downloads nothing.
    checkout = [*pip, "--no-deps", "--no-build-isolation", "-e", ROOT]
    if code := run("install the checkout", *checkout):
        return code
    stamp.write_text(wanted)
    return 0


def main(arguments: list[str]) -> int:
    """Prepare, then check and test; the exit code is that of the first step that failed."""
    if sys.version_info < OLDEST:
        print("Fencepost needs Python 3.11 or newer; this is", sys.version, file=sys.stderr)
        return 2
    # started in the background it is ignored, and would be by every program that a test interrupts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = venv_folder()
    if code := prepare(folder):
        return code
    python = venv_python(folder)
    steps: list[tuple[str, list[str]]] = [
        ("ruff check", ["ruff", "check", "."]),
        ("mypy --strict fencepost", ["mypy", "--strict", "fencepost"]),
        ("pytest", ["pytest", "-n", "2", *arguments]),
    ]
    failed: dict[str, int] = {}
    for name, command in steps:
        before = f" (already failed: {', '.join(failed)})" if failed else ""
        if code := run(name + before, python, "-m", *command):
            failed[name] = code
    return next(iter(failed.values()), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
