"""A receipt is proven offline by the core alone; a changed proof proves nothing."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.lab import START, raw
from helpers.workload import every_verb, opened
from test_tree import ENTRIES, INCLUSION_3_OF_7, ROOTS, Stored, leaf_hash

import fencepost
from fencepost.clock import FakeClock
from fencepost.issues import Forbidden, InvalidRequest, JournalBroken, NotFound, ReceiptErased
from fencepost.journal.checkpoint import Checkpoint
from fencepost.journal.proof import ConsistencyProof, Proof
from fencepost.journal.tree import EMPTY_ROOT, root

VECTOR = Proof(
    4, ENTRIES[3], 7, tuple(map(bytes.fromhex, INCLUSION_3_OF_7)),
    Checkpoint("fencepost/w1", 7, bytes.fromhex(ROOTS[7])).text(),
)  # fmt: skip


@pytest.fixture
def fp():
    with opened(":memory:") as handle:
        for number in range(11):
            handle.enqueue("q", number, key=f"k{number}")
        yield handle


def changed_bits(data):
    for place in range(len(data)):
        yield data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_the_published_vector_of_leaf_3_of_7_is_a_proof():
    assert VECTOR.verify()
    assert VECTOR.check() == Checkpoint("fencepost/w1", 7, bytes.fromhex(ROOTS[7]))


def test_every_entry_is_proven_under_a_checkpoint_that_covers_it(fp):
    for view in list(fp.entries()):
        proof = fp.prove(view.number)
        assert proof.entry == view.body
        assert proof.check().size >= view.number
        assert proof.verify()


def test_a_receipt_is_proven_by_itself(fp):
    receipt = fp.enqueue("q", "one more")
    proof = fp.prove(receipt)
    assert (proof.number, proof.entry) == (receipt.number, receipt.body)
    assert proof.verify()


def test_prove_seals_first_where_the_entry_is_not_sealed_yet():
    with opened(":memory:") as fp:
        receipt = fp.enqueue("q", 1)
        assert list(fp.checkpoints()) == []
        proof = fp.prove(receipt)
        assert [head.text() for head in fp.checkpoints()] == [proof.checkpoint]


def test_a_proof_with_any_byte_changed_proves_nothing(fp):
    proof = fp.prove(5)
    changed = dataclasses.replace
    assert not any(changed(proof, entry=entry).verify() for entry in changed_bits(proof.entry))
    for place, hash_ in enumerate(proof.path):
        for other in changed_bits(hash_):
            path = (*proof.path[:place], other, *proof.path[place + 1 :])
            assert not changed(proof, path=path).verify()
    for number in (0, 4, 6, proof.size + 1):
        assert not changed(proof, number=number).verify()
    assert not changed(proof, size=proof.size + 1).verify()
    assert not changed(proof, path=proof.path[:-1]).verify()
    assert not changed(proof, checkpoint=b"nonsense").verify()
    with pytest.raises(JournalBroken, match="not under the root"):
        changed(proof, entry=b"{}").check()


def test_a_proof_goes_through_json_and_back(fp):
    proof = fp.prove(5)
    text = json.dumps(proof.to_json())
    assert Proof.from_json(json.loads(text)) == proof
    consistency = fp.prove_consistency(fp.seal())
    assert ConsistencyProof.from_json(json.loads(json.dumps(consistency.to_json()))) == consistency


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("number", "5"), ("number", True), ("number", -1), ("size", 1.5), ("entry", None),
        ("entry", "é"), ("path", "00"), ("path", ["00"]), ("path", [None]), ("path", ["0" * 62]),
        ("path", ["AB" * 32]), ("path", ["00" * 32] * 65), ("checkpoint", 7), ("more", 1),
    ],
)  # fmt: skip
def test_json_that_is_no_proof_is_refused(member, value):
    with pytest.raises(InvalidRequest, match="proof: "):
        Proof.from_json({**VECTOR.to_json(), member: value})
    with pytest.raises(InvalidRequest, match="proof: "):
        Proof.from_json(json.loads("[]"))


def test_a_proof_is_checked_without_a_store_by_the_core_alone(fp, tmp_path):
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(fp.prove(3).to_json()), encoding="utf-8")
    code = (
        "import json, sys; from fencepost.journal.proof import Proof; "
        "print(Proof.from_json(json.load(open(sys.argv[1]))).check().size); "
        "print('sqlite3' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, file], capture_output=True, text=True, check=True,
        cwd=Path(fencepost.__file__).parent.parent, timeout=30,
    )  # fmt: skip
    assert done.stdout.split() == ["11", "False"]


# -- consistency


def test_each_checkpoint_is_proven_to_go_on_in_the_last_one(fp):
    kept = [fp.seal()]
    for number in range(5):
        fp.enqueue("q", f"later {number}")
        kept.append(fp.seal())
    for old in kept:
        assert fp.prove_consistency(old).check() == kept[-1]
        assert fp.prove_consistency(old.size) == fp.prove_consistency(old)
    assert fp.prove_consistency(Checkpoint("fencepost/w1", 0, EMPTY_ROOT)).verify()


def test_a_consistency_proof_with_a_byte_changed_proves_nothing(fp):
    old = fp.seal()
    fp.enqueue("q", "later")
    fp.seal()
    proof = fp.prove_consistency(old)
    assert proof.verify()
    for place, hash_ in enumerate(proof.path):
        for other in changed_bits(hash_):
            path = (*proof.path[:place], other, *proof.path[place + 1 :])
            assert not dataclasses.replace(proof, path=path).verify()
    assert not dataclasses.replace(proof, old=proof.new, new=proof.old).verify()


def test_a_checkpoint_of_another_history_is_told_as_broken(fp):
    fp.seal()
    other = Stored([leaf_hash(b"%d" % number) for number in range(5)])
    with pytest.raises(JournalBroken, match="cut, rewritten or forked"):
        fp.prove_consistency(Checkpoint("fencepost/w1", 5, root(5, other)))


def test_a_checkpoint_that_is_longer_than_the_journal_is_told_as_broken(fp):
    head = fp.seal()
    with pytest.raises(JournalBroken, match="cut, rewritten or forked"):
        fp.prove_consistency(Checkpoint(head.origin, head.size + 1, head.root))


def test_a_size_without_a_checkpoint_is_not_found(fp):
    head = fp.seal()
    with pytest.raises(NotFound, match=f"no checkpoint of {head.size + 1} entries"):
        fp.prove_consistency(head.size + 1)


def test_a_missing_node_is_told_and_no_wrong_proof_given(tmp_path):
    path = tmp_path / "work.db"
    with opened(path) as fp:
        for number in range(8):
            fp.enqueue("q", number)
        fp.seal()
    with raw(path) as connection:
        connection.execute("delete from fencepost_node where level = 2 and position = 1")
    with opened(path) as fp, pytest.raises(JournalBroken, match="node 2/1 is missing"):
        fp.prove(1)


# -- sealing, and who may see what


def test_seal_covers_every_entry_and_names_the_checkpoint_before(fp):
    first = fp.seal()
    assert (first.size, fp.seal()) == (11, first)  # nothing new: no new checkpoint
    fp.enqueue("q", "later")
    second = fp.seal()
    assert (second.size, second.previous_size, second.previous_sha256) == (
        12, 11, first.sha256(),
    )  # fmt: skip
    assert list(fp.checkpoints())[-1] == second


def test_the_checkpoint_of_an_empty_journal_is_that_of_the_empty_tree():
    with opened(":memory:") as fp:
        assert (fp.seal().size, fp.seal().root) == (0, EMPTY_ROOT)
        with pytest.raises(NotFound, match="no entry 1"):
            fp.prove(1)


def test_only_the_operator_seals_by_command(fp):
    for kind in ("auditor", "worker", "human"):
        with pytest.raises(Forbidden):
            fp.as_caller("a", kind).seal()


def test_an_entry_of_another_scope_is_proven_to_operator_and_auditor_only(fp):
    number = fp.as_caller("local", scope="other").enqueue("q", 1).number
    assert fp.prove(number).verify()
    assert fp.as_caller("a", "auditor").prove(number).verify()
    with pytest.raises(NotFound, match=f"no entry {number}"):
        fp.as_caller("w", "worker").prove(number)


def test_erased_is_proven_still_and_purged_only_by_a_proof_that_was_kept():
    clock = FakeClock(START)
    with opened(":memory:", clock) as fp:
        ids = every_verb(fp, clock)
        views = {view.number: view for view in fp.entries()}
        erased = next(fp.history(ids["erased"])).number
        assert views[erased].receipt is None and views[erased].body is not None
        assert fp.prove(erased).verify()
        gone = [number for number, view in views.items() if view.body is None]
        assert len(gone) == 1
        with pytest.raises(ReceiptErased, match="has been purged"):
            fp.prove(gone[0])


def test_a_proof_given_before_a_purge_stays_valid_and_goes_on_to_later_checkpoints():
    clock = FakeClock(START)
    with opened(":memory:", clock) as fp:
        fp.queue_set("q", retain_seconds=1)
        fp.enqueue("q", 1)
        receipt = fp.claim("q", worker_id="w")[0].complete("done")
        proof = fp.prove(receipt)
        clock.advance(5)
        fp.purge("q")
        assert list(fp.entries())[receipt.number - 1].body is None
        assert proof.verify()
        fp.seal()
        assert fp.prove_consistency(proof.check()).verify()
        assert fp.verify(proof.check()).problems == ()


def test_history_names_the_entries_whose_target_is_the_task(fp):
    (lease,) = fp.claim("q", worker_id="w")
    done = [lease.submit("a"), lease.submit("b"), lease.complete()]
    views = list(fp.history(lease.task_id))
    assert [view.receipt for view in views] == done
    assert [json.loads(view.body)["verb"] for view in views] == ["submit", "submit", "complete"]
    with pytest.raises(NotFound):
        fp.as_caller("w", "worker", "other").history(lease.task_id)


def test_entries_come_in_order_and_after_a_number(fp):
    assert [view.number for view in fp.entries()] == list(range(1, 12))
    assert [view.number for view in fp.entries(9)] == [10, 11]
    assert list(fp.entries(11)) == []
    with pytest.raises(InvalidRequest):
        fp.entries(-1)
