"""Each result has its effect once: a dispatcher is killed, an answer lost, the store restored.

    python3 examples/deliveries.py
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

import fencepost
from fencepost.receiver import Event, Receiver, SqliteStore, new_secret

PROGRAM = f"import sys; sys.path[:0] = {sys.path[:1]}; from fencepost.cli.main import main; main()"
effects: list[str] = []
trouble: list[str] = []  # what is to happen to the next delivery, once its effect is there
dispatchers: list[subprocess.Popen[bytes]] = []


def effect(connection: object, event: Event) -> None:
    """A real one writes to its database, through this connection."""
    effects.append(event.operation)


class Web(BaseHTTPRequestHandler):
    """The kit has the same for ASGI and WSGI; this one can have trouble."""

    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        answer = self.receiver.handle({k.lower(): v for k, v in self.headers.items()}, body)
        if trouble and b'"specversion"' in body:
            if trouble.pop() == "killed":
                dispatchers[-1].kill()
            return  # nobody hears of it
        self.send_response(answer.status)
        for name, value in {**answer.headers, "content-length": len(answer.body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None: ...


def run(*words: str) -> None:
    command = [sys.executable, "-c", PROGRAM, *words]
    dispatchers.append(subprocess.Popen(command, stdout=-3, stderr=-3))
    dispatchers[-1].wait()


def deliver(store: str) -> None:
    run("--store", store, "deliver", "--exit-when-empty", "--state", f"{store}.state")


def main() -> None:
    logging.disable(logging.WARNING)  # who takes a stream over is said there
    with TemporaryDirectory() as folder, HTTPServer(("127.0.0.1", 0), Web) as web:
        secret, store = new_secret(), f"{folder}/work.db"
        Web.receiver = Receiver(SqliteStore(f"{folder}/effects.db"), effect, [secret])
        threading.Thread(target=web.serve_forever).start()
        with fencepost.open(store, create=True) as fp:
            fp.queue_set("pages", destinations=["out"])
            address = f"http://127.0.0.1:{web.server_port}/"
            fp.destination_set("out", address, class_="fenced", options={"allow_private": True})
            fp.destination_secret("out", secret)
            for what in ("nothing happened", "killed", "answer lost"):
                trouble[:] = [] if what == "nothing happened" else [what]
                fp.enqueue("pages", what)
                (lease,) = fp.claim("pages", worker_id="w")
                run("--store", store, "backup", f"{folder}/backup.db", "--force")
                lease.complete(what)
                (owed,) = (task for task in fp.tasks("out") if task.state == "ready")
                while fp.task(owed.task_id).state != "done":
                    deliver(store)
                (result,) = fp.results(owed.task_id)
                receipt = json.loads(result.value["receipt"])
                print(f"{what}: effect {receipt['position']}, {receipt['status']}")
        # The last backup knows nothing of the last result. The receiver does.
        run("restore", f"{folder}/backup.db", "--to", f"{folder}/restored.db")
        with fencepost.open(f"{folder}/restored.db") as fp:
            (result,) = fp.results(lease.task_id)
            print(f"restored: the result {result.value!r} is known")
        deliver(f"{folder}/restored.db")
        deliver(store)  # the old owner, who lives on
        web.shutdown()
    print(len(effects), "effects,", len(set(effects)), "operations")


if __name__ == "__main__":
    main()
