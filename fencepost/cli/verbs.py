"""The commands of the contract: arguments become one command, which is sent and told."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from fencepost.cli import inputs, words
from fencepost.cli.output import Out
from fencepost.cli.parser import normal
from fencepost.cli.store import open_store
from fencepost.commands import (
    Cancel,
    Claim,
    ClockReset,
    Command,
    Complete,
    Enqueue,
    Erase,
    Fail,
    NewTask,
    Purge,
    QueueSet,
    Release,
    Renew,
    Request,
    Requeue,
    Resolve,
    Review,
    Revoke,
    SetPolicy,
    Submit,
    Sweep,
)
from fencepost.handle.verbs import Verbs, check_wait, random_key, request_of
from fencepost.issues import InvalidRequest, Refused
from fencepost.model import Outcome
from fencepost.opening import is_remote


def send(args: Namespace, out: Out, command: Command) -> int:
    """Send one command under its key and tell what came of it."""
    key = args.key
    if key is None and isinstance(command, Claim) and is_remote(args.store):
        key = random_key()  # a claim whose answer is lost on the way is asked for again
    return send_request(args, out, request_of(command, key))


def send_request(args: Namespace, out: Out, request: Request) -> int:
    """Send and tell; returns the exit code."""
    args.sent = request
    with open_store(args, kind="human" if args.verb == "review" else "operator") as fp:
        outcome = _outcome(args, fp, request)
        while outcome.facts.get("remaining"):  # erase: obligations go first, 180 at a time
            request = request_of(request.command)
            (outcome,) = fp.execute([request])
    return tell(args, out, request, outcome)


def _outcome(args: Namespace, fp: Verbs, request: Request) -> Outcome:
    wait_seconds = getattr(args, "wait_seconds", 0)
    if not wait_seconds:
        (outcome,) = fp.execute([request])
        return outcome
    try:
        return fp.claimed(request, check_wait(wait_seconds))[0]
    except Refused as refused:
        return refused.outcome


def tell(args: Namespace, out: Out, request: Request, outcome: Outcome) -> int:
    """Print an outcome; returns the exit code."""
    if not outcome.accepted:
        return out.refusal(outcome, request)
    if out.json:
        out.data(outcome.to_json())
    else:
        out.say(*words.told(args, request.command, outcome))
    return 0


def raw(args: Namespace, out: Out) -> int:
    """`--request`: the bytes go as they are. The verb that they name must be this one."""
    request = Request.read(inputs.read_bytes(args.request, "--request"), args.key)
    if normal(request.command.verb) != args.verb:
        raise InvalidRequest(
            f"--request: the command is {request.command.verb!r}, the verb is {args.verb!r}"
        )
    return send_request(args, out, request)


# -- one short function a verb


def enqueue(args: Namespace, out: Out) -> int:
    if args.source is not None:
        from fencepost.cli import bulk

        return bulk.enqueue(args, out)
    if args.payload is None:
        raise InvalidRequest("enqueue: give a PAYLOAD, - for standard input, or --from FILE")
    if args.tasks:
        raise InvalidRequest("enqueue: --tasks belongs to --from")
    payload = inputs.value(args.payload, "payload", text=args.text)
    new = NewTask(payload, args.task_key, args.priority, args.due_at, args.max_attempts)
    return send(args, out, Enqueue(args.queue, (new,)))


def claim(args: Namespace, out: Out) -> int:
    queues = tuple(args.queues) or None
    return send(args, out, Claim(args.worker, queues, args.task, args.limit, args.lease_seconds))


def _lease(args: Namespace) -> dict[str, Any]:
    return {
        "task_id": args.task, "worker_id": args.worker, "fence": args.fence,
        "epoch": args.epoch, "policy_version": args.policy_version,
    }  # fmt: skip


def renew(args: Namespace, out: Out) -> int:
    command = Renew(**_lease(args), lease_seconds=args.lease_seconds, **inputs.remark(args))
    return send(args, out, command)


def _result(args: Namespace) -> dict[str, Any]:
    result = inputs.optional_value(args.result, "result", text=args.text)
    more = {"result": result, "expected_revision": args.revision, **inputs.remark(args)}
    return {**_lease(args), **more}


def submit(args: Namespace, out: Out) -> int:
    return send(args, out, Submit(**_result(args)))


def complete(args: Namespace, out: Out) -> int:
    command = Complete(**_result(args), followups=inputs.followups(args.followups))
    return send(args, out, command)


def fail(args: Namespace, out: Out) -> int:
    command = Fail(
        **_lease(args), then=args.then, reason=args.reason, retry_seconds=args.retry_seconds,
        **inputs.remark(args),
    )  # fmt: skip
    return send(args, out, command)


def release(args: Namespace, out: Out) -> int:
    return send(args, out, Release(**_lease(args), **inputs.remark(args)))


def cancel(args: Namespace, out: Out) -> int:
    return send(args, out, Cancel(args.task, args.fence, args.reason))


def requeue(args: Namespace, out: Out) -> int:
    return send(args, out, Requeue(args.task, args.fence, args.reason))


def resolve(args: Namespace, out: Out) -> int:
    evidence = inputs.optional_value(args.evidence, "evidence", text=args.text)
    return send(args, out, Resolve(args.task, args.fence, args.reason, args.to, evidence))


def review(args: Namespace, out: Out) -> int:
    return send(args, out, Review(args.task, args.revision, args.verdict, args.requeue))


def sweep(args: Namespace, out: Out) -> int:
    return send(args, out, Sweep(args.queue, args.limit))


def erase(args: Namespace, out: Out) -> int:
    return send(args, out, Erase(args.task, args.fence, args.reason))


def purge(args: Namespace, out: Out) -> int:
    return send(args, out, Purge(args.queue, args.limit))


def queue_set(args: Namespace, out: Out) -> int:
    return send(args, out, QueueSet(args.queue, inputs.settings(args.settings)))


def set_policy(args: Namespace, out: Out) -> int:
    return send(args, out, SetPolicy(args.policy_version, args.retain_seconds))


def revoke(args: Namespace, out: Out) -> int:
    return send(args, out, Revoke(not args.lift))


def clock_reset(args: Namespace, out: Out) -> int:
    return send(args, out, ClockReset())
