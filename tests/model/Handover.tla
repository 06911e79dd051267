------------------------------ MODULE Handover ------------------------------
(* A store, copies of it that a restore makes, and a receiver behind them: who *)
(* holds the stream, what has its effect, and what a restored store may say.   *)
(* Words as in the docs (writer, lineage, hello, operation, effect, import).   *)
(* Leases are judged in Fencepost.tla; here they only name results.            *)
(*                                                                             *)
(* The network is not drawn: whatever a writer has ever been able to say, an   *)
(* event or a hello, may arrive at any moment, any number of times, or never,  *)
(* and each answer may be lost. A result is committed, delivered and settled   *)
(* in steps of their own. A store may be copied at any moment and its original *)
(* goes on; a copy that is restored late is a restore from an old backup.      *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Copies,      \* the stores that may come into being as copies of "A"
    Tasks,
    MaxClaims,   \* leases that one store gives
    MaxRevision, \* results that a task may have
    MaxStarts,   \* how often "A" may be started anew, as another writer of its lineage
    Over,        \* epochs that a copy steps over; 15 in the program
    Hands        \* whether a human may give the stream to a copy without lineage

\* The guards, TRUE as in the program; FALSE takes one away.
CONSTANTS
    Known,        \* an operation that has its effect is answered for before any other rule
    SameData,     \* ... and its receipt is given for the same data alone
    OldEpoch,     \* a writer of an epoch below the holder's is refused
    Fork,         \* an event of the holder's epoch and another incarnation is refused
    HelloNeeded,  \* an event of an epoch above the holder's is refused: it has to say hello
    NotStale,     \* a result before the latest effect of its task is refused
    Lineage,      \* a hello is taken of a writer whose lineage has the holder
    AdoptOnce,    \* a human's word is compare-and-swap: it names the holder that it replaces
    TakeFirst,    \* what is imported was told once the stream was taken, not asked for before
    ImportFirst,  \* a copy imports that before it serves
    NewFloor,     \* a copy refuses the leases of its original
    StepOver      \* a copy steps over epochs that its original may have begun since

VARIABLES
    store,     \* per store: what it holds, and what it is itself
    given,     \* every lease ever given, by any store
    receiver   \* who holds the stream, and the effects, in their order
vars == <<store, given, receiver>>

Stores == {"A"} \cup Copies
Nobody == [epoch |-> 0, of |-> "nobody"]
NoLease == [by |-> "nobody", task |-> "none", epoch |-> 0, fence |-> 0]
Span == 10                                  \* fences of an epoch; 2^32 in the program
Alike == Permutations(Copies) \cup Permutations(Tasks)
Max(a, b) == IF a > b THEN a ELSE b

\* A writer: the epoch, and in place of a random incarnation the store. Each start is another epoch.
First == [epoch |-> 0, of |-> "A"]

(* `met` is whether a hello was answered with a yes, `told` what the receiver  *)
(* said then that it has accepted. `under` of a result is the store that gave  *)
(* its lease, `by` the one that accepted it: no rule sees them.                *)
Empty == [made |-> FALSE, begun |-> FALSE, serves |-> FALSE, met |-> FALSE, asked |-> FALSE,
          imported |-> FALSE, told |-> <<>>,
          writer |-> First, lineage |-> {First}, floor |-> 0, last |-> 0,
          lease |-> [t \in Tasks |-> NoLease], results |-> {}, settled |-> {}]

Init == /\ store = [s \in Stores |-> IF s = "A"
                        THEN [Empty EXCEPT !.made = TRUE, !.begun = TRUE, !.serves = TRUE]
                        ELSE Empty]
        /\ given = {}
        /\ receiver = [holder |-> Nobody, held |-> {}, words |-> {}, effects |-> <<>>,
                       denied |-> FALSE]

-----------------------------------------------------------------------------
(* A store *)

Revision(results, t) == Cardinality({r \in results : r.task = t})
Order(r) == <<r.epoch, r.fence, r.revision>>
Before(a, b) == \/ a[1] < b[1]
                \/ a[1] = b[1] /\ a[2] < b[2]
                \/ a[1] = b[1] /\ a[2] = b[2] /\ a[3] < b[3]
Same(a, b) == a.task = b.task /\ a.revision = b.revision           \* one operation

Claim(s, t) ==    \* also of a leased task: its lease may have lapsed at any moment
    LET own == store[s]
        fence == Max(own.last, own.writer.epoch * Span) + 1
        lease == [by |-> s, task |-> t, epoch |-> own.writer.epoch, fence |-> fence]
    IN  /\ own.serves /\ Cardinality({l \in given : l.by = s}) < MaxClaims
        /\ Revision(own.results, t) < MaxRevision
        /\ store' = [store EXCEPT ![s].last = fence, ![s].lease[t] = lease]
        /\ given' = given \cup {lease}
        /\ UNCHANGED receiver

\* A worker hands in a result, at any store: the fence is what its rules look at.
Commit(s, lease) ==
    LET own == store[s]
        t == lease.task
        n == Revision(own.results, t) + 1
    IN  /\ own.serves /\ n <= MaxRevision
        /\ own.lease[t] # NoLease /\ own.lease[t].fence = lease.fence
        /\ NewFloor => lease.epoch >= own.floor
        /\ store' = [store EXCEPT ![s].results = @ \cup
               {[task |-> t, revision |-> n, epoch |-> lease.epoch, fence |-> lease.fence,
                 under |-> lease.by, by |-> s]}]
        /\ UNCHANGED <<given, receiver>>

Start ==    \* the machine was started: another writer, and its leases live
    LET own == store["A"]
        next == [own.writer EXCEPT !.epoch = @ + 1]
    IN  /\ own.writer.epoch < MaxStarts
        /\ store' = [store EXCEPT !["A"].writer = next, !["A"].lineage = @ \cup {next}]
        /\ UNCHANGED <<given, receiver>>

-----------------------------------------------------------------------------
(* The receiver *)

Effects == {receiver.effects[n] : n \in DOMAIN receiver.effects}
SameTask(t) == {e \in Effects : e.result.task = t}

\* What writer w may have sent of r, judged in the order of the rules: a code, or "may".
Judged(w, r) ==
    LET held == receiver.holder
        known == {e \in Effects : Same(e.result, r)}
    IN  CASE Known /\ \E e \in known : e.result = r \/ ~SameData -> "known"
          [] Known /\ known # {}                                 -> "effect_conflict"
          [] OldEpoch /\ w.epoch < held.epoch                    -> "old_epoch"
          [] Fork /\ held # Nobody /\ w.epoch = held.epoch /\ w # held -> "fork"
          [] HelloNeeded /\ (held = Nobody \/ w.epoch > held.epoch)    -> "hello_needed"
          [] NotStale /\ \E e \in SameTask(r.task) : ~Before(Order(e.result), Order(r))
                                                                 -> "stale_result"
          [] OTHER                                               -> "may"

\* Writers of one store in its lineage: what it may have sent under each may still be on its way.
Voices(s) == {w \in store[s].lineage : w.of = s}

Deliver(s, w, r, heard) ==
    LET code == Judged(w, r)
        good == code \in {"known", "may"}
    IN  /\ store[s].serves
        /\ receiver' = [receiver EXCEPT
               !.effects = IF code = "may"
                   THEN Append(@, [result |-> r, from |-> w, after |-> receiver.held]) ELSE @,
               !.denied = @ \/ (~good /\ \E e \in Effects : e.result = r)]
        /\ store' = IF good /\ heard THEN [store EXCEPT ![s].settled = @ \cup {r}] ELSE store
        /\ UNCHANGED given

\* `seen`: the writer that a human has seen there and gives the stream away from; Nobody: no human.
Welcome(s, w, seen) ==
    LET held == receiver.holder
        lineage == {v \in store[s].lineage : v.epoch <= w.epoch}
    IN  \/ held \in {Nobody, w} /\ (held = Nobody => seen = Nobody)
        \/ /\ held \notin {Nobody, w}
           /\ OldEpoch => w.epoch >= held.epoch
           /\ IF seen # Nobody THEN AdoptOnce => seen = held ELSE Lineage => held \in lineage

Hello(s, w, heard) ==
    /\ store[s].begun /\ Welcome(s, w, Nobody)
    /\ receiver' = [receiver EXCEPT !.holder = w, !.held = @ \cup {w}]
    /\ store' = IF heard /\ w = store[s].writer /\ ~store[s].serves
           THEN [store EXCEPT ![s].met = TRUE,
                     ![s].told = IF TakeFirst \/ ~store[s].asked THEN receiver.effects ELSE @]
           ELSE store
    /\ UNCHANGED given

\* A human gives the stream to a copy that does not serve yet. With that its restore begins again:
\* a hello of its own follows. Such a word arrives once.
Word(s, seen) ==
    LET w == store[s].writer
    IN  /\ Hands /\ store[s].begun /\ ~store[s].serves
        /\ <<seen, w>> \notin receiver.words /\ Welcome(s, w, seen)
        /\ receiver' = [receiver EXCEPT !.holder = w, !.held = @ \cup {w},
                            !.words = @ \cup {<<seen, w>>}]
        /\ store' = [store EXCEPT ![s].met = FALSE, ![s].imported = FALSE, ![s].told = <<>>]
        /\ UNCHANGED given

Ask(s) ==    \* it changes nothing, and so it says nothing of what comes after
    /\ ~TakeFirst /\ store[s].begun /\ ~store[s].serves /\ ~store[s].asked
    /\ store' = [store EXCEPT ![s].asked = TRUE, ![s].told = receiver.effects]
    /\ UNCHANGED <<given, receiver>>

-----------------------------------------------------------------------------
(* A copy, as a restore makes a store of it *)

Copy(s, from) ==
    /\ ~store[s].made /\ store[from].serves
    /\ store' = [store EXCEPT ![s] =
           [store[from] EXCEPT !.serves = FALSE, !.begun = FALSE, !.met = FALSE,
                               !.asked = FALSE, !.imported = FALSE, !.told = <<>>]]
    /\ UNCHANGED <<given, receiver>>

\* Another writer. Where the receiver could be asked, it begins above what holds the stream there.
Begin(s, heard) ==
    LET own == store[s]
        epoch == 1 + (IF StepOver THEN Over ELSE 0) + Max(own.writer.epoch, heard)
        next == [epoch |-> epoch, of |-> s]
    IN  /\ own.made /\ ~own.begun /\ heard \in {0, receiver.holder.epoch}
        /\ store' = [store EXCEPT ![s] =
               [own EXCEPT !.begun = TRUE, !.writer = next, !.lineage = @ \cup {next},
                           !.floor = epoch]]
        /\ UNCHANGED <<given, receiver>>

\* Recorded one by one, in the order in which they were accepted; a revision steps by one. A set
\* that is empty says that something is refused, which has to be settled by hand.
RECURSIVE Import(_, _, _)
Import(own, results, told) ==
    IF told = <<>> THEN {results}
    ELSE LET r == Head(told).result
             there == {x \in results : Same(x, r)}
         IN  IF there # {} THEN (IF r \in there THEN Import(own, results, Tail(told)) ELSE {})
             ELSE IF r.epoch < own.writer.epoch /\ r.revision = Revision(results, r.task) + 1
                  THEN Import(own, results \cup {r}, Tail(told))
                  ELSE {}

Imports(s) ==
    /\ store[s].begun /\ ~store[s].imported /\ (store[s].met \/ store[s].asked)
    /\ \E after \in Import(store[s], store[s].results, store[s].told) :
           store' = [store EXCEPT ![s].results = after, ![s].imported = TRUE]
    /\ UNCHANGED <<given, receiver>>

Serve(s) ==
    /\ store[s].begun /\ store[s].met /\ ~store[s].serves
    /\ ImportFirst => store[s].imported
    /\ store' = [store EXCEPT ![s].serves = TRUE, ![s].told = <<>>, ![s].asked = FALSE]
    /\ UNCHANGED <<given, receiver>>

Next == \/ \E s \in Stores :
               \/ \E t \in Tasks : Claim(s, t)
               \/ \E l \in given : Commit(s, l)
               \/ \E w \in Voices(s) : \E heard \in BOOLEAN :
                      \/ \E r \in store[s].results : Deliver(s, w, r, heard)
                      \/ Hello(s, w, heard)
        \/ Start
        \/ \E s \in Copies :
               \/ \E from \in Stores \ {s} : Copy(s, from)
               \/ \E heard \in {0, receiver.holder.epoch} : Begin(s, heard)
               \/ \E seen \in receiver.held : Word(s, seen)
               \/ Ask(s) \/ Imports(s) \/ Serve(s)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* The promises *)

\* At most one effect an operation.
OneEffect == \A m, n \in DOMAIN receiver.effects :
    Same(receiver.effects[m].result, receiver.effects[n].result) => m = n

\* Whose work w goes on with: its lineage, and whom a human has had it replace.
RECURSIVE Forebears(_, _)
Forebears(found, words) ==
    LET more == found \cup {v \in {p[1] : p \in words} : \E w \in found : <<v, w>> \in words}
                \cup UNION {{v \in store[w.of].lineage : v.epoch <= w.epoch} : w \in found}
    IN  IF more = found THEN found ELSE Forebears(more, words)

\* From the contact on one lineage has effects: each is of a writer that goes on with the work of
\* all that have held the stream by then.
OneLineage == \A e \in Effects : e.after \subseteq Forebears({e.from}, receiver.words)

\* What has its effect is never refused to who sends the same again.
NotDenied == ~receiver.denied
\* What a store was told is there is there, as it was sent.
NothingLost == \A s \in Stores : \A r \in store[s].settled : \E e \in Effects : e.result = r
\* Effects of a task only rise: the latest result stands.
LatestStands == \A m, n \in DOMAIN receiver.effects :
    LET a == receiver.effects[m].result  b == receiver.effects[n].result
    IN  m < n /\ a.task = b.task => Before(Order(a), Order(b))

Holds(s) == receiver.holder.of = s /\ store[s].serves
\* Whoever holds the stream and serves knows every effect ...
AllKnown == \A s \in Stores : Holds(s) => \A e \in Effects :
    \E r \in store[s].results : Same(r, e.result)
\* ... and has acknowledged no other result for its operation.
NoContradiction == \A s \in Stores : Holds(s) => \A e \in Effects : \A r \in store[s].results :
    Same(r, e.result) => r = e.result
\* No copy takes a result under a lease of its original, nor the other way round.
OwnLeases == \A s \in Stores : \A r \in store[s].results :
    r.by = s => (s = "A") = (r.under = "A")
\* The latest result that the holder has acknowledged has its effect, or may have it.
NoneStuck == \A s \in Stores : Holds(s) => \A r \in store[s].results :
    (\A x \in store[s].results : x.task = r.task => x.revision <= r.revision)
    => \A e \in SameTask(r.task) : e.result = r \/ Before(Order(e.result), Order(r))

\* No promises: TLC must find that each breaks, for stores that refuse all would keep all promises.
NeverServes == ~ \E s \in Copies : \E e \in Effects :
    Holds(s) /\ e.from.of = s /\ \E r \in store[s].results : r.by = "A" /\ r \notin store[s].settled
NeverTaken == ~ \E e \in Effects : \E p \in receiver.words : e.from = p[2] /\ p[1].of \in Copies
=============================================================================
