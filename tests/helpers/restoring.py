"""A store that is backed up, the future that its backup knows nothing of, and what is made of it.

t0  its result was delivered before the backup
t1  leased at the backup; its result was delivered afterwards
t2  ready at the backup; its result was delivered afterwards
t3  ready at the backup; its result was accepted afterwards, and delivered nowhere
t4  made after the backup; its result was delivered
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fencepost
from fencepost.clock import SystemClock
from fencepost.operate import restore as operate
from fencepost.operate.backup import backup
from fencepost.operate.restoring.steps import Wishes
from helpers.delivering import Depot
from helpers.receivers import Kit, Web


class World:
    """`old` is the store that was backed up; it lives on. `tasks` are those above."""

    def __init__(self, folder: Path, kit: Kit, web: Web) -> None:
        self.folder, self.kit, self.web = folder, kit, web
        self.tasks: list[str] = []
        self.backup, self.target = folder / "kept" / "copy.db", folder / "new" / "store.db"
        self.backup.parent.mkdir()
        self.target.parent.mkdir()
        (folder / "old").mkdir()
        fp = fencepost.open(folder / "old" / "store.db", create=True, clock=SystemClock())
        self.old = Depot(fp, folder / "old")

    def past(self, **options: Any) -> None:
        """Up to the backup."""
        self.old.destination(self.web.url, **options)
        self.tasks = self.old.results("r0")
        self.old.deliver()
        self.tasks += [self.old.fp.enqueue("pages", {"of": n}).task_id for n in (1, 2, 3)]
        (self.lease,) = self.old.fp.claim(task_id=self.tasks[1], worker_id="w-old")
        backup(self.old.fp, self.backup)

    def past_again(self) -> None:
        """The backup, made anew; with one more task, `spare`, that nobody works on."""
        self.spare = self.old.fp.enqueue("spare", {"of": "spare"}).task_id
        backup(self.old.fp, self.backup, force=True)

    def put_receiver_back(self) -> None:
        """As it was when this was called first."""
        path, kept = self.kit.path, self.folder / "receiver.kept"
        self.kit.close()
        if kept.exists():
            shutil.copyfile(kept, path)
        else:
            with sqlite3.connect(path) as own:
                own.execute("vacuum into ?", (str(kept),))
            own.close()
        for ending in ("-wal", "-shm"):
            Path(f"{path}{ending}").unlink(missing_ok=True)
        self.kit = Kit(path)
        self.web.answer = self.kit.answer
        self.before = self.operations()

    def future(self) -> None:
        """What the old owner does after it."""
        self.lease.complete("r1")
        (lease,) = self.old.fp.claim(task_id=self.tasks[2], worker_id="w-old")
        lease.complete("r2")
        self.old.deliver()
        (lease,) = self.old.fp.claim(task_id=self.tasks[3], worker_id="w-old")
        lease.complete("r3 of the lost future")
        late = self.old.fp.enqueue("pages", {"of": 4})
        (lease,) = self.old.fp.claim(task_id=late.task_id, worker_id="w-old")
        self.old.fp.queue_set("pages", destinations=["out"])
        self.tasks.append(late.task_id)
        self.late = lease

    def wishes(self, **given: Any) -> Wishes:
        return Wishes(**{"who": "anna", **given})

    def restore(self, target: Path | None = None, **given: Any) -> Told:
        """Restore the backup; `given` are wishes."""
        found = operate.restore(self.backup, target or self.target, self.wishes(**given))
        return Told(found)

    @contextmanager
    def opened(self, target: Path | None = None) -> Iterator[Depot]:
        """What was restored, as a dispatcher finds it."""
        path = target or self.target
        with fencepost.open(path, clock=SystemClock()) as fp:
            yield Depot(fp, path.parent)

    def operations(self) -> list[str]:
        """The effects that are there, in their order."""
        return [operation for operation, _ in self.kit.effects()]

    def beside(self) -> list[str]:
        """What lies where the new store is to be."""
        return sorted(path.name for path in self.target.parent.iterdir())

    def close(self) -> None:
        self.old.fp.close()


class Told:
    """A restore receipt, read."""

    def __init__(self, found: operate.Restored) -> None:
        self.bytes, self.path, self.complete = found
        self.json: dict[str, Any] = json.loads(found.receipt)

    def __getitem__(self, name: str) -> Any:
        return self.json[name]

    def receiver(self, name: str = "default/out") -> dict[str, Any]:
        (found,) = [each for each in self.json["receivers"] if each["destination"] == name]
        return dict(found)


@contextmanager
def world(folder: Path, **options: Any) -> Iterator[World]:
    """One with its backup made, and a receiver that answers."""
    kit = Kit(folder / "receiver.db")
    with Web(kit.answer) as web:
        made = World(folder, kit, web)
        try:
            made.past(**options)
            yield made
        finally:
            made.close()
            kit.close()
