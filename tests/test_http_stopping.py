"""A stop in the middle of traffic: what was answered stands, what was not answered is whole or not
there, and nobody who does not read keeps the process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

from helpers.http_crowd import Kept
from helpers.service import Service
from test_http_process import STOP

import fencepost
from fencepost.commands import Enqueue, NewTask

CLIENTS = 16
TASKS = "/v1/default/queues/q/tasks"


class Sender(threading.Thread):
    """Enqueues as fast as it is answered, until nobody answers any more."""

    def __init__(self, web: Service, number: int) -> None:
        super().__init__()
        self.link, self.number = Kept(web), number
        self.acknowledged: dict[str, bytes] = {}
        self.open: list[str] = []
        self.other: list[int] = []
        self.start()

    def run(self) -> None:
        body = {"verb": "enqueue", "queue": "q", "tasks": [{"payload": "x" * 500}]}
        try:
            while True:
                key = f"s{self.number}-{len(self.acknowledged)}"
                self.open = [key]
                reply = self.link.post(TASKS, body, "", key)
                if reply.status != 200:
                    self.other.append(reply.status)
                    return
                self.acknowledged[key] = reply.body
        except (OSError, http.client.HTTPException):
            return  # whatever was on its way is in `open`
        finally:
            self.link.close()


def test_in_the_middle_of_traffic_what_was_answered_stands(tmp_path: Path) -> None:
    with Service(tmp_path, "--dev") as web:
        senders = [Sender(web, number) for number in range(CLIENTS)]
        while not all(sender.acknowledged for sender in senders):
            time.sleep(0.01)
        code, seconds = web.ended(signal.SIGTERM)
        for sender in senders:
            sender.join(30)
        assert code == 0 and seconds < STOP
        statuses = {line["status"] for line in web.lines() if "status" in line}
        assert statuses <= {200, 503}, web.said()[-2_000:]
        assert {status for sender in senders for status in sender.other} <= {503}
    acknowledged = {k: b for sender in senders for k, b in sender.acknowledged.items()}
    unknown = {key for sender in senders for key in sender.open}
    with fencepost.open(web.path) as fp:
        assert fp.verify().clean
        made = {json.loads(body)["task_ids"][0] for body in acknowledged.values()}
        for key, body in acknowledged.items():
            receipt = fp.receipt(key)
            assert json.loads(body)["receipt"] == receipt.to_json()
        beyond = {task.task_id for task in fp.tasks("q")} - made
        assert len(beyond) <= len(unknown)
    print(f"{len(acknowledged)} answered, {len(beyond)} of {len(unknown)} more carried out")


def test_who_does_not_read_its_stream_does_not_keep_the_service(tmp_path: Path) -> None:
    with fencepost.open(tmp_path / "work.db", create=True) as fp:
        many = Enqueue("q", (NewTask(1),) * 250)
        fp.execute([many] * 110)
        assert sum(len(view.body or b"") for view in fp.entries()) > 2 * 2**20
    with Service(tmp_path, "--dev") as web, socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        link.connect(("127.0.0.1", web.port))
        link.sendall(b"GET /v1/default/journal/events HTTP/1.1\r\nHost: x\r\n\r\n")
        assert link.recv(20).startswith(b"HTTP/1.1 200")
        sent = 0
        while sent != (sent := unread(web.port)) or not sent:
            time.sleep(0.2)  # until what is on its way does not grow: the service waits
        code, seconds = web.ended(signal.SIGTERM)
        assert code == 0 and seconds < STOP
        assert "Traceback" not in web.said()
    with fencepost.open(web.path) as fp:
        assert fp.verify().clean


def unread(port: int) -> int:
    """Bytes that the kernel holds for whoever has connected to this port and does not read."""
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    local = f":{port:04X}"
    return sum(int(row.split()[4].split(":")[0], 16) for row in rows
               if row.split()[1].endswith(local))  # fmt: skip


def test_who_sends_half_a_request_does_not_keep_the_service(tmp_path: Path) -> None:
    with Service(tmp_path, "--dev") as web:
        head = f"POST {TASKS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        with (
            socket.create_connection(("127.0.0.1", web.port), 20) as a_head,
            socket.create_connection(("127.0.0.1", web.port), 20) as a_body,
        ):
            a_head.sendall(head.encode())
            a_body.sendall(f'{head}Content-Length: 99\r\n\r\n{{"verb"'.encode())
            assert web.get("/livez").status == 200
            code, seconds = web.ended(signal.SIGTERM)
        assert code == 0 and seconds < STOP
        assert "Traceback" not in web.said()


def test_an_idle_service_is_small_and_does_nothing(tmp_path: Path) -> None:
    with Service(tmp_path, "--dev") as web:
        assert web.get("/readyz").status == 200
        before = cpu_seconds(web.child.pid)
        time.sleep(1.5)
        used = cpu_seconds(web.child.pid) - before
        rss = resident_mib(web.child.pid)
        print(f"{rss:.1f} MiB, {used:.3f} s of CPU in 1.5 s")
        assert rss <= 60
        assert used < 0.15


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
