"""`python3 -m fencepost VERB ...` is the same as `fencepost VERB ...`."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036  # it says so where it is run, not where it is built
    sys.exit("fencepost needs Python 3.11 or newer; this is " + sys.version.split()[0])

try:
    from fencepost.cli import main
except KeyboardInterrupt:  # Ctrl-C before anything was read or sent
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
