"""Exit codes, and what is said where: stdout, stderr, JSON, people's text."""

from __future__ import annotations

import json
import re
import sqlite3

import pytest
from helpers.shell import Shell

import fencepost
from fencepost.cli import output
from fencepost.cli.output import exit_code
from fencepost.clock import FakeClock
from fencepost.issues import ISSUES, OutcomeUnknown
from fencepost.model import Outcome
from fencepost.storage.sqlite.transaction import SqliteTransaction

START = 1_800_000_000_000_000
UNKNOWN = "01900000-0000-7000-8000-000000000000"
NASTY = "\x1b[31mred\x07\x9b2J\u202eevil\u2066\x7f\r\x00"
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b-\u200f]")


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    assert shell("init").code == 0
    return shell


# -- the one table


def test_exit_codes_are_read_off_the_table():
    assert {code: exit_code(code) for code in ISSUES} == {
        code: issue.exit for code, issue in ISSUES.items()
    }
    assert exit_code("internal") == output.INTERNAL == 70


def test_accepted_and_replayed_are_0(shell):
    assert shell("enqueue", "q", "1", "--key", "k").code == 0
    ran = shell("enqueue", "q", "1", "--key", "k", "--json")
    assert (ran.code, ran.json["replayed"]) == (0, True)


def test_bad_usage_and_a_bad_request_are_2(shell):
    assert shell("enqueue").code == 2
    assert shell("enqueue", "q", "{").code == 2


def test_a_refusal_is_3_and_tells_its_outcome(shell):
    lease = shell.lease()
    shell("release", *lease)
    text = shell("complete", *lease, "1")
    assert (text.code, text.out) == (3, "")
    assert text.err.startswith("fencepost: not_leased: complete: ")
    assert "state ready" in text.err and text.err.count("\n") == 1
    told = shell("complete", *lease, "1", "--json")
    assert (told.code, told.issues, told.json["status"]) == (3, ["not_leased"], "failed")
    assert told.json["facts"] == {"state": "ready", "fencing_token": 1, "revision": 0}
    error = json.loads(told.err)
    assert (error["code"], error["exit"]) == ("not_leased", 3)
    assert error["advice"] == ISSUES["not_leased"].advice


def test_every_issue_that_applies_is_told(shell):
    lease = shell.lease()
    stranger = (lease[0], "--worker", "x", "--fence", "99")
    ran = shell("complete", *stranger, "1", "--revision", "5")
    assert ran.code == 3
    assert "fencepost: wrong_worker: " in ran.err
    assert "also: unknown_fence, stale_revision" in ran.err


@pytest.mark.parametrize(
    "argv",
    [
        ("show", UNKNOWN), ("results", UNKNOWN), ("refused", UNKNOWN), ("show", "q/none"),
        ("receipt", "none"), ("receipt", "0" * 64), ("cancel", UNKNOWN), ("journal", "--task",
        UNKNOWN), ("complete", UNKNOWN, "--worker", "w", "--fence", "1"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_4(shell, argv):
    ran = shell(*argv, "--json")
    assert (ran.code, ran.issues) == (4, ["not_found"])
    assert shell(*argv).err.startswith("fencepost: not_found: ")


def test_another_scopes_task_is_not_there(shell):
    task_id = shell.task()
    assert shell("show", task_id, "--scope", "other").code == 4


def test_another_schema_is_5(shell):
    with sqlite3.connect(shell.folder / "fencepost.db") as connection:
        connection.execute("update fencepost_store set schema_version = 999")
    connection.close()
    assert shell("list").err.startswith("fencepost: schema_mismatch: ")
    assert shell("list").code == 5


def test_a_store_that_cannot_be_used_is_6(shell):
    ran = shell("list", "--store", "gone.db", "--json")
    assert (ran.code, ran.issues) == (6, ["store_unavailable"])


def test_a_read_only_store_is_6_and_can_still_be_read(shell, monkeypatch):
    task_id = shell.task()
    monkeypatch.setattr("fencepost.storage.sqlite.place._may", lambda path, mode: mode != 2)
    ran = shell("enqueue", "q", "1", "--json")
    assert (ran.code, ran.issues) == (6, ["store_read_only"])
    assert shell.json("show", task_id)["state"] == "ready"


def fail_commit(monkeypatch):
    """The next COMMIT ends in an error, and nothing can be learnt by reopening either."""

    def commit(self):
        raise OutcomeUnknown("disk I/O error at COMMIT")

    def reopen(self):
        raise fencepost.Unavailable("it is gone")

    monkeypatch.setattr(SqliteTransaction, "commit", commit)
    monkeypatch.setattr("fencepost.storage.sqlite.store.SqliteStore.reopen", reopen)


def test_an_unknown_outcome_is_6_and_shows_the_key_to_ask_again_with(shell, monkeypatch):
    with monkeypatch.context() as broken:
        fail_commit(broken)
        ran = shell("enqueue", "q", "1")
    assert ran.code == 6 and ran.err.startswith("fencepost: outcome_unknown: ")
    key = re.search(r"send the same command again with --key (\S+)", ran.err)[1]
    assert shell.json("enqueue", "q", "1", "--key", key)["replayed"] is False
    assert shell.json("enqueue", "q", "1", "--key", key)["replayed"] is True


def test_an_unknown_completion_is_asked_again_without_a_key(shell, monkeypatch):
    lease = shell.lease()
    with monkeypatch.context() as broken:
        fail_commit(broken)
        ran = shell("complete", *lease, "1", "--json")
    assert (ran.code, ran.issues) == (6, ["outcome_unknown"])
    assert ran.json["message"].endswith("send the same command again")


def test_a_broken_journal_is_7_and_its_places_are_named(shell):
    shell.task()
    with sqlite3.connect(shell.folder / "fencepost.db") as connection:
        connection.execute("update fencepost_task set revision = 7")
    connection.close()
    ran = shell("verify")
    assert ran.code == 7 and "broken: 1 entries" in ran.out
    assert "fencepost: journal_broken: task " in ran.err
    told = shell("verify", "--json")
    assert (told.code, told.json["status"]) == (7, "broken")
    assert json.loads(told.err.splitlines()[-1])["code"] == "journal_broken"


def test_a_checkpoint_of_another_history_is_7(shell):
    shell.task()
    kept = shell("seal").out
    shell("init", "--force")
    shell.task()
    (shell.folder / "kept").write_text(kept)
    assert shell("verify", "--since", "kept").code == 7


def test_a_fault_of_ours_is_70_and_nothing_raw_is_shown(shell, monkeypatch):
    def broken(*_):
        raise TypeError(NASTY)

    monkeypatch.setattr("fencepost.cli.reads.stats", broken)
    ran = shell("stats")
    assert ran.code == 70 and ran.out == ""
    assert "internal: this is a bug" in ran.err and ACTS.search(ran.err) is None
    assert "TypeError: \\x1b[31mred" in ran.err


def test_a_tripped_guard_is_reported_as_a_bug(shell, monkeypatch):
    outcome = Outcome("failed", ("guard_tripped",), "a rule and its SQL guard disagree")
    monkeypatch.setattr("fencepost.handle.Handle.execute", lambda self, commands: [outcome])
    ran = shell("enqueue", "q", "1")
    assert ran.code == 70 and "report it" in ran.err


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("enqueue", "q", "1"), "send the same command again with --key 0"),
        (("enqueue", "q", "1", "--key", "k"), "send the same command again with --key k\n"),
        (("release", UNKNOWN, "--worker", "w", "--fence", "1"), "send the same command again\n"),
        (("claim", "q", "--worker", "w"), "leases that it may have taken end by themselves\n"),
        (("list",), "nothing was sent\n"),
    ],
)
def test_ctrl_c_is_130_and_says_how_to_learn_what_became_of_it(shell, monkeypatch, argv, told):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    for place in ("execute", "tasks"):
        monkeypatch.setattr(f"fencepost.handle.Handle.{place}", pressed)
    ran = shell(*argv)
    assert (ran.code, ran.out) == (130, "")
    assert ran.err.startswith("fencepost: interrupted: ") and told in ran.err
    assert ran.err.count("\n") == 1


def test_ctrl_c_while_arguments_are_read_is_no_bug(shell, monkeypatch):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    # what argparse does on its way out fails then: it restores what it has not set yet
    monkeypatch.setattr("argparse.ArgumentParser.format_usage", pressed)
    ran = shell("enqueue", "q", "1")
    assert (ran.code, ran.err) == (130, "fencepost: interrupted: nothing was sent\n")


# -- what is shown


def test_nothing_from_outside_reaches_the_terminal_raw(shell):
    payload = json.dumps({NASTY.replace("\x00", ""): NASTY})
    task_id = shell.task(payload, "q", "--task-key", "k")
    shell("queue-set", "q", "keep_refused=5")
    (grant,) = shell.json("claim", "q", "--worker", "w")["leases"]
    lease = (task_id, "--worker", "w", "--fence", grant["fencing_token"])
    shell("complete", *lease, payload)
    late = shell("submit", *lease, payload + " ")
    failed = shell.lease("f")
    shell("fail", *failed, "--reason", NASTY.replace("\x00", ""))
    shell.task(payload, "r", "--text")
    claimed = shell("claim", "r", "--worker", "w")
    shown = [shell(*argv) for argv in (
        ("show", task_id), ("show", failed[0]), ("results", task_id), ("refused", task_id),
        ("list",), ("stats",), ("journal",), ("queues",),
        ("show", NASTY), ("enqueue", NASTY, "1"), (NASTY,), ("list", NASTY), ("--x" + NASTY,),
        ("list", "--store", "x" + NASTY), ("enqueue", "q", NASTY), ("receipt", NASTY),
        ("queue-set", "q", NASTY), ("enqueue", "q", "--from", NASTY), ("backup", NASTY),
        ("enqueue", "q", json.dumps([NASTY])[:-1] + ",{"), ("verify", "--since", NASTY),
    )]  # fmt: skip
    for ran in (late, claimed, *shown):
        assert ACTS.search(ran.out) is None, ran
        assert ACTS.search(ran.err) is None, ran
    assert "\\u001b[31mred" in shown[0].out and "\\u202e" in shown[0].out


def test_json_is_ascii_and_gives_back_what_was_put_in(shell):
    task_id = shell.task(json.dumps({"é": NASTY}))
    ran = shell("show", task_id, "--json")
    assert ran.out.isascii() and ACTS.search(ran.out) is None
    assert ran.json["payload"] == {"é": NASTY}


def test_json_mode_prints_json_whatever_goes_wrong(shell):
    for argv in (("frobnicate",), ("enqueue",), ("show", UNKNOWN), ("list", "--store", "/")):
        ran = shell("--json", *argv)
        assert ran.json["status"] == "failed" and ran.code == exit_code(ran.issues[0])
        assert json.loads(ran.err)["exit"] == ran.code


def test_data_goes_to_stdout_and_messages_to_stderr(shell):
    assert (shell("list").out, shell("list").err) == ("", "fencepost: no tasks\n")
    assert (shell("list", "--json").out, shell("list", "--json").err) == ("", "")
    assert shell("queues").err == "fencepost: scope default has no queue\n"
    assert "keep_refused" in shell("refused", shell.task()).err


def test_refused_results_that_were_kept_are_shown(shell):
    shell("queue-set", "q", "keep_refused=5")
    lease = shell.lease()
    shell("cancel", lease[0])
    shell("complete", *lease, '"late"')
    (kept,) = shell("refused", lease[0], "--json").lines
    assert (kept["value"], kept["worker_id"], kept["fencing_token"]) == ("late", "w", 1)
    assert "task_cancelled" in shell("refused", lease[0]).out


def test_colour_is_never_the_only_signal(shell, monkeypatch):
    shell.lease()
    plain = shell("list").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = shell("list").out
    assert "\x1b[" in coloured and "\x1b[" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert shell("list").out == plain


def test_a_clock_that_is_behind_is_noted_on_stderr(shell, monkeypatch):
    clock = FakeClock(START)
    monkeypatch.setattr("fencepost.handle.handle.SystemClock", lambda: clock)
    shell.task()
    clock.jump_wall(-60)
    ran = shell("enqueue", "q", "2", "--json")
    assert ran.code == 0 and ran.json["status"] == "accepted"
    assert ran.err.startswith("fencepost: clock_jump: the wall clock is behind the store")


def test_flags_win_over_environment_and_environment_over_defaults(shell, monkeypatch):
    for name in ("env.db", "flag.db"):
        shell("--store", name, "init")
    monkeypatch.setenv("FENCEPOST_STORE", "env.db")
    monkeypatch.setenv("FENCEPOST_SCOPE", "env-scope")
    monkeypatch.setenv("FENCEPOST_ACTOR", "env-actor")
    entry = json.loads(shell.json("enqueue", "q", "1")["receipt"]["entry"])
    assert (entry["scope"], entry["actor"]) == ("env-scope", "env-actor")
    assert len(shell("list", "--json").lines) == 1
    line = ("--store", "flag.db", "enqueue", "q", "1", "--scope", "s", "--actor", "a", "--json")
    entry = json.loads(shell(*line).json["receipt"]["entry"])
    assert (entry["scope"], entry["actor"]) == ("s", "a")
    monkeypatch.setenv("FENCEPOST_STORE", "")
    assert shell("list", "--scope", "default", "--json").lines == []


def test_global_flags_stand_before_or_after_the_verb(shell):
    before = shell("--json", "--scope", "s", "enqueue", "q", "1", "--key", "k")
    after = shell("enqueue", "q", "1", "--key", "k", "--json", "--scope=s")
    assert before.json["receipt"] == after.json["receipt"]


def test_help_begins_with_examples(shell):
    for argv in (("--help",), ("claim", "--help"), ("complete", "-h"), ("doctor", "--help")):
        ran = shell(*argv)
        assert ran.code == 0 and ran.out.startswith("examples:\n  fencepost ")
    assert shell("--version").out == f"fencepost {fencepost.__version__}\n"


def test_the_usage_of_a_verb_shows_what_is_its_own(shell):
    told = shell("claim", "--help").out
    usage = told.split("usage: ")[1].split("\n\n")[0]
    assert usage.startswith("fencepost claim --worker W [--task TASK] [--limit N]")
    assert "--store" not in usage
    assert "--store PATH" in told, "the flags of every verb are listed below"


def test_a_line_without_a_verb_is_told_that_one_is_missing(shell):
    ran = shell()
    assert (ran.code, ran.out) == (2, "")
    assert "required: VERB; see: fencepost --help" in ran.err
