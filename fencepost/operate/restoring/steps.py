"""The steps that make a copy a store of its own. Each is remembered, and done again it does what it
did before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from fencepost import destinations, fields
from fencepost.clock import to_rfc3339
from fencepost.handle import Handle
from fencepost.issues import InvalidRequest, NotFound, ReceiptErased
from fencepost.lineage import COPIED, SERVERS, STOPS
from fencepost.operate.backup import Told
from fencepost.operate.restoring.progress import Progress, write
from fencepost.operate.restoring.receivers import Peer, Talk, epochs, peers, taken_over


class Wishes(NamedTuple):
    """What a person has asked for. `overrides` names destinations (SCOPE/QUEUE) that are to go on
    although their receiver was not heard, `who` said so and `reason` why."""

    min_epoch: int = 0
    heard: int = 0
    take_over: bool = False
    adopt_secret: str | None = None
    overrides: tuple[str, ...] = ()
    who: str = ""
    reason: str = ""
    erasures: tuple[Mapping[str, Any], ...] = ()
    secrets_out: Path | None = None

    def checked(self) -> Wishes:
        """The same. Raises InvalidRequest."""
        fields.integer(0, fields.MAX_HEARD)(self.min_epoch, "min_epoch")
        if self.overrides and not self.reason:
            raise InvalidRequest("--override: say why with --reason; it stands in the receipt")
        return self


def run(fp: Handle, why: str, wishes: Wishes, progress: Progress, tell: Told) -> dict[str, Any]:
    """All steps on an opened store. Returns what the receipt says; `complete` where every receiver
    has answered or was passed over by name. What is not complete may be run again."""
    about = fp.about()
    with ExitStack() as open_talks:
        found = list(peers(fp))
        unknown = set(wishes.overrides) - {peer.name for peer in found}
        if unknown:
            raise InvalidRequest(f"--override: this store has no destination {min(unknown)}")
        talks = [Talk(peer, about["writer_id"], wishes.adopt_secret) for peer in found]
        for talk in talks:
            open_talks.callback(talk.close)
        begin(fp, why, wishes, progress, talks, tell)
        told = _told(talks, wishes, progress, tell)
    open_ones = [each for each in told if not (each["answered"] or each.get("override"))]
    progress.keep("receivers", told)
    facts = {**progress.facts, "complete": not open_ones}
    if open_ones:
        return facts
    erase(fp, wishes.erasures, progress)
    revoke(fp, progress)
    renew_secrets(found, wishes, progress)
    go_on(found, told, progress)
    return {**progress.facts, "complete": True}


def begin(
    fp: Handle, why: str, wishes: Wishes, progress: Progress, talks: list[Talk], tell: Told
) -> None:
    """A new writer, above every epoch that anybody has heard of. Another one, where a receiver
    that answers only now has heard of a later one than ours; the one that an interrupted run has
    begun, and not noted, is ours."""
    if progress.get("before") is None:
        progress.keep("before", _before(fp))
    before = int(progress.get("before")["epoch"])
    lineage = fp.writers()
    heard = epochs(talks, {each.incarnation for each in lineage}, tell)
    heard = max(wishes.min_epoch, wishes.heard, heard)
    writer = lineage[-1]
    begun = any(each.why == why for each in lineage if each.epoch > before)
    if not begun or writer.epoch <= heard:
        writer = fp.begin_writer(why, heard)
    progress.keep("writer", writer.to_json())


def _before(fp: Handle) -> dict[str, Any]:
    """The writer that made what is here: the last one but those that found this to be a copy."""
    lineage = list(fp.writers())
    while len(lineage) > 1 and lineage[-1].why in (COPIED, *SERVERS):
        lineage.pop()
    return lineage[-1].to_json()


def _told(
    talks: list[Talk], wishes: Wishes, progress: Progress, tell: Told
) -> list[dict[str, Any]]:
    told = []
    notes: dict[str, dict[str, Any]] = progress.get("met") or {}
    for done, talk in enumerate(talks, 1):
        own, passed = notes.setdefault(talk.peer.name, {}), talk.peer.name in wishes.overrides
        said = taken_over(
            talk, own, lambda: progress.keep("met", notes), take_over=wishes.take_over,
            overridden=passed,
        )  # fmt: skip
        if not said["answered"] and passed:
            said["override"] = {
                "who": wishes.who, "reason": wishes.reason, "at": to_rfc3339(talk.peer.fp.wall())
            }  # fmt: skip
        told.append(said)
        tell("receivers told", done, len(talks))
    return told


def erase(fp: Handle, erasures: Iterable[Mapping[str, Any]], progress: Progress) -> None:
    """What was erased after the backup is erased again. Where that fails the run ends: nothing is
    served of what somebody wanted gone. Raises what the store refuses."""
    done: dict[str, list[str]] = {"applied": [], "unknown": []}
    for each in erasures:
        own = fp.as_caller(fp.caller.actor, scope=each["scope"])
        try:
            own.erase(each["task_id"], reason="erased before the restore")
        except ReceiptErased:
            pass  # by an earlier run
        except NotFound:
            done["unknown"].append(each["task_id"])
            continue
        done["applied"].append(each["task_id"])
    progress.keep("erasures", done)


def revoke(fp: Handle, progress: Progress) -> None:
    """Whoever could reach the old store may be anybody's guest by now: every token ends."""
    ending: dict[str, Handle] = {}
    for scope in {fp.scope_name, *fp.scope_names()}:
        own = fp.as_caller(fp.caller.actor, scope=scope)
        ending |= {each.token_id: own for each in own.tokens() if each.revoked_at is None}
    # first noted, then ended: of those that have ended nobody could tell whether we did it
    progress.keep("tokens", sorted({*(progress.get("tokens") or ()), *ending}))
    for token_id, own in ending.items():
        own.token_revoke(token_id)


def check_secrets_out(wishes: Wishes, progress: Progress) -> None:
    """What was written there before this run is somebody's: neither used nor written over. Raises
    InvalidRequest."""
    path = wishes.secrets_out
    if path is not None and path.exists() and progress.get("secrets_out") != str(path):
        raise InvalidRequest(
            f"{path} is there already, and the new secrets go there: move it away, or name another "
            "file with --secrets-out"
        )


def renew_secrets(found: list[Peer], wishes: Wishes, progress: Progress) -> None:
    """Each destination that signs signs with a new secret; with the old ones for a day more. The
    new ones are on the disk before they are used."""
    signing = [peer for peer in found if peer.destination.secrets]
    if not signing:
        return
    if wishes.secrets_out is None:
        raise InvalidRequest("the destinations get new secrets: say where to with --secrets-out")
    progress.keep("secrets_out", str(wishes.secrets_out))
    made: dict[str, str] = _kept(wishes.secrets_out)
    for peer in signing:
        made.setdefault(peer.name, destinations.new_secret())
    write(wishes.secrets_out, json.dumps(made, indent=1, sort_keys=True).encode() + b"\n")
    for peer in signing:
        known = peer.fp.destination(peer.destination.queue).secrets
        if known[0].secret != made[peer.name]:
            peer.fp.destination_secret(peer.destination.queue, made[peer.name])
    progress.keep("secrets", [peer.name for peer in signing])


def _kept(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise InvalidRequest(f"{path} is there and is no file of secrets; name another")
    return found


def go_on(found: list[Peer], told: list[dict[str, Any]], progress: Progress) -> None:
    """Deliveries go on where only this has stopped them."""
    started, left = [], {}
    for peer, said in zip(found, told, strict=True):
        now = peer.fp.destination(peer.destination.queue)
        if now.stopped in STOPS:
            peer.fp.destination_set(peer.destination.queue, stopped=None)
        if said["stopped_before"] is None:
            started.append(peer.name)
        else:
            left[peer.name] = said["stopped_before"]
    progress.keep("dispatch", {"on": started, "off": left})
