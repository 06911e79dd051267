"""A recording judged: what was written down, what was unknown in it settled, cut by task.

A task is judged by what was told of it alone (all is linearizable if each part is): a claim or a
sweep is an operation of every task that it could have taken. What one task cannot show is held
beside it: fences rise with the entries of all claims, and no entry is told of two commands.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.clock import from_rfc3339
from helpers import linear_record as record
from helpers.linear import Event, Verdict, check
from helpers.linear_model import ON_LEASE, OneTask, Op, Receipt, Was

DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")


class Call(NamedTuple):
    """One call as it was written down. `told` is None where no answer came; `back` is then the
    death of the process. `again` names the call of which this is the second asking."""

    name: str
    call: int
    back: int
    asked: dict[str, Any]
    told: dict[str, Any] | None
    again: str


def calls_of(files: Iterable[Path], deaths: dict[str, int]) -> Iterator[Call]:
    """What stands in the files. A last line that a kill has cut is of a call that was not made
    yet, or of an answer that nobody heard."""
    for path in files:
        whole = path.read_bytes().rpartition(b"\n")[0]
        lines = [json.loads(line) for line in whole.splitlines()]
        answers = {line["name"]: line for line in lines if "back" in line}
        for asked in lines:
            if "call" in asked:
                name = asked["name"]
                told = answers.get(name)
                back = told["back"] if told else deaths[name.split(".")[0]]
                yield Call(name, asked["call"], back, asked, told, asked.get("again", ""))


def outcome_of(call: Call) -> dict[str, Any]:
    """The outcome that was told; of a read, or where none was told, one without a receipt."""
    found: dict[str, Any] = (call.told or {}).get("outcome", {"receipt": None, "replayed": False})
    return found


def with_what_happened(calls: list[Call], asked_again: dict[str, Call]) -> Iterator[Call]:
    """The calls, those without an answer as the second asking has shown them to be: its receipt
    is told again (it has happened, and this would have been the answer), or it is not (nothing
    has happened: what was told then belongs to the second asking alone)."""
    owned = {
        outcome_of(call)["receipt"]["number"]
        for call in calls if outcome_of(call)["receipt"] and not outcome_of(call)["replayed"]
    }  # fmt: skip
    found: dict[int, list[Call]] = defaultdict(list)
    for call in calls:
        again = asked_again.get(call.name)
        if again is None or not outcome_of(again)["replayed"]:
            yield call
            continue
        number = outcome_of(again)["receipt"]["number"]
        if number in owned:  # this was a second asking itself
            yield call
        else:
            found[number].append(call)
    for same in found.values():  # of two with the same bytes one has done it: nobody knows which
        outcome = {**outcome_of(asked_again[same[0].name]), "leases": None, "replayed": False}
        yield same[0]._replace(
            call=min(call.call for call in same), back=max(call.back for call in same),
            told={"outcome": outcome},
        )  # fmt: skip
        yield from same[1:]


def judged(
    calls: list[Call], tasks: dict[str, dict[str, Any]], clock: record.Fast, most_steps: int
) -> dict[str, Any]:
    wrong = across(calls)
    counts: Counter[str] = Counter(gave_up=0, not_linearizable=0)
    for task_id, made in tasks.items():
        history = history_of(task_id, made["queue"], calls, clock)
        model = model_of(made)
        verdict = check(history, model.first(), model.step, most_steps)
        counts["events"] += len(history)
        counts["steps"] += verdict.steps
        if verdict.holds is not True:
            what = "gave_up" if verdict.holds is None else "not_linearizable"
            counts[what] += 1
            wrong.append(f"{what.replace('_', ' ')}: task {task_id}\n{shown_end(history, verdict)}")
    return {**counts, "wrong": wrong}


def model_of(made: dict[str, Any]) -> OneTask:
    """The model of a task of this queue."""
    settings = record.SETTINGS[made["queue"]]
    lapse = str(settings.get("on_lapse", "retry"))
    return OneTask(made["created_at"], int(settings["max_attempts"]), lapse, 1)


def history_of(task_id: str, queue: str, calls: list[Call], clock: record.Fast) -> list[Event]:
    """All that concerns the task, each with what was told of this task."""
    found = []
    for call in calls:
        if concerns(call.asked, task_id, queue):
            op = _op(call, task_id, clock)
            if op is not None:
                shown_too = _lease_shown(call, op, task_id)
                found += [Event(call.call, call.back, each) for each in (op, *shown_too)]
    return in_line(found)


def in_line(found: list[Event]) -> list[Event]:
    """Entries stand in the order in which they took effect: each must follow the one before it."""
    last, prior = 0, {}
    own = {e.op.receipt.number for e in found if e.op.receipt and not e.op.replayed}
    for number in sorted(own):
        prior[number], last = last, number
    return [
        event._replace(op=event.op._replace(after=prior.get(event.op.receipt.number, 0)))
        if event.op.receipt
        else event
        for event in found
    ]


def concerns(asked: dict[str, Any], task_id: str, queue: str) -> bool:
    """Whether the call could tell of this task, or change it."""
    if "read" in asked:
        return bool(asked["task_id"] == task_id)
    command = json.loads(asked["body"])
    if "task_id" in command:
        return bool(command["task_id"] == task_id)
    return queue in command.get("queues", ()) or (
        command.get("queue", queue) == queue and (command["verb"] == "sweep")
    )


def _op(call: Call, task_id: str, clock: record.Fast) -> Op | None:
    """None where nothing has happened and nobody was told anything."""
    first, last = clock.at(call.call), clock.at(call.back)
    if "read" in call.asked:
        if call.told is None:
            return None
        row = tuple(tuple(r) if type(r) is list else r for r in call.told["row"])
        return Op(call.asked["read"], first, last, row=row)
    command = json.loads(call.asked["body"])
    op = _asked(command, call.asked, first, last)
    if call.told is not None:
        return told_by(op, command, outcome_of(call), task_id)
    # of a renewal no receipt can tell
    return op._replace(status="unknown") if command["verb"] == "renew" else None


def _asked(command: dict[str, Any], asked: dict[str, Any], first: int, last: int) -> Op:
    verb, worker = command["verb"], command.get("worker_id", "")
    own = asked["sha"] if verb in ON_LEASE else ""
    key = own if asked["key"] is None else f"{worker or 'local'} {asked['key']}"
    return Op(
        verb, first, last, key=key, sha=asked["sha"],
        worker=worker, fence=command.get("fencing_token"), digest=asked["digest"] or None,
        expected=command.get("expected_revision"), seconds=command.get("lease_seconds", 0),
        retry_seconds=command.get("retry_seconds"),
        to=command.get("then", "retry") if verb == "fail" else command.get("to", "retry"),
        one=verb == "claim" and "task_id" in command,
    )  # fmt: skip


def told_by(op: Op, command: dict[str, Any], outcome: dict[str, Any], task_id: str) -> Op:
    facts = outcome["facts"]
    if outcome["status"] != "accepted":
        told = (facts["state"], facts["fencing_token"], facts["revision"]) if facts else None
        return op._replace(
            status="refused", issues=tuple(outcome["issues"]), facts=told,
            names=facts.get("receipt"),
        )  # fmt: skip
    if op.verb == "renew":
        end = facts.get("lease_expires_at")
        return op._replace(told_end=from_rfc3339(end) if end else 0)
    item = None
    receipt = outcome["receipt"]
    if receipt is not None:
        entry = json.loads(receipt["entry"])
        body = sha256(receipt["entry"].encode()).hexdigest()
        op = op._replace(receipt=Receipt(receipt["number"], from_rfc3339(entry["at"]), body))
        for named in entry["tasks"]:
            if named["task_id"] == task_id:
                item = named.get("before", ""), named["state"], named["fence"], named["revision"]
    room = len(outcome["task_ids"]) < command.get("limit", 1)
    return op._replace(item=item, room=room, replayed=outcome["replayed"])


def _lease_shown(call: Call, op: Op, task_id: str) -> Iterator[Op]:
    """What an answered claim shows of the lease that it took, now or when it was first sent."""
    leases = outcome_of(call).get("leases")
    if op.verb == "claim" and op.item and op.receipt and leases is not None:
        grant = None
        for lease in leases:
            if lease["task_id"] == task_id:
                end = from_rfc3339(lease["lease_expires_at"])
                grant = lease["fencing_token"], lease["revision"], lease["attempt"], end
        at = (op.first, op.last) if op.replayed else (op.receipt.at, op.receipt.at)
        yield Op("shown", *at, fence=op.item[2], grant=grant)


def across(calls: list[Call]) -> list[str]:
    """What holds between tasks: fences rise with the entries; an entry is one command's."""
    wrong, fences = [], []
    commands: dict[int, set[tuple[str | None, str]]] = defaultdict(set)
    for call in calls:
        receipt = outcome_of(call)["receipt"]
        if receipt is not None:
            commands[receipt["number"]].add((call.asked["key"], call.asked["sha"]))
            entry = json.loads(receipt["entry"])
            if entry["verb"] == "claim" and not outcome_of(call)["replayed"]:
                fences.append((receipt["number"], [item["fence"] for item in entry["tasks"]]))
    for number, told_of in commands.items():
        if len({sha for _, sha in told_of}) > 1:
            wrong.append(f"entry {number} was told of two commands")
    drawn = [fence for _, of_entry in sorted(fences) for fence in of_entry]
    if drawn != sorted(set(drawn)):
        wrong.append("fences do not rise with the entries")
    return wrong


def shown_end(history: list[Event], verdict: Verdict, most: int = 8) -> str:
    """The end of the longest line that was found, its states, and what could not follow."""
    events = sorted(history, key=lambda event: event[:2])
    lines = [f"  {len(verdict.order)} of {len(events)} stand in a line, which ends with"]
    lines += [f"    {shown(events[place])}" for place in verdict.order[-most:]]
    for state in verdict.states:
        assert isinstance(state, Was)
        text = str(state._replace(known=frozenset(), results=state.results[-2:]))
        lines.append("  then it is " + DIGEST.sub(r"\1", text))
    lines += [f"  and cannot be {shown(events[place])}" for place in verdict.stuck]
    return "\n".join(lines)


def shown(event: Event) -> str:
    """An operation in a line, without what it leaves open; digests are cut."""
    op: Op = event.op
    defaults = Op._field_defaults
    said = {n: v for n, v in op._asdict().items() if n == "verb" or v != defaults.get(n)}
    for left_out in ("sha", "after"):
        said.pop(left_out, None)
    text = f"[{event.call}, {event.back}] " + " ".join(f"{n}={v}" for n, v in said.items())
    return DIGEST.sub(r"\1", text)
