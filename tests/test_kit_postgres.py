"""The kit on PostgreSQL: the product with all controls, on the server of the tests."""

from __future__ import annotations

import json

import pytest
from helpers.kit import judged, target, verdict
from helpers.postgres import admin, server_url

from fencepost.conformance.adapters import Unusable
from fencepost.conformance.product_postgres import PREFIX, OnPostgres
from fencepost.storage.steps import rows_of

COPIED = "a_copied_lease_is_refused_by_a_copy_that_knows_itself"
ORDER = "the_higher_priority_is_claimed_first_and_then_the_older"
LEFT = f"select datname from pg_database where starts_with(datname, '{PREFIX}')"


@pytest.mark.timeout(180)
def test_the_product_is_accepted_on_postgresql_with_every_control_and_leaves_no_database():
    run = judged(target(f"postgres:{server_url()}"))
    assert [found for found in run.verdicts if found["verdict"] != "passed"] == []
    document = run.document("postgresql")
    assert (document["status"], document["unavailable"]) == ("accepted", [])
    assert (document["backend"], document["target"]["backend"]) == ("postgresql", "postgresql")
    assert document["sha256"]["product"] == document["target"]["sha256"]
    assert admin(LEFT) == []


def test_a_copy_that_takes_itself_for_its_source_fails_the_case_of_copies(monkeypatch):
    honest = OnPostgres.copy

    def pinned(product, source, target, pinned):
        honest(product, source, target, True)

    monkeypatch.setattr(OnPostgres, "copy", pinned)
    run = judged(OnPostgres(server_url(), 1), [COPIED])
    found = verdict(run, COPIED)
    assert (found["verdict"], found["code"]) == ("failed", "stale_epoch")


def test_a_copy_that_is_not_pinned_is_recognised_by_the_product_itself():
    product = OnPostgres(server_url(), 1)
    try:
        product.fresh("A")
        for pinned, writers in (
            (True, ["installed"]), (False, ["installed", "another database"]),
        ):
            product.copy("A", "B", pinned)
            for owner, known in (("A", ["installed"]), ("B", writers)):
                writers_of = product.handles[owner]._store.read(rows_of("writers"))
                assert [why for _, _, why, *_ in writers_of] == known
    finally:
        product.close()


@pytest.mark.parametrize("url", ["postgres:", "postgres:work.db", "postgres:http://127.0.0.1:1"])
def test_a_target_that_is_no_postgresql_url_cannot_be_used(url):
    with pytest.raises(Unusable, match="postgres: needs a URL"):
        target(url)


def test_nobody_listening_blocks_the_run_and_no_password_is_shown():
    run = judged(target("postgresql://anna:secret-word@127.0.0.1:1/none"), [ORDER])
    assert run.status() == "blocked"
    assert "the server cannot be reached" in verdict(run, ORDER)["why"]
    assert "secret-word" not in json.dumps(run.document("postgresql"))
