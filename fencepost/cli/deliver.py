"""`fencepost deliver [QUEUE...]`: the dispatcher as a process of its own, or inside `serve`."""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.cli.output import Out
from fencepost.cli.store import open_store
from fencepost.cli.work import ASK_SECONDS, EXITS, stopped_by_signals
from fencepost.clock import SECOND, SystemClock
from fencepost.deliveries.dispatcher import Dispatcher
from fencepost.worker.options import GRACE_SECONDS, Options
from fencepost.worker.runtime import Ending

if TYPE_CHECKING:
    from fencepost.deliveries.meters import Meters
    from fencepost.handle import Handle

WORKER = "dispatcher"
LOOK_SECONDS = 0.2
STOP_SECONDS, ABORT_SECONDS = 60.0, 5.0  # how long it may take to end, after one signal and two


def deliver(args: Namespace, out: Out) -> int:
    options = Options(
        queues=tuple(args.queues),
        worker_id=args.worker,
        lease_seconds=args.lease_seconds,
        grace=GRACE_SECONDS if args.grace is None else args.grace,
        exit_when_empty=args.exit_when_empty,
        max_seconds=args.max_seconds,
        give_up_seconds=args.give_up_seconds,
    ).checked(least_queues=0)
    with ExitStack() as stack:
        fp = open_store(args, seconds=ASK_SECONDS)
        stack.callback(fp.close)
        folder = None if args.state is None else Path(args.state)
        dispatcher = Dispatcher(fp, options, folder=folder)
        came = stack.enter_context(stopped_by_signals(dispatcher))
        ending, whole = _run(dispatcher, came, 2 * options.grace + STOP_SECONDS)
        _tell(dispatcher, ending, out)
        code = 128 + came[-1] if ending == "aborted" else EXITS[ending][0]
        if not whole:  # as if it were killed, which costs nothing: its next life settles the rest
            sys.stdout.flush()
            os._exit(code)
    return code


def _run(dispatcher: Dispatcher, came: list[int], seconds: float) -> tuple[Ending, bool]:
    """How it has ended, and whether it has: after a signal it has so many seconds, after a second
    one few. It may wait for a store that never answers, and hears of no signal there."""
    ended: Future[Ending] = Future()

    def run() -> None:
        try:
            ended.set_result(dispatcher.run())
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            ended.set_exception(error)

    threading.Thread(target=run, name="fencepost-dispatcher", daemon=True).start()
    clock, heard, until = SystemClock(), 0, 0.0
    while not wait([ended], LOOK_SECONDS).done:
        now = clock.steady() / SECOND
        if len(came) > heard:
            heard = len(came)
            until = now + (seconds if heard == 1 else ABORT_SECONDS)
        if heard and now >= until:
            return ("left" if heard == 1 else "aborted"), False
    return ended.result(), True


def _tell(dispatcher: Dispatcher, ending: Ending, out: Out) -> None:
    counts, tries = dispatcher.counts, dispatcher.meters.words()
    if out.json:
        out.data({"ended": ending, "obligations": counts, "tries": tries})
        return
    told = ", ".join(f"{number} {what}" for what, number in counts.items()) or "nothing"
    out.note(f"deliver ended ({ending}): {told}")


@contextmanager
def delivering(fp: Handle, meters: Meters) -> Iterator[None]:
    """The dispatcher beside something else that runs on this handle, until the block ends."""
    dispatcher = Dispatcher(fp, Options((), WORKER), meters=meters)
    thread = threading.Thread(target=dispatcher.run, name="fencepost-dispatcher", daemon=True)
    thread.start()
    try:
        yield
    finally:
        dispatcher.stop()
        thread.join()
