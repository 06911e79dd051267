"""The nets of deliveries that are not HTTP are nets: each planted fault makes the law fail that is
named for it."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager

import pytest
import test_deliver_command as commands
import test_deliver_directory as directories
import test_deliver_line as lines
import test_deliver_s3 as buckets
import test_deliver_table as tables_laws
from helpers.delivering import depot
from helpers.faults import edit
from helpers.sinks import bucket, sender

from fencepost.clock import SystemClock
from fencepost.deliveries import admission, command, directory, event, s3, table
from fencepost.deliveries.command import CommandSender
from fencepost.issues import FencepostError

BROKEN = (
    AssertionError, pytest.fail.Exception, FencepostError, OSError, KeyError, sqlite3.Error,
)  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with bucket() as made:
        yield made


class Ground:
    """What a law is given."""

    def __init__(self, folder, server, monkeypatch):
        self.folder, self._server, self.monkeypatch = folder, server, monkeypatch

    @property
    def out(self):
        (self.folder / "out").mkdir(exist_ok=True)
        return self.folder / "out"

    @contextmanager
    def place(self):
        with depot(self.folder, clock=SystemClock()) as made:
            yield made

    @property
    def store(self):
        self._server.empty()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            self.monkeypatch.setenv(name, "hidden-word")
        return self._server

    @contextmanager
    def table(self):
        """A SQLite table that was greeted, and its address."""
        address = f"sqlite:{self.folder}/their.db#effect"
        made = sender(address, "fenced")
        tables_laws.greeted(made)
        try:
            yield made, address
        finally:
            made.close()


def on_out(law, *more):
    return lambda ground: law(ground.out, *more)


def on_out_beside(law):
    return lambda ground: law(ground.out, ground.folder)


def on_place(law, *more, out=True):
    def run(ground):
        with ground.place() as place:
            law(place, ground.out, *more) if out else law(place, *more)

    return run


def on_store(law, *more):
    def run(ground):
        store = ground.store
        made = buckets.sending(store.endpoint)
        try:
            law(made, store, *more)
        finally:
            made.close()

    return run


def alone(law, *more):
    return lambda ground: law(*more)


# name: (the function, what stands there, the fault, the law that has to fail)
PLANTED = {
    "a file is put over the one that is there": (
        directory._placed, "os.link(partial, path)", "os.replace(partial, path)",
        on_out(directories.test_the_same_effect_again_is_there_and_other_bytes_under_its_name_are_a_conflict)),
    "other bytes are the same effect": (
        directory._placed, "if not same:", "if False:",
        on_out(directories.test_the_same_effect_again_is_there_and_other_bytes_under_its_name_are_a_conflict)),
    "a link to the same bytes is the effect": (
        directory._is, "os.lstat(path)", "os.stat(path)",
        lambda ground: directories.test_what_is_no_file_of_these_bytes_is_a_conflict(
            ground.out, ground.folder, "link")),
    "a link leads out of the directory": (
        directory.DirectorySender._make_folders, "each.is_symlink() or ", "",
        on_out_beside(
            directories.test_nothing_is_written_through_a_link_that_leads_out_of_the_directory)),
    "a name does not say the fence": (
        directory.name_of, "(event.epoch, event.fence,", "(event.epoch, 0,",
        alone(directories.test_of_the_names_of_a_task_the_last_is_the_latest)),
    "two rounds have one name": (
        directory.name_of, "int(round_))", "0)",
        alone(directories.test_each_outcome_and_round_of_a_task_has_a_name_of_its_own)),
    "what a killed try has left stays": (
        directory._tidy, "_forget(Path(each.path))", "pass",
        on_out(directories.test_a_partial_file_of_a_try_that_was_killed_is_no_effect_and_is_tidied_away)),
    "what is perhaps not on the disk is delivered": (
        directory._placed, 'Try("unanswered",', 'Try("delivered",',
        lambda ground: directories.test_an_error_of_the_disk_leaves_nothing_that_was_not_told(
            ground.out, ground.monkeypatch, "_sync")),
    "an obligation names any place": (
        event.about_of, "check(about.get(name), name)", "pass",
        on_place(directories.test_an_obligation_that_names_another_place_goes_nowhere,
                 {"queue": ".."})),
    "an object is written over what is there": (
        s3.S3Sender.__init__, '{"IfNoneMatch": "*"} if place.kind == "cas" else {}', "{}",
        on_store(buckets.test_an_effect_again_is_there_and_other_bytes_under_its_name_are_a_conflict)),
    "other bytes are the same object": (
        s3.S3Sender._there, "if not same:", "if False:",
        on_store(buckets.test_what_is_not_wholly_of_these_bytes_is_a_conflict, "longer")),
    "the beginning of an object is the object": (
        s3.S3Sender._there, "bytes=0-{len(content)}", "bytes=0-{len(content) - 1}",
        on_store(buckets.test_what_is_not_wholly_of_these_bytes_is_a_conflict, "longer")),
    "a header that was signed is left out": (
        s3.S3Sender._exchanged, "not in OWN_HEADERS", 'not in {*OWN_HEADERS, "content-type"}',
        lambda ground: buckets.test_what_arrives_is_signed_as_version_4_says(ground.store)),
    "what the store did not answer was not sent": (
        s3.S3Sender._broken, 'return Try("unanswered", str(error))',
        'return Try("unsent", str(error))',
        lambda ground: buckets.test_what_the_stores_answer_says_of_a_delivery(
            ground.store, None, "unanswered")),
    "a bucket may stand in one's own network": (
        s3.S3Sender._exchanged, "allow_private=self._private", "allow_private=True",
        lambda ground: buckets.test_a_store_in_ones_own_network_is_refused_unless_it_is_allowed(
            ground.store)),
    "a bucket has as long as it likes": (
        s3.S3Sender._exchanged, "left = max(0.001, ", "left = max(6.0, ",
        lambda ground: buckets.test_one_that_drips_its_answer_is_left_in_time(ground.store)),
    "a table is taken for granted": (
        table.Ready.__call__, "if not there:", "if False:",
        on_place(tables_laws.test_two_destinations_in_one_database_keep_their_streams_apart)),
    "a store is a table like others": (
        table.Ready.__call__, "if ours:", "if False:",
        on_place(tables_laws.test_a_store_of_fencepost_is_not_written_to_as_a_table, None,
                 out=False)),
    "a table is named by anything": (
        table.quoted, "if not all(", "if False and not all(",
        alone(tables_laws.test_a_table_has_a_plain_name, "a;drop table b")),
    "an exit code that says nothing says that nothing was done": (
        CommandSender._judged, "(ended.code, OTHER)", "(ended.code, EXIT_CODES[75])",
        on_place(commands.test_what_becomes_of_a_delivery_by_its_exit_code, 1, "unfenced",
                 "blocked", 1, out=False)),
    "what it writes is kept without end": (
        command.evidence, "if len(canonical.dumps(told)) <= most:", "if True:",
        alone(commands.test_what_it_has_written_is_evidence_within_bounds, b"\0" * 40, 100,
              {"exit": 0, "output_over_bytes": 100})),
    "a command is given our token": (
        CommandSender._started, 'if not k.startswith("FENCEPOST_")', "if k",
        lambda ground: commands.test_it_is_told_what_the_page_says_and_nothing_else_of_ours(
            ground.folder, ground.monkeypatch)),
    "a command begins after the end": (
        CommandSender._started, "if self._closed:", "if False:",
        lambda ground: commands.test_one_that_is_aborted_is_ended_and_nothing_more_begins(
            ground.folder)),
    "one that came too late keeps its place": (
        admission.Gate.take, "if each.settling:", "if False:",
        alone(lines.test_one_that_came_too_late_to_begin_holds_up_nobody)),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name, server, monkeypatch, tmp_path):
    function, old, new, law = PLANTED[name]
    edit(monkeypatch, function, old, new)
    with pytest.raises(BROKEN):
        law(Ground(tmp_path, server, monkeypatch))


# name: (what stands in the upsert, the fault)
BENT = {
    "the row is overwritten whatever it is": (">=", "is not"),
    "the epoch is not compared": ("(excluded.epoch, ", "(99, "),
}


@pytest.mark.parametrize("name", BENT)
def test_a_bent_statement_is_found(name, server, monkeypatch, tmp_path):
    old, new = BENT[name]
    before = table.SQL["upsert_sqlite"]
    assert before.count(old) == 1
    monkeypatch.setitem(table.SQL, "upsert_sqlite", before.replace(old, new))
    ground = Ground(tmp_path, server, monkeypatch)
    with pytest.raises(BROKEN), ground.table() as (made, address):
        tables_laws.test_the_guard_of_the_statement_keeps_what_is_later_by_itself(made, address)
