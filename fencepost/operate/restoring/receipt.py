"""The restore receipt: what a restore or an adoption has done, as JSON and for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost import canonical
from fencepost.version import VERSION

LIMITS = (
    """Effects outside the receivers named here are not known: what keeps no writer may have had
    messages of the old owner, and may get more.""",
    """What was acknowledged after the backup and reached no receiver is lost; it is not listed,
    since nobody here has heard of it.""",
    """The old owner is fenced off where a receiver refuses it. Its own workers go on as long as it
    lives: end it.""",
)


def build(facts: Mapping[str, Any], writer_id: str, backup: Mapping[str, Any] | None) -> bytes:
    """The receipt, RFC 8785 JSON. `facts` are those of the run (`steps.run`); `backup` the manifest
    of the backup that was restored, None for a copy that was adopted."""
    receivers = facts.get("receivers", [])
    return canonical.dumps({
        "v": 1,
        "kind": "restore-receipt",
        "status": "complete" if facts["complete"] else "incomplete",
        "fencepost_version": VERSION,
        "backup": None if backup is None else {
            name: backup.get(name) for name in ("sha256", "created_at", "entries", "checkpoint")
        },
        "writer_id": writer_id,
        "old_writer": facts["before"],
        "new_writer": facts["writer"],
        "receivers": receivers,
        "not_reached": [
            each["destination"] for each in receivers if not each["answered"]
        ],
        "dispatch": facts.get("dispatch", {"on": [], "off": {}}),
        "erasures": facts.get("erasures", {"applied": [], "unknown": []}),
        "tokens_revoked": facts.get("tokens", []),
        "secrets_rotated": facts.get("secrets", []),
        "limits": [" ".join(limit.split()) for limit in LIMITS],
    })  # fmt: skip


def digest(receipt: bytes) -> str:
    """SHA-256 of the receipt's bytes, in hex."""
    return canonical.sha256_hex(receipt)


def lines(receipt: Mapping[str, Any]) -> Iterator[str]:
    """The receipt for people."""
    old, new = receipt["old_writer"], receipt["new_writer"]
    yield f"{receipt['kind']}: {receipt['status']}"
    if receipt["backup"] is not None:
        backup = receipt["backup"]
        yield f"  backup       {backup['created_at']}, {backup['entries']} entries"
    yield f"  old writer   epoch {old['epoch']}, incarnation {old['incarnation']}"
    yield f"  new writer   epoch {new['epoch']}, incarnation {new['incarnation']}"
    for each in receipt["receivers"]:
        yield from _receiver(each)
    off = receipt["dispatch"]["off"]
    yield f"  deliveries   on: {_names(receipt['dispatch']['on'])}; stopped before: {_names(off)}"
    erasures = receipt["erasures"]
    yield f"  erased again {len(erasures['applied'])}; not known here: {len(erasures['unknown'])}"
    revoked = len(receipt["tokens_revoked"])
    yield f"  tokens       {revoked} revoked" + ("; make new ones" if revoked else "")
    yield f"  secrets      new ones for: {_names(receipt['secrets_rotated'])}"
    for limit in receipt["limits"]:
        yield f"  not known    {limit}"


def _receiver(each: Mapping[str, Any]) -> Iterator[str]:
    yield f"  receiver     {each['destination']} ({each['class']}, {each['kind']})"
    if each["answered"]:
        held = each["held_by"]
        how = "replaced" if each["taken_over"] else "followed"
        yield f"    answered as {each['receiver']}; {how} epoch {held['epoch']}"
        yield f"    imported: {_names(each['imported'])}"
        if each["without_data"]:
            yield (
                "    of these as digests, since it has dropped the data, so that no other "
                f"destination is told of them: {_names(each['without_data'])}"
            )
        if each["foreign"]:
            yield f"    of tasks that are not in this store: {_names(each['foreign'])}"
    else:
        yield f"    NOT ANSWERED: {each['why']}"
        for operation, code in each.get("refused", ()):
            yield f"    {operation}: {code}"
    if "override" in each:
        yield f"    passed over by {each['override']['who']}: {each['override']['reason']}"
    yield f"    isolation: {each['isolation']}"


def _names(names: Any) -> str:
    shown = [str(name) for name in names]
    rest = len(shown) - 5
    return (", ".join(shown[:5]) + (f" and {rest} more" if rest > 0 else "")) or "none"
