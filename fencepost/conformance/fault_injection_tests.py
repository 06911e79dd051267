"""The laws, one case each, in the order in which they are run; and the program that runs them.

    python3 fault_injection_tests.py TARGET [--case NAME] [--output verification.json]

TARGET is `reference`, `sqlite` (the product), `http` (the product behind its server), `http:URL`,
`broken:NAME`, or `stdio:COMMAND` for any program that speaks the protocol of docs/conformance.md.
It runs from a copy of this folder, with nothing installed, and as `fencepost conform TARGET`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__:  # imports are relative, since the copied folder may have any name
    from .cases import (
        dimensions,
        fenced_queue,
        hostile,
        leases,
        order,
        outcomes,
        owners,
        people,
        receipt_lab,
        results,
        shelter_feed,
        tasks,
    )
    from .cases.law import Case, cases_of

    GROUPS = (
        fenced_queue, receipt_lab, shelter_feed, owners, dimensions, order, leases, results,
        outcomes, tasks, people, hostile,
    )  # fmt: skip
    CASES: list[Case] = [case for group in GROUPS for case in cases_of(group)]


def main(argv: list[str] | None = None) -> int:
    """Run a command line (default: this process's). Returns the exit code."""
    from .command import run

    return run(CASES, sys.argv[1:] if argv is None else argv)


def from_this_folder() -> int:
    """The same where the folder was copied: it is loaded as a package of its own."""
    from importlib.util import module_from_spec, spec_from_file_location

    folder = Path(__file__).resolve().parent
    name = "fencepost_conformance_kit"
    spec = spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    sys.modules[name] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
    from importlib import import_module

    code: int = import_module(f"{name}.fault_injection_tests").main()
    return code


if __name__ == "__main__":
    sys.exit(main() if __package__ else from_this_folder())
