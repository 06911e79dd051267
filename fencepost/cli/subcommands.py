"""The table of subcommands: what each is for, its arguments, and where its code lies.

The code is imported only when its verb is run (`run` names module and function in this
package). A verb that is a command of the contract has `sends`; one that hands its arguments on
to another program of ours has `forwards`; one that runs the command behind `--` has `runs`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import NamedTuple

from fencepost.cli import arguments, destination_arguments, restore_arguments


class Subcommand(NamedTuple):
    """One row. `arguments` adds the verb's own arguments to a parser."""

    help: str
    run: str
    arguments: Callable[[ArgumentParser], None]
    examples: tuple[str, ...]
    sends: bool = False
    forwards: bool = False
    runs: bool = False


SUBCOMMANDS: dict[str, Subcommand] = {
    "enqueue": Subcommand(
        "put a task on a queue, or one for each line of a file", "verbs.enqueue", arguments.enqueue,
        (
            "fencepost enqueue pages '{\"page\": 17}' --task-key page-17",
            "fencepost enqueue pages - < payload.json",
            "fencepost enqueue pages --from pages.jsonl",
        ), sends=True,
    ),
    "claim": Subcommand(
        "take tasks under a lease", "verbs.claim", arguments.claim,
        (
            "fencepost claim pages --worker laptop-3",
            "fencepost claim pages letters --worker laptop-3 --limit 10 --lease-seconds 300",
        ), sends=True,
    ),
    "renew": Subcommand(
        "extend a lease", "verbs.renew", arguments.renew,
        (
            "fencepost renew TASK --worker laptop-3 --fence 7",
            "fencepost renew TASK --worker laptop-3 --fence 7 --progress '{\"line\": 40}'",
        ), sends=True,
    ),
    "submit": Subcommand(
        "hand in a result and keep the lease", "verbs.submit", arguments.submit,
        ("fencepost submit TASK --worker laptop-3 --fence 7 '{\"row\": 1}'",), sends=True,
    ),
    "complete": Subcommand(
        "end a task, with a result or without", "verbs.complete", arguments.complete,
        (
            "fencepost complete TASK --worker laptop-3 --fence 7 '{\"text\": \"...\"}'",
            "fencepost complete TASK --worker laptop-3 --fence 7 - < result.json",
        ), sends=True,
    ),
    "fail": Subcommand(
        "report that the work failed", "verbs.fail", arguments.fail,
        (
            "fencepost fail TASK --worker laptop-3 --fence 7 --reason 'page is blank'",
            "fencepost fail TASK --worker laptop-3 --fence 7 --log @stderr.txt",
        ), sends=True,
    ),
    "release": Subcommand(
        "give a task back, and the attempt with it", "verbs.release", arguments.release,
        ("fencepost release TASK --worker laptop-3 --fence 7",), sends=True,
    ),
    "cancel": Subcommand(
        "end a task that has not ended", "verbs.cancel", arguments.outside,
        ("fencepost cancel TASK --reason 'sent twice'",), sends=True,
    ),
    "requeue": Subcommand(
        "begin a new round of an ended task", "verbs.requeue", arguments.outside,
        ("fencepost requeue TASK",), sends=True,
    ),
    "resolve": Subcommand(
        "settle a blocked task", "verbs.resolve", arguments.resolve,
        ("fencepost resolve TASK --to done --evidence '{\"seen\": true}'",), sends=True,
    ),
    "review": Subcommand(
        "a human's word on one revision", "verbs.review", arguments.review,
        ("fencepost review TASK 1 accepted --actor ana",), sends=True,
    ),
    "import": Subcommand(
        "record what receivers have accepted, in a store that was restored", "imports.import_",
        arguments.import_,
        ("fencepost import accepted.jsonl", "fencepost import - < accepted.jsonl"), sends=True,
    ),
    "sweep": Subcommand(
        "settle lapsed leases now", "verbs.sweep", arguments.bounded,
        ("fencepost sweep pages",), sends=True,
    ),
    "erase": Subcommand(
        "remove all content of a task; a tombstone stays", "verbs.erase", arguments.outside,
        ("fencepost erase TASK --reason 'asked for by its owner'",), sends=True,
    ),
    "purge": Subcommand(
        "remove ended tasks whose retention is over", "verbs.purge", arguments.bounded,
        ("fencepost purge pages",), sends=True,
    ),
    "queue-set": Subcommand(
        "change settings of a queue", "verbs.queue_set", arguments.queue_set,
        (
            "fencepost queue-set pages lease_seconds=300 on_lapse=reconcile",
            "fencepost queue-set pages paused=true",
            "fencepost queue-set pages 'destinations=[\"archive\"]'",
        ), sends=True,
    ),
    "scope-set-policy": Subcommand(
        "raise the scope's policy version, or set its retention", "verbs.set_policy",
        arguments.set_policy,
        ("fencepost scope-set-policy 3", "fencepost scope-set-policy --retain-seconds 2592000"),
        sends=True,
    ),
    "scope-revoke": Subcommand(
        "revoke the scope, or lift it", "verbs.revoke", arguments.revoke,
        ("fencepost --scope field-7 scope-revoke", "fencepost --scope field-7 scope-revoke --lift"),
        sends=True,
    ),
    "clock-reset": Subcommand(
        "lower the store's time to the wall clock; all leases end", "verbs.clock_reset",
        arguments.none, ("fencepost clock-reset",), sends=True,
    ),
    "token-create": Subcommand(
        "let somebody in over the network; prints the token, once", "tokens.create",
        arguments.token_create,
        (
            "fencepost token create laptop-3 --kind worker --queue pages > laptop-3.token",
            "fencepost token create ana --kind human --expires-seconds 2592000",
            "fencepost token create ops --kind operator --every-scope",
        ), sends=True,
    ),
    "token-list": Subcommand(
        "who is let in, and who was", "tokens.list_tokens", arguments.none,
        ("fencepost token list",),
    ),
    "token-revoke": Subcommand(
        "end a token, from now on", "tokens.revoke", arguments.token_revoke,
        ("fencepost token revoke tok_...",), sends=True,
    ),
    "destination-set": Subcommand(
        "where the obligations on a queue are delivered to", "destinations.set_",
        destination_arguments.destination_set,
        (
            "fencepost destination set archive https://archive.example/hook --class fenced",
            "fencepost destination set archive --option ordered=true --option timeout_seconds=10",
            "fencepost destination set totals - --class fenced < address.txt",
        ), sends=True,
    ),
    "destination-list": Subcommand(
        "the destinations of the scope", "destinations.list_", arguments.none,
        ("fencepost destination list",),
    ),
    "destination-show": Subcommand(
        "one destination; secrets and passwords are hidden", "destinations.show",
        destination_arguments.one_destination, ("fencepost destination show archive",),
    ),
    "destination-secret": Subcommand(
        "sign with a new secret; prints it, once", "destinations.secret",
        destination_arguments.destination_secret,
        (
            "fencepost destination secret archive > archive.secret",
            "fencepost destination secret archive --secret-file own.secret --keep-seconds 3600",
        ), sends=True,
    ),
    "destination-stop": Subcommand(
        "deliver nothing there", "destinations.stop", destination_arguments.destination_stop,
        ("fencepost destination stop archive --reason 'moves on Sunday'",),
    ),
    "destination-start": Subcommand(
        "deliver there again", "destinations.start", destination_arguments.destination_start,
        ("fencepost destination start archive",),
    ),
    "destination-advance": Subcommand(
        "say how far an ordered receiver has come, where the store does not know",
        "destinations.advance", destination_arguments.destination_advance,
        (
            "fencepost destination advance archive --expected-sequence 20 --sequence 17 --head HEX",
        ), sends=True,
    ),
    "offline-take": Subcommand(
        "take tasks along, to work on them without a network", "offline.take",
        arguments.offline_take,
        (
            "fencepost offline take pages -n 50 --lease-seconds 432000 --worker laptop-3",
            "fencepost offline take pages --lease-seconds 86400 --outbox trip.db",
        ),
    ),
    "offline-next": Subcommand(
        "the next task of the outbox without a result", "offline.next_task", arguments.outbox,
        ("fencepost offline next", "fencepost offline next --json | jq .payload"),
    ),
    "offline-record": Subcommand(
        "keep a result in the outbox", "offline.record", arguments.offline_record,
        (
            "fencepost offline record TASK '{\"text\": \"...\"}'",
            "fencepost offline record TASK - < result.json",
            "fencepost offline record S1 --text shelter-count:42 --row",
            "fencepost offline record S1 --end --followups next.json",
        ),
    ),
    "offline-give-back": Subcommand(
        "let the next sync release tasks that were not worked on", "offline.give_back",
        arguments.offline_give_back,
        ("fencepost offline give-back", "fencepost offline give-back S1 S7"),
    ),
    "offline-sync": Subcommand(
        "bring what is recorded to the store; may be broken off and run again", "offline.sync",
        arguments.offline_sync, ("fencepost --store https://queue.example offline sync",),
    ),
    "offline-status": Subcommand(
        "what is in the outbox", "offline.status", arguments.outbox,
        ("fencepost offline status",),
    ),
    "offline-conflicts": Subcommand(
        "tasks that have moved on meanwhile, both sides", "offline.conflicts",
        arguments.offline_conflicts,
        ("fencepost offline conflicts", "fencepost offline conflicts --theirs TASK"),
    ),
    "offline-verify": Subcommand(
        "recompute the outbox and its chain", "offline.verify", arguments.offline_verify,
        ("fencepost offline verify", "fencepost offline verify --head 5bd6a7426f103e9c"),
    ),
    "show": Subcommand(
        "one task with its payload, progress and log", "reads.show", arguments.one_task,
        ("fencepost show TASK", "fencepost show pages/page-17"),
    ),
    "list": Subcommand(
        "tasks in the order of their enqueueing", "reads.list_tasks", arguments.listing,
        ("fencepost list --queue pages --state dead", "fencepost list --json | jq .task_id"),
    ),
    "results": Subcommand(
        "the accepted results of a task", "reads.results", arguments.one_task,
        ("fencepost results TASK",),
    ),
    "refused": Subcommand(
        "late results of a task that were kept aside", "reads.refused", arguments.one_task,
        ("fencepost refused TASK",),
    ),
    "receipt": Subcommand(
        "the receipt of a command, by its key", "journal.receipt", arguments.receipt,
        ("fencepost receipt page-17-done --actor laptop-3", "fencepost receipt K --prove"),
    ),
    "stats": Subcommand(
        "tasks by queue and state", "reads.stats", arguments.none, ("fencepost stats",)
    ),
    "queues": Subcommand(
        "queues and their settings", "reads.queues", arguments.none, ("fencepost queues",)
    ),
    "writers": Subcommand(
        "who has written here: start, restarts, copies, each with its epoch", "reads.writers",
        arguments.none, ("fencepost writers", "fencepost writers --json | tail -n 1"),
    ),
    "journal": Subcommand(
        "the entries of the journal", "journal.journal", arguments.journal,
        ("fencepost journal --after 100", "fencepost journal --task TASK"),
    ),
    "seal": Subcommand(
        "put what is committed into the tree and print its checkpoint", "journal.seal",
        arguments.none, ("fencepost seal > checkpoint.txt",),
    ),
    "verify": Subcommand(
        "recompute journal and rows", "journal.verify", arguments.verify,
        ("fencepost verify", "fencepost verify --since checkpoint.txt"),
    ),
    "init": Subcommand(
        "create a store", "care.init", arguments.init,
        ("fencepost --store work.db init", "fencepost init --into app.db"),
    ),
    "migrate": Subcommand(
        "bring a store to this program's schema; a file after a backup", "care.migrate",
        arguments.migrate,
        ("fencepost --store work.db migrate", "fencepost --store work.db migrate --show"),
    ),
    "uninstall": Subcommand(
        "drop our tables from a database and nothing else", "care.uninstall", arguments.uninstall,
        ("fencepost --store app.db uninstall --force",),
    ),
    "backup": Subcommand(
        "copy the store while it is in use", "care.backup", arguments.backup,
        ("fencepost backup /mnt/usb/work-backup.db",),
    ),
    "restore": Subcommand(
        "make a store of a backup, and tell every receiver before it serves", "restore.restore",
        restore_arguments.restore,
        (
            "fencepost restore /mnt/usb/work-backup.db --to work.db",
            "fencepost restore work-backup.db --to work.db --erasures erased.jsonl --take-over",
        ),
    ),
    "adopt": Subcommand(
        "make a store of its own of a copy that is to live", "restore.adopt",
        restore_arguments.adopt, ("fencepost --store copied.db adopt",),
    ),
    "erasures": Subcommand(
        "which tasks were erased, for a restore of an older backup", "restore.erasures",
        arguments.none, ("fencepost --store work.db erasures > erased.jsonl",),
    ),
    "drill": Subcommand(
        "rehearse a restore on temporary copies, with real receivers", "programs.drill",
        arguments.none,
        ("fencepost drill restore", "fencepost drill restore --json"), forwards=True,
    ),
    "copy": Subcommand(
        "move a store from a file to PostgreSQL, with its journal", "care.copy", arguments.copy,
        ("fencepost copy work.db postgresql://queue@db.example/work",),
    ),
    "doctor": Subcommand(
        "say what the store stands on, and what is wrong", "care.doctor", arguments.none,
        ("fencepost doctor",),
    ),
    "demo": Subcommand(
        "the main job on real files, with workers that fail", "programs.demo", arguments.none,
        ("fencepost demo", "fencepost demo ~/src"), forwards=True,
    ),
    "bench": Subcommand(
        "measure this store on this disk", "programs.bench", arguments.none,
        (
            "fencepost bench                           the quick profile, on this folder's disk",
            "fencepost bench --only drain callers --reps 5",
            "fencepost bench --profile full --json figures.json --dir /mnt/data",
            "fencepost bench --check                   exit 1 if a target is missed",
        ), forwards=True,
    ),
    "conform": Subcommand(
        "put a queue through the conformance kit", "programs.conform", arguments.none,
        ("fencepost conform sqlite", "fencepost conform reference --junit junit.xml",
         'fencepost conform stdio:"python3 my_target.py"', "fencepost conform --list"),
        forwards=True,
    ),
    "work": Subcommand(
        "run a command for each task", "work.work", arguments.work,
        (
            "fencepost work pages --worker laptop-3 -- ./read-page",
            "fencepost work pages letters --worker laptop-3 -j 4 --exit-when-empty -- ./ocr",
            "fencepost work pages --worker cron-1 --max-seconds 600 --memory-mb 512 -- ./read-page",
            "fencepost work --offline offline.db -j 4 -- ./read-page",
        ), runs=True,
    ),
    "deliver": Subcommand(
        "bring obligations to their destinations", "deliver.deliver", arguments.deliver,
        (
            "fencepost deliver                  all destinations, until a signal",
            "fencepost deliver archive --exit-when-empty --max-seconds 50   for a cron job",
        ),
    ),
    "serve": Subcommand(
        "the store over HTTP, for workers elsewhere", "serve.serve", arguments.serve,
        (
            "fencepost serve                               this machine only, with tokens",
            "fencepost serve --dev                         the same without tokens, to try it",
            "fencepost serve --deliver                     and bring obligations to destinations",
            "fencepost serve --host 0.0.0.0 --certfile cert.pem --keyfile key.pem",
        ),
    ),
    "completion": Subcommand(
        "print the completion file of a shell", "programs.completion", arguments.completion,
        ("fencepost completion bash > /etc/bash_completion.d/fencepost",),
    ),
}  # fmt: skip
