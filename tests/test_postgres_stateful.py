"""All verbs in any order on PostgreSQL, by the model that was written apart."""

from __future__ import annotations

import pytest
from helpers.pg_stand import PgStand
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from test_stateful import BUDGET, Queue

QUICK = settings(BUDGET, max_examples=40, stateful_step_count=40)


class QueueOnPostgres(Queue):
    """The same rules; fences may have gaps and have to rise."""

    make = PgStand
    machines = steps = replays = refusals = 0

    def teardown(self):
        kind = type(self)
        kind.machines += 1
        for name in ("steps", "replays", "refusals"):
            setattr(kind, name, getattr(kind, name) + getattr(self.pair, name))
        self.pair.close()


@pytest.mark.timeout(120)
def test_the_product_on_postgresql_and_the_model_say_and_hold_the_same():
    run_state_machine_as_test(QueueOnPostgres, settings=QUICK)
    seen = QueueOnPostgres
    print(seen.machines, seen.steps, seen.replays, seen.refusals)
    assert seen.steps > 1_000
    assert min(seen.replays, seen.refusals) > 20
