"""The table of subcommands: what each is for, its arguments, and where its code lies.

The code is imported only when its verb is run (`run` names module and function in this
package). A verb that is a command of the contract has `sends`; one that hands its arguments on
to another program of ours has `forwards`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import NamedTuple

from fencepost.cli.parser import seconds_or_forever, whole
from fencepost.parts import NOTHING


class Subcommand(NamedTuple):
    """One row. `arguments` adds the verb's own arguments to a parser."""

    help: str
    run: str
    arguments: Callable[[ArgumentParser], None]
    examples: tuple[str, ...]
    sends: bool = False
    forwards: bool = False


def _none(parser: ArgumentParser) -> None:
    """No arguments of its own."""


def _content(parser: ArgumentParser, name: str, *, optional: bool = True) -> None:
    parser.add_argument(
        name, nargs="?" if optional else None, metavar=f"{name.upper()}|-",
        help="JSON, read strictly; - reads it from standard input",
    )  # fmt: skip
    parser.add_argument("--text", action="store_true", help=f"take {name.upper()} as plain text")


def _enqueue(parser: ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    _content(parser, "payload")
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


def _lease_seconds(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--lease-seconds", type=whole, metavar="S", help="default: what the queue says"
    )  # fmt: skip


def _claim(parser: ArgumentParser) -> None:
    parser.add_argument("queues", nargs="*", metavar="QUEUE")
    parser.add_argument("--worker", required=True, metavar="W", help="who will hold the lease")
    parser.add_argument("--task", metavar="TASK", help="this task and no other")
    parser.add_argument("--limit", type=whole, default=1, metavar="N", help="1 to 100; default 1")
    _lease_seconds(parser)


def _lease(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--worker", required=True, metavar="W", help="who holds the lease")
    parser.add_argument("--fence", required=True, type=whole, metavar="F", help="from the claim")
    parser.add_argument("--epoch", type=whole, metavar="N", help="checked if given")
    parser.add_argument("--policy-version", type=whole, metavar="N", help="checked if given")


def _renew(parser: ArgumentParser) -> None:
    _lease(parser)
    _lease_seconds(parser)


def _submit(parser: ArgumentParser) -> None:
    _lease(parser)
    _content(parser, "result")
    parser.add_argument(
        "--revision", type=whole, metavar="R", help="the revision that the result builds on"
    )


def _complete(parser: ArgumentParser) -> None:
    _submit(parser)
    parser.add_argument(
        "--followups", metavar="FILE|JSON",
        help="a JSON list of tasks (queue, payload, key ...) to enqueue in the same transaction",
    )  # fmt: skip


def _fail(parser: ArgumentParser) -> None:
    _lease(parser)
    parser.add_argument(
        "--then", default="retry", metavar="retry|give_up|block", help="default: retry"
    )  # fmt: skip
    parser.add_argument("--reason", metavar="TEXT", help="for people")
    parser.add_argument("--retry-seconds", type=whole, metavar="N", help="in place of back-off")


def _outside(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--fence", type=whole, metavar="F", help="refused if it has moved on")
    parser.add_argument("--reason", metavar="TEXT", help="for people")


def _resolve(parser: ArgumentParser) -> None:
    _outside(parser)
    parser.add_argument("--to", required=True, metavar="done|retry|give_up")
    parser.add_argument("--evidence", metavar="JSON|-", help="belongs to done: the result")
    parser.add_argument("--text", action="store_true", help="take the evidence as plain text")


def _review(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("revision", type=whole, metavar="REVISION")
    parser.add_argument("verdict", metavar="accepted|rejected")
    parser.add_argument("--requeue", action="store_true", help="after rejected: a new round")


def _bounded(parser: ArgumentParser) -> None:
    parser.add_argument("queue", nargs="?", metavar="QUEUE", help="default: the whole scope")
    parser.add_argument(
        "--limit", type=whole, default=100, metavar="N", help="1 to 200; default 100"
    )  # fmt: skip


def _queue_set(parser: ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("settings", nargs="+", metavar="NAME=VALUE", help="VALUE is JSON or a word")


def _set_policy(parser: ArgumentParser) -> None:
    parser.add_argument(
        "policy_version", nargs="?", type=whole, metavar="VERSION",
        help="completions claimed under an older one are refused",
    )  # fmt: skip
    parser.add_argument(
        "--retain-seconds", type=seconds_or_forever, metavar="S|forever", default=NOTHING,
        help="keep ended tasks so long before purge",
    )  # fmt: skip


def _revoke(parser: ArgumentParser) -> None:
    parser.add_argument("--lift", action="store_true", help="lift the revocation")


def _one_task(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK|QUEUE/KEY")


def _list(parser: ArgumentParser) -> None:
    parser.add_argument("--queue", metavar="Q", help="default: all of the scope")
    parser.add_argument(
        "--state", metavar="ready|leased|done|dead|blocked|cancelled", help="default: any"
    )  # fmt: skip
    parser.add_argument("--limit", type=whole, metavar="N", help="default: all of them")


def _receipt(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help="or the SHA-256 of a command without key")
    parser.add_argument("--prove", action="store_true", help="with its proof of inclusion")


def _journal(parser: ArgumentParser) -> None:
    parser.add_argument("--after", type=whole, default=0, metavar="N", help="from entry N + 1")
    parser.add_argument("--limit", type=whole, metavar="N", help="default: all of them")
    parser.add_argument("--task", metavar="TASK", help="the entries of one task")


def _verify(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--since", metavar="FILE", help="a checkpoint kept elsewhere: prove that it still holds"
    )


def _init(parser: ArgumentParser) -> None:
    parser.add_argument("--into", metavar="APP.db", help="beside an application's own tables")
    parser.add_argument("--force", action="store_true", help="begin anew where a store is")


def _backup(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument("--force", action="store_true", help="overwrite TARGET")


def _uninstall(parser: ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="yes, drop every task and receipt")


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def _serve(parser: ArgumentParser) -> None:
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


SUBCOMMANDS: dict[str, Subcommand] = {
    "enqueue": Subcommand(
        "put a task on a queue, or one for each line of a file", "verbs.enqueue", _enqueue,
        (
            "fencepost enqueue pages '{\"page\": 17}' --task-key page-17",
            "fencepost enqueue pages - < payload.json",
            "fencepost enqueue pages --from pages.jsonl",
        ), sends=True,
    ),
    "claim": Subcommand(
        "take tasks under a lease", "verbs.claim", _claim,
        (
            "fencepost claim pages --worker laptop-3",
            "fencepost claim pages letters --worker laptop-3 --limit 10 --lease-seconds 300",
        ), sends=True,
    ),
    "renew": Subcommand(
        "extend a lease", "verbs.renew", _renew,
        ("fencepost renew TASK --worker laptop-3 --fence 7",), sends=True,
    ),
    "submit": Subcommand(
        "hand in a result and keep the lease", "verbs.submit", _submit,
        ("fencepost submit TASK --worker laptop-3 --fence 7 '{\"row\": 1}'",), sends=True,
    ),
    "complete": Subcommand(
        "end a task, with a result or without", "verbs.complete", _complete,
        (
            "fencepost complete TASK --worker laptop-3 --fence 7 '{\"text\": \"...\"}'",
            "fencepost complete TASK --worker laptop-3 --fence 7 - < result.json",
        ), sends=True,
    ),
    "fail": Subcommand(
        "report that the work failed", "verbs.fail", _fail,
        ("fencepost fail TASK --worker laptop-3 --fence 7 --reason 'page is blank'",), sends=True,
    ),
    "release": Subcommand(
        "give a task back unworked", "verbs.release", _lease,
        ("fencepost release TASK --worker laptop-3 --fence 7",), sends=True,
    ),
    "cancel": Subcommand(
        "end a task that has not ended", "verbs.cancel", _outside,
        ("fencepost cancel TASK --reason 'sent twice'",), sends=True,
    ),
    "requeue": Subcommand(
        "begin a new round of an ended task", "verbs.requeue", _outside,
        ("fencepost requeue TASK",), sends=True,
    ),
    "resolve": Subcommand(
        "settle a blocked task", "verbs.resolve", _resolve,
        ("fencepost resolve TASK --to done --evidence '{\"seen\": true}'",), sends=True,
    ),
    "review": Subcommand(
        "a human's word on one revision", "verbs.review", _review,
        ("fencepost review TASK 1 accepted --actor ana",), sends=True,
    ),
    "sweep": Subcommand(
        "settle lapsed leases now", "verbs.sweep", _bounded, ("fencepost sweep pages",), sends=True
    ),
    "erase": Subcommand(
        "remove all content of a task; a tombstone stays", "verbs.erase", _outside,
        ("fencepost erase TASK --reason 'asked for by its owner'",), sends=True,
    ),
    "purge": Subcommand(
        "remove ended tasks whose retention is over", "verbs.purge", _bounded,
        ("fencepost purge pages",), sends=True,
    ),
    "queue-set": Subcommand(
        "change settings of a queue", "verbs.queue_set", _queue_set,
        (
            "fencepost queue-set pages lease_seconds=300 on_lapse=reconcile",
            "fencepost queue-set pages paused=true",
            "fencepost queue-set pages 'destinations=[\"archive\"]'",
        ), sends=True,
    ),
    "scope-set-policy": Subcommand(
        "raise the scope's policy version, or set its retention", "verbs.set_policy", _set_policy,
        ("fencepost scope-set-policy 3", "fencepost scope-set-policy --retain-seconds 2592000"),
        sends=True,
    ),
    "scope-revoke": Subcommand(
        "revoke the scope, or lift it", "verbs.revoke", _revoke,
        ("fencepost --scope field-7 scope-revoke", "fencepost --scope field-7 scope-revoke --lift"),
        sends=True,
    ),
    "clock-reset": Subcommand(
        "lower the store's time to the wall clock; all leases end", "verbs.clock_reset", _none,
        ("fencepost clock-reset",), sends=True,
    ),
    "show": Subcommand(
        "one task with its payload", "reads.show", _one_task,
        ("fencepost show TASK", "fencepost show pages/page-17"),
    ),
    "list": Subcommand(
        "tasks in the order of their enqueueing", "reads.list_tasks", _list,
        ("fencepost list --queue pages --state dead", "fencepost list --json | jq .task_id"),
    ),
    "results": Subcommand(
        "the accepted results of a task", "reads.results", _one_task, ("fencepost results TASK",)
    ),
    "refused": Subcommand(
        "late results of a task that were kept aside", "reads.refused", _one_task,
        ("fencepost refused TASK",),
    ),
    "receipt": Subcommand(
        "the receipt of a command, by its key", "journal.receipt", _receipt,
        ("fencepost receipt page-17-done --actor laptop-3", "fencepost receipt K --prove"),
    ),
    "stats": Subcommand(
        "tasks by queue and state", "reads.stats", _none, ("fencepost stats",)
    ),
    "queues": Subcommand(
        "queues and their settings", "reads.queues", _none, ("fencepost queues",)
    ),
    "journal": Subcommand(
        "the entries of the journal", "journal.journal", _journal,
        ("fencepost journal --after 100", "fencepost journal --task TASK"),
    ),
    "seal": Subcommand(
        "put what is committed into the tree and print its checkpoint", "journal.seal", _none,
        ("fencepost seal > checkpoint.txt",),
    ),
    "verify": Subcommand(
        "recompute journal and rows", "journal.verify", _verify,
        ("fencepost verify", "fencepost verify --since checkpoint.txt"),
    ),
    "init": Subcommand(
        "create a store", "care.init", _init,
        ("fencepost --store work.db init", "fencepost init --into app.db"),
    ),
    "migrate": Subcommand(
        "bring a store to this program's schema, after a backup", "care.migrate", _none,
        ("fencepost --store work.db migrate",),
    ),
    "uninstall": Subcommand(
        "drop our tables from a database and nothing else", "care.uninstall", _uninstall,
        ("fencepost --store app.db uninstall --force",),
    ),
    "backup": Subcommand(
        "copy the store while it is in use", "care.backup", _backup,
        ("fencepost backup /mnt/usb/work-backup.db",),
    ),
    "doctor": Subcommand(
        "say what the store stands on, and what is wrong", "care.doctor", _none,
        ("fencepost doctor",),
    ),
    "demo": Subcommand(
        "the main job on real files, with workers that fail", "programs.demo", _none,
        ("fencepost demo", "fencepost demo ~/src"), forwards=True,
    ),
    "bench": Subcommand(
        "measure this store on this disk", "programs.bench", _none,
        (
            "fencepost bench                           the quick profile, on this folder's disk",
            "fencepost bench --only drain callers --reps 5",
            "fencepost bench --profile full --json figures.json --dir /mnt/data",
            "fencepost bench --check                   exit 1 if a target is missed",
        ), forwards=True,
    ),
    "conform": Subcommand(
        "put a queue through the conformance kit", "programs.conform", _none,
        ("fencepost conform sqlite", "fencepost conform reference --junit junit.xml",
         'fencepost conform stdio:"python3 my_target.py"', "fencepost conform --list"),
        forwards=True,
    ),
    "serve": Subcommand(
        "the store over HTTP, for workers elsewhere", "serve.serve", _serve,
        (
            "fencepost serve                               this machine only, with tokens",
            "fencepost serve --dev                         the same without tokens, to try it",
            "fencepost serve --host 0.0.0.0 --certfile cert.pem --keyfile key.pem",
        ),
    ),
    "completion": Subcommand(
        "print the completion file of a shell", "programs.completion", _completion,
        ("fencepost completion bash > /etc/bash_completion.d/fencepost",),
    ),
}  # fmt: skip
