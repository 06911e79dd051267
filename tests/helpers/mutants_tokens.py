"""Planted faults in what judges tokens, each with the law that must find it."""

from __future__ import annotations

from fencepost.handle import journal, places
from fencepost.machine import fold, needs, tokens
from fencepost.model import Token
from fencepost.rules import authority
from helpers.mutants import bent, gone

BEARER = "a_token_makes_of_its_bearer_what_it_was_made_for_and_nobody_else"
END = "a_token_has_ended_at_its_very_end"
REVOKED = "a_revoked_token_is_refused_from_that_commit_on_in_its_batch_and_for_replays"
AGAIN = "a_token_that_is_revoked_again_stays_as_it_was"
QUEUES = "a_token_of_some_queues_names_no_other_and_nothing_of_the_scope"
HIDDEN = "for_a_token_of_some_queues_the_tasks_of_others_are_not_there"
ENTRIES = "an_entry_shows_to_a_token_of_its_scope_and_queues"
STORE = "what_concerns_the_whole_store_is_for_tokens_of_every_scope"
SCOPE = "a_token_is_of_the_scope_in_which_it_was_made"
CLOSED = "a_revoked_scope_is_closed_to_its_own_operator_and_lifted_by_the_stores"
NEW = "a_new_token_is_nobody_elses_and_not_over_already"

TOKENS = [
    gone(authority.unauthenticated, BEARER),
    gone(authority.beyond_scope, STORE),
    gone(authority.beyond_queues, QUEUES),
    gone(authority.hidden_task, HIDDEN),
    gone(authority.hidden_queue, HIDDEN),
    gone(authority.hidden_token, SCOPE),
    bent("a token lives at its very end", authority.unauthenticated, ">=", ">", END),
    bent("a token outlives its end", authority.unauthenticated, "over or ", "", END),
    bent("a revoked token counts", authority.unauthenticated,
         " or token.revoked_at is not None", "", REVOKED),
    bent("a token makes whom one likes", authority.unauthenticated,
         "token.caller(caller.scope) != caller", "False", BEARER),
    bent("a token that is not there counts", authority.unauthenticated,
         "token is None or token", "token is not None and token", BEARER),
    bent("a token reaches every scope", Token.caller, "not in (EVERY_SCOPE, scope)", "== ''",
         SCOPE),
    bent("a token forgets its queues", Token.caller, "self.queues", "None", QUEUES),
    bent("a token of one scope is of every one", Token.caller, "self.scope == EVERY_SCOPE", "True",
         STORE),
    bent("any operator sets the clock back", authority.beyond_scope,
         ' or command.verb == "clock.reset"', "", STORE),
    bent("any operator lets in everywhere", authority.beyond_scope, "everywhere or ", "", STORE),
    bent("a whole scope is swept for one queue", authority.beyond_queues, "whole or ", "", QUEUES),
    bent("a scope is ruled from one queue", authority.beyond_queues,
         "or command.verb in OF_THE_SCOPE", "", QUEUES),
    bent("a follow-up goes to any queue", authority._named,
         "tuple(new.queue for new in command.followups)", "()", QUEUES),
    bent("a destination is any queue", authority._named,
         ', *given.get("destinations", ())', "", QUEUES),
    bent("a claim names any queue", authority._named, "command.queues or ()", "()", QUEUES),
    bent("a list is of all queues", authority.queues_seen,
         "sorted(caller.queues if queue is None else caller.queues & {queue})", "None", HIDDEN),
    bent("a list of a queue is of any", authority.queues_seen, "caller.queues & {queue}",
         "{queue}", HIDDEN),
    bent("a token of every scope is everybody's", authority.hidden_token,
         " and caller.every_scope", "", STORE),
    bent("another scope's token is found", authority.hidden_token,
         "token.scope == caller.scope", "True", SCOPE),
    bent("a bound auditor sees all scopes", authority.sees_every_scope,
         "caller.every_scope and", "", ENTRIES),
    bent("whose queues they are is not asked", authority.sees_every_scope,
         "and caller.queues is None", "", ENTRIES),
    bent("entries of all queues show", journal.Journal._of_own_queues,
         "queues <= self.caller.queues", "True", ENTRIES),
    bent("one own queue shows the entry", journal.Journal._of_own_queues,
         "queues <= self.caller.queues", "queues & self.caller.queues", ENTRIES),
    bent("entries of no queue show", journal.Journal._of_own_queues, "bool(queues) and ", "",
         ENTRIES),
    bent("a read asks for no token", places.Places.check_token, "caller.token is None", "True",
         END),
    bent("a scope's own operator lifts its revocation", authority.scope_revoked,
         "and sees_every_scope(caller)", "", CLOSED),
    bent("a revoked scope shows to its own auditor", places.Places._may_read,
         "authority.sees_every_scope(self.caller)", "self.caller.kind in authority.SEES_ALL",
         CLOSED),
    bent("the token is not loaded", needs.needs, "wanted.tokens.add(caller.token)", "pass", BEARER),
    bent("a token is judged at no time", fold._no_authority, "batch.now)", "0)", END),
    bent("a token is made twice", tokens.create, "digest in batch.loaded.digests_of_tokens",
         "False", NEW),
    bent("a batch makes a token twice", tokens.create,
         "batch.loaded.digests_of_tokens[digest] = token.token_id", "pass", NEW),
    bent("a token is over when it is made", tokens.create, "ends <= batch.now", "False", NEW),
    bent("a token ends at its making", tokens.create, "ends <= batch.now", "ends < batch.now", NEW),
    bent("a token of every scope is of one", tokens.create,
         "EVERY_SCOPE if command.every_scope else caller.scope", "caller.scope", STORE),
    bent("a revocation is for the next batch", tokens.revoke,
         "batch.loaded.tokens[token.token_id] = replace(token, revoked_at=batch.now)", "pass",
         REVOKED),
    bent("a revocation is not written", tokens.revoke, "batch.changes.revoked.append(",
         "(lambda _: None)(", AGAIN),
    bent("a revocation is written again", tokens.revoke, "token.revoked_at is None", "True", AGAIN),
    bent("a replayed token tells nothing", fold.replay, "tokens.facts(receipt) if", "{} if", NEW),
]  # fmt: skip
