"""What the package has to say to a log. The logging module is loaded when there is something to
say, since it is a tenth of the time to start a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

prepare: list[Callable[[], object]] = []
"""Called once each before the next message: where a program adds a handler of its own."""


class Log:
    """A logger of the standard library by its name, asked for at the first message."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _tell(self, level: str, message: str, *values: Any, **more: Any) -> None:
        import logging

        while prepare:
            prepare.pop()()
        getattr(logging.getLogger(self.name), level)(message, *values, stacklevel=3, **more)

    def warning(self, message: str, *values: Any, **more: Any) -> None:
        """Something a person should know of; it goes on."""
        self._tell("warning", message, *values, **more)

    def error(self, message: str, *values: Any, **more: Any) -> None:
        """Something a person has to look at."""
        self._tell("error", message, *values, **more)

    def exception(self, message: str, *values: Any) -> None:
        """The same, with the exception that is being handled."""
        self._tell("error", message, *values, exc_info=True)
