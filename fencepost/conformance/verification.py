"""The run: every case against one target, its verdicts, and the documents made of them.

Nothing is taken from an earlier run. A pass says what one target answered once; it grants nobody
authority.
"""

from __future__ import annotations

import hashlib
import platform
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

from .adapters import Broken, Unusable
from .cases.law import Case, Failed, Unavailable
from .cases.store import Adapter, Json, Store
from .schema import Contract

HERE = Path(__file__).resolve().parent
ARTIFACTS = (
    "queue_contract.json", "sqlite_reference.py", "fault_injection_tests.py", "verification.json",
)  # fmt: skip
STATEMENT = (
    "This run was made by the one it speaks for, and no independent review has been made. A pass "
    "says what one target answered to these cases; it grants no agent and nobody else authority, "
    "is no gate for a merge, and completes nothing that a human is owed."
)
Told = Callable[[Json], None]


class Run:
    """One run of the kit. `seed` is what the cases draw from."""

    def __init__(self, cases: Sequence[Case], seed: int) -> None:
        self.cases, self.seed = cases, seed
        self.contract = Contract.load()
        self.verdicts: list[Json] = []
        self.described: Json = {}
        self.unusable = ""

    def __call__(self, adapter: Adapter, chosen: Iterable[str], told: Told) -> None:
        """Put the target through the chosen cases; each verdict is told as it falls."""
        wanted = set(chosen)
        self.describe(adapter)
        for case in self.cases:
            if case.name not in wanted:
                verdict = _verdict(case, "skipped", why="it was not asked for")
            elif self.unusable:
                verdict = _verdict(case, "blocked", why=self.unusable)
            else:
                verdict = self.judge(adapter, case)
            verdict["target"] = self.identity()
            self.verdicts.append(verdict)
            told(verdict)

    def describe(self, adapter: Adapter) -> None:
        """What the target says it is; without it nothing can be found out."""
        try:
            self.described = adapter.describe()
        except (Broken, Unusable, Unavailable, NotImplementedError) as error:
            self.block(str(error))
            return
        if problems := self.contract.problems("target", self.described):
            self.block(f"describe: {problems[0]}")

    def identity(self) -> str:
        """The target's name, version and, where it tells it, digest."""
        told = self.described
        digest = f" sha256:{told['sha256']}" if "sha256" in told else ""
        return f"{told['name']} {told['version']}{digest}"

    def block(self, why: str) -> None:
        """The target cannot be judged."""
        self.unusable = why
        self.described = {
            "name": "unknown", "version": "unknown", "controls": [], "operations": [],
            "principals": [],
        }  # fmt: skip

    def judge(self, adapter: Adapter, case: Case) -> Json:
        """One verdict. Whatever goes wrong is a verdict, never an exception."""
        if lacking := self.lacking(case):
            return _verdict(case, "unavailable", why=f"the target offers no {lacking}")
        random = Random(f"{self.seed} {case.name}")  # noqa: S311  # to be drawn again, not to hide
        try:
            adapter.fresh("A")
            case.run(Store(adapter, random, self.keeps_the_contract))
        except Failed as failure:
            return _failed(case, failure)
        except (Unavailable, NotImplementedError) as error:
            return _verdict(case, "unavailable", why=str(error) or "the target cannot do it")
        except Broken as error:
            return _failed(case, Failed("the target's answer", "an answer of the protocol",
                                        str(error)))  # fmt: skip
        except Unusable as error:
            return _verdict(case, "blocked", why=str(error))
        except Exception as error:  # noqa: BLE001  # an answer of another shape meets a case so
            shown = f"{type(error).__name__}: {error}"
            return _failed(case, Failed("the target's answer", "what the contract says", shown))
        return _verdict(case, "passed")

    def lacking(self, case: Case) -> str:
        """What the case needs and the target does not offer; empty where nothing is missing."""
        needs = {"controls": case.controls, "operations": case.verbs, "principals": case.kinds}
        missing = {name: sorted(needed - {*self.described[name]}) for name, needed in needs.items()}
        return "; ".join(f"{name} {', '.join(words)}" for name, words in missing.items() if words)

    def keeps_the_contract(self, name: str, value: Any) -> None:
        """Every answer has the shape that the contract gives it."""
        if problems := self.contract.problems(name, value):
            raise Failed("the shape of an answer", f"the contract's $defs/{name}", problems[0])

    # -- what is made of it

    def named(self, verdict: str) -> list[str]:
        """The cases of that verdict."""
        return [found["case"] for found in self.verdicts if found["verdict"] == verdict]

    def status(self) -> str:
        """Of the whole run: one that skipped something is incomplete at best."""
        if self.named("failed"):
            return "failed"
        if self.unusable or self.named("blocked"):
            return "blocked"
        return "incomplete" if self.named("unavailable") or self.named("skipped") else "accepted"

    def issues(self) -> list[str]:
        """Codes: what kinds of verdicts there were, and what the failed cases were about."""
        codes = [
            code
            for code, verdict in (
                ("case_failed", "failed"), ("target_unusable", "blocked"),
                ("case_unavailable", "unavailable"), ("case_skipped", "skipped"),
            )
            if self.named(verdict)
        ]  # fmt: skip
        about = [v.get("code") for v in self.verdicts if v["verdict"] == "failed"]
        return [*codes, *dict.fromkeys(code for code in about if code)]

    def document(self, backend: str) -> Json:
        """verification.json. Raises ValueError if it does not keep the contract itself."""
        product = {name: self.described[name] for name in ("name", "version")}
        ours = backend in ("sqlite", "postgresql", "http")
        tested = self.described.get("sha256") if ours else None
        document: Json = {
            "object_key": self.contract.document["object_key"],
            "status": self.status(), "issues": self.issues(), "artifacts": list(ARTIFACTS),
            "sha256": {**{name: digest(HERE / name) for name in ARTIFACTS[:3]},
                       "kit": kit_digest(),
                       "product": tested},
            "product": product, "backend": backend, "target": self.described,
            "versions": {"contract": self.contract.document["version"],
                         "python": platform.python_version(), "sqlite": sqlite3.sqlite_version},
            "seeds": [self.seed], "cases": self.verdicts,
            "unavailable": self.named("unavailable"),
            "self_run": True, "review": "pending", "statement": STATEMENT,
        }  # fmt: skip
        if problems := self.contract.problems("verification", document):
            raise ValueError(f"the verification breaks the contract: {problems[:3]}")
        return document

    def junit(self, backend: str) -> str:
        """The same verdicts as JUnit XML."""
        names = {"failed": "failure", "blocked": "error", "unavailable": "skipped",
                 "skipped": "skipped"}  # fmt: skip
        counts = dict.fromkeys(("failure", "error", "skipped"), 0)
        suite = ElementTree.Element("testsuite", name=f"fencepost conformance of {backend}")
        for verdict in self.verdicts:
            case = ElementTree.SubElement(
                suite, "testcase", classname="fencepost.conformance", name=verdict["case"]
            )
            word = names.get(verdict["verdict"])
            if word is not None:
                counts[word] += 1
                text = visible(reason(verdict))
                ElementTree.SubElement(case, word, message=text).text = visible(verdict["law"])
        suite.set("tests", str(len(self.verdicts)))
        for word, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(name, str(counts[word]))
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _verdict(case: Case, verdict: str, **more: Any) -> Json:
    needs = sorted({*case.controls, *case.verbs})
    return {
        "case": case.name, "law": case.law, "verdict": verdict, "code": case.code,
        "sha256": case.sha256(), "needs": needs, **more,
    }  # fmt: skip


def _failed(case: Case, failure: Failed) -> Json:
    found = _verdict(case, "failed", expected=plain(failure.expected),
                     observed=plain(failure.observed), why=failure.what)  # fmt: skip
    return {**found, "code": failure.code or case.code}


def plain(value: Any) -> Any:
    """A value as JSON has it, text cut where it is long."""
    if isinstance(value, str):
        return value if len(value) <= 500 else f"{value[:500]}… ({len(value)} characters)"
    if isinstance(value, dict):
        return {str(name): plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        members = sorted(value) if isinstance(value, set | frozenset) else value
        return [plain(member) for member in members]
    return value if isinstance(value, bool | int | float) or value is None else str(value)


def reason(verdict: Json) -> str:
    """Why a case did not pass, in one line."""
    if verdict["verdict"] != "failed":
        return str(verdict["why"])
    return f"{verdict['why']}: expected {verdict['expected']!a}, observed {verdict['observed']!a}"


def visible(text: str) -> str:
    """Text that XML can hold and that no terminal obeys: what cannot be seen is escaped."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def kit_digest() -> str:
    """Of the whole kit: SHA-256 of `sha256  path` lines of its files, in the order of paths."""
    files = [p for p in HERE.rglob("*") if p.suffix in (".py", ".json", ".jsonl") and p.is_file()]
    kept = sorted(p.relative_to(HERE).as_posix() for p in files if p.name != ARTIFACTS[3])
    lines = "".join(f"{digest(HERE / name)}  {name}\n" for name in kept)
    return hashlib.sha256(lines.encode()).hexdigest()
