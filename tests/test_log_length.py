"""A log that has been long keeps its length on disk; that must not make every commit dear."""

from __future__ import annotations

from helpers.lab import Lab

from fencepost.storage.sqlite import store as stores


def test_a_log_that_was_long_once_is_not_copied_after_every_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "WAL_BYTES", 100_000)
    lab = Lab(tmp_path / "work.db")
    try:
        copies = []
        while lab.fp._store.wal_bytes() <= 100_000:
            lab.offer("x" * 10_000)
        lab.offer("y")  # a commit is answered before its log is seen to: that of the last is, now
        lab.fp._store._write.set_trace_callback(
            lambda sql: copies.append(sql) if "wal_checkpoint" in sql else None
        )
        for _ in range(3 * stores.LOG_COMMITS):
            lab.offer("y")
        assert lab.fp._store.wal_bytes() > 100_000, "the log became short: the test shows nothing"
        assert len(copies) in (2, 3)
    finally:
        lab.close()


def test_a_handle_that_finds_a_long_log_copies_it_after_its_first_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "WAL_BYTES", 100_000)
    lab = Lab(tmp_path / "work.db")
    try:
        lab.offer("x" * 200_000)
        other = lab.open()
        copies = []
        other._store._write.set_trace_callback(
            lambda sql: copies.append(sql) if "wal_checkpoint" in sql else None
        )
        other.enqueue("intake", "y")
        other._writer.close()
        assert len(copies) == 1
    finally:
        lab.close()
