"""What a sample of mutants says of all of them."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

from torture.equivalent import SAME
from torture.mutated import Mutant

TARGET = 0.95
SURE = 1.645  # standard deviations: 95 of 100 samples that say so are right
KILLED, SURVIVED, HUNG = "killed", "survived", "hung"
FAILED = "fails without any mutant"


class Told(NamedTuple):
    """What became of a mutant: the test that noticed it, and the seconds of a
    processor. Without a name it is of
    a test that fails without any."""

    name: str
    became: str
    by: str
    took: float


def at_least(killed: int, tried: int) -> float:
    """The share of all mutants that are noticed, as far as so small a sample can tell: the lower
    end of Wilson's interval."""
    if not tried:
        return 0.0
    share, square = killed / tried, SURE * SURE
    spread = SURE * math.sqrt(share * (1 - share) / tried + square / (4 * tried * tried))
    return (share + square / (2 * tried) - spread) / (1 + square / tried)


def verdict(made: list[Mutant], drawn: list[Mutant], lines: list[Told]) -> dict[str, Any]:
    """What became of the `drawn` ones out of all that were `made`: the counts, each mutant that
    lives, and a failure if too few are noticed. `mutants` counts those that change only words."""
    told = {line.name: line.became for line in lines if line.name}
    became = Counter(told.values())
    lived = [mutant for mutant in drawn if told.get(mutant.name) == SURVIVED]
    unknown = sorted(mutant for mutant in lived if mutant.change not in SAME)
    killed = became[KILLED] + became[HUNG]
    asked = killed + len(unknown)
    surely, share = at_least(killed, asked), killed / max(1, asked)
    failures = [] if surely >= TARGET else [{
        "name": f"{killed} of {asked} mutants were noticed ({share:.1%}): of all of them that is "
                f"{surely:.1%} or more, and not surely {TARGET:.0%}"
    }]  # fmt: skip
    failures += [{"name": f"{line.by} {FAILED}"} for line in lines if not line.name]
    return {
        "mutants": len(made), "only_words": sum(mutant.wording for mutant in made),
        "tried": len(told), "killed": killed,
        "seconds_of_a_processor": round(sum(line.took for line in lines)),
        "of_these_hung": became[HUNG],
        "known_to_be_the_same": len(lived) - len(unknown), "lived": len(unknown),
        "noticed": f"{share:.1%} of those tried, {surely:.1%} or more of all",
        "noted": [
            {"name": f"lives: {mutant.change}", "replay": f"FENCEPOST_MUTANT={mutant.name} "
             "python3 tests/torture.py --only mutants --no-ledger"}
            for mutant in unknown
        ],
        "failures": failures,
    }  # fmt: skip
