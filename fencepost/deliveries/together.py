"""Several deliveries in one thread: while one waits for its answer, the others are sent and heard.

A thread for each would be handed the interpreter at each step of each of them, which costs more
than the delivery. What may take long (a first connection, a greeting, a stop, TLS) is done in a
thread of its own, so nothing here waits but for answers.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import NamedTuple, Protocol, runtime_checkable

from fencepost.clock import SystemClock
from fencepost.deliveries.delivering import Delivering, Sending, Steps, alone
from fencepost.deliveries.event import Event
from fencepost.deliveries.flights import Flight, Stale, Unheard
from fencepost.deliveries.places import Sender, Try, Word
from fencepost.worker.hands import Hands
from fencepost.worker.held import Held
from fencepost.worker.verdicts import Verdict, of_exception

MOST = 16
LENGTHY: frozenset[Word] = frozenset({"gone", "old_epoch", "fork", "hello_needed", "gap"})
"""After these the store or the receiver is asked something."""
_CLOCK = SystemClock()


@runtime_checkable
class Launcher(Sender, Protocol):
    """A sender that need not be waited for."""

    @property
    def ready(self) -> int:
        """About how many could be launched now."""
        ...

    def launch(self, event: Event, seconds: float) -> Flight | None:
        """Begin one try. None where it has to be sent by itself; nothing has been sent then."""
        ...

    def heard(self, event: Event, flight: Flight, *, wait: bool) -> Try | None:
        """What it came to; None where the answer is not whole yet and is not waited for. Raises
        Stale where it has to be sent by itself."""
        ...


class _Flying(NamedTuple):
    held: Held
    steps: Steps
    sending: Sending
    flight: Flight


class Together(Hands):
    """Threads that each take as many deliveries as can be launched, and are there."""

    def __init__(
        self, work: Callable[[Held], None], delivering: Delivering, sender: Launcher,
        performed: Callable[[Held, Verdict | None], None],
    ) -> None:  # fmt: skip
        super().__init__(work)
        self._delivering, self._sender, self._performed = delivering, sender, performed

    def _run(self) -> None:
        while (held := self._jobs.get()) is not None:
            group = self._group(held)
            if len(group) == 1:
                self._work(held)
            else:
                self._launch(group)
            with self._lock:
                self._free += 1

    def _group(self, first: Held) -> list[Held]:
        """Those that are looked after together with this one."""
        group = [first]
        if not hasattr(select, "poll") or not self._delivering.at_once(first):
            return group
        most = min(MOST, self._sender.ready)
        while len(group) < most:
            try:
                held = self._jobs.get_nowait()
            except Empty:
                break
            if held is None:
                self._jobs.put(None)  # somebody shall end
                break
            with self._lock:
                self._free += 1  # whoever was to take it waits for another
            if not self._delivering.at_once(held):
                self.give(held)
                break
            group.append(held)
        return group

    def _launch(self, group: list[Held]) -> None:
        flying: dict[int, _Flying] = {}
        for held in group:
            steps = self._delivering.steps(held)
            sending = self._on(held, steps, None)
            if sending is None:
                continue
            try:
                flight = self._sender.launch(*sending)
            except Unheard as error:
                self._on(held, steps, Try("unanswered", str(error)))
                continue
            except Exception as error:  # noqa: BLE001  # it is this one's alone
                self._failed(held, steps, error)
                continue
            if flight is None:
                self._apart(held, partial(alone, steps, self._sender, sending))
            else:
                flying[flight.fileno()] = _Flying(held, steps, sending, flight)
        self._listen(flying)

    def _listen(self, flying: dict[int, _Flying]) -> None:
        poller = select.poll()
        for each in flying:
            poller.register(each, select.POLLIN)
        while flying:
            left = min(one.flight.until for one in flying.values()) - _CLOCK.steady()
            came = poller.poll(max(0, left // 1_000 + 1))
            for each, _ in came:
                if self._look(flying[each]):
                    poller.unregister(each)
                    del flying[each]
            if came:
                continue
            now = _CLOCK.steady()
            for each in [each for each, one in flying.items() if one.flight.until <= now]:
                poller.unregister(each)
                one = flying.pop(each)
                self._on(one.held, one.steps, Try("unanswered", str(one.flight.give_up())))

    def _look(self, one: _Flying) -> bool:
        """Something has come. Whether nothing more has to be listened for."""
        held, steps, sending, flight = one
        try:
            tried = self._sender.heard(sending.event, flight, wait=False)
        except Stale:
            self._apart(held, partial(alone, steps, self._sender, sending))
            return True
        except Exception as error:  # noqa: BLE001  # it is this one's alone
            flight.give_up()
            self._failed(held, steps, error)
            return True
        if tried is None:
            if flight.slow:
                self._apart(held, partial(self._waited, one))
            return flight.slow
        if tried.word in LENGTHY:
            self._apart(held, partial(alone, steps, self._sender, tried=tried))
        else:
            self._on(held, steps, tried)
        return True

    def _on(self, held: Held, steps: Steps, tried: Try | None) -> Sending | None:
        """Up to the next sending; None where it has come to its end, and is settled."""
        try:
            return next(steps) if tried is None else steps.send(tried)
        except StopIteration as ended:
            self._performed(held, ended.value)
        except BaseException as error:  # noqa: BLE001  # it ends the task, never the thread
            self._performed(held, of_exception(error))
        return None

    def _failed(self, held: Held, steps: Steps, error: Exception) -> None:
        steps.close()
        self._performed(held, of_exception(error))

    # -- in a thread of its own

    def _apart(self, held: Held, rest: Callable[[], Verdict]) -> None:
        def run() -> None:
            try:
                verdict = rest()
            except BaseException as error:  # noqa: BLE001  # it ends the task, never the thread
                verdict = of_exception(error)
            self._performed(held, verdict)

        threading.Thread(target=run, name="fencepost-work", daemon=True).start()

    def _waited(self, one: _Flying) -> Verdict:
        tried = None
        with suppress(Stale):
            tried = self._sender.heard(one.sending.event, one.flight, wait=True)
        return alone(one.steps, self._sender, one.sending, tried)
