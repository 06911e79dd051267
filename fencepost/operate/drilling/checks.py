"""What has to be true at the end of a drill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.operate.drilling.places import Place


class Check(NamedTuple):
    """A sentence, whether it holds, and what was seen."""

    sentence: str
    holds: bool
    seen: str

    def to_json(self) -> dict[str, Any]:
        return {"check": self.sentence, "holds": self.holds, "seen": self.seen}


class Seen(NamedTuple):
    """What happened. `after`: tasks whose results were delivered after the backup, of those that it
    knows; `foreign`: of those that it does not; `old` and `new`: what each owner says it has
    accepted; `owed`: what the old one could not deliver; `before`: effects at each place when the
    restore was done."""

    receipt: Mapping[str, Any]
    after: Sequence[str]
    foreign: Sequence[str]
    old: Mapping[str, Sequence[Any]]
    new: Mapping[str, Sequence[Any]]
    owed: Mapping[str, Mapping[str, Any]]
    late: Sequence[str]
    clean: bool
    before: Mapping[str, int]
    old_later: Sequence[str]
    erased: Sequence[str]


def judged(seen: Seen, places: Sequence[Place]) -> list[Check]:
    """All of them."""
    found = {place.name: place.effects() for place in places}
    checks = [_writers(seen), _answered(seen, found)]
    for name, effects in found.items():
        checks += [_imported(seen, name), *_effects(seen, name, effects)]
    old_later = [each for each in seen.old_later if seen.old[each][0]]
    checks.append(Check(
        "the old owner went on after the restore, and no receiver took anything more from it",
        bool(old_later) and all(_refused(seen, name, old_later) for name in found),
        f"{len(old_later)} results; {_stops(seen)}",
    ))  # fmt: skip
    checks.append(Check(
        "a worker of the lost future is refused at the restored store",
        bool({"stale_epoch", "stale_fence"} & set(seen.late)),
        ", ".join(seen.late) or "accepted",
    ))  # fmt: skip
    checks.append(Check(
        "what was erased after the backup is erased again",
        list(seen.receipt["erasures"]["applied"]) == list(seen.erased),
        f"{len(seen.receipt['erasures']['applied'])} of {len(seen.erased)}",
    ))  # fmt: skip
    tokens = len(seen.receipt["tokens_revoked"])
    checks.append(Check("every token of the old store has ended", tokens == 1, f"{tokens} of 1"))
    checks.append(Check("the restored store's journal verifies", seen.clean, ""))
    return checks


def _writers(seen: Seen) -> Check:
    old, new = seen.receipt["old_writer"], seen.receipt["new_writer"]
    return Check(
        "the new writer is another one, of a later epoch",
        new["epoch"] > old["epoch"] and new["incarnation"] != old["incarnation"],
        f"epoch {old['epoch']} and {new['epoch']}",
    )


def _answered(seen: Seen, found: Mapping[str, Any]) -> Check:
    answered = {each["destination"] for each in seen.receipt["receivers"] if each["answered"]}
    return Check(
        "every receiver was told before anything was served",
        seen.receipt["status"] == "complete" and answered == {f"default/{name}" for name in found},
        ", ".join(sorted(answered)),
    )


def _imported(seen: Seen, name: str) -> Check:
    """Of two receivers of one result the first tells it, and the second tells what is known."""
    told = [each for each in seen.receipt["receivers"] if each["destination"] == f"default/{name}"]
    imported = {one for each in seen.receipt["receivers"] for one in each["imported"]}
    foreign = {one for each in told for one in each["foreign"]}
    return Check(
        f"{name}: what it has accepted after the backup is in the restored store, or named",
        imported == {f"{task}:1" for task in seen.after}
        and foreign == {f"{task}:1" for task in seen.foreign},
        f"{len(imported)} imported, {len(foreign)} of tasks that are not in the backup",
    )


def _effects(seen: Seen, name: str, effects: Sequence[tuple[str, Any]]) -> list[Check]:
    counts = Counter(data["task_id"] for _, data in effects)
    twice = [task for task, count in counts.items() if count > 1]
    results = {data["task_id"]: data["result"] for _, data in effects}
    accepted = {
        task: values[-1] for task, (values, _) in seen.new.items()
        if values and task not in seen.erased
    }  # fmt: skip
    missing = sorted(task for task, value in accepted.items() if results.get(task) != value)
    strange = results.keys() - accepted.keys() - set(seen.foreign)
    return [
        Check(f"{name}: no effect is there twice", not twice, f"{len(effects)} effects"),
        Check(
            f"{name}: no effect of a result that the restored store has is missing or another",
            bool(accepted) and not missing and not strange,
            f"{len(accepted)} results, {len(missing)} missing, {len(strange)} unknown",
        ),
        Check(
            f"{name}: the restored store has delivered more",
            len(effects) > seen.before[name], f"{len(effects) - seen.before[name]} more",
        ),
    ]  # fmt: skip


def _refused(seen: Seen, name: str, tasks: Sequence[str]) -> bool:
    """The old owner was told so, and has all of these still to deliver."""
    waiting = {operation for operation, _ in seen.owed[name]["open"]}
    stopped = str(seen.owed[name]["stopped"])
    return {f"{task}:1" for task in tasks} <= waiting and stopped.startswith("old_epoch")


def _stops(seen: Seen) -> str:
    return "; ".join(
        f"{name}: {str(each['stopped']).partition(':')[0]}" for name, each in seen.owed.items()
    )
