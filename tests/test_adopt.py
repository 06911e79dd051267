"""A copy that is to live becomes a writer of its own where it stands, on both stores, by the steps
of a restore without its copying."""

from __future__ import annotations

import json
import sqlite3
from contextlib import ExitStack, closing, contextmanager

import pytest
from helpers import postgres
from helpers.delivering import Depot
from helpers.receivers import Kit, Web
from helpers.restoring import Told
from test_restore import once

import fencepost
from fencepost.cli import main
from fencepost.clock import SystemClock
from fencepost.commands import Complete
from fencepost.handle import Handle
from fencepost.operate import restore as operate
from fencepost.operate.restoring.steps import Wishes


class Fork:
    """An original and a copy of it, with one receiver. `tasks`: one whose result was delivered
    before the copy, one that was leased then, one that was ready."""

    def __init__(self, folder, kit, web, stack):
        self.folder, self.kit, self.web, self._stack = folder, kit, web, stack
        self.copies = 0

    def begin(self, address):
        self.address = address
        fp = fencepost.open(address, create=True, clock=self.clock())
        self._stack.callback(fp.close)
        self.old = Depot(fp, self.folder / "old")
        self.old.destination(self.web.url)
        self.tasks = self.old.results("r0")
        self.old.deliver()
        self.tasks += [fp.enqueue("pages", {"of": n}).task_id for n in (1, 2)]
        (self.lease,) = fp.claim(task_id=self.tasks[1], worker_id="w-old")

    def future(self):
        self.lease.complete("r1")
        self.old.deliver()

    @contextmanager
    def opened(self, address):
        with fencepost.open(address, clock=self.clock()) as fp:
            yield Depot(fp, self.folder / "new")

    def adopt(self, address, **given):
        with self.opened(address) as new:
            wishes = Wishes(**{"who": "anna", **given})
            return Told(operate.adopt(new.fp, wishes, folder=self.folder))

    def operations(self):
        return [operation for operation, _ in self.kit.effects()]


class OnFile(Fork):
    why = "copied"

    def clock(self):
        return SystemClock()

    def start(self):
        self.begin(self.folder / "old.db")

    def copy(self):
        self.copies += 1
        target = self.folder / f"copy-{self.copies}.db"
        with closing(sqlite3.connect(self.address)) as own:
            own.execute("vacuum into ?", (str(target),))
        return target


class OnServer(Fork):
    why = "another database"

    def clock(self):
        return None

    def start(self):
        self.begin(self._stack.enter_context(postgres.database()))

    def copy(self):
        """Nobody may be connected to what is copied: the original is closed and opened again."""
        self.old.fp.close()
        name = postgres.name_of(self.address)
        made = self._stack.enter_context(postgres.database(template=name))
        fp = fencepost.open(self.address)
        self._stack.callback(fp.close)
        self.old = Depot(fp, self.folder / "old")
        return made

    def future(self):
        """The lease is of the handle that was closed."""
        lease = Complete(self.tasks[1], "w-old", self.lease.fence, result="r1")
        assert self.old.fp.execute([lease])[0].accepted
        self.old.deliver()


@pytest.fixture(params=[OnFile, OnServer], ids=["sqlite", "postgres"])
def it(request, tmp_path):
    kit = Kit(tmp_path / "receiver.db")
    with ExitStack() as stack:
        stack.callback(kit.close)
        web = stack.enter_context(Web(kit.answer))
        made = request.param(tmp_path, kit, web, stack)
        made.start()
        yield made


def test_an_adopted_copy_knows_what_the_receiver_has_and_the_original_is_refused(it):
    copy = it.copy()
    it.future()
    told = it.adopt(copy)
    assert told.complete and told["backup"] is None
    assert told.receiver()["imported"] == [f"{it.tasks[1]}:1"]
    assert told["new_writer"]["why"] == "adopted"
    assert told["old_writer"]["incarnation"] == it.old.fp.writers()[-1].incarnation
    with it.opened(copy) as new:
        assert new.fp.writers()[-1].incarnation == told["new_writer"]["incarnation"]
        assert new.fp.task(it.tasks[1]).state == "done"
        (lease,) = new.fp.claim("pages", worker_id="w-new", limit=9)
        assert lease.task_id == it.tasks[2]
        lease.complete("of the copy")
        new.deliver()
        assert new.fp.verify().clean
    (lease,) = it.old.fp.claim(task_id=it.tasks[2], worker_id="w-old")
    lease.complete("of the original")
    it.old.deliver()
    assert "effect_conflict" in it.old.obligations()[-1].reason
    it.old.results("more of the original")
    it.old.deliver()
    assert it.old.fp.destination("out").stopped.startswith("old_epoch")
    assert it.operations() == [f"{each}:1" for each in it.tasks]
    assert json.loads(it.kit.effects()[-1][1])["result"] == "of the copy"


def test_a_copy_that_was_opened_before_is_adopted_too_and_its_leases_end(it):
    copy = it.copy()
    with it.opened(copy) as new:
        (lease,) = new.fp.claim(task_id=it.tasks[2], worker_id="w")
        assert new.fp.writers()[-1].why == it.why
        assert new.fp.destination("out").stopped == "copied"
    told = it.adopt(copy)
    assert told.complete and told["old_writer"]["why"] == "installed"
    with it.opened(copy) as new:
        late = Complete(it.tasks[2], "w", lease.fence, result="late")
        assert new.fp.execute([late])[0].issues[0] == "stale_epoch"
        assert new.fp.destination("out").stopped is None
        assert [each.why for each in new.fp.writers()][-2:] == [it.why, "adopted"]


def test_what_contradicts_the_receiver_is_told_and_nothing_is_delivered(it):
    """The copy has worked as if it were alone: its result of the task is another one."""
    copy = it.copy()
    it.future()
    with it.opened(copy) as new:
        (lease,) = new.fp.claim(task_id=it.tasks[1], worker_id="w")
        lease.complete("another result")
    told = it.adopt(copy)
    assert not told.complete
    assert told.receiver()["refused"] == [[f"{it.tasks[1]}:1", "result_conflict"]]
    assert told.receiver()["imported"] == []
    assert told.receiver()["isolation"].startswith("the receiver refuses")
    with it.opened(copy) as new:
        assert new.fp.destination("out").stopped in ("copied", "adopted")
    told = it.adopt(copy, overrides=("default/out",), reason="looked at by hand")
    assert told.complete
    with it.opened(copy) as new:
        new.deliver()
    assert it.operations() == [f"{each}:1" for each in it.tasks[:2]]


def test_of_two_copies_the_second_needs_a_persons_word_and_the_first_is_refused_then(it):
    first, second = it.copy(), it.copy()
    assert it.adopt(first).complete
    for path in it.folder.glob("*adopt*"):
        path.unlink()
    told = it.adopt(second)
    assert not told.complete and "--take-over" in told.receiver()["why"]
    told = it.adopt(second, take_over=True)
    assert told.complete and told.receiver()["taken_over"] is True
    with it.opened(first) as new:
        (lease, *_) = new.fp.claim("pages", worker_id="w", limit=9)
        lease.complete("late")
        new.deliver()
        assert new.fp.destination("out").stopped.startswith("old_epoch")
    assert it.operations() == [f"{it.tasks[0]}:1"]


def test_an_adoption_that_hears_nobody_goes_on_with_the_same_writer(it):
    copy = it.copy()
    it.future()
    it.web.close()
    told = it.adopt(copy)
    assert not told.complete
    with it.opened(copy) as new:
        assert new.fp.destination("out").stopped in ("copied", "adopted")
    it.web.listen()
    again = it.adopt(copy)
    assert again.complete and again["new_writer"] == told["new_writer"]
    assert again.receiver()["imported"] == [f"{it.tasks[1]}:1"]


@pytest.mark.parametrize("step", ["begin_writer", "execute", "token_revoke", "destination_set"])
def test_an_adoption_that_was_interrupted_goes_on(it, step, monkeypatch):
    it.old.fp.token_create("w", "worker")
    copy = it.copy()
    it.future()
    with monkeypatch.context() as patch:
        once(patch, Handle, step)
        with pytest.raises(KeyboardInterrupt):
            it.adopt(copy)
    told = it.adopt(copy)
    assert told.complete and told.receiver()["imported"] == [f"{it.tasks[1]}:1"]
    assert len(told["tokens_revoked"]) == 1
    assert told["dispatch"]["on"] == ["default/out"]
    with it.opened(copy) as new:
        assert [each.why for each in new.fp.writers()].count("adopted") == 1
        assert new.fp.writers()[-1].incarnation == told["new_writer"]["incarnation"]
        assert new.fp.destination("out").stopped is None
    assert not [each.name for each in it.folder.glob("*adopt.json")]


def test_a_store_in_memory_is_not_adopted():
    with fencepost.open(":memory:") as fp, pytest.raises(fencepost.InvalidRequest):
        operate.adopt(fp, Wishes())


def test_the_command_line_says_what_is_open_and_what_to_do(it, capsys, monkeypatch):
    copy = str(it.copy())
    monkeypatch.chdir(it.folder)
    it.web.close()
    assert main(["--store", copy, "adopt"]) == 6
    out, err = capsys.readouterr()
    assert "NOT ANSWERED: not reached" in out and "default/out" in err and "--override" in err
    it.web.listen()
    assert main(["--store", copy, "--json", "adopt"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["status"] == "complete" and "receipt: " in err


def test_a_service_is_not_adopted_from_afar(capsys):
    assert main(["--store", "http://127.0.0.1:9/", "adopt"]) == 2
    assert "service's own machine" in capsys.readouterr().err
