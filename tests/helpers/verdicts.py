"""What a run of the whole kit must say of a queue by its name."""

from __future__ import annotations

from fencepost.conformance.broken import BROKEN
from fencepost.conformance.verification import Run


def untrue(name: str, run: Run) -> list[str]:
    """What is wrong with the verdicts on `broken:NAME`, or on a queue that is honest."""
    name = name.removeprefix("broken:")
    status = run.status()
    if name not in BROKEN:
        cases = [f"{v['case']} is {v['verdict']}" for v in run.verdicts if v["verdict"] != "passed"]
        return cases + ([] if status == "accepted" else [f"the run is {status}"])
    case, code = BROKEN[name].found_by, BROKEN[name].code
    said = [(v["verdict"], v["code"]) for v in run.verdicts if v["case"] == case]
    wrong = [] if said == [("failed", code)] else [f"{case} is {said} and not failed by {code}"]
    if status != "failed":
        wrong.append(f"the run is {status}")
    if code not in run.issues():
        wrong.append(f"{code} is not among the run's issues")
    undecided = {v["verdict"] for v in run.verdicts} - {"passed", "failed"}
    return wrong + [f"a case is {verdict}" for verdict in sorted(undecided)]
