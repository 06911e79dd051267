"""The command line: one subcommand a verb. `main` is what `fencepost` and `python -m` run."""

from fencepost.cli.main import main

__all__ = ["main"]
