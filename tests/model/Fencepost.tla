----------------------------- MODULE Fencepost -----------------------------
(* One task of Fencepost: who may change it, what it answers, and what happens *)
(* when its store is copied and a receiver stands behind. Words as in the docs *)
(* (scope, lease, fence, receipt, lineage ...); README.md here leads from each *)
(* guard to its line of code and to the planted fault that takes it away.      *)
(*                                                                             *)
(* The network is not drawn: a command that a lease allows, or that somebody   *)
(* forges, may arrive at any store, at any time, any number of times, or       *)
(* never. That is loss, delay, doubling, reordering, retries and a client that *)
(* was sent to the wrong store. Time is a step too: a lease may lapse at any   *)
(* moment, at each store by itself.                                            *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Workers, Results, Keys,   \* who claims; what is handed in; idempotency keys of a worker
    Copies,                   \* the stores that may come into being as copies of "A"
    MaxClaims                 \* leases that one store gives

\* The guards, TRUE as in the program; FALSE takes one away.
CONSTANTS
    Stale,        \* a fence below the task's own is refused
    Unknown,      \* a fence above the task's own is refused
    Worker,       \* only the worker that was given the lease may use it
    Expiry,       \* a lapsed lease is refused, whether or not somebody claimed since
    Lifecycle,    \* only a leased task can be worked on
    Floor,        \* a lease from an epoch below the floor is refused
    Expected,     \* an expected revision, where given, must be the task's
    Once,         \* a result counts once, under whatever key it comes
    Step,         \* each accepted result is a new revision
    Replay,       \* a known key with the same bytes gets the stored receipt, before any rule
    SameBytes,    \* a known key with other bytes gets no receipt
    Overdue,      \* a claim takes a leased task only if its lease has lapsed
    Rise,         \* each claim draws a higher fence
    NewEpoch,     \* a copy begins a new epoch
    NewFloor,     \* ... which is also its floor
    Lineage,      \* the receiver takes messages of the adopted lineage only
    AdoptOnce,    \* adoption is compare-and-swap from the lineage that was copied
    ImportFirst   \* a copy imports what the receiver has accepted before it serves

VARIABLES
    store,     \* per store: its row of the task, its journal, and what it is itself
    given,     \* every lease ever given, by any store
    told,      \* per store: [command, receipt] of every answer to a command that has a receipt
    receiver   \* [writer: the adopted lineage, got: results accepted from it]
vars == <<store, given, told, receiver>>

Stores == {"A"} \cup Copies
None == "none"
NoLease == [store |-> None, count |-> 0, worker |-> None, fence |-> 0, seen |-> 0]
Unsaid == 99                                   \* no revision is expected
Span == 10                                  \* fences of an epoch; 2^32 in the program
Alike == Permutations(Workers) \cup Permutations(Results) \cup Permutations(Keys) \cup
         Permutations(Copies)               \* names that may be exchanged without a difference
Max(a, b) == IF a > b THEN a ELSE b
NextFence(t) == IF Rise THEN Max(t.last, t.epoch * Span) + 1 ELSE Max(t.last, 1)

(* `holder` is no column of the program: it is the lease that is truly live,   *)
(* against which the rules are judged. A lease is named by its store and count.*)
Empty == [made |-> FALSE, adopted |-> FALSE, serves |-> FALSE,
          epoch |-> 0, floor |-> 0, last |-> 0,
          state |-> "ready", worker |-> None, fence |-> 0, leaseEpoch |-> 0, lapsed |-> FALSE,
          revision |-> 0, results |-> {}, journal |-> <<>>,
          holder |-> NoLease, robbed |-> FALSE]

Init == /\ store = [s \in Stores |-> IF s = "A"
                        THEN [Empty EXCEPT !.made = TRUE, !.adopted = TRUE, !.serves = TRUE]
                        ELSE Empty]
        /\ given = {}
        /\ told = [s \in Stores |-> {}]
        /\ receiver = [writer |-> "A", got |-> {}]

-----------------------------------------------------------------------------
(* Leases *)

Lapsed(t) == t.lapsed \/ t.leaseEpoch < t.floor

Claim(s, w) ==
    LET t == store[s]
        f == NextFence(t)
        count == Cardinality({l \in given : l.store = s})
        lease == [store |-> s, count |-> count + 1, worker |-> w, fence |-> f, seen |-> t.revision]
    IN  /\ t.serves /\ count < MaxClaims
        /\ \/ t.state = "ready"
           \/ t.state = "leased" /\ (Overdue => Lapsed(t))
        /\ store' = [store EXCEPT ![s] =
               [t EXCEPT !.state = "leased", !.worker = w, !.fence = f, !.last = Max(t.last, f),
                         !.leaseEpoch = t.epoch, !.lapsed = FALSE, !.holder = lease,
                         !.robbed = @ \/ (t.state = "leased" /\ ~Lapsed(t))]]
        /\ given' = given \cup {lease}
        /\ UNCHANGED <<told, receiver>>

Lapse(s) ==
    /\ store[s].state = "leased" /\ ~store[s].lapsed
    /\ store' = [store EXCEPT ![s].lapsed = TRUE]
    /\ UNCHANGED <<given, told, receiver>>

-----------------------------------------------------------------------------
(* Commands. Two are the same command if key and bytes are the same; `lease`   *)
(* says in truth under which lease it was sent, which no store can see.        *)

Command(w, f, verb, result, expected, key, lease) ==
    [key |-> <<w, key>>, lease |-> lease,
     bytes |-> [worker |-> w, fence |-> f, verb |-> verb, result |-> result, expected |-> expected]]

Sent ==    \* all that a worker may send under a lease that it was given
    UNION {{Command(l.worker, l.fence, verb, result, expected, key, l) :
                verb \in {"submit", "complete"}, result \in Results,
                expected \in {Unsaid, l.seen}, key \in Keys} : l \in given}
Forged ==  \* a fence that this worker was never given: another's, or made up
    {Command(w, f, "complete", result, Unsaid, key, NoLease) :
        w \in Workers, f \in {l.fence : l \in given} \cup {l.fence + 1 : l \in given},
        result \in Results, key \in Keys}
Arriving == Sent \cup
    {c \in Forged : ~ \E l \in given : l.worker = c.bytes.worker /\ l.fence = c.bytes.fence}

Recorded(t, result) == \E r \in t.results : r.result = result

Refused(t, b) ==
    \/ Floor     /\ t.fence > 0 /\ t.leaseEpoch < t.floor
    \/ Lifecycle /\ t.state # "leased"
    \/ Worker    /\ b.worker # t.worker
    \/ Unknown   /\ b.fence > t.fence
    \/ Stale     /\ b.fence < t.fence
    \/ Expiry    /\ t.lapsed
    \/ Once      /\ b.verb = "submit" /\ Recorded(t, b.result)
    \/ Expected  /\ b.expected \notin {Unsaid, t.revision}

\* The row after the command. A complete with a result that is recorded already adds no second one.
Carried(t, c) ==
    LET b == c.bytes
        adds == ~(Once /\ Recorded(t, b.result))
        revision == IF adds /\ Step THEN t.revision + 1 ELSE t.revision
        entry == [key |-> c.key, bytes |-> b, adds |-> adds, before |-> t.revision,
                  revision |-> revision,
                  rightful |-> c.lease # NoLease /\ c.lease = t.holder /\ ~Lapsed(t)]
    IN  [t EXCEPT !.journal = Append(@, entry), !.revision = revision,
                  !.results = IF adds
                      THEN @ \cup {[revision |-> revision, result |-> b.result]} ELSE @,
                  !.state = IF b.verb = "complete" THEN "done" ELSE @,
                  !.holder = IF b.verb = "complete" THEN NoLease ELSE @]

\* Told of a command: a receipt, or, of one that had been given a receipt before, that it got none.
Tell(s, c, receipt) ==
    told' = [told EXCEPT ![s] =
        IF receipt # 0 \/ \E a \in @ : a.key = c.key /\ a.bytes = c.bytes
        THEN @ \cup {[key |-> c.key, bytes |-> c.bytes, receipt |-> receipt]} ELSE @]

Arrive(s, c) ==
    LET t == store[s]
        known == {n \in DOMAIN t.journal : t.journal[n].key = c.key}
        n == CHOOSE n \in known : TRUE
    IN  /\ t.serves
        /\ UNCHANGED <<given, receiver>>
        /\ IF Replay /\ known # {}
           THEN /\ UNCHANGED store
                /\ Tell(s, c, IF SameBytes /\ t.journal[n].bytes # c.bytes THEN 0 ELSE n)
           ELSE IF Refused(t, c.bytes)
           THEN UNCHANGED store /\ Tell(s, c, 0)
           ELSE /\ store' = [store EXCEPT ![s] = Carried(t, c)]
                /\ Tell(s, c, Len(t.journal) + 1)

-----------------------------------------------------------------------------
(* Copy, receiver, adoption *)

\* A copy at any moment; the original goes on, as a stranger to it. Its leases are none of the
\* copy's.
Copy(s) ==
    LET t == store["A"]
    IN  /\ ~store[s].made
        /\ store' = [store EXCEPT ![s] =
               [t EXCEPT !.adopted = FALSE, !.serves = FALSE, !.holder = NoLease,
                         !.epoch = IF NewEpoch THEN @ + 1 ELSE @,
                         !.floor = IF NewFloor THEN t.epoch + 1 ELSE @]]
        /\ told' = [told EXCEPT ![s] = told["A"]]
        /\ UNCHANGED <<given, receiver>>

\* The receiver takes one result a revision, from the lineage that it knows as the writer.
Deliver(s) ==
    /\ store[s].serves /\ (Lineage => receiver.writer = s)
    /\ \E r \in store[s].results :
           /\ ~ \E have \in receiver.got : have.revision = r.revision
           /\ receiver' = [receiver EXCEPT !.got = @ \cup {r}]
    /\ UNCHANGED <<store, given, told>>

Adopt(s) ==
    /\ store[s].made /\ ~store[s].adopted /\ (AdoptOnce => receiver.writer = "A")
    /\ store' = [store EXCEPT ![s].adopted = TRUE]
    /\ receiver' = [receiver EXCEPT !.writer = s]
    /\ UNCHANGED <<given, told>>

Highest(results) == CHOOSE h \in {0} \cup {r.revision : r \in results} :
                        \A r \in results : r.revision <= h

Serve(s) ==
    LET t == store[s]
        all == t.results \cup receiver.got
    IN  /\ t.adopted /\ ~t.serves
        /\ store' = [store EXCEPT ![s] = IF ImportFirst
               THEN [t EXCEPT !.serves = TRUE, !.results = all, !.revision = Max(@, Highest(all))]
               ELSE [t EXCEPT !.serves = TRUE]]
        /\ UNCHANGED <<given, told, receiver>>

Next == \/ \E s \in Stores : \/ \E w \in Workers : Claim(s, w)
                             \/ \E c \in Arriving : Arrive(s, c)
                             \/ Lapse(s) \/ Deliver(s)
        \/ \E s \in Copies : Copy(s) \/ Adopt(s) \/ Serve(s)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* The promises *)

Entries(s) == {store[s].journal[n] : n \in DOMAIN store[s].journal}
Pairs(s) == {p \in (DOMAIN store[s].journal) \X (DOMAIN store[s].journal) : p[1] < p[2]}
Adding(s, p) == store[s].journal[p[1]].adds /\ store[s].journal[p[2]].adds

\* At most one accepted result for the task and revision, within one lineage.
OneResult == \A s \in Stores : \A p \in Pairs(s) : Adding(s, p) =>
    store[s].journal[p[1]].revision # store[s].journal[p[2]].revision
\* ... and no result counted twice.
CountedOnce == \A s \in Stores : \A p \in Pairs(s) : Adding(s, p) =>
    store[s].journal[p[1]].bytes.result # store[s].journal[p[2]].bytes.result
\* Whoever has lost the lease (or never had it) changes nothing.
OnlyTheHolder == \A s \in Stores : \A e \in Entries(s) : e.rightful
\* What a worker expected is what it met.
AsExpected == \A s \in Stores : \A e \in Entries(s) : e.bytes.expected \in {Unsaid, e.before}
\* The same command gets the same receipt, whenever it is asked again ...
SameReceipt == \A s \in Stores : \A a, b \in told[s] :
    a.key = b.key /\ a.bytes = b.bytes => a.receipt = b.receipt
\* ... and no other command ever gets it.
OwnReceipt == \A s \in Stores : \A a \in told[s] : a.receipt # 0 =>
    store[s].journal[a.receipt].bytes = a.bytes
\* A live lease is not taken away by a claim.
Unrobbed == \A s \in Stores : ~store[s].robbed
\* The receiver and the lineage that it follows never hold two results for one revision.
OneLineage == \A r \in receiver.got, own \in store[receiver.writer].results :
    store[receiver.writer].serves /\ r.revision = own.revision => r.result = own.result
\* Of all copies at most one serves.
OneHeir == Cardinality({s \in Copies : store[s].serves}) <= 1

\* No promise: TLC must find that it breaks, for a store that refuses all would keep all promises.
NeverAgain == ~ \E s \in Copies : \E e \in Entries(s) :
    receiver.writer = s /\ e.adds /\ [revision |-> e.revision, result |-> e.bytes.result] \in receiver.got
              /\ e.bytes.fence > Span
=============================================================================
