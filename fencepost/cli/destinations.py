"""Where obligations go: destinations are set, shown, stopped and started; secrets are made here."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from fencepost import destinations
from fencepost.cli import inputs
from fencepost.cli.output import Out
from fencepost.cli.store import open_store
from fencepost.cli.verbs import send
from fencepost.commands import DestinationAdvance, DestinationSecret, DestinationSet
from fencepost.handle.masking import without_secrets
from fencepost.handle.verbs import request_of
from fencepost.outward import Destination


def set_(args: Namespace, out: Out) -> int:
    """An address may hold a password, which a command line shows to others: `-` reads it."""
    address = inputs.first_line("-", "address") if args.address == "-" else args.address
    options = inputs.options(args.options) if args.options else None
    return send(args, out, DestinationSet(args.queue, address, args.class_, options))


def stop(args: Namespace, out: Out) -> int:
    return send(args, out, DestinationSet(args.queue, stopped=args.reason))


def start(args: Namespace, out: Out) -> int:
    return send(args, out, DestinationSet(args.queue, stopped=None))


def advance(args: Namespace, out: Out) -> int:
    command = DestinationAdvance(
        args.queue, args.expected_sequence, args.sequence, args.head, args.heard, args.announced
    )
    return send(args, out, command)


def secret(args: Namespace, out: Out) -> int:
    """One that is made here goes to stdout alone, so that it can be sent to a file."""
    own = args.secret_file
    text = destinations.new_secret() if own is None else inputs.first_line(own, "secret")
    command = DestinationSecret(args.queue, text, args.keep_seconds)
    if own is not None:
        return send(args, out, command)
    args.sent = request = request_of(command, args.key)
    with open_store(args) as fp:
        (outcome,) = fp.execute([request])
    if not outcome.accepted:
        return out.refusal(outcome, request)
    if out.json:
        out.data({**outcome.to_json(), "secret": text})
        return 0
    print(text, flush=True)
    out.note(f"what goes to {args.queue} is signed with it from now on")
    out.note("the secret is shown this once; give it to the receiver")
    return 0


def show(args: Namespace, out: Out) -> int:
    with open_store(args) as fp:
        found = without_secrets(fp.destination(args.queue))
    told = found.to_json()
    if out.json:
        out.data(told)
        return 0
    changed = destinations.changed(found.options)
    told |= {"options": changed or "as by default", "secrets": _secrets(told["secrets"])}
    for name, value in told.items():
        out.say(f"{name:<10}{'-' if value is None else value}")
    return 0


def _secrets(told: list[dict[str, Any]]) -> str:
    ends = [one["until"] for one in told if one["until"]]
    return f"{len(told)}" + (f", older ones until {', '.join(ends)}" if ends else "")


def list_(args: Namespace, out: Out) -> int:
    with open_store(args) as fp:
        found = [without_secrets(one) for one in fp.destinations()]
    if out.json:
        for one in found:
            out.data(one.to_json())
        return 0
    if not found:
        out.note(f"nothing is delivered from scope {args.scope}")
        return 0
    out.table(("destination", "class", "address", "sequence", "state"), map(_row, found), (3,))
    return 0


def _row(found: Destination) -> tuple[object, ...]:
    state = "goes on" if found.stopped is None else f"stopped: {found.stopped}"
    return found.queue, found.class_, found.address, found.sequence, state
