"""The arguments of each subcommand: one short function adds them to its parser."""

from __future__ import annotations

from argparse import ArgumentParser

from fencepost.cli.parser import seconds_or_forever, whole
from fencepost.parts import NOTHING


def none(parser: ArgumentParser) -> None:
    """No arguments of its own."""


def content(parser: ArgumentParser, name: str, *, optional: bool = True) -> None:
    parser.add_argument(
        name, nargs="?" if optional else None, metavar=f"{name.upper()}|-",
        help="JSON, read strictly; - reads it from standard input",
    )  # fmt: skip
    parser.add_argument("--text", action="store_true", help=f"take {name.upper()} as plain text")


def enqueue(parser: ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    content(parser, "payload")
    parser.add_argument("--task-key", metavar="K", help="names the task once on its queue")
    parser.add_argument("--priority", type=whole, metavar="N", help="higher is claimed first")
    parser.add_argument("--due-at", metavar="TIME", help="not before this time (RFC 3339)")
    parser.add_argument(
        "--max-attempts", type=whole, metavar="N", help="claims before it is dead"
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="source", metavar="FILE|-",
        help="a payload a line, 250 tasks a command; with --key K they are sent as K.1, K.2 ...",
    )  # fmt: skip
    parser.add_argument(
        "--tasks", action="store_true",
        help="each line of --from is an object: payload, key, priority, due_at, max_attempts",
    )  # fmt: skip


def lease_seconds(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--lease-seconds", type=whole, metavar="S", help="default: what the queue says"
    )  # fmt: skip


def claim(parser: ArgumentParser) -> None:
    parser.add_argument("queues", nargs="*", metavar="QUEUE")
    parser.add_argument("--worker", required=True, metavar="W", help="who will hold the lease")
    parser.add_argument("--task", metavar="TASK", help="this task and no other")
    parser.add_argument("--limit", type=whole, default=1, metavar="N", help="1 to 100; default 1")
    parser.add_argument(
        "--wait-seconds", type=whole, default=0, metavar="S", help="wait for a task, at most 60"
    )
    lease_seconds(parser)


def lease(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--worker", required=True, metavar="W", help="who holds the lease")
    parser.add_argument("--fence", required=True, type=whole, metavar="F", help="from the claim")
    parser.add_argument("--epoch", type=whole, metavar="N", help="checked if given")
    parser.add_argument("--policy-version", type=whole, metavar="N", help="checked if given")


def log(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--log", metavar="TEXT|@FILE", help="what the work has said; of a file its end, @- is stdin"
    )


def remark(parser: ArgumentParser) -> None:
    parser.add_argument("--progress", metavar="JSON", help="how far it has come, for the next try")
    log(parser)


def renew(parser: ArgumentParser) -> None:
    lease(parser)
    lease_seconds(parser)
    remark(parser)


def release(parser: ArgumentParser) -> None:
    lease(parser)
    remark(parser)


def submit(parser: ArgumentParser) -> None:
    lease(parser)
    content(parser, "result")
    log(parser)
    parser.add_argument(
        "--revision", type=whole, metavar="R", help="the revision that the result builds on"
    )


def complete(parser: ArgumentParser) -> None:
    submit(parser)
    parser.add_argument(
        "--followups", metavar="FILE|JSON",
        help="a JSON list of tasks (queue, payload, key ...) to enqueue in the same transaction",
    )  # fmt: skip


def fail(parser: ArgumentParser) -> None:
    lease(parser)
    parser.add_argument(
        "--then", default="retry", metavar="retry|give_up|block", help="default: retry"
    )  # fmt: skip
    parser.add_argument("--reason", metavar="TEXT", help="for people")
    parser.add_argument("--retry-seconds", type=whole, metavar="N", help="in place of back-off")
    remark(parser)


def outside(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--fence", type=whole, metavar="F", help="refused if it has moved on")
    parser.add_argument("--reason", metavar="TEXT", help="for people")


def resolve(parser: ArgumentParser) -> None:
    outside(parser)
    parser.add_argument("--to", required=True, metavar="done|retry|give_up")
    parser.add_argument("--evidence", metavar="JSON|-", help="belongs to done: the result")
    parser.add_argument("--text", action="store_true", help="take the evidence as plain text")


def review(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("revision", type=whole, metavar="REVISION")
    parser.add_argument("verdict", metavar="accepted|rejected")
    parser.add_argument("--requeue", action="store_true", help="after rejected: a new round")


def import_(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source", nargs="?", metavar="FILE|-",
        help="JSON lines: task_id, revision, epoch, fence, final, evidence, and result or "
        "result_sha256; or a receiver's receipts with their events. --key K sends them as K.1 ...",
    )  # fmt: skip


def bounded(parser: ArgumentParser) -> None:
    parser.add_argument("queue", nargs="?", metavar="QUEUE", help="default: the whole scope")
    parser.add_argument(
        "--limit", type=whole, default=100, metavar="N", help="1 to 200; default 100"
    )  # fmt: skip


def queue_set(parser: ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("settings", nargs="+", metavar="NAME=VALUE", help="VALUE is JSON or a word")


def set_policy(parser: ArgumentParser) -> None:
    parser.add_argument(
        "policy_version", nargs="?", type=whole, metavar="VERSION",
        help="completions claimed under an older one are refused",
    )  # fmt: skip
    parser.add_argument(
        "--retain-seconds", type=seconds_or_forever, metavar="S|forever", default=NOTHING,
        help="keep ended tasks so long before purge",
    )  # fmt: skip


def revoke(parser: ArgumentParser) -> None:
    parser.add_argument("--lift", action="store_true", help="lift the revocation")


def token_create(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the actor: for a worker its worker id")
    parser.add_argument(
        "--kind", required=True, metavar="operator|producer|worker|human|dispatcher|auditor",
        help="what it may do; a human reviews",
    )  # fmt: skip
    parser.add_argument(
        "--queue", dest="queues", action="append", metavar="Q",
        help="this queue and no other; may be given several times",
    )  # fmt: skip
    parser.add_argument("--expires-at", metavar="TIME", help="until this time (RFC 3339)")
    parser.add_argument("--expires-seconds", type=whole, metavar="N", help="so long from now")
    parser.add_argument("--every-scope", action="store_true", help="in each scope of the store")


def token_revoke(parser: ArgumentParser) -> None:
    parser.add_argument("token_id", metavar="TOKEN_ID", help="from token list")


def one_task(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK|QUEUE/KEY")


def listing(parser: ArgumentParser) -> None:
    parser.add_argument("--queue", metavar="Q", help="default: all of the scope")
    parser.add_argument(
        "--state", metavar="ready|leased|done|dead|blocked|cancelled", help="default: any"
    )  # fmt: skip
    parser.add_argument("--limit", type=whole, metavar="N", help="default: all of them")


def receipt(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help="or the SHA-256 of a command without key")
    parser.add_argument("--prove", action="store_true", help="with its proof of inclusion")


def journal(parser: ArgumentParser) -> None:
    parser.add_argument("--after", type=whole, default=0, metavar="N", help="from entry N + 1")
    parser.add_argument("--limit", type=whole, metavar="N", help="default: all of them")
    parser.add_argument("--task", metavar="TASK", help="the entries of one task")


def verify(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--since", metavar="FILE", help="a checkpoint kept elsewhere: prove that it still holds"
    )


def init(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--into", metavar="APP.db", help="beside an application's own tables: a file, or a URL"
    )
    parser.add_argument("--force", action="store_true", help="begin anew where a store is")


def migrate(parser: ArgumentParser) -> None:
    parser.add_argument("--show", action="store_true", help="print what would be run, run nothing")


def copy(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SRC.db", help="the file of a store")
    parser.add_argument(
        "target", metavar="DST", nargs="?", help="a PostgreSQL URL (default: that of --store)"
    )


def backup(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument("--force", action="store_true", help="overwrite TARGET")


def uninstall(parser: ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="yes, drop every task and receipt")


def completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def work(parser: ArgumentParser) -> None:
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help="then: -- COMMAND ...")
    parser.add_argument("--worker", metavar="W", help="who holds the leases")
    parser.add_argument(
        "--offline", metavar="OUTBOX",
        help="without a network: tasks that `offline take` has put there, of every queue if none "
        "is given; ends when each has an end",
    )  # fmt: skip
    parser.add_argument(
        "-j", "--jobs", type=whole, default=1, metavar="N", help="tasks at once; default: 1"
    )
    lease_seconds(parser)
    for flag, metavar, text in (
        ("--grace", "S", "after a signal, let tasks end for so long; default: 30"),
        ("--max-tasks", "N", "take so many, then end"),
        ("--max-seconds", "S", "end after so long, as after a signal"),
        ("--give-up-seconds", "S", "end (6) when the store could not be reached for so long"),
        ("--task-seconds", "S", "end a command that runs longer; it is tried again"),
        ("--memory-mb", "N", "limit: memory of each process of a task"),
        ("--cpu-seconds", "S", "limit: processor time of each"),
        ("--open-files", "N", "limit: open files of each"),
        ("--file-mb", "N", "limit: length of each file that it writes"),
        ("--output-bytes", "N", "a longer result is none; default: 8 MiB"),
    ):
        parser.add_argument(flag, type=whole, metavar=metavar, help=text)
    parser.add_argument("--exit-when-empty", action="store_true", help="end when there is no task")
    parser.add_argument(
        "--isolate", choices=("bwrap", "cgroup"), help="hold each task in a namespace or a cgroup"
    )
    parser.add_argument(
        "--state", metavar="DIR",
        help="where the worker remembers; default: below XDG_STATE_HOME, by store and name",
    )  # fmt: skip


def serve(parser: ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="default: 127.0.0.1")
    parser.add_argument(
        "--port", type=whole, default=8470, metavar="P", help="default: 8470; 0 takes a free one"
    )
    parser.add_argument("--certfile", metavar="FILE", help="TLS: the certificate and its chain")
    parser.add_argument("--keyfile", metavar="FILE", help="TLS: its private key")
    parser.add_argument(
        "--behind-proxy", action="store_true", help="a proxy in front of it speaks TLS"
    )
    parser.add_argument(
        "--dev", action="store_true", help="no tokens, on loopback only: for trying it out"
    )
    parser.add_argument(
        "--deliver", action="store_true", help="deliver to all destinations of --scope as well"
    )


def deliver(parser: ArgumentParser) -> None:
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help="default: all destinations")
    parser.add_argument(
        "--worker", metavar="W", default="dispatcher",
        help="who holds the leases; at a service the token's own name (default: dispatcher)",
    )  # fmt: skip
    lease_seconds(parser)
    for flag, metavar, text in (
        ("--grace", "S", "after a signal, let deliveries end for so long; default: 30"),
        ("--max-seconds", "S", "end after so long, as after a signal"),
        ("--give-up-seconds", "S", "end (6) when the store could not be reached for so long"),
    ):
        parser.add_argument(flag, type=whole, metavar=metavar, help=text)
    parser.add_argument(
        "--exit-when-empty", action="store_true", help="end when nothing is due any more"
    )
    parser.add_argument(
        "--state", metavar="DIR",
        help="where the dispatcher remembers; default: below XDG_STATE_HOME, by store and name",
    )  # fmt: skip


def outbox(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--outbox", metavar="FILE", help="(FENCEPOST_OUTBOX; default ./offline.db)"
    )  # fmt: skip


def offline_take(parser: ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument(
        "-n", "--limit", type=whole, default=50, metavar="N", help="1 to 10,000; default 50"
    )
    parser.add_argument(
        "--lease-seconds", type=whole, required=True, metavar="S", help="how long you are away"
    )
    parser.add_argument("--worker", metavar="W", help="whose outbox it is; fixed by the first take")
    outbox(parser)


def offline_record(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK|KEY")
    content(parser, "result")
    parser.add_argument("--row", action="store_true", help="one of several: the task goes on")
    parser.add_argument("--end", action="store_true", help="close the task (the default)")
    parser.add_argument(
        "--followups", metavar="JSON|FILE", help="tasks that the closing enqueues: a JSON list"
    )
    parser.add_argument(
        "--log", metavar="TEXT|@FILE", help="what the work has said; of a file its end, @- is stdin"
    )
    outbox(parser)


def offline_give_back(parser: ArgumentParser) -> None:
    parser.add_argument(
        "tasks", nargs="*", metavar="TASK|KEY", help="these; default: all without a result"
    )
    outbox(parser)


def offline_sync(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--again", metavar="TASK", help="first: this conflict's result is to be sent all the same"
    )
    outbox(parser)


def offline_conflicts(parser: ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="those that are decided too")
    parser.add_argument(
        "--theirs", metavar="TASK", help="decide this one: what the store has stands"
    )
    outbox(parser)


def offline_verify(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--head", metavar="HASH", help="a hash noted earlier: it must be in the chain"
    )
    outbox(parser)
