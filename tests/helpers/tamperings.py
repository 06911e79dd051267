"""What somebody who can write the file may do to it, one statement each, and what verify says.

They fit the history of `workload.every_verb`, sealed. No place is given where it has a random id.
"""

from __future__ import annotations

# name: (statement, the codes that are found, place that must be named)
TAMPERINGS: dict[str, tuple[str, set[str], str | None]] = {
    "an edited entry": (
        """
        update fencepost_entry set body = cast(replace(cast(body as text), 'enqueue',
        'enqueu3') as blob) where number = 6
        """,
        {"entry_edited", "entry_form", "task_unknown"}, "entry 6",
    ),
    "an edited actor": (
        """
        update fencepost_entry set body = cast(replace(cast(body as text), '"actor":"w"',
        '"actor":"v"') as blob) where number = 15
        """,
        {"entry_edited"}, "entry 15",
    ),
    "a missing entry": (
        "delete from fencepost_entry where number = 9",
        {"entry_missing", "task_unknown"}, "entry 9",
    ),
    "an added entry": (
        """
        insert into fencepost_entry (number, body) select (select max(number) + 1 from
        fencepost_entry), body from fencepost_entry where number = 6
        """,
        {"counter", "opening_missing", "row_edited", "time", "transition"}, "store",
    ),
    "a dropped body": (
        """
        update fencepost_entry set body = null, salt = null, request_sha256 = null,
        result_sha256 = null, request_id = null, key = null where number = 15
        """,
        {"stray", "row_edited"}, "lost_entries",
    ),
    "a dropped enqueue": (
        """
        update fencepost_entry set body = null, salt = null, request_sha256 = null, request_id
        = null, key = null where number = 5
        """,
        {"entry_missing", "task_unknown"}, "entry 5",
    ),
    "an edited request digest": (
        "update fencepost_entry set request_sha256 = zeroblob(32) where number = 6",
        {"opening"}, "entry 6",
    ),
    "an edited salt": (
        "update fencepost_entry set salt = zeroblob(32) where number = 6",
        {"opening"}, "entry 6",
    ),
    "an edited result digest": (
        "update fencepost_entry set result_sha256 = zeroblob(32) where number = 13",
        {"opening"}, "entry 13",
    ),
    "an edited key": (
        "update fencepost_entry set key = key || 'x' where number = 6",
        {"opening"}, "entry 6",
    ),
    "a key of another scope": (
        "update fencepost_entry set key = 'x' || key where number = 6",
        {"opening"}, "entry 6",
    ),
    "a number by which the receipt is not found": (
        "update fencepost_entry set request_id = request_id + 1 where number = 13",
        {"opening"}, "entry 13",
    ),
    "a removed opening": (
        """
        update fencepost_entry set key = null, salt = null, request_sha256 = null, request_id
        = null where number = 6
        """,
        {"opening_missing"}, "entry 6",
    ),
    "an entry of another task": (
        "update fencepost_entry set task = task + 1 where number = 15",
        {"row_edited"}, None,
    ),
    "an edited node": (
        "update fencepost_node set hash = zeroblob(32) where level = 2 and position = 3",
        {"node"}, "node 2/3",
    ),
    "an edited leaf hash": (
        "update fencepost_node set hash = zeroblob(32) where level = 0 and position = 3",
        {"entry_edited", "node", "checkpoint"}, "entry 4",
    ),
    "a missing node": (
        "delete from fencepost_node where level = 1 and position = 2",
        {"node"}, "node 1/2",
    ),
    "an added node": (
        "insert into fencepost_node values (9, 0, zeroblob(32))",
        {"node"}, "node 9/0",
    ),
    "a missing checkpoint": (
        """
        delete from fencepost_checkpoint where size = (select min(size) from
        fencepost_checkpoint)
        """,
        {"checkpoint"}, None,
    ),
    "an edited checkpoint": (
        """
        update fencepost_checkpoint set body = cast(replace(cast(body as text),
            'previous none', 'previous 0 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=') as blob)
        where size = (select min(size) from fencepost_checkpoint)
        """,
        {"checkpoint"}, None,
    ),
    "a deleted task": (
        "delete from fencepost_task where id = 2",
        {"row_missing", "result_added"}, None,
    ),
    "a deleted payload": (
        "delete from fencepost_payload where task = 1",
        {"payload"}, None,
    ),
    "a stray payload": (
        "insert into fencepost_payload values (999, x'00', x'00')",
        {"stray"}, "stray_payloads",
    ),
    "a stray progress": (
        "insert into fencepost_remark values (999, x'31', null)",
        {"stray"}, "stray_remarks",
    ),
    "a log left of an erased task": (
        """
        insert into fencepost_remark select min(id), null, x'2222' from fencepost_task where
        erased > 0
        """,
        {"stray"}, "stray_remarks",
    ),
    "an edited payload": (
        "update fencepost_payload set body = x'7b7d' where task = 1",
        {"payload"}, None,
    ),
    "an edited payload salt": (
        "update fencepost_payload set salt = zeroblob(32) where task = 1",
        {"payload"}, None,
    ),
    "an edited result": (
        """
        update fencepost_result set body = x'7b7d' where body is not null and task = (select
        min(task) from fencepost_result where body is not null)
        """,
        {"result_edited"}, None,
    ),
    "a result edited with its digest": (
        """
        update fencepost_result set body = x'7b7d', sha256 =
        x'44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a' where task = 1
        """,
        {"result_edited"}, None,
    ),
    "a removed result body": (
        "update fencepost_result set body = null where task = 1",
        {"result_edited"}, None,
    ),
    "a result of another round": (
        "update fencepost_result set round = 2 where task = 1",
        {"result_edited"}, None,
    ),
    "a result of another entry": (
        "update fencepost_result set entry = 4 where task = 1",
        {"result_edited"}, None,
    ),
    "an erased result of another entry": (
        "update fencepost_result set entry = 7 where sha256 is null",
        {"result_edited"}, None,
    ),
    "a deleted result": (
        "delete from fencepost_result where task = 1",
        {"result_missing"}, None,
    ),
    "an added result": (
        """
        insert into fencepost_result select task, revision + 1, round, zeroblob(32), entry,
        commitment, body from fencepost_result where task = 1
        """,
        {"result_missing", "result_edited"}, None,
    ),
    "a result of no task": (
        """
        insert into fencepost_result select 999, revision, round, sha256, entry, commitment,
        body from fencepost_result where task = 1
        """,
        {"result_added"}, None,
    ),
    "a commitment closed without a review": (
        "update fencepost_result set commitment = 'accepted' where task = 1",
        {"commitment"}, None,
    ),
    "a commitment opened again": (
        "update fencepost_result set commitment = 'open' where commitment = 'rejected'",
        {"commitment"}, None,
    ),
    "a changed setting": (
        """
        update fencepost_queue set settings = json_set(settings, '$.max_attempts', 9) where
        queue = 'intake'
        """,
        {"settings"}, "queue lab/intake",
    ),
    "a default that was changed": (
        """
        update fencepost_queue set settings = json_set(settings, '$.paused', json('true'))
        where queue = 'next'
        """,
        {"settings"}, "queue lab/next",
    ),
    "a destination that is none any more": (
        "update fencepost_queue set is_destination = 0 where queue = 'outbox'",
        {"settings"}, "queue lab/outbox",
    ),
    "a lowered policy": (
        "update fencepost_scope set policy_version = 2 where scope = 'lab'",
        {"settings"}, "scope lab",
    ),
    "a lifted revocation": (
        "update fencepost_scope set revoked = 0 where scope = 'other'",
        {"settings"}, "scope other",
    ),
    "a renamed queue": (
        "update fencepost_queue set queue = 'renamed' where queue = 'next'",
        {"row_edited"}, None,
    ),
    "content left in an erased task": (
        """
        update fencepost_task set reason = x'2222' where erased > 0 and id = (select min(id)
        from fencepost_task where erased > 0)
        """,
        {"payload"}, None,
    ),
    "a payload left of an erased task": (
        """
        insert into fencepost_payload select min(id), x'00', x'00' from fencepost_task where
        erased > 0
        """,
        {"payload"}, None,
    ),
    "a key left of an erased task": (
        """
        update fencepost_task set key = 'k' where id = (select min(id) from fencepost_task where
        erased > 0)
        """,
        {"payload"}, None,
    ),
    "a digest left of an erased result": (
        "update fencepost_result set sha256 = zeroblob(32) where sha256 is null",
        {"result_edited"}, None,
    ),
    "content left of an erased result": (
        "update fencepost_result set body = x'31' where sha256 is null",
        {"result_edited"}, None,
    ),
    "a result without its digest": (
        "update fencepost_result set sha256 = null, body = null where task = 1",
        {"result_edited"}, None,
    ),
    "content of a result whose queue keeps digests": (
        """
        update fencepost_result set body = cast('"digest only"' as blob) where body is null and
        sha256 is not null
        """,
        {"result_edited"}, None,
    ),
    "a reviewed result that is gone": (
        "delete from fencepost_result where commitment = 'rejected'",
        {"result_missing", "commitment"}, None,
    ),
    "a checkpoint that is no text": (
        """
        update fencepost_checkpoint set body = x'00' where size = (select min(size) from
        fencepost_checkpoint)
        """,
        {"checkpoint"}, None,
    ),
    "a checkpoint of a writer that never wrote": (
        """
        update fencepost_checkpoint set body = cast('fencepost/other' || substr(cast(body as
        text), instr(cast(body as text), char(10))) as blob) where size = (select max(size)
        from fencepost_checkpoint)
        """,
        {"checkpoint"}, None,
    ),
    "a task id that is none": (
        "update fencepost_task set task_id = 'none' where id = 1",
        {"row_added", "row_missing", "result_edited"}, "task none",
    ),
    "a token of somebody else": (
        "update fencepost_token set actor = 'thief' where actor = 'w'",
        {"token"}, None,
    ),
    "a token that is not revoked any more": (
        "update fencepost_token set revoked_at = null where revoked_at is not null",
        {"token"}, None,
    ),
    "a destination at another place": (
        "update fencepost_destination set address = 'https://thief.example/'",
        {"destination"}, None,
    ),
    "a destination of another class": (
        "update fencepost_destination set class = 'idempotent' where class = 'fenced'",
        {"destination"}, None,
    ),
    "a destination signed for by somebody else": (
        "update fencepost_destination set secrets = '[]' where secrets <> '[]'",
        {"destination"}, None,
    ),
    "a destination that was moved on": (
        "update fencepost_destination set sequence = sequence + 1",
        {"destination"}, None,
    ),
    "a destination without its row": (
        "delete from fencepost_destination where class = 'unfenced'",
        {"destination"}, None,
    ),
    "a token without its row": (
        "delete from fencepost_token where actor = 'w'",
        {"token"}, None,
    ),
    "an obligation of another task": (
        """
        update fencepost_task set parent = parent + 1 where id = (select min(id) from
        fencepost_task where parent > 0)
        """,
        {"row_edited"}, None,
    ),
    "a checkpoint of more than there is": (
        """
        insert into fencepost_checkpoint select size + 7, sealed_at, body from
        fencepost_checkpoint order by size desc limit 1
        """,
        {"checkpoint"}, None,
    ),
}  # fmt: skip
