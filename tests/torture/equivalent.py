"""Mutants that nothing can tell from the program, and why; by what they change."""

from __future__ import annotations

ASKED = "the machine only asks whether it applies, and names the code itself"
NO_POLICY = "the end of a lease does not rest on the policy, which is all that scopes differ in"
CODEC = "a codec has the same name in capitals"
NO_VERB = "what is no verb has no shape, whatever it is"
BOTH = "the line before has made sure of both or neither"

SAME: dict[str, str] = {
    **{
        f"rules.{function}: {old} => {new}": ASKED
        for function, old, words in (
            ("limits.hold_used_up",
             "return 'lease_too_long' if task.lease_expires_at >= limit else None",
             ("XXlease_too_longXX", "LEASE_TOO_LONG")),
            ("limits.too_many_followups",
             "return 'too_many_followups' if number > settings.max_followups else None",
             ("XXtoo_many_followupsXX", "TOO_MANY_FOLLOWUPS")),
            ("results.duplicate_result",
             "return 'duplicate_result' if told else None",
             ("XXduplicate_resultXX", "DUPLICATE_RESULT")),
        )
        for word in words
        for new in (old.replace(word.strip("X").lower(), word),)
    },
    "rules.fence.moved_on: return 'unknown_fence' if fence > task.fence else 'stale_fence' => "
    "return 'unknown_fence' if fence >= task.fence else 'stale_fence'":
        "the equal fence has left the function above",
    "rules.retry.backoff: doubled = settings.backoff_seconds * 2 ** min(attempt - 1, 40) => "
    "doubled = settings.backoff_seconds * 2 ** min(attempt - 1, 41)":
        "2^40 seconds are beyond the longest wait that a setting can name",
    "machine.claims.settle_lapsed: "
    "items = [item for row in rows for item in _settle(batch, row, '')] => "
    "items = [item for row in rows for item in _settle(batch, row, 'XXXX')]":
        "any name that is no queue's makes each task name its own",
    "machine.claims.Candidates.__init__: "
    "self.pools = [[(0, task.id, task.task_id)]] if queues else [] => "
    "self.pools = [[(0, task.id, task.task_id)]] if queues or True else []":
        "a task's queue is there, and where it is paused the claim was refused above",
    **{
        f"machine.{function}: {line} => {line.replace('row.scope', 'None')}": NO_POLICY
        for function, line in (
            ("claims.spent", ("over = [row for row in found if lapsed(row, "
             "batch.moment(row.scope))]")),
            ("claims.sweep", ("over = [row for row in found if lapsed(row, "
             "batch.moment(row.scope))]")),
            ("claims.Candidates._free", "overdue = lapsed(row, self.batch.moment(row.scope))"),
            ("fold.live_leases", ("return [row for task_id, fence in verdict.claimed if "
             "(row := loaded.tasks.get(task_id)) is not None and row.state == 'leased' and "
             "(row.fence == fence) and (not lapsed(row, batch.moment(row.scope)))]")),
        )
    },
    **{
        f"journal.checkpoint.{function}: {line} => {line.replace('ascii', 'ASCII')}": CODEC
        for function, line in (
            ("parse", "lines = raw.decode('ascii').split('\\n')"),
            ("_base64", "return base64.b64encode(data).decode('ascii')"),
            ("Checkpoint.text",
             "return ''.join((f'{line}\\n' for line in lines)).encode('ascii')"),
        )
    },
    "journal.checkpoint.Checkpoint.__post_init__: "
    "if self.previous_size is None or self.previous_sha256 is None: => "
    "if self.previous_size is None and self.previous_sha256 is None:": BOTH,
    "journal.standing.Standing._scope: "
    "if note.get('policy_version', before.policy_version + 1) <= before.policy_version: => "
    "if note.get('policy_version', before.policy_version + 2) <= before.policy_version:":
        "any number above the one before says that the note has none",
    "machine.results.accept_once: if result is None or digest is None or "
    "(task.id, task.round, digest) in batch.loaded.results: => "
    "if result is None and digest is None or (task.id, task.round, digest) in "
    "batch.loaded.results:":
        "a command has the digest of its result, or neither",
    **{
        f"journal.ledger.Moves._create: self.owed.append(item.get('queue', '')) => "
        f"self.owed.append({other})":
            "a queue is not its own destination, so each is a queue that nothing is owed to"
        for other in ("item.get('queue', 'XXXX')", "item.get('queue', None)", "item.get('queue')")
    },
    **{
        f"machine.fold.{function}: {line} => {line.replace(word, word[:-2] + repr('XXXX'))}": why
        for function, line, word, why in (
            ("_no_authority", (
                "code = authority.unauthenticated(caller, loaded.tokens.get(caller.token or ''), "
                "batch.now) or authority.forbidden(caller, command) or "
                "authority.beyond_scope(caller, command) or authority.beyond_queues(caller, "
                "command) or authority.scope_revoked(caller, command, "
                "loaded.scopes.get(caller.scope))"
            ), "caller.token or ''", "without a token none is asked for"),
            ("grant", (
                "return Grant(row.task_id, row.queue, row.key, row.worker_id or '', row.fence, "
                "row.revision, row.attempt, row.max_attempts, row.epoch, row.policy_version, "
                "row.granted_at, row.lease_expires_at, payload, progress)"
            ), "row.worker_id or ''", "a task that is leased names its worker"),
        )
    },
    "journal.ledger.Moves.__init__: self.stepped = False => self.stepped = None":
        "it is only asked whether it is so",
    **{
        f"journal.tree.{function}: while not fn & 1 and fn != 0: => "
        "while not fn & 1 and fn != 1:":
            "the RFC's fn equals sn there, which is not 0, so a bit of it comes first"
        for function in ("verify_inclusion", "verify_consistency")
    },
    "journal.checkpoint._parse_hash: data = base64.b64decode(text, validate=True) => "
    "data = base64.b64decode(text)":
        "what does not encode back to the same text is refused anyway",
    "machine.settings.queue_set: "
    "return refuse(('invalid_request',), command, f'queue.set: {wrong}') => "
    "return refuse(('invalid_request',), None, f'queue.set: {wrong}')":
        "where the words are given, the command is not asked for any",
    "machine.owing._put: "
    "items.append(entry.item(row, None, entry_queue, 'obligation')) => "
    "items.append(entry.item(row, None, None, 'obligation'))":
        "a queue is not its own destination, so the queue is named anyway",
    "journal.rows.Rows._results: "
    "if line.round != 1 + sum((number < line.entry for number in rounds)): => "
    "if line.round != 1 + sum((number <= line.entry for number in rounds)):":
        "an entry that begins a round accepts no result; a row that says so is named anyway",
    "machine.claims.sweep: found = (batch.loaded.tasks[task_id] for task_id in "
    "batch.loaded.lapsed.get(place, [])) => found = (batch.loaded.tasks[task_id] for task_id in "
    "batch.loaded.lapsed.get(place, None))":
        "a sweep has asked for its place, so it is there",
    "journal.tree.consistency_proof: if start > 0: => if start > 1:":
        "a left part has a power of two leaves, and one of a single leaf is never gone past",
    "machine.tasks.key_issues: "
    "if task_lookup(scope, queue, new.key or '') in batch.loaded.tombstones: => "
    "if task_lookup(scope, queue, new.key or 'XXXX') in batch.loaded.tombstones:":
        "it is asked of tasks with a key alone",
    "machine.fold._queues_of: return () if task is None else (task.queue, *followed) => "
    "return () if task is None and False else (task.queue, *followed)":
        "who is asked this sends only what names queues, or a task that was found",
    "machine.fold._too_large: return 'entry_too_large' if size > MAX_ENTRY_BYTES else None => "
    "return 'entry_too_large' if size >= MAX_ENTRY_BYTES else None":
        "no number of follow-ups makes exactly as many bytes",
    "machine.batch.Batch.moment: found = self._moments.get(scope) => "
    "found = self._moments.get(None)":
        "a moment that is made anew is the same",
    "machine.retention._has_brought: "
    "told = {} if stored.body is None else json.loads(stored.body) => "
    "told = {} if stored.body is None and False else json.loads(stored.body)":
        "an entry that is found by its key has its bytes",
    "machine.retention.still_owed: children = (batch.loaded.tasks.get(child) for child in "
    "batch.loaded.children.get(task.id, ())) => children = (batch.loaded.tasks.get(child) for "
    "child in batch.loaded.children.get(task.id, None))":
        "an erase has asked for the obligations of its task, so they are there",
    "journal.checkpoint.parse: previous_size, _, previous_sha256 = rest.partition(' ') => "
    "previous_size, _, previous_sha256 = rest.rpartition(' ')":
        "with more than one space neither half is what it must be, wherever it is cut",
    "journal.tree.verify_consistency: "
    "if not 0 < old <= new or not _are_hashes(old_root, new_root, *proof): => "
    "if not 0 < old <= new or not _are_hashes(old_root, *proof):":
        "the new root has to equal 32 bytes in the end",
    "machine.operators._new_round: task.reason = None => task.reason = ''":
        "the store keeps an empty reason as none",
    "journal.reading._form: shape = SHAPES.get(entry.get('verb', '')) => "
    "shape = SHAPES.get(entry.get('verb', 'XXXX'))": NO_VERB,
    "journal.reading._form: shape = SHAPES.get(entry.get('verb', '')) => "
    "shape = SHAPES.get(entry.get('verb', None))": NO_VERB,
    "journal.reading._form: shape = SHAPES.get(entry.get('verb', '')) => "
    "shape = SHAPES.get(entry.get('verb'))": NO_VERB,
}  # fmt: skip
