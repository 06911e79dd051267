"""One destination while it is delivered to: a worker's runtime, in a thread of its own. So one that
is down takes no slot, no claim and no connection of another."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.clock import SECOND
from fencepost.deliveries.admission import Admission, Gate
from fencepost.deliveries.breaker import Breaker, Rate
from fencepost.deliveries.delivering import Delivering
from fencepost.deliveries.meters import Meters
from fencepost.deliveries.places import Place, Sender, sender_of
from fencepost.deliveries.stream import Stream
from fencepost.deliveries.together import Launcher, Together
from fencepost.issues import FencepostError
from fencepost.log import Log
from fencepost.model import Destination
from fencepost.record import replace
from fencepost.worker.claims import Claims, Desk
from fencepost.worker.held import Held
from fencepost.worker.memory import Memory, default_folder
from fencepost.worker.options import Options
from fencepost.worker.runtime import Ending, Runtime
from fencepost.worker.verdicts import Verdict
from fencepost.worker.worker import identity_of

if TYPE_CHECKING:
    from fencepost.deliveries.stream import StoreHandle

_log = Log("fencepost.deliveries")
SURE = frozenset({"fenced", "cas"})  # however often something is sent there, it is one effect
END_SECONDS = 5.0  # so long a receiver is asked at the end, when all is settled


def place_of(destination: Destination, now: int) -> Place:
    """The destination as its sender needs it at this time (microseconds UTC)."""
    good = tuple(one.secret for one in destination.secrets if one.until is None or one.until > now)
    return Place(destination.address, destination.class_, destination.options, good)


def fingerprint(destination: Destination, now: int) -> str:
    """What a run is begun anew for when it changes: all but how far the destination has come."""
    return json.dumps([*place_of(destination, now), destination.stopped], sort_keys=True)


class _Runtime(Runtime):
    """A worker's, for whom a delivery that its death has cut off is no failed attempt. Where it can
    be, several are looked after by one thread."""

    def __init__(
        self, fp: StoreHandle, delivering: Delivering, sender: Sender, options: Options,
        memory: Memory, jitter: Callable[[], float], claims: Callable[..., Claims],
    ) -> None:  # fmt: skip
        super().__init__(fp, delivering, options, memory, jitter, claims=claims)
        self.delivering = delivering
        if isinstance(sender, Launcher):
            self._hands = Together(self._work, delivering, sender, self._performed)

    def of_left_over(self, held: Held) -> Verdict:
        return self.delivering.of_left_over(held)


class Run:
    """Begins at once. `ended` is set when it is over, and `told` called; then `ending` and `error`
    say how."""

    def __init__(
        self, fp: StoreHandle, destination: Destination, options: Options, meters: Meters,
        folder: Path | None, jitter: Callable[[], float] = random.random,
        told: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        wall, steady = fp.wall, fp.steady
        self.queue = destination.queue
        self.mark = fingerprint(destination, wall())
        self.ended = threading.Event()
        self._told = told
        self.ending: Ending = "done"
        self.error: Exception | None = None
        given = destination.options
        self._ordered = bool(given["ordered"])
        jobs = 1 if self._ordered else int(given["concurrency"])
        place = place_of(destination, wall())
        self._sender = sender_of(place, lambda: wall() / SECOND)
        self._seconds = float(given["timeout_seconds"])
        self._stream = Stream(fp, destination, self._sender, options.worker_id)
        breaker = Breaker(jobs, jitter, float(given["max_delay_seconds"]))
        rate = None if given["rate"] is None else Rate(float(given["rate"]))
        self._admission = Admission(breaker, rate, steady, jobs)
        meters.watch(self.queue, lambda: breaker.open)
        delivering = Delivering(
            destination, self._sender, self._stream, self._admission, meters, steady, wall
        )
        self._memory = _memory(
            fp, options.worker_id, self.queue, folder, again=destination.class_ in SURE
        )
        own = replace(options, queues=(self.queue,), concurrency=jobs, max_seconds=None)
        self._runtime = _Runtime(
            fp, delivering, self._sender, own, self._memory, jitter, self._claims
        )
        self._thread = threading.Thread(target=self._run, name=f"fencepost-deliver-{self.queue}")
        self._thread.start()

    def _claims(
        self, fp: Any, options: Options, memory: Memory, desk: Desk, jitter: Callable[[], float]
    ) -> Claims:
        gate = Gate(desk, self._admission, self._ordered)
        return Claims(fp, options, memory, gate, jitter)

    def _run(self) -> None:
        try:
            self._stream.early(self._seconds)
            self.ending = self._runtime.run()
        except FencepostError as error:
            self.error = error
            _log.error("%s: %s", self.queue, error)
        except Exception as error:  # noqa: BLE001  # told to whoever looks after the destinations
            self.error = error
            _log.exception("delivering to %s met an error", self.queue)
        finally:
            self._stream.end(0 if self.ending == "aborted" else min(self._seconds, END_SECONDS))
            self._sender.close()
            self._memory.close()
            self.ended.set()
            self._told()

    @property
    def counts(self) -> dict[str, int]:
        """Obligations by what became of them."""
        return dict(self._runtime.counts)

    def save(self) -> None:
        """Tell the store how far the receiver's effects are known."""
        self._stream.save()

    def stop(self) -> None:
        """Begin nothing more; what is under way ends first."""
        self._admission.close()
        self._runtime.stop()

    def abort(self) -> None:
        """End at once."""
        self._runtime.abort()

    def join(self, seconds: float) -> bool:
        """Whether it is over, after this time at the latest."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


def _memory(
    fp: StoreHandle, worker_id: str, queue: str, folder: Path | None, *, again: bool
) -> Memory:
    """What a dispatcher remembers of one destination over its death."""
    identity = {**identity_of(fp, worker_id), "destination": queue}
    if folder is None and fp.address == ":memory:":
        return Memory(None, identity)
    place = default_folder(identity) if folder is None else folder / queue
    return Memory(place, identity, again=again)
