"""A receipt is proved to somebody who has no store and no network, only the proof and a head.

    python3 examples/offline_proof.py
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

import fencepost
from fencepost.canonical import dumps
from fencepost.journal.entry import commit
from fencepost.journal.proof import Proof


def give() -> tuple[str, bytes]:
    """At the store: the letter that the worker carries away, and the head that others keep."""
    with TemporaryDirectory() as folder, fencepost.open(f"{folder}/work.db", create=True) as fp:
        for number in range(20):
            fp.enqueue("pages", {"page": number})
        (lease,) = fp.claim("pages", worker_id="laptop-3")
        receipt = lease.complete("the text of page 0")
        proof = fp.prove(receipt)
        letter = {"proof": proof.to_json(), "opening": receipt.to_json()["opening"]}
        return json.dumps(letter), proof.checkpoint


def judge(letter: str, head: bytes, result: str) -> None:
    """Elsewhere: only what stands in the letter, and the head that was kept independently."""
    given = json.loads(letter)
    proof = Proof.from_json(given["proof"])
    print(f"  the entry is in the tree of the checkpoint: {proof.verify()}")
    print(f"  the checkpoint is the one that was kept: {proof.checkpoint == head}")
    entry = json.loads(proof.entry)
    salt = bytes.fromhex(given["opening"]["salt"])
    promised = commit(b"result", salt, sha256(dumps(result)).digest()).hex()
    print(f"  the entry is about this very result: {entry['result'] == promised}")
    print(f"  {entry['actor']} had it {entry['verb']}d at fence {entry['tasks'][0]['fence']}")


def main() -> None:
    letter, head = give()
    print(f"The store is gone; the letter has {len(letter):,} characters. As it is:")
    judge(letter, head, "the text of page 0")
    print("With another result:")
    judge(letter, head, "something else")
    print("With another fence in the entry:")
    judge(letter.replace('\\"fence\\":1,', '\\"fence\\":2,'), head, "the text of page 0")


if __name__ == "__main__":
    main()
