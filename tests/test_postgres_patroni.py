"""What the torture's part on Patroni makes of what it finds; the nodes themselves, which take
minutes, are the torture's, and its table stands in docs/postgres-failover.md."""

from __future__ import annotations

import itertools

import pytest
from helpers import patroni as nodes
from helpers import patroni_events
from helpers.patroni import ASYNCHRONOUS, SYNCHRONOUS, Endpoint
from helpers.patroni_events import EVENTS, LOSES, PLANTS, Row, judged
from helpers.patroni_net import NotRun, missing
from torture import failover, patroni

from fencepost.storage.address import address_of

NOTICED = "another timeline: epoch 16, floor raised"
ROW = Row("an event", ASYNCHRONOUS, 10, 4, 0, 1, 20.25, NOTICED, "stale_epoch", 10, 0, 0, 0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, ""),
        ({"lost": 3, "same": 7}, ""),
        ({"lost": 3, "same": 7, "mode": SYNCHRONOUS}, "3 acknowledged writes are lost"),
        ({"lost": 3, "same": 7, "detected": "installed: epoch 0, floor kept"}, "not noticed"),
        ({"detected": "another timeline: epoch 16, floor kept"}, "not noticed"),
        ({"leases": "go on, stale_epoch"}, "leases of before: go on"),
        ({"same": 9}, "9 of 10 have the same receipt"),
        ({"lost": 3}, "10 of 10 have the same receipt, 3 are lost"),
        ({"twice": 1}, "1 results beyond one"),
        ({"wrong": ("a token was given twice",)}, "a token was given twice"),
        ({"event": min(LOSES)}, "nothing was lost"),
        ({"event": min(LOSES), "mode": SYNCHRONOUS}, ""),
    ],
)
def test_a_row_is_wrong_where_a_loss_is_silent_or_a_promise_broken(change, told):
    wrong = judged(ROW._replace(**change))
    assert len(wrong) == bool(told) and all(told in what for what in wrong)


def test_a_url_that_names_all_nodes_asks_for_the_one_that_takes_writes():
    conninfo = address_of(Endpoint(2, 1, 3).url()).conninfo
    assert "@10.88.0.2:5432,10.88.0.1:5432,10.88.0.3:5432/" in conninfo
    assert conninfo.count("target_session_attrs=read-write") == 1
    assert Endpoint(2).url() == "postgresql://postgres@10.88.0.2:5432/postgres"


def test_the_page_has_a_line_for_every_event_in_both_modes_and_was_made_by_the_command():
    _, mark, half = failover.PAGE.read_text(encoding="utf-8").partition(failover.SECOND)
    assert mark and half.count("\n| ") == len(EVENTS) * 2 + 1
    for name in EVENTS:
        lost = {}
        for mode in (ASYNCHRONOUS, SYNCHRONOUS):
            _, _, after = half.partition(f"\n| {name} | {mode} | ")
            lost[mode] = int(after.split("|")[2].replace(",", ""))
        assert lost[SYNCHRONOUS] == 0 and (name not in LOSES or lost[ASYNCHRONOUS] > 0)


@pytest.fixture
def page(monkeypatch, tmp_path):
    """A page whose first half is there, nodes that find nothing, and plants that are seen."""
    path = tmp_path / "page.md"
    path.write_text("the first half\n")
    monkeypatch.setattr(patroni, "PAGE", path)
    monkeypatch.setattr(patroni, "missing", list)
    monkeypatch.setattr(patroni, "needed", list)
    monkeypatch.setattr(patroni, "versions", lambda: {"Patroni": "9.9"})
    monkeypatch.setattr(patroni, "planted", lambda name: [])
    monkeypatch.setattr(patroni, "happened", as_expected)
    return path


def as_expected(name, mode):
    lost = 2 if mode == ASYNCHRONOUS else 0
    return ROW._replace(event=name, mode=mode, lost=lost, same=10 - lost)


def one_round(monkeypatch):
    """So many seconds, by a clock that goes on by one each time that it is looked at: it is not
    looked at before the first case, and last after the round."""
    clock = itertools.count()
    monkeypatch.setattr(patroni, "monotonic", lambda: next(clock))
    return len(EVENTS) * 2 + len(PLANTS)


def test_a_whole_round_makes_its_half_of_the_page_and_leaves_the_other(page, monkeypatch):
    found = patroni.run(one_round(monkeypatch), 7)
    assert (found["rounds"], found["events"], found["planted seen"]) == (1, 12, 2)
    assert (found["failures"], found["lost, asynchronous"]) == ([], 12)
    text = page.read_text()
    assert text.startswith("the first half\n\n## Under Patroni\n") and "Patroni 9.9" in text
    assert text.count("| asynchronous | 10 | 4 | 2 | 1 | 20.2 s |") == 6
    failover.put(page, first="another first half\n")
    assert page.read_text() == text.replace("the first half", "another first half", 1)


def test_what_there_was_no_time_for_is_named_as_not_run_and_leaves_the_page_alone(page):
    found = patroni.run(0, 7)
    assert (found["cases"], found["not run"]) == (1, 13)
    assert found["noted"][0]["name"].startswith("NOT RUN, the time was over: ")
    assert page.read_text() == "the first half\n"


def test_a_machine_that_cannot_do_it_has_run_nothing_and_fails(page, monkeypatch):
    monkeypatch.setattr(patroni, "missing", lambda: ["root on Linux", "ip"])
    found = patroni.run(3600, 7)
    assert found["not run"] == 14 and "cases" not in found
    (failure,) = found["failures"]
    assert failure["name"].startswith("NOT RUN") and "root on Linux, ip" in failure["name"]
    assert page.read_text() == "the first half\n"


def test_who_is_not_root_has_no_hosts(monkeypatch):
    monkeypatch.setattr(nodes, "needed", list)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert missing()[0] == "root on Linux"
    with pytest.raises(NotRun, match="NOT RUN: three hosts need root"):
        patroni_events.happened(min(EVENTS), SYNCHRONOUS)


@pytest.mark.parametrize(
    ("breaks", "told"),
    [
        (lambda name, mode: ROW._replace(event=name, mode=SYNCHRONOUS, lost=1, same=9), "are lost"),
        (lambda name, mode: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_an_event_finds_wrong_is_a_failure_and_leaves_the_page_alone(
    page, monkeypatch, breaks, told
):
    monkeypatch.setattr(patroni, "happened", breaks)
    found = patroni.run(one_round(monkeypatch), 7)
    assert len(found["failures"]) == 12
    assert all(told in failure["name"] for failure in found["failures"])
    assert page.read_text() == "the first half\n"


def test_a_broken_client_that_is_not_seen_is_a_failure(monkeypatch):
    monkeypatch.setattr(patroni, "happened", lambda name, mode: ROW)
    for name in PLANTS:
        assert "planted and not seen" in patroni.planted(name)[0]
    blind = ROW._replace(detected="installed: epoch 0, floor raised", lost=1, same=9)
    monkeypatch.setattr(patroni, "happened", lambda name, mode: blind)
    assert patroni.planted("the guard is off") == []
