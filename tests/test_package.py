"""What is handed out: wheel and source archive, the same bytes from the same source, complete.

Both are built from a copy of the checkout in which trying things out has left its traces, and run
by a Python that has nothing else installed. Nothing here uses the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from helpers.shell import VARIABLES
from house.plan import NEEDS_EXTRA

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
STEM = f"{PROJECT['name']}-{PROJECT['version']}"
WHEEL, ARCHIVE = f"{STEM}-py3-none-any.whl", f"{STEM}.tar.gz"
WITHOUT_DATE = 1_580_601_600  # 2020-02-02, the time that hatchling gives each file
ANOTHER_DATE = 1_700_000_000
LEFTOVERS = [  # made by running the product, its tests or its tools in a checkout
    "q.db", "fencepost/work.db-wal", "fencepost/work.db-shm", "tests/x.db-turn1", "t.db-journal",
    "fencepost/__pycache__/model.cpython-399.pyc", "tests/__pycache__/conftest.cpython-399.pyc",
    ".hypothesis/examples/1", ".pytest_cache/README.md", ".mypy_cache/3.11/x.json", ".coverage.1",
    ".ruff_cache/x", ".venv-test/bin/python", "build/lib/x.py", "dist/x.whl", "verification.json",
]  # fmt: skip


def environment(**more: str) -> dict[str, str]:
    """This process's environment without what could bring other code in."""
    unwanted = {*VARIABLES, "PYTHONPATH", "PYTHONHOME", "SOURCE_DATE_EPOCH"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**kept, **more}


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """What a command that must succeed says on standard output."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment(**more), text=True, check=False,
        capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def source(folder: Path, modified: int, rights: int) -> Path:
    """A copy of the checkout, with leftovers; every file modified at that POSIX time."""
    hidden = shutil.ignore_patterns(
        ".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "*.db*"
    )
    shutil.copytree(ROOT, folder, ignore=hidden)
    for name in LEFTOVERS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("left over")
    for path in folder.rglob("*"):
        os.utime(path, (modified, modified))
        path.chmod(path.stat().st_mode & rights)
    return folder


def build(folder: Path, into: Path, **more: str) -> Path:
    """Both packages of the source in `folder`, by the backend that pyproject.toml names."""
    run(sys.executable, "-m", "hatchling", "build", "-d", into, cwd=folder, **more)
    assert sorted(path.name for path in into.iterdir()) == [WHEEL, ARCHIVE]
    return into


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same source twice: copied at other times, to other folders, for other readers."""
    place = tmp_path_factory.mktemp("sources")
    return [
        source(place / "one", 1_000_000_000, 0o777),
        source(place / "another", 1_500_000_000, 0o700),
    ]


@pytest.fixture(scope="module")
def built(sources, tmp_path_factory):
    """The folder of the packages, built without SOURCE_DATE_EPOCH."""
    return build(sources[0], tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def members(built):
    """Package → the names in it, those of the archive without its leading folder."""
    with zipfile.ZipFile(built / WHEEL) as wheel, tarfile.open(built / ARCHIVE) as archive:
        names = [name.split("/", 1) for name in archive.getnames()]
        assert {first for first, *_ in names} == {STEM}
        return {WHEEL: set(wheel.namelist()), ARCHIVE: {rest for _, rest in names}}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A folder of twelve source files, so that the demo is short."""
    folder = tmp_path_factory.mktemp("small")
    for number in range(12):
        (folder / f"file{number}.py").write_text(f"x = {number}\n")
    return folder


def test_the_same_source_gives_the_same_bytes(sources, built, tmp_path):
    again = build(sources[1], tmp_path / "again")
    assert digests(again) == digests(built)


def test_the_date_of_the_source_is_the_only_date_in_a_package(sources, built, tmp_path):
    one, another = (
        build(folder, tmp_path / folder.name, SOURCE_DATE_EPOCH=str(date))
        for folder, date in zip(sources, (WITHOUT_DATE, ANOTHER_DATE), strict=True)
    )
    assert digests(one) == digests(built)
    assert digests(another).keys() == digests(built).keys()
    assert set(digests(another).values()).isdisjoint(digests(built).values())
    with tarfile.open(another / ARCHIVE) as archive:
        assert {member.mtime for member in archive} == {ANOTHER_DATE}


def test_the_wheel_holds_the_whole_package_and_nothing_else(sources, members):
    files = [path for path in (sources[0] / "fencepost").rglob("*") if path.is_file()]
    written = {path.relative_to(sources[0]).as_posix() for path in files} - set(LEFTOVERS)
    information = {name for name in members[WHEEL] if name.startswith(f"{STEM}.dist-info/")}
    assert members[WHEEL] - information == written
    assert f"{STEM}.dist-info/licenses/LICENSE" in information
    endings = {Path(name).suffix for name in written}
    assert {".py", ".sql", ".typed", ".bash", ".zsh", ".fish"} <= endings


@pytest.mark.parametrize("package", [WHEEL, ARCHIVE])
def test_a_package_holds_no_leftovers(members, package):
    assert members[package].isdisjoint(LEFTOVERS)
    odd = re.compile(r"\.db|\.py[cod]$|__pycache__|_cache/|\.venv|\.hypothesis|/\.coverage")
    assert [name for name in sorted(members[package]) if odd.search(name)] == []


def test_the_source_archive_holds_what_is_needed_to_read_test_and_build(members):
    wanted = [
        "README.md", "LICENSE", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md",
        "pyproject.toml", "docs/guarantees.md", "examples/hello.py", "bench/README.md",
        "tests/run.py", "tests/requirements.txt", "tests/test_package.py", "tests/seeds/SHA256SUMS",
    ]  # fmt: skip
    assert set(wanted) - members[ARCHIVE] == set()
    package = {name for name in members[WHEEL] if name.startswith("fencepost/")}
    assert package <= members[ARCHIVE]


def test_the_wheel_says_that_it_needs_nothing_but_python(built):
    with zipfile.ZipFile(built / WHEEL) as wheel:
        said = BytesParser().parsebytes(wheel.read(f"{STEM}.dist-info/METADATA"))
    assert (said["Name"], said["Version"]) == ("fencepost", PROJECT["version"])
    assert (said["Requires-Python"], said["License-Expression"]) == (">=3.11", "Apache-2.0")
    assert [line for line in said.get_all("Requires-Dist") if "extra ==" not in line] == []


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A new environment that holds the wheel alone, not even pip: its folder of programs."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=built)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    run(
        sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check",
        "--python", programs / "python", "install", "--no-index", "--no-deps", built / WHEEL,
        cwd=built,
    )  # fmt: skip
    return programs


def test_the_installed_command_does_its_job(installed, tmp_path):
    told = f"fencepost {PROJECT['version']}\n"
    assert run(installed / "fencepost", "--version", cwd=tmp_path) == told
    for words in (
        ["init"], ["enqueue", "pages", '{"page": 17}'], ["claim", "pages", "--worker", "w"],
    ):  # fmt: skip
        run(installed / "fencepost", *words, cwd=tmp_path)
    module = (installed / "python", "-W", "error", "-m", "fencepost")
    assert json.loads(run(*module, "verify", "--json", cwd=tmp_path))["status"] == "clean"
    assert "pages" in run(*module, "stats", cwd=tmp_path)
    assert run(*module, "completion", "fish", cwd=tmp_path).startswith("#")


def test_the_installed_demo_runs(installed, small, tmp_path):
    said = json.loads(run(installed / "fencepost", "demo", small, "--json", cwd=tmp_path))
    assert (said["status"], said["counts"]["tasks"]) == ("accepted", 12)
    assert list(tmp_path.iterdir()) == []


def test_the_unpacked_source_runs_with_nothing_installed(built, small, tmp_path):
    """-S: without the folder of installed packages, of this environment or the system's."""
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4
    with tarfile.open(built / ARCHIVE) as archive:
        archive.extractall(tmp_path, **safely)  # noqa: S202  # it was built here
    bare = (sys.executable, "-S", "-m", "fencepost")
    said = run(*bare, "demo", small, "--json", cwd=tmp_path / STEM, PYTHONDONTWRITEBYTECODE="1")
    assert (json.loads(said)["status"], json.loads(said)["counts"]["tasks"]) == ("accepted", 12)


def test_every_module_of_the_wheel_loads_without_any_other_package(installed, members, tmp_path):
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    place = run(installed / "python", "-c", asked, cwd=tmp_path).strip()
    paths = sorted(
        name for name in members[WHEEL]
        if name.endswith(".py") and not name.removeprefix("fencepost/").startswith(NEEDS_EXTRA)
    )  # fmt: skip
    names = [path[:-3].removesuffix("/__init__").replace("/", ".") for path in paths]
    assert len(names) > 50 and "fencepost" in names
    program = "import sys, importlib\nsys.path.insert(0, sys.argv[1])\n" + "".join(
        f"importlib.import_module({name!r})\n" for name in names if not name.endswith("__main__")
    )
    run(sys.executable, "-I", "-S", "-B", "-W", "error", "-c", program, place, cwd=tmp_path)
