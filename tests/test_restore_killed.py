"""A restore that is killed at any of its steps is gone on with by the same call, and then the store
and its receipt are what they would have been."""

from __future__ import annotations

import json
import os
import signal

import pytest
from helpers.restore_life import lived
from helpers.restoring import world

from fencepost.operate.restoring import erasures

pytestmark = pytest.mark.timeout(180)  # servers and processes come and go

PARTS = 4
"""The steps are shared out over so many tests, so that several processes share the work."""


@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_any_step_it_goes_on_and_ends_as_if_nothing_had_been(tmp_path, part):
    with world(tmp_path) as it:
        it.old.fp.token_create("w", "worker")
        it.past_again()
        it.future()
        it.late.complete("r4")
        it.old.deliver()
        lines = [json.dumps(each) for each in erasures.erasures(it.old.fp)]
        gone = tmp_path / "erasures"
        late = it.old.fp.enqueue("pages", 1).task_id
        again = {"scope": "default", "task_id": it.spare}
        gone.write_text("\n".join([*lines, json.dumps(again),
                                   json.dumps({"scope": "default", "task_id": late})]))  # fmt: skip
        it.put_receiver_back()
        code, steps, err = lived(0, it.backup, tmp_path / "whole.db", gone)
        assert code == 0, err
        whole = json.loads((tmp_path / "whole.db.restore-receipt.json").read_bytes())
        shape = shaped(whole)
        assert shape["imported"] and shape["foreign"] and shape["tokens"] and shape["erasures"]
        for point in range(1 + part, int(steps) + 1, PARTS):
            folder = tmp_path / str(point)
            folder.mkdir()
            killed(it, folder / "store.db", gone, point, shape)


def killed(it, target, gone, point, shape):
    # whoever restores it takes the stream over from the one before: so the receiver is put back
    it.put_receiver_back()
    code, _, err = lived(point, it.backup, target, gone)
    assert code == -signal.SIGKILL, f"point {point}: {code} {err}"
    if not (target.parent / "store.db.restore.json").exists():
        assert target.exists() == (target.parent / "store.db.restore-receipt.json").exists()
    if not target.exists() or (target.parent / "store.db.restore.json").exists():
        code, _, err = lived(0, it.backup, target, gone)
        assert code == 0, f"point {point}: {err}"
    receipt = json.loads((target.parent / "store.db.restore-receipt.json").read_bytes())
    assert shaped(receipt) == shape, f"point {point}"
    left = [name for name in os.listdir(target.parent) if "restor" in name]
    assert set(left) - {"store.db.restore.lock"} == {
        "store.db.restore-receipt.json", "store.db.restore-secrets.json",
    }, f"point {point}"  # fmt: skip
    with it.opened(target) as new:
        assert new.fp.verify().clean
        lineage = new.fp.writers()
        assert lineage[-1].incarnation == receipt["new_writer"]["incarnation"], f"point {point}"
        assert lineage[-1].why == "restored", f"point {point}: {lineage}"
        secret = json.loads((target.parent / "store.db.restore-secrets.json").read_bytes())
        assert new.fp.destination("out").secrets[0].secret == secret["default/out"]
        assert len(new.fp.destination("out").secrets) == 2
        assert new.fp.destination("out").stopped is None
        assert [new.fp.task(each).state for each in it.tasks[:4]] == ["done"] * 4
        new.deliver()
    assert it.operations() == it.before, f"point {point}: an effect was doubled"


def shaped(receipt):
    """What a restore receipt says whatever its writer is called."""
    (out,) = receipt["receivers"]
    assert receipt["status"] == "complete" and receipt["not_reached"] == []
    return {
        "old": receipt["old_writer"], "imported": out["imported"], "foreign": out["foreign"],
        "held_by": out["held_by"], "taken_over": out["taken_over"], "position": out["position"],
        "tokens": receipt["tokens_revoked"], "erasures": receipt["erasures"],
        "secrets": receipt["secrets_rotated"], "dispatch": receipt["dispatch"],
    }  # fmt: skip
