"""From the command line to an exit code: parse, run the verb, tell what went wrong."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module

from fencepost import log
from fencepost.cli.output import BROKEN_PIPE, INTERNAL, INTERRUPTED, Out, asking
from fencepost.cli.parser import parse
from fencepost.cli.subcommands import SUBCOMMANDS
from fencepost.cli.terminal import open_what_is_closed, use_utf8
from fencepost.issues import FencepostError, OutcomeUnknown
from fencepost.version import VERSION


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's). Returns the exit code, never raises."""
    words = list(sys.argv[1:] if argv is None else argv)
    open_what_is_closed()
    use_utf8(sys.stdout, sys.stderr)
    out = Out(json="--json" in words)
    args = Namespace(sent=None)
    try:
        code = _run(words, out, args)
        sys.stdout.flush()
        return code
    except FencepostError as error:
        return out.failure(error, args.sent)
    except KeyboardInterrupt as interrupt:
        return _interrupted(interrupt, out, args)
    except BrokenPipeError:
        _discard_stdout()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  # told below, with nothing raw in it
        if type(error) is OSError and error.filename is None:
            # stdout could not be written (a full disk): the command may well have been done
            _discard_stdout()
            unknown = OutcomeUnknown(f"the answer could not be written: {error.strerror}")
            return out.failure(unknown, args.sent)
        if isinstance(error.__context__, KeyboardInterrupt):
            # what was cleaning up could not: argparse fails so when its parsing breaks off
            return _interrupted(error.__context__, out, args)
        return _bug(out)


def _interrupted(interrupt: KeyboardInterrupt, out: Out, args: Namespace) -> int:
    out.note(f"interrupted: {str(interrupt) or asking(args.sent)}")
    return INTERRUPTED


def _run(words: Sequence[str], out: Out, args: Namespace) -> int:
    try:
        found = parse(words, VERSION, SUBCOMMANDS, os.environ)
    except SystemExit as ended:  # argparse, after --help and --version
        return int(ended.code or 0)
    args.__dict__.update(found.__dict__)
    verb = SUBCOMMANDS[args.verb]
    out.json = args.json
    module, function = verb.run.split(".")
    if verb.sends and args.request is not None:
        module, function = "verbs", "raw"
    with _cleaned_log(out):
        code: int = getattr(import_module(f"fencepost.cli.{module}"), function)(args, out)
    return code


@contextmanager
def _cleaned_log(out: Out) -> Iterator[None]:
    """What the library logs and no outcome tells (a clock that jumped) is told on stderr."""
    added: list[Callable[[], None]] = []

    def add_handler() -> None:
        import logging

        class Told(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if record.name != "fencepost.engine" or record.exc_info:
                    for line in self.format(record).splitlines():
                        out.note(line)

        logger, handler = logging.getLogger("fencepost"), Told(logging.WARNING)
        logger.addHandler(handler)
        added.append(lambda: logger.removeHandler(handler))

    log.prepare.append(add_handler)
    try:
        yield
    finally:
        log.prepare.clear()
        for remove in added:
            remove()


def _discard_stdout() -> None:
    """Nobody reads it any more: what is left in the buffer must not complain at exit."""
    with suppress(OSError, ValueError):  # a stream without a descriptor has nothing to discard
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _bug(out: Out) -> int:
    """A fault of ours: all that helps to report it, and nothing raw."""
    import traceback

    for line in traceback.format_exc().splitlines():
        out.note(line)
    out.note("internal: this is a bug; please report it with the lines above")
    return INTERNAL
