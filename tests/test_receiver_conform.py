"""The receivers' cases: our receiver passes them, an independent one does, and they bite."""

from __future__ import annotations

import contextlib
import http.server
import json
import socketserver
import subprocess
import sys
import threading
import wsgiref.simple_server
from pathlib import Path
from xml.etree import ElementTree

import pytest
import uvicorn
from helpers import receiver_cases
from helpers.receiving import OTHER_SECRET, SECRET, place_of
from helpers.shell import Shell

from fencepost.conformance import receiver_broken, receiver_run, receiver_target
from fencepost.conformance.receiver_broken import BROKEN
from fencepost.conformance.receiver_reference import Reference
from fencepost.conformance.receiver_target import InProcess
from fencepost.receiver import asgi, clock, wsgi

CASES = receiver_run.cases()
KEY = receiver_target.key_of(SECRET)
ROOT = Path(__file__).parent.parent
REFERENCE = Path(receiver_broken.__file__).with_name("receiver_reference.py")


class Kit:
    """A receiver of the kit as the references are."""

    def __init__(self, receiver):
        self.receiver = receiver

    def answer(self, headers, body):
        said = self.receiver.handle(headers, body)
        return said.status, said.headers, said.body


def verdicts(target, chosen=None):
    run = receiver_run.ReceiverRun(CASES, KEY)
    run(target, chosen or [case.name for case in CASES], lambda verdict: None)
    return {
        one["case"]: one.get("why", "") if one["verdict"] == "failed" else one["verdict"]
        for one in run.verdicts
        if one["verdict"] != "skipped"
    }


def test_the_file_of_cases_is_what_their_source_makes():
    made = "".join(f"{line}\n" for line in receiver_cases.lines())
    assert receiver_run.CASES_FILE.read_text(encoding="ascii") == made, (
        "from tests/: python -m helpers.receiver_cases > "
        "../fencepost/conformance/receiver_cases.jsonl"
    )


def test_every_case_has_a_law_and_a_name_of_its_own():
    assert len({case.name for case in CASES}) == len(CASES) >= 29
    assert all(case.law.endswith(".") and case.steps for case in CASES)


def test_the_independent_reference_passes_every_case():
    found = verdicts(InProcess("reference", Reference(SECRET)))
    assert set(found.values()) == {"passed"}, found


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_kits_receiver_passes_every_case(kind, tmp_path):
    with place_of(kind, tmp_path) as place:
        receiver = place.open(now=clock.wall)
        found = verdicts(InProcess(kind, Kit(receiver)))
        receiver.close()
    assert set(found.values()) == {"passed"}, found


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_receiver_fails_at_the_case_that_was_written_for_it(name):
    broken = BROKEN[name]
    found = verdicts(InProcess(name, broken(SECRET)))
    assert found[broken.found_by] not in ("passed", "blocked"), f"{name}: {broken.__doc__}"


def test_every_case_that_names_a_code_is_failed_by_some_broken_receiver():
    caught = {broken.found_by for broken in BROKEN.values()}
    named = {case.name for case in CASES if case.code}
    # These are of the same rules as others: what else would they be failed by?
    same = {
        "siblings_in_either_order_leave_one", "a_writer_that_takes_over_continues_the_chain",
        "neither_an_event_nor_a_hello_is_refused",
    }  # fmt: skip
    assert named - caught == same


@pytest.fixture
def conform(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text(f"# ours\n{SECRET}\n", encoding="ascii")
    return lambda *words: shell("conform", *words, "--secret-file", tmp_path / "secret")


def test_the_command_puts_a_program_through_and_writes_what_it_found(conform, tmp_path):
    ran = conform(f"receiver:stdio:{sys.executable} {REFERENCE}", "--junit", "junit.xml")
    assert (ran.code, ran.err) == (0, "")
    assert f"accepted: {len(CASES)} passed" in ran.out
    found = json.loads((tmp_path / "verification.json").read_text(encoding="utf-8"))
    assert (found["object_key"], found["status"]) == ("fencepost_receiver_v1", "accepted")
    assert found["self_run"] is True and found["review"] == "pending"
    assert [one["case"] for one in found["cases"]] == [case.name for case in CASES]
    assert len(ElementTree.parse(tmp_path / "junit.xml").getroot()) == len(CASES)  # noqa: S314


def test_a_broken_one_is_told_with_the_law_it_broke(conform):
    case = "a_late_first_result_is_stale"
    ran = conform("receiver:broken:no-fence", "--case", case)
    assert ran.code == 3
    name, what, law = ran.out.splitlines()[:3]
    assert name == f"failed      {case}"
    assert what.startswith("            step 3: status: expected 409, observed '200 {")
    assert law == "            law: " + next(one.law for one in CASES if one.name == case)


def test_the_cases_are_listed(conform):
    ran = conform("receiver:reference", "--list")
    assert ran.code == 0 and ran.out.count("\n") == 2 * len(CASES)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("receiver:ftp://x", "is no receiver"), ("receiver:broken:nobody", "no broken receiver"),
        ("receiver:stdio:", "is no receiver"), ("receiver:stdio:/no/such", "cannot be started"),
        ("receiver:http://", "http:// or https:// and a host"),
        ("receiver:http://u:p@host", "http:// or https:// and a host"),
        ("reference", "--secret-file is for receiver: alone"),
    ],
)  # fmt: skip
def test_what_is_no_receiver_is_bad_usage(conform, target, said):
    ran = conform(target)
    assert ran.code == 2 and said in ran.err


def test_the_secret_has_to_be_there_and_to_be_one(conform, tmp_path):
    for text in ("", "# nothing\n", "whsec_x\n", "hunter2hunter2hunter2hunter2\n"):
        (tmp_path / "secret").write_text(text, encoding="ascii")
        ran = conform("receiver:reference")
        assert ran.code == 2 and "hunter2" not in ran.err
    (tmp_path / "secret").unlink()
    assert conform("receiver:reference").code == 2


def test_a_receiver_with_another_secret_fails_everything(conform, tmp_path):
    (tmp_path / "secret").write_text(OTHER_SECRET, encoding="ascii")
    program = f"import os; os.environ['FENCEPOST_RECEIVER_SECRET'] = {SECRET!r}; import runpy; "
    program += f"runpy.run_path({str(REFERENCE)!r}, run_name='__main__')"
    (tmp_path / "other.py").write_text(program, encoding="utf-8")
    ran = conform(f"receiver:stdio:{sys.executable} {tmp_path / 'other.py'}")
    assert ran.code == 3 and ran.out.count("\nfailed ") + ran.out.startswith("failed ") == len(
        CASES
    )


def test_what_does_not_answer_fails_and_never_hangs(conform, tmp_path):
    (tmp_path / "mute.py").write_text("import sys\nfor line in sys.stdin: print('?')")
    one = CASES[0].name
    ran = conform(f"receiver:stdio:{sys.executable} {tmp_path / 'mute.py'}", "--case", one)
    assert ran.code == 3 and "not an answer" in ran.out


class Behind(http.server.BaseHTTPRequestHandler):
    """The reference on a port."""

    protocol_version = "HTTP/1.1"
    reference = Reference(SECRET)
    lock = threading.Lock()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.lock:
            status, told, said = self.reference.answer(headers, body)
        self.send_response(status)
        for name, value in {**told, "content-length": str(len(said))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


def test_a_url_is_put_through_over_http(conform):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Behind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            ran = conform(f"receiver:http://127.0.0.1:{server.server_port}/in?x=1")
        finally:
            server.shutdown()
            thread.join()
    assert (ran.code, ran.err) == (0, "")
    gone = conform(f"receiver:http://127.0.0.1:{server.server_port}/", "--force")
    assert gone.code == 3 and "did not answer" in gone.out


@contextlib.contextmanager
def under_uvicorn(place):
    """The ASGI face under a real server, in a thread of its own."""
    receiver = place.open(now=clock.wall)
    config = uvicorn.Config(asgi.ReceiverApp(receiver), port=0, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    sock = config.bind_socket()
    sock.listen(64)  # who comes before the server is up waits in line
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        yield sock.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        sock.close()


class Threads(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """A thread a request."""

    daemon_threads = False
    request_queue_size = 64


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def under_wsgiref(place):
    receiver = place.open(now=clock.wall)
    app = wsgi.ReceiverApp(receiver)
    with wsgiref.simple_server.make_server("127.0.0.1", 0, app, Threads, Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
    receiver.close()


@contextlib.contextmanager
def as_program(place):
    folder = Path(place.where).parent
    command = [
        sys.executable, "-m", "fencepost.receiver", "--store", str(folder / "program.db"),
        "--secret-file", str(folder / "secret"), "--port", "0", "--quiet",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rsplit(":", 1)[1])
        finally:
            process.terminate()


@pytest.mark.parametrize("face", [under_uvicorn, under_wsgiref, as_program])
def test_each_face_passes_every_case_over_http(face, conform, tmp_path):
    with place_of("sqlite", tmp_path) as place, face(place) as port:
        ran = conform(f"receiver:http://127.0.0.1:{port}/", "--timeout", "30")
    assert (ran.code, ran.err) == (0, ""), ran.out
    assert f"accepted: {len(CASES)} passed" in ran.out
