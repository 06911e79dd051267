"""`python3 -m fencepost VERB ...` is the same as `fencepost VERB ...`."""

from __future__ import annotations

import sys

from fencepost.cli import main

if __name__ == "__main__":
    sys.exit(main())
