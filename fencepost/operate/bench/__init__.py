"""`fencepost bench`: limit, naive queue, product and peers in one run, verified as they go.

Every contender is measured in every repetition, and every ratio is taken within a repetition,
so that what disturbs the machine meets all of them. A phase whose check fails shows no figure.
"""

from fencepost.operate.bench.run import main

__all__ = ["main"]
