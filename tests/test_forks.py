"""Two owners of one store's past before one receiver: a slice of the torture's forks, whose table
stands in docs/forks.md. And that its net would catch what it is there for."""

from __future__ import annotations

import pytest
from helpers.delivering import depot
from helpers.faults import edit
from helpers.fork_files import CLONED, FILES, TWICE
from helpers.fork_receiver import inside, program
from helpers.fork_servers import SERVERS
from helpers.fork_table import (
    ADOPTED,
    COPY_FIRST,
    FIRST,
    GOOD,
    IN_TURN,
    KINDS,
    NEW_ALONE,
    ORIGINAL,
    Row,
    Step,
    cell,
    judged,
    rows,
)
from helpers.sqlite_copies import WAYS
from torture import forked

from fencepost.deliveries import stream
from fencepost.receiver import rules
from fencepost.receiver.receiver import Receiver
from fencepost.storage.sqlite import identity

pytestmark = pytest.mark.timeout(180)  # servers and processes come and go

PUT_BACK = "older file and sidecar written over"
ONE = "original; original: old_epoch; copy: import_needed"
THEN = "original, then copy; original: old_epoch"


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    with program(tmp_path_factory.mktemp("receiver")) as made:
        yield made


def told(way, receiver, folder, *orders):
    """(unordered, ordered) by order, of a fork of which the laws hold."""
    found = rows(way._replace(only=orders), receiver, folder)
    assert [each for row in found for each in judged(row)] == []
    return [(cell(row, "unordered"), cell(row, "ordered")) for row in found]


# -- files


def test_of_a_copy_and_its_store_one_lineage_has_effects_whoever_comes_first(receiver, tmp_path):
    """Without a receiver both accept, which is the seed's counter-example
    (test_seed_receipt_lab_limits.py); and the copy's deliveries wait for a person."""
    way = FILES["cp -a of the folder"]._replace(only=(FIRST, COPY_FIRST, GOOD))
    found = rows(way, receiver, tmp_path / "fork")
    assert [each for row in found for each in judged(row)] == []
    assert [cell(row, "ordered") for row in found] == [ONE, "copy; original: old_epoch", THEN]
    assert [cell(row, "unordered") for row in found] == [cell(row, "ordered") for row in found]
    seen = {(row.beside, row.recognised, row.stopped) for row in found}
    assert seen == {(True, "copied: epoch 16", "copy: copied")}


def test_of_two_copies_the_first_to_come_has_effects_until_a_person_says_otherwise(
    receiver, tmp_path
):
    found = told(FILES[TWICE], receiver, tmp_path / "fork", IN_TURN, ADOPTED)
    assert found == [("original; copy: fork",) * 2, (THEN,) * 2]


def test_a_store_put_back_unseen_is_caught_by_the_chain_of_an_ordered_stream_alone(
    receiver, tmp_path
):
    ((unordered, ordered),) = told(FILES[PUT_BACK], receiver, tmp_path / "fork", FIRST)
    assert unordered.startswith("**both**: original, then copy")
    assert ordered == "original; copy: fork"


def test_who_is_the_same_writer_in_every_word_and_does_other_tasks_is_caught_in_an_ordered_stream(
    receiver, tmp_path
):
    """Neither knows a task of the other's, so that nothing they say contradicts."""
    ((unordered, ordered),) = told(CLONED, receiver, tmp_path / "fork", NEW_ALONE)
    assert unordered.startswith("**both**: original, then copy, then original")
    assert ordered == "original; copy: fork"


def test_what_this_writer_has_delivered_itself_and_not_been_told_of_is_no_twins(receiver, tmp_path):
    """The dispatcher died before it told the store."""
    with depot(tmp_path) as place:
        place.destination(receiver.url, ordered=True)
        place.results("one", "two")
        place.deliver()
        place.fp.destination_advance("out", expected_sequence=2, sequence=0, heard=0)
        place.results("three")
        place.deliver()
        known = place.fp.destination("out")
        assert (known.sequence, known.heard, known.stopped) == (3, 3, None)
        assert [each.state for each in place.obligations()] == ["done"] * 3


# -- servers


def test_a_servers_files_copied_begin_one_epoch_twice_and_one_of_the_two_is_refused(
    receiver, tmp_path
):
    way = SERVERS["files of a stopped server copied, both started"]
    found = told(way, receiver, tmp_path / "fork", IN_TURN)
    assert found == [("original; copy: fork",) * 2]


# -- the net: each planted fault breaks the law that is named for it


def without_a_chain(patch):
    patch.setattr(rules, "follows", lambda event, stream: True)
    patch.setattr(rules, "_parted", lambda hello, stream: False)


def copies_speak_as_one(patch):
    edit(patch, stream.Stream._ours, "twins.append(receipt)\n        return False", "pass")


def without_a_lineage(patch):
    edit(patch, rules.judge_hello, "stream.writer not in hello.lineage or ", "")


def without_incarnations(patch):
    """Epochs alone are compared."""
    without_a_lineage(patch)
    old = "event.incarnation != stream.writer.incarnation"
    edit(patch, rules.judge_event, old, "False")


def without_epochs(patch):
    edit(patch, rules.judge_event, "event.writer_epoch < stream.writer.epoch", "False")


def without_receipts(patch):
    """What is there is done again."""
    old = "return answers.accepted(known.receipt, replayed=True)"
    again = "self._run(session.store.connection, event)"
    edit(patch, Receiver._deliver, old, f"return ({again}, {old[7:]})[1]")


def no_guard(patch):
    """A store takes each copy for itself."""
    edit(
        patch,
        identity.Identity._recognised,
        "named or judged(known, found, record, state)",
        "named",
    )


PLANTED = {
    "a receiver without a chain": (without_a_chain, CLONED, IN_TURN, "ordered: two lineages"),
    "a writer that hears of his twin's effects and goes on": (
        copies_speak_as_one, CLONED, NEW_ALONE, "ordered: two lineages"),
    "a receiver that asks for no lineage": (
        without_a_lineage, FILES[TWICE], NEW_ALONE, "from a writer that it does not follow"),
    "a receiver that asks for no incarnation": (
        without_incarnations, FILES[TWICE], NEW_ALONE, "unordered: two lineages"),
    "a receiver that asks for no epoch": (
        without_epochs, FILES["cp"], GOOD, "unordered: two lineages"),
    "a receiver that keeps no receipts": (
        without_receipts, FILES["cp"], NEW_ALONE, "operations have a second effect"),
    "a store that takes a copy for itself": (
        no_guard, FILES["cp"], NEW_ALONE, "unordered: two lineages"),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_breaks_a_law(fault, monkeypatch, tmp_path):
    plant, way, order, law = PLANTED[fault]
    plant(monkeypatch)
    with inside(tmp_path) as receiver:
        found = rows(way._replace(only=(order,)), receiver, tmp_path / "fork")
    wrong = [each for row in found for each in judged(row)]
    assert any(law in each for each in wrong), wrong


# -- the table


def test_every_way_of_copying_a_file_and_eleven_forks_of_a_server_are_in_the_table():
    assert len(FILES) == len(WAYS) + 1 == 20 and len(SERVERS) == 11
    first, second = forked.PAGE.read_text(encoding="utf-8").split(forked.MIDDLE)
    lines = [line for line in first.splitlines() if line.startswith("| ")][1:]
    names = [line[2:].replace("\\|", "/").split(" | ")[0] for line in lines]
    assert names == [name.replace("|", "/") for name in forked.WAYS]
    assert second.endswith(forked.FOOT)


def test_only_an_unordered_destination_has_effects_of_both_and_only_where_nothing_tells_them():
    _, second = forked.PAGE.read_text(encoding="utf-8").split(forked.MIDDLE)
    lines = [line.split(" | ") for line in second.splitlines() if line.startswith("| ")]
    assert any("**both**" in line[2] for line in lines)
    assert not any("**both**" in line[3] for line in lines)


def test_what_a_fork_breaks_is_a_failure_and_leaves_the_page_alone(monkeypatch, tmp_path):
    def breaks(way, receiver, folder):
        raise AssertionError("nothing was delivered")

    monkeypatch.setattr(forked, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(forked, "WAYS", {"cp": FILES["cp"]})
    monkeypatch.setattr(forked, "rows", breaks)
    (failure,) = forked.run(0, 1)["failures"]
    assert "nothing was delivered" in failure["name"] and not forked.PAGE.exists()
    step = Step(ORIGINAL, (0, "a"), ((0, "a"),), ("one",), "", ())
    row = Row(FILES["cp"], "nothing", "—", True, "one", {"ordered": (step,)}, 1)
    monkeypatch.setattr(forked, "rows", lambda *given: [row])
    (failure,) = forked.run(0, 1)["failures"]
    assert "1 operations have a second effect" in failure["name"] and not forked.PAGE.exists()


def test_a_run_that_is_too_short_for_all_forks_leaves_the_page_alone(monkeypatch, tmp_path):
    step = Step(ORIGINAL, (0, "a"), ((0, "a"),), ("one",), "", ())
    row = Row(FILES["cp"], "nothing", "—", True, "one", dict.fromkeys(KINDS, (step,)), 0)
    monkeypatch.setattr(forked, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(forked, "rows", lambda *given: [row])
    assert forked.run(0, 1)["forks"] == 1 and not forked.PAGE.exists()
    monkeypatch.setattr(forked, "WAYS", {"cp": FILES["cp"]})
    assert forked.run(0, 1)["failures"] == [] and "| cp | nothing |" in forked.PAGE.read_text()
