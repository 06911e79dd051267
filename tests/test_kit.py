"""The conformance kit: what it finds of the product, the reference, and queues that are wrong."""

from __future__ import annotations

import ast
import inspect
import re
from xml.etree import ElementTree

import pytest
from helpers.kit import (
    BY_NAME,
    EXAMPLE,
    KIT,
    Listening,
    judged,
    stores_in_memory,
    target,
    verdict,
)

from fencepost.conformance.fault_injection_tests import CASES
from fencepost.conformance.schema import Contract
from fencepost.conformance.verification import ARTIFACTS, digest

CONTRACT = Contract.load()
OWN = ("product.py", "product_http.py", "product_pin.py", "product_postgres.py")


@pytest.fixture(scope="module", autouse=True)
def _in_memory():
    with stores_in_memory():
        yield


class Whole:
    """One run of every case against the product, and what each case used of the protocol."""

    def __init__(self):
        self.used = {}
        listening = Listening(target("sqlite"))
        self.run = judged(listening, told=lambda found: self._note(listening, found["case"]))
        self.document = self.run.document("sqlite")

    def _note(self, listening, case):
        self.used[case] = listening.heard[:]
        listening.heard.clear()


@pytest.fixture(scope="module")
def product():
    return Whole()


def test_the_product_is_accepted(product):
    failed = [found for found in product.run.verdicts if found["verdict"] != "passed"]
    assert failed == []
    assert (product.document["status"], product.document["issues"]) == ("accepted", [])
    assert product.document["unavailable"] == []


def test_the_reference_is_accepted_too():
    run = judged(target("reference"))
    assert [found for found in run.verdicts if found["verdict"] != "passed"] == []
    document = run.document("reference")
    assert (document["status"], document["sha256"]["product"]) == ("accepted", None)


def test_there_are_at_least_forty_cases_and_each_says_its_law():
    assert len(CASES) >= 40
    assert len(BY_NAME) == len(CASES), "names are unique"
    for case in CASES:
        assert re.fullmatch(r"[a-z]+(_[a-z0-9]+){2,}", case.name)
        assert len(case.law.split()) >= 6 and case.law.endswith("."), case.name


def verbs_and_controls(heard, *, nonsense=False):
    """What was used of verbs, controls and kinds of callers. `nonsense`: what is no command uses
    no verb, though it may name one."""
    verbs, controls, kinds = set(), {"fresh"}, set()
    control_of = {"advance": "clock", "advance_microseconds": "clock", "fail_next": "faults",
                  "copy": "copy", "race": "threads"}  # fmt: skip
    for op, args, _, answer in heard:
        if nonsense and op == "send" and answer["issues"] == ["invalid_request"]:
            continue
        controls |= {control_of[op]} if op in control_of else set()
        sends = args[0] if op == "race" else []
        sends += [{"caller": args[1], "body": args[2]}] if op == "send" else []
        for sent in sends:
            kinds.add(sent["caller"]["kind"])
            found = re.match(r'\{.*"verb":"([a-z_.]+)"', sent["body"], re.DOTALL)
            verbs |= {found[1]} if found else set()
    return verbs, controls, kinds


def test_each_case_needs_just_what_it_uses(product):
    """A target that lacks something must not meet it in the middle of a case, and no case may be
    withheld for what it never asks."""
    known = set(CONTRACT.names["verb"]["enum"])
    for case in CASES:
        nonsense = case.name == "a_hostile_worker_is_read_strictly_or_not_at_all"
        verbs, controls, kinds = verbs_and_controls(product.used[case.name], nonsense=nonsense)
        assert controls == case.controls, case.name
        assert (verbs & known) | {"enqueue", "claim"} == case.verbs, case.name
        assert kinds | {"operator", "worker"} == case.kinds, case.name


def test_the_verification_keeps_the_contract_and_names_what_was_run(product):
    document = product.document
    assert CONTRACT.problems("verification", document) == []
    assert [found["case"] for found in document["cases"]] == [case.name for case in CASES]
    for name in ARTIFACTS[:3]:
        assert document["sha256"][name] == digest(KIT / name)
    assert document["artifacts"] == list(ARTIFACTS)
    assert (document["self_run"], document["review"]) == (True, "pending")
    assert "grants no agent and nobody else authority" in document["statement"]
    assert document["seeds"] == [1]
    assert document["sha256"]["product"] == document["target"]["sha256"]
    for found in document["cases"]:
        assert found["sha256"] == BY_NAME[found["case"]].sha256()
        assert found["target"].endswith(f"sha256:{document['sha256']['product']}")


def test_junit_says_the_same(product):
    suite = ElementTree.fromstring(product.run.junit("sqlite"))  # noqa: S314  # our own text
    assert [case.get("name") for case in suite] == [case.name for case in CASES]
    assert [suite.get(n) for n in ("failures", "errors", "skipped")] == ["0", "0", "0"]
    assert suite.get("tests") == str(len(CASES))


STEADY = [case.name for case in CASES if "threads" not in case.controls]
SAMPLE = [
    *[name for name in STEADY if "hostile" in name][:3],
    "the_shelter_feed_gives_its_seven_published_hashes",
    "a_copied_lease_is_refused_by_a_copy_that_knows_itself",
    "a_failed_task_is_tried_again_after_its_time",
    "a_hostile_worker_that_tries_anything_touches_its_own_task_only",
]  # fmt: skip


def exchanged(name, seed):
    """All that is asked and answered in a case, but for the name that each new store draws."""
    listening = Listening(target("sqlite", seed=seed))
    run = judged(listening, [name], seed)
    assert verdict(run, name)["verdict"] == "passed"
    return re.sub(r'"writer":"[0-9a-f]+"', "", repr(listening.heard).replace("\\", ""))


@pytest.mark.parametrize("name", SAMPLE)
def test_a_case_asks_the_same_again_under_the_same_seed(name):
    one, other = (re.findall(r"'body': .*?'", exchanged(name, 7)) for _ in range(2))
    assert one == other


def test_another_seed_draws_other_attacks():
    name = "a_hostile_worker_that_tries_anything_touches_its_own_task_only"
    assert exchanged(name, 1) != exchanged(name, 2)


# -- what is wrong is found


def test_the_example_is_incomplete_and_names_what_it_lacks():
    run = judged(target(f"stdio:python3 {EXAMPLE}"))
    assert (run.status(), run.named("failed")) == ("incomplete", [])
    assert run.issues() == ["case_unavailable"]
    assert len(run.named("passed")) >= 10
    race = verdict(run, "two_concurrent_claimants_make_one_active_owner")
    assert race["why"] == "the target offers no controls threads"
    document = run.document("stdio")
    assert document["unavailable"] == run.named("unavailable")
    assert document["sha256"]["product"] is None
    suite = ElementTree.fromstring(run.junit("stdio"))  # noqa: S314  # our own text
    assert suite.get("skipped") == str(len(run.named("unavailable")))


def test_the_careless_example_is_failed_with_the_codes_that_it_did_not_tell():
    run = judged(target(f"stdio:python3 {EXAMPLE} --careless"))
    assert run.status() == "failed"
    found = verdict(run, "the_exact_expiry_boundary_rejects_a_completion")
    assert (found["code"], found["observed"]) == ("lease_expired", "accepted")
    assert run.issues()[:2] == ["case_failed", "case_unavailable"]
    assert {"lease_expired", "task_done"} <= set(run.issues())
    suite = ElementTree.fromstring(run.junit("stdio"))  # noqa: S314  # our own text
    assert suite.get("failures") == str(len(run.named("failed")))


# -- the kit itself


def test_only_the_products_own_adapter_imports_the_product():
    for path in sorted(KIT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            ours = [name for name in names if name.split(".")[0] == "fencepost"]
            assert not ours or path.name in OWN, (path.name, ours)


def test_the_shipped_code_has_no_control_for_tests():
    """The fail-points live in the kit's own process: no word of them stands in the product."""
    package = KIT.parent
    for path in package.rglob("*.py"):
        if KIT not in path.parents:
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"fail_next|fail.?point|obligation_insert", text), path


def test_a_case_is_named_for_what_stands_in_its_source():
    for case in CASES:
        assert f"def {case.name}(" in inspect.getsource(case.run)
