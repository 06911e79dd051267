"""A forked child goes on with the handle, on connections of its own."""

from __future__ import annotations

import os

import pytest
from helpers.forked import run_forking
from helpers.stand import SCOPE, Stand
from helpers.stub import serving

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

BEGIN = f"fp = fencepost.open(path, scope={SCOPE!r})\n"


@pytest.mark.parametrize("close", ["fp.close()", "del fp; gc.collect()", "pass"])
def test_parent_and_child_share_no_connection(close):
    program = (
        BEGIN
        + f"""
fp.enqueue("q", "before")
child = os.fork()
if child == 0:
    for n in range(20): fp.enqueue("q", ["child", n])
    {close}
    sys.exit(0)
for n in range(20): fp.enqueue("q", ["parent", n])
wait(child)
fp.enqueue("q", "after")
fp.close()
"""
    )
    with Stand() as stand, serving(stand.fp) as stub:
        run_forking(program, stub.url)
        assert len(list(stand.fp.tasks())) == 42
        of = {}
        for seen in stub.seen:
            of.setdefault(seen.connection, set()).add(seen.body.split(b'"')[7])
        assert len(of) == 2 and not any({b"child", b"parent"} <= who for who in of.values())


def test_a_child_sends_without_waiting_by_threads_of_its_own():
    program = (
        BEGIN
        + """
from fencepost import commands as c
one = lambda text: fp.send([c.Enqueue("q", (c.NewTask(text),))]).result(20)
one("parent")
child = os.fork()
if child == 0:
    assert one("child")[0].accepted
    fp.close()
    sys.exit(0)
wait(child)
one("parent again")
fp.close()
"""
    )
    with Stand() as stand, serving(stand.fp) as stub:
        run_forking(program, stub.url)
        assert len(list(stand.fp.tasks())) == 3
