"""Looks after all destinations of a scope: begins a run for each, anew where its row has changed,
and has reconcilers asked about what is uncertain."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.clock import SECOND
from fencepost.deliveries.meters import Meters
from fencepost.deliveries.reconcile import Reconciler
from fencepost.deliveries.run import Run, fingerprint
from fencepost.issues import FencepostError, InvalidRequest
from fencepost.log import Log
from fencepost.model import Destination
from fencepost.worker.options import Options
from fencepost.worker.runtime import Ending

LOOK_SECONDS = 2.0
RECONCILE_SECONDS = 10.0
SAVE_LOOKS = 5  # every so many looks how far receivers are known is saved
AGAIN_LOOKS = 5  # a run that ended by an error is begun again after so many

if TYPE_CHECKING:
    from fencepost.deliveries.stream import StoreHandle

_log = Log("fencepost.deliveries")


class Dispatcher:
    """Delivers until it is asked to stop, or there is nothing more. `stop` and `abort` may be
    called by any thread and any signal.

    `options.queues`: these destinations alone; none: all of the scope, new ones too. `folder` is
    where it remembers what must not be forgotten over its death. Raises InvalidRequest.
    """

    def __init__(
        self, fp: StoreHandle, options: Options, *, folder: Path | None = None,
        meters: Meters | None = None, jitter: Callable[[], float] = random.random,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:  # fmt: skip
        self._fp, self._options, self._folder = fp, options.checked(least_queues=0), folder
        self.meters = meters or Meters()
        self._jitter, self._look_seconds = jitter, look_seconds
        self._reconciler = Reconciler(fp, jitter)
        self._runs: dict[str, Run] = {}
        self._again: set[str] = set()
        self._told: dict[str, str] = {}
        self._pause: Counter[str] = Counter()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._stopping = self._aborting = False
        self._counts: Counter[str] = Counter()
        self._ending: Ending = "done"

    def stop(self) -> None:
        """Begin nothing more, let what is under way end."""
        self._stopping = True
        self._wake.set()
        self._over.set()

    def abort(self) -> None:
        """End at once: what is under way is uncertain."""
        self._aborting = True
        self.stop()

    @property
    def counts(self) -> dict[str, int]:
        """Obligations by what became of them: `complete`, `retry`, `release`, `block` …"""
        found = self._counts.copy()
        for run in self._runs.values():
            found.update(run.counts)
        return dict(sorted(found.items()))

    def run(self) -> Ending:
        """`done`; `left` where something could not be settled or begun; `refused`, `unreachable`,
        `aborted` as a worker's. Raises InvalidRequest for a queue that is no destination."""
        fp, options = self._fp, self._options
        over = None if options.max_seconds is None else options.max_seconds * SECOND + fp.steady()
        if options.queues:  # who names none begins even while the store is away
            missing = set(options.queues) - {each.queue for each in fp.destinations()}
            if missing:
                told = f"deliver: {min(missing)} is no destination; see destination-set"
                raise InvalidRequest(told)
        looks = 0
        if not options.exit_when_empty:
            threading.Thread(
                target=self._reconcile, name="fencepost-reconcile", daemon=True
            ).start()
        try:
            while not self._stopping and (over is None or fp.steady() < over):
                self._look(begin=looks == 0 or not options.exit_when_empty)
                looks += 1
                if options.exit_when_empty and self._empty():
                    break
                if looks % SAVE_LOOKS == 0:
                    for run in list(self._runs.values()):
                        run.save()
                self._wake.wait(self._look_seconds)
                self._wake.clear()
        finally:
            self._end()
        return self._ending

    def _look(self, *, begin: bool) -> None:
        """Bring the runs into line with the rows."""
        try:
            rows = self._wanted()
        except FencepostError as error:
            _log.warning("the destinations cannot be read: %s", error)
            return
        self._again &= rows.keys()
        for queue, run in list(self._runs.items()):
            if run.ended.is_set():
                self._collect(run)
            elif queue not in rows or run.mark != fingerprint(rows[queue], self._fp.wall()):
                run.stop()
                self._again.add(queue)  # once what is under way has ended
        for queue, destination in rows.items():
            if queue not in self._runs and (begin or queue in self._again):
                self._again.discard(queue)
                self._begin(destination)

    def _reconcile(self) -> None:
        """In a thread of its own: one who is slow to say what he knows holds up no delivery."""
        while not self._stopping:
            try:
                self._reconciler.look(list(self._wanted().values()))
            except Exception as error:  # noqa: BLE001  # it is asked again, whatever it was
                _log.warning("reconciling failed: %s", error)
            self._over.wait(RECONCILE_SECONDS)

    def _wanted(self) -> dict[str, Destination]:
        names = self._options.queues
        return {
            each.queue: each for each in self._fp.destinations()
            if not names or each.queue in names
        }  # fmt: skip

    def _begin(self, destination: Destination) -> None:
        queue = destination.queue
        self._pause[queue] -= 1
        if destination.stopped is not None:
            self._tell(queue, f"nothing is delivered to {queue}: {destination.stopped}")
            return
        if self._pause[queue] > 0:
            return
        try:
            self._runs[queue] = Run(
                self._fp,
                destination,
                self._options,
                self.meters,
                self._folder,
                self._jitter,
                self._wake.set,
            )
        except (InvalidRequest, ValueError) as error:
            self._tell(queue, f"nothing can be delivered to {queue}: {error}")
            self._ending = "left"
            return
        self._told.pop(queue, None)

    def _tell(self, queue: str, text: str) -> None:
        """Once, as long as it is the same."""
        if self._told.get(queue) != text:
            self._told[queue] = text
            _log.error("%s", text)

    def _collect(self, run: Run) -> None:
        del self._runs[run.queue]
        self._counts.update(run.counts)
        if run.error is not None:
            self._pause[run.queue] = AGAIN_LOOKS
            self._ending = "left"
        elif run.ending in ("refused", "unreachable"):
            self._ending = run.ending
            self._stopping = True
        elif run.ending != "done":
            self._ending = run.ending

    def _empty(self) -> bool:
        """Every run has found nothing more, and no reconciler has sent anything back."""
        if self._again or any(not run.ended.is_set() for run in self._runs.values()):
            return False
        for run in list(self._runs.values()):
            self._collect(run)
        try:
            rows = [each for each in self._wanted().values() if each.stopped is None]
            again = self._reconciler.look(rows)
        except FencepostError as error:
            _log.warning("reconciling failed: %s", error)
            return True
        if again:
            for each in rows:
                if each.queue in again:
                    self._begin(each)
        return not again

    def _end(self) -> None:
        self._stopping = True
        self._over.set()
        runs = list(self._runs.values())
        for run in runs:
            run.abort() if self._aborting else run.stop()
        for run in runs:
            while not run.join(0.5):
                if self._aborting:
                    run.abort()
            self._collect(run)
        if self._aborting:
            self._ending = "aborted"
