"""Where a store may live: every refusal names the path, what is wrong and what to do."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

import fencepost
from fencepost.issues import Unavailable
from fencepost.storage.sqlite.place import REFUSED_FILESYSTEMS, Place, check_place

ROOT = Path(__file__).resolve().parent.parent
EXT4 = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"


def mounts(*points):
    """mountinfo of an ext4 root and (mount point as the kernel writes it, type) pairs."""
    return EXT4 + "".join(
        f"{30 + n} 27 0:{n} / {point} rw,nosuid shared:{n} master:1 - {kind} host:/export rw\n"
        for n, (point, kind) in enumerate(points)
    )


def refusal(path, *arguments, **named):
    with pytest.raises(Unavailable) as caught:
        check_place(path, *arguments, **named)
    message = str(caught.value)
    assert str(path) in message
    return message


def test_a_new_store_in_a_writable_folder_is_allowed(tmp_path):
    path = tmp_path / "work.db"
    assert check_place(path, None, mountinfo=EXT4) == Place(path, "ext4", False, True)
    assert not path.exists()


def test_an_existing_file_is_allowed(tmp_path):
    path = tmp_path / "work.db"
    path.write_bytes(b"")
    assert check_place(path, None, mountinfo=EXT4) == Place(path, "ext4", True, True)


def test_the_machine_is_asked_where_no_mounts_are_given(tmp_path):
    place = check_place(tmp_path / "work.db")
    if sys.platform == "linux":
        assert place.filesystem not in ("", "unknown")
    else:
        assert place.filesystem == "unknown"


def test_a_file_system_that_cannot_be_told_is_unknown_and_allowed(tmp_path):
    assert check_place(tmp_path / "work.db", mountinfo="").filesystem == "unknown"
    odd = "nonsense\n1 2 3 - nfs\n\n27 1 254:0 / /elsewhere rw - nfs x rw"
    assert check_place(tmp_path / "work.db", mountinfo=odd).filesystem == "unknown"


def test_a_directory_is_refused(tmp_path):
    message = refusal(tmp_path)
    assert "it is a directory; name a file in it" in message


def test_a_missing_folder_is_refused(tmp_path):
    message = refusal(tmp_path / "no" / "work.db")
    assert f"the folder {tmp_path / 'no'} does not exist; create it first" in message


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    assert "cannot be looked at" in refusal(tmp_path / "file" / "work.db")


def test_a_path_that_is_no_path_is_refused():
    with pytest.raises(Unavailable, match="null"):
        check_place(Path("work\0.db"))


@pytest.mark.parametrize("content", [b"x", b"a note, not a database\n", b"\0" * 511])
def test_a_file_too_short_for_a_database_is_refused_and_kept(tmp_path, content):
    note = tmp_path / "note.txt"
    note.write_bytes(content)
    assert "that are no SQLite database; name another path" in refusal(note)
    with pytest.raises(Unavailable):
        fencepost.open(str(note), create=True)
    assert note.read_bytes() == content


def test_a_torn_first_page_beside_its_journal_is_left_to_sqlite(tmp_path):
    (tmp_path / "torn.db").write_bytes(b"SQLite format 3\0" + bytes(350))
    assert "are no SQLite database" in refusal(tmp_path / "torn.db")
    (tmp_path / "torn.db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
    assert check_place(tmp_path / "torn.db", None).exists


def test_an_empty_file_may_become_a_store(tmp_path):
    (tmp_path / "empty.db").touch()
    with fencepost.open(str(tmp_path / "empty.db"), create=True) as fp:
        assert fp.verify().problems == ()


def test_a_named_pipe_a_socket_and_a_device_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "it is a named pipe, not a regular file" in refusal(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert "it is a socket, not a regular file" in refusal(tmp_path / "socket")
    assert "it is a device, not a regular file" in refusal(Path(os.devnull))


def test_a_file_with_two_names_is_refused(tmp_path):
    path = tmp_path / "work.db"
    path.touch()
    os.link(path, tmp_path / "other.db")
    assert "the file has 2 names (hard links)" in refusal(path)


def test_a_symlink_is_resolved_to_the_real_path(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "work.db").touch()
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "link.db").symlink_to("folder/work.db")
    (tmp_path / "dangling.db").symlink_to("real/new.db")
    (tmp_path / "circle.db").symlink_to("circle.db")
    real = Path(os.path.realpath(tmp_path)) / "real"
    assert check_place(tmp_path / "link.db").path == real / "work.db"
    assert check_place(tmp_path / "folder" / ".." / "real" / "work.db").path == real / "work.db"
    assert check_place(tmp_path / "dangling.db").path == real / "new.db"
    assert not check_place(tmp_path / "dangling.db").exists
    assert "cannot be looked at" in refusal(tmp_path / "circle.db")


def test_the_file_system_of_the_real_path_counts(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link.db").symlink_to("far/work.db")
    info = mounts((tmp_path / "far", "nfs4"))
    with pytest.raises(Unavailable, match=r"far/work\.db' cannot hold a store: it is on .* nfs4"):
        check_place(tmp_path / "link.db", mountinfo=info)


@pytest.mark.parametrize("kind", [*sorted(REFUSED_FILESYSTEMS), "fuse.sshfs", "fuse.gcsfuse"])
def test_a_network_or_user_space_file_system_is_refused_unless_named(tmp_path, kind):
    info = mounts((tmp_path, kind))
    message = refusal(tmp_path / "work.db", mountinfo=info)
    assert f"of type {kind}," in message
    assert "PostgreSQL" in message
    assert f"allow_filesystem={kind!r}" in message
    refusal(tmp_path / "work.db", "ext4", mountinfo=info)
    refusal(tmp_path / "work.db", kind + "x", mountinfo=info)
    assert check_place(tmp_path / "work.db", kind, mountinfo=info).filesystem == kind


def test_the_types_that_were_promised_to_be_refused_are():
    promised = "nfs nfs4 cifs smb2 smb3 smbfs 9p fuse fuseblk afs ceph glusterfs lustre"
    assert set(promised.split()) <= REFUSED_FILESYSTEMS


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs"])
def test_a_local_file_system_is_allowed(tmp_path, kind):
    assert check_place(tmp_path / "w", mountinfo=mounts((tmp_path, kind))).filesystem == kind


def test_the_longest_mount_point_above_the_path_decides(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    info = mounts((tmp_path / "a" / "b", "xfs"), (tmp_path, "btrfs"), (tmp_path / "a", "nfs"))
    assert check_place(tmp_path / "a" / "b" / "w", mountinfo=info).filesystem == "xfs"
    assert check_place(tmp_path / "w", mountinfo=info).filesystem == "btrfs"
    refusal(tmp_path / "a" / "w", mountinfo=info)


def test_a_mount_point_counts_by_whole_names(tmp_path):
    info = mounts((f"{tmp_path}/wo", "nfs"))
    assert check_place(tmp_path / "work.db", mountinfo=info).filesystem == "ext4"


def test_a_file_that_is_itself_a_mount_point_counts(tmp_path):
    (tmp_path / "work.db").touch()
    assert "9p" in refusal(tmp_path / "work.db", mountinfo=mounts((tmp_path / "work.db", "9p")))


def test_the_later_of_two_mounts_on_one_point_hides_the_earlier(tmp_path):
    info = mounts((tmp_path, "nfs"), (tmp_path, "tmpfs"))
    assert check_place(tmp_path / "w", mountinfo=info).filesystem == "tmpfs"
    refusal(tmp_path / "w", mountinfo=mounts((tmp_path, "tmpfs"), (tmp_path, "nfs")))


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("a b", r"a\040b"), ("a\tb", r"a\011b"), ("a\nb", r"a\012b"), ("a\\b", r"a\134b"),
     ("a\\040b", r"a\134040b"), ("a\u2028b", "a\u2028b"), ("a - b", r"a\040-\040b")],
)  # fmt: skip
def test_mount_points_are_read_through_the_kernels_escapes(tmp_path, name, escaped):
    (tmp_path / name).mkdir()
    info = mounts((f"{tmp_path}/{escaped}", "fuse.sshfs"))
    with pytest.raises(Unavailable, match=r"fuse\.sshfs"):
        check_place(tmp_path / name / "work.db", mountinfo=info)


# --- permissions, seen by one who is not root -------------------------------------------------

NOBODY = 65534
LOOK = """
import os, sys
from pathlib import Path
from fencepost.issues import Unavailable
from fencepost.storage.sqlite.place import check_place
if os.geteuid() == 0: os.seteuid(int(sys.argv[2]))
try: print(check_place(Path(sys.argv[1])).writable)
except Unavailable as error: print(error)
"""


@pytest.fixture
def folder():
    """A folder that others may enter and write, unlike pytest's own."""
    made = Path(os.path.realpath(tempfile.mkdtemp()))
    made.chmod(0o777)
    yield made
    made.chmod(0o777)
    shutil.rmtree(made)


def seen_by_nobody(path):
    command = [sys.executable, "-c", LOOK, str(path), str(NOBODY)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_read_only_file_is_allowed_and_said_to_be_so(folder):
    (folder / "work.db").touch()
    (folder / "work.db").chmod(0o444)
    assert seen_by_nobody(folder / "work.db") == "False"


def test_a_folder_that_is_not_writable_is_refused(folder):
    folder.chmod(0o555)
    said = seen_by_nobody(folder / "work.db")
    assert f"the folder {folder} is not writable" in said
    assert "move the store" in said


def test_a_folder_that_may_not_be_entered_is_refused(folder):
    (folder / "work.db").touch()
    folder.chmod(0o600)
    assert "cannot be looked at" in seen_by_nobody(folder / "work.db")


def test_a_command_that_a_message_advises_can_be_pasted(tmp_path):
    path = tmp_path / "an app's.db"
    with closing(sqlite3.connect(path)) as application:
        application.execute("create table theirs (x)")
    with pytest.raises(Unavailable) as told:
        fencepost.open(path)
    words = shlex.split(str(told.value).rpartition("run: ")[2])
    assert words == ["fencepost", "init", "--into", str(path)]
    gone = str(tmp_path / "not there.db")
    with pytest.raises(Unavailable) as told:
        fencepost.open(gone)
    words = shlex.split(str(told.value).rpartition("create it with: ")[2])
    assert words == ["fencepost", "--store", gone, "init"]
