"""The folder of results: of its worker alone, and gone with him or with his next life."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from helpers.shell import environment

from fencepost.worker.folder import PREFIX, Folder

KILLED = (
    "import os\n"
    "from fencepost.worker.folder import Folder\n"
    "open(Folder('c').file('1.json'), 'w').write('1')\n"
    "os.kill(os.getpid(), 9)\n"
)


@pytest.fixture(autouse=True)
def temp(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def killed(temp):
    """What a worker with the cookie `c` has left that was killed."""
    child = subprocess.run(
        [sys.executable, "-c", KILLED], env=environment(TMPDIR=str(temp)), check=False
    )
    assert child.returncode == -9
    (left,) = temp.iterdir()
    assert left.name.startswith(f"{PREFIX}c-") and [p.name for p in left.iterdir()] == ["1.json"]


def test_what_a_killed_worker_has_left_goes_with_its_next_life(temp):
    killed(temp)
    Folder("other")
    assert len(list(temp.iterdir())) == 1
    Folder("c")
    assert list(temp.iterdir()) == []


def test_the_folder_of_one_who_lives_is_left_alone(temp):
    living, other = Folder("c"), Folder("c")
    path = living.file("1.json")
    assert os.path.dirname(other.file("1.json")) != os.path.dirname(path)
    Folder("c")
    assert os.path.isdir(os.path.dirname(path)) and len(list(temp.iterdir())) == 2
    living.close()
    other.close()
    living.close()
    assert list(temp.iterdir()) == []


def test_what_was_held_still_as_a_life_began_goes_when_it_ends(temp):
    before = Folder("c")
    before.file("1.json")
    life = Folder("c")
    os.close(before._guard)  # who was being started runs now, and has none of it
    assert len(list(temp.iterdir())) == 1
    life.close()
    assert list(temp.iterdir()) == []


def test_it_is_his_alone_and_nothing_is_made_that_nobody_asks_for(temp):
    folder = Folder("c")
    assert list(temp.iterdir()) == []
    path = os.path.dirname(folder.file("1.json"))
    assert os.stat(path).st_mode & 0o777 == 0o700
    folder.close()


def test_a_link_of_its_name_leads_nowhere(temp):
    (temp / "mine").mkdir()
    (temp / "mine" / "kept").touch()
    (temp / f"{PREFIX}c-link").symlink_to(temp / "mine")
    (temp / f"{PREFIX}c-file").touch()
    Folder("c")
    assert (temp / "mine" / "kept").exists() and (temp / f"{PREFIX}c-file").exists()
