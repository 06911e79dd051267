"""One owner of a store: works, delivers, says what it has. The old one does so in a process of its
own, which lives through the restore:

    python -m fencepost.operate.drilling.owner STORE FOLDER

An order is a line of JSON, `[word, argument…]`; so is its answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from fencepost.commands import Complete
from fencepost.deliveries.dispatcher import Dispatcher
from fencepost.handle import Handle, open_handle
from fencepost.issues import Unavailable
from fencepost.operate.children import environment
from fencepost.worker.options import Options

QUEUE, WORKER = "pages", "worker-1"
DELIVER_SECONDS = 60
ORDERS = ("add", "hold", "finish", "work", "late", "deliver", "owed", "results")


class Owner:
    """Answers orders, with the same worker id whoever it is: only fences tell its leases apart."""

    def __init__(self, fp: Handle, folder: Path, name: str) -> None:
        self.fp, self.folder, self.name = fp, folder, name
        self._held: dict[str, int] = {}

    def add(self, count: int) -> list[str]:
        """So many tasks more: their ids."""
        return [self.fp.enqueue(QUEUE, {"page": number}).task_id for number in range(count)]

    def hold(self, count: int) -> list[str]:
        """Begin to work on so many."""
        leases = self.fp.claim(QUEUE, worker_id=WORKER, limit=count)
        self._held |= {lease.task_id: lease.fence for lease in leases}
        return [lease.task_id for lease in leases]

    def finish(self) -> list[str]:
        """Hand in the results of what is held: the tasks whose results were accepted."""
        commands = [
            Complete(task_id, WORKER, fence, result={"of": task_id, "by": self.name})
            for task_id, fence in self._held.items()
        ]
        outcomes = self.fp.execute(commands)
        self._held.clear()
        return [each.task_id for each, found in zip(commands, outcomes, strict=True)
                if found.accepted]  # fmt: skip

    def work(self, count: int) -> list[str]:
        """Both."""
        self.hold(count)
        return self.finish()

    def late(self, task_id: str, fence: int) -> list[str]:
        """A result under a fence that somebody says he has: what is said against it."""
        (outcome,) = self.fp.execute([Complete(task_id, WORKER, fence, result={"by": "late"})])
        return list(outcome.issues)

    def deliver(self) -> dict[str, int]:
        """Bring what is owed to its destinations, until there is nothing more to be done now."""
        options = Options(
            (), f"{self.name}-dispatcher", exit_when_empty=True, max_seconds=DELIVER_SECONDS
        )
        dispatcher = Dispatcher(
            self.fp, options, folder=self.folder / f"{self.name}-memory", look_seconds=0.05
        )
        dispatcher.run()
        return dispatcher.counts

    def owed(self) -> dict[str, dict[str, Any]]:
        """Each destination: why it stands still, and what was not delivered, with the reason."""
        found = {}
        for each in self.fp.destinations():
            tasks = [self.fp.task(one.task_id) for one in self.fp.tasks(each.queue)]
            found[each.queue] = {
                "stopped": each.stopped,
                "open": [
                    [f"{task.payload['task_id']}:{task.payload['revision']}", task.reason]
                    for task in tasks if task.state != "done"
                ],
            }  # fmt: skip
        return found

    def results(self) -> dict[str, list[Any]]:
        """What was accepted of each task, and the fence that it has by now."""
        return {
            task.task_id: [[one.value for one in self.fp.results(task.task_id)], task.fence]
            for task in self.fp.tasks(QUEUE)
        }


class Elsewhere:
    """An owner in a process of its own. Use it in a `with` block, which ends it."""

    def __init__(self, store: Path, folder: Path) -> None:
        with (folder / "old-owner.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(store), str(folder)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, env=environment(),
            )  # fmt: skip
        self.pid = self._process.pid

    def __call__(self, word: str, *arguments: Any) -> Any:
        """Give an order, and wait for its answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([word, *arguments]) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            raise Unavailable(f"the old owner (process {self.pid}) has ended")
        return json.loads(answer)

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def main(store: str, folder: str) -> int:
    """Answer orders until there are no more."""
    with open_handle(store) as fp:
        owner = Owner(fp, Path(folder), "old")
        for line in sys.stdin:
            word, *arguments = json.loads(line)
            if word not in ORDERS:
                return 2
            sys.stdout.write(json.dumps(getattr(owner, word)(*arguments)) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
