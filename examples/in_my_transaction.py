"""An application's own rows and a task's completion, committed together or not at all.

    python3 examples/in_my_transaction.py
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

import fencepost


def show(app: sqlite3.Connection, fp: fencepost.Handle, task_id: str) -> None:
    (invoices,) = app.execute("select count(*) from invoice").fetchone()
    print(f"  invoices: {invoices}, task: {fp.task(task_id).state}")


def main() -> None:
    with (
        TemporaryDirectory() as folder,
        fencepost.open(f"{folder}/app.db", create=True) as fp,
        closing(sqlite3.connect(f"{folder}/app.db", isolation_level=None)) as app,
    ):
        app.execute("create table invoice (number integer primary key, customer text)")
        task_id = fp.enqueue("invoices", {"customer": "Ada"}).task_id
        (lease,) = fp.claim("invoices", worker_id="biller")

        print("An error inside the block undoes both:")
        try:
            with fp.within(app) as tx:
                app.execute("insert into invoice (customer) values ('Ada')")
                mine = tx.lease(task_id, worker_id="biller", fence=lease.fence)
                mine.complete({"invoice": 1})
                raise RuntimeError("the printer is on fire")
        except RuntimeError as error:
            print(f"  {error}")
        show(app, fp, task_id)

        print("Without one, both are there:")
        with fp.within(app) as tx:
            app.execute("insert into invoice (customer) values ('Ada')")
            tx.lease(task_id, worker_id="biller", fence=lease.fence).complete({"invoice": 1})
        show(app, fp, task_id)


if __name__ == "__main__":
    main()
