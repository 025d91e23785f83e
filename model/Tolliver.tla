------------------------------ MODULE Tolliver ------------------------------
(***************************************************************************)
(* Reliable messages from one node to another: the sender's outbox, wire   *)
(* ids that come round, acknowledgements, the receiver's notes of what it  *)
(* handled, keys of sends, holds, crashes of both, databases that are put  *)
(* back from copies, and a connection that loses and doubles frames.       *)
(*                                                                         *)
(* What is on disk. A database is a pair: `cache` is what a process reads  *)
(* (it outlives the process), `disk` is what a power loss leaves. A commit *)
(* writes the cache; its fsync makes the disk equal to it.                 *)
(*                                                                         *)
(* Assumptions, each of which stands in one place below:                   *)
(*   A1  No id comes round while a frame with it is in the air.            *)
(*   A2  No id comes round while the receiver has a note of it (2^30 others*)
(*       lie between, by the spans that the store remembers).              *)
(*   A3  A copy of the sender's database is as if its next ids were new:   *)
(*       they begin at a random place (a chance of 2^-31 for each pair).   *)
(* The order of messages, sizes, windows, timers and TLS are not here.     *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Messages,   \* calls of `send`, 1..N, made in this order
    MaxId,      \* wire ids are 1..MaxId
    KeyOf,      \* the key of each call; 0 for none
    BodyOf,     \* the bytes of each call: those of two calls may be equal
    Troubles    \* most crashes, restores, cuts and errors in one history

VARIABLES
    \* the sender
    app,        \* what the program knows of each call
    batch,      \* rows of the commit under way
    phase,      \* of that commit: "none", "written", "synced"
    cache, disk,\* its database
    cursor,     \* the last id that was handed out
    copy,       \* a copy of the database, or none
    behind,     \* the mark beside the database says that commits are missing
    told,       \* the operator was told so
    doubt,      \* rows that may have gone out before wait for the operator
    released,   \* the operator let them go, knowing that some may come twice
    up,
    \* the connection
    conn, net,
    \* the receiver
    want, grace,\* it wants the channel; it just opened, and may want it yet
    inbox,      \* handed to the handler
    handled,    \* the handler and its transaction have ended; no fsync yet
    rcache, rdisk, rcopy, rbehind, rtold, rup,
    \* what an observer writes down
    synced,     \* messages whose rows have been on disk
    left        \* troubles that may still come

sender == <<app, batch, phase, cache, disk, cursor, copy, behind, told, doubt, released, up>>
link == <<conn, net>>
receiver == <<want, grace, inbox, handled, rcache, rdisk, rcopy, rbehind, rtold, rup>>
vars == <<sender, link, receiver, synced, left>>

Ids == 1..MaxId
NoCopy == [none |-> TRUE]
Row(m, i) == [m |-> m, id |-> i]
Letter(m, i) == [kind |-> "message", id |-> i, m |-> m]
Answer(i) == [kind |-> "ack", id |-> i, m |-> 0]
Note(i, m) == <<i, BodyOf[m]>>
IsKeyed(m) == KeyOf[m] # 0
First(m, db) == IF IsKeyed(m) /\ db.keys[KeyOf[m]] # 0 THEN db.keys[KeyOf[m]] ELSE m

Init ==
    /\ app = [m \in Messages |-> "new"]
    /\ batch = {} /\ phase = "none"
    /\ disk = [rows |-> {}, keys |-> [k \in {KeyOf[m] : m \in Messages} |-> 0], gone |-> {}, peer |-> "listed"]
    /\ cache = disk /\ cursor = 0 /\ copy = NoCopy
    /\ behind = FALSE /\ told = FALSE /\ doubt = FALSE /\ released = FALSE /\ up = TRUE
    /\ conn = TRUE /\ net = {}
    /\ want = TRUE /\ grace = FALSE /\ inbox = {} /\ handled = {}
    /\ rdisk = [notes |-> {}, done |-> [m \in Messages |-> 0]]
    /\ rcache = rdisk /\ rcopy = NoCopy /\ rbehind = FALSE /\ rtold = FALSE /\ rup = TRUE
    /\ synced = {} /\ left = Troubles

Trouble == left > 0 /\ left' = left - 1

-----------------------------------------------------------------------------
(* The sender: calls of `send`, and their commit.                          *)

Live == {r.id : r \in cache.rows \cup batch}
InTheAir == {f.id : f \in net}
Noted == {n[1] : n \in rcache.notes \cup rdisk.notes}
After(i, n) == ((i + n - 1) % MaxId) + 1
Free(i) ==
    /\ i \notin Live        \* T-40: an id with a delivery is skipped
    /\ i \notin InTheAir    \* A1
    /\ i \notin Noted       \* A2
NextIds == {i \in Ids : Free(i) /\ \A n \in 1..MaxId : (After(cursor, n) = i) => \A k \in 1..(n - 1) : ~Free(After(cursor, k))}

IsNext(m) == app[m] = "new" /\ \A other \in Messages : other < m => app[other] # "new"
KeyInBatch(m) == IsKeyed(m) /\ \E r \in batch : KeyOf[r.m] = KeyOf[m]
KeyIsKnown(m) == IsKeyed(m) /\ cache.keys[KeyOf[m]] # 0
StateOf(first) ==
    CASE first \in {r.m : r \in cache.rows} -> "stored"
      [] first \in cache.gone -> "gave up"
      [] OTHER -> "acked"

Send(m) ==
    /\ up /\ phase = "none" /\ IsNext(m)
    /\ \/ /\ KeyIsKnown(m)                          \* the answer is the state of the first
          /\ app' = [app EXCEPT ![m] = StateOf(cache.keys[KeyOf[m]])]
          /\ UNCHANGED <<batch, cursor>>
       \/ /\ ~KeyIsKnown(m) /\ KeyInBatch(m)        \* it waits with the first
          /\ app' = [app EXCEPT ![m] = "pending"]
          /\ UNCHANGED <<batch, cursor>>
       \/ /\ ~KeyIsKnown(m) /\ ~KeyInBatch(m) /\ cache.peer = "none"
          /\ app' = [app EXCEPT ![m] = "nobody"]    \* no recipient, no row, no key
          /\ UNCHANGED <<batch, cursor>>
       \/ /\ ~KeyIsKnown(m) /\ ~KeyInBatch(m) /\ cache.peer # "none"
          /\ \E i \in NextIds :
               /\ batch' = batch \cup {Row(m, i)}
               /\ cursor' = i
          /\ app' = [app EXCEPT ![m] = "pending"]
    /\ UNCHANGED <<phase, cache, disk, copy, behind, told, doubt, released, up, link, receiver, synced, left>>

WithBatch(db) ==
    [db EXCEPT !.rows = @ \cup batch,
               !.keys = [k \in DOMAIN @ |->
                   IF k # 0 /\ \E r \in batch : KeyOf[r.m] = k THEN (CHOOSE r \in batch : KeyOf[r.m] = k).m ELSE @[k]]]

Write ==
    /\ up /\ phase = "none" /\ batch # {}
    /\ phase' = "written"
    /\ cache' = WithBatch(cache)
    /\ UNCHANGED <<app, batch, disk, cursor, copy, behind, told, doubt, released, up, link, receiver, synced, left>>

Rows(db) == {r.m : r \in db.rows}

Sync ==
    /\ phase = "written"
    /\ phase' = "synced"
    /\ disk' = cache
    /\ synced' = synced \cup Rows(cache)
    /\ UNCHANGED <<app, batch, cache, cursor, copy, behind, told, doubt, released, up, link, receiver, left>>

Return ==
    /\ phase = "synced"
    /\ phase' = "none" /\ batch' = {}
    /\ app' = [m \in Messages |-> IF app[m] = "pending" THEN "stored" ELSE app[m]]
    /\ UNCHANGED <<cache, disk, cursor, copy, behind, told, doubt, released, up, link, receiver, synced, left>>

Refuse ==       \* the disk is full: the commit left nothing
    /\ Trouble
    /\ up /\ phase = "none" /\ batch # {}
    /\ batch' = {}
    /\ app' = [m \in Messages |-> IF app[m] = "pending" THEN "refused" ELSE app[m]]
    /\ UNCHANGED <<phase, cache, disk, cursor, copy, behind, told, doubt, released, up, link, receiver, synced>>

-----------------------------------------------------------------------------
(* The sender: rows go out, acknowledgements come in.                      *)

Committed == {r \in cache.rows : r \notin batch \/ phase = "synced"}

Transmit(r) ==
    /\ up /\ conn /\ ~doubt /\ cache.peer # "held"
    /\ r \in Committed
    /\ Letter(r.m, r.id) \notin net
    /\ net' = net \cup {Letter(r.m, r.id)}
    /\ UNCHANGED <<sender, conn, receiver, synced, left>>

GetAck(f) ==
    /\ up /\ conn /\ f \in net /\ f.kind = "ack"
    /\ net' \in {net, net \ {f}}                    \* a doubled one comes again
    /\ LET acked == {r \in Committed : r.id = f.id}
           names == {r.m : r \in acked} IN
       /\ cache' = [cache EXCEPT !.rows = @ \ acked]
       /\ app' = [m \in Messages |->
             IF app[m] = "stored" /\ First(m, cache) \in names THEN "acked" ELSE app[m]]
    /\ UNCHANGED <<batch, phase, disk, cursor, copy, behind, told, doubt, released, up, conn, receiver, synced, left>>

HoldEnds ==     \* what was held is given up, and the program is told
    /\ up /\ phase = "none" /\ batch = {} /\ cache.peer = "held"
    /\ cache' = [cache EXCEPT !.peer = "none", !.rows = {}, !.gone = @ \cup Rows(cache)]
    /\ disk' = cache'
    /\ app' = [m \in Messages |->
          IF app[m] = "stored" /\ First(m, cache) \in Rows(cache) THEN "gave up" ELSE app[m]]
    /\ UNCHANGED <<batch, phase, cursor, copy, behind, told, doubt, released, up, link, receiver, synced, left>>

Release ==      \* the operator lets doubtful rows go
    /\ up /\ doubt
    /\ doubt' = FALSE /\ released' = TRUE
    /\ UNCHANGED <<app, batch, phase, cache, disk, cursor, copy, behind, told, up, link, receiver, synced, left>>

-----------------------------------------------------------------------------
(* The sender: its life.                                                   *)

Ended ==        \* what goes with a process
    /\ up' = FALSE /\ conn' = FALSE /\ net' = {}
    /\ batch' = {} /\ phase' = "none"
    /\ app' = [m \in Messages |-> IF app[m] = "pending" THEN "unknown" ELSE app[m]]

Kill ==
    /\ Trouble /\ up /\ Ended
    /\ UNCHANGED <<cache, disk, cursor, copy, behind, told, doubt, released, receiver, synced>>

PowerLoss ==
    /\ Trouble /\ up /\ Ended
    /\ cache' = disk
    /\ UNCHANGED <<disk, cursor, copy, behind, told, doubt, released, receiver, synced>>

TakeCopy ==
    /\ Trouble /\ copy = NoCopy /\ phase = "none"
    /\ copy' = cache
    /\ UNCHANGED <<app, batch, phase, cache, disk, cursor, behind, told, doubt, released, up, link, receiver, synced>>

Restore ==      \* A3: the cursor stays as it was
    /\ Trouble /\ ~up /\ copy # NoCopy
    /\ cache' = copy /\ disk' = copy
    /\ behind' = (behind \/ copy # cache)
    /\ UNCHANGED <<app, batch, phase, cursor, copy, told, doubt, released, up, link, receiver, synced>>

Open ==         \* reserves ids, and with that commit all before it is on disk
    /\ ~up /\ up' = TRUE
    /\ disk' = cache
    /\ synced' = synced \cup Rows(cache)
    /\ told' = (told \/ behind) /\ behind' = FALSE
    /\ doubt' = (doubt \/ (behind /\ cache.rows # {}))
    /\ UNCHANGED <<app, batch, phase, cache, cursor, copy, released, link, receiver, left>>

-----------------------------------------------------------------------------
(* The connection.                                                         *)

Listing(peer) == IF want THEN "listed" ELSE IF peer = "listed" THEN "held" ELSE peer

Connect ==      \* with the receiver's list, which the sender commits
    /\ up /\ rup /\ ~conn /\ phase = "none"
    /\ conn' = TRUE
    /\ cache' = [cache EXCEPT !.peer = Listing(@)]
    /\ disk' = cache'
    /\ synced' = synced \cup Rows(cache)
    /\ UNCHANGED <<app, batch, phase, cursor, copy, behind, told, doubt, released, up, net, receiver, left>>

Cut ==
    /\ Trouble /\ conn
    /\ conn' = FALSE /\ net' = {}
    /\ inbox' = {} /\ handled' = {}                 \* T-49: answers go with the connection
    /\ UNCHANGED <<sender, want, grace, rcache, rdisk, rcopy, rbehind, rtold, rup, synced>>

Drop(f) ==
    /\ Trouble /\ f \in net
    /\ net' = net \ {f}
    /\ UNCHANGED <<sender, conn, receiver, synced>>

-----------------------------------------------------------------------------
(* The receiver.                                                           *)

Receive(f) ==
    /\ rup /\ conn /\ f \in net /\ f.kind = "message"
    /\ \E rest \in {net, net \ {f}} :               \* a doubled one comes again
       \/ /\ ~want /\ grace                         \* withheld: its handler may come yet
          /\ net' = rest /\ UNCHANGED inbox
       \/ /\ ~want /\ ~grace                        \* wanted by nobody here
          /\ net' = rest \cup {Answer(f.id)} /\ UNCHANGED inbox
       \/ /\ want /\ Note(f.id, f.m) \in rdisk.notes
          /\ net' = rest \cup {Answer(f.id)} /\ UNCHANGED inbox
       \/ /\ want /\ Note(f.id, f.m) \in rcache.notes \ rdisk.notes
          /\ net' = rest /\ UNCHANGED inbox         \* not on disk yet: no answer
       \/ /\ want /\ Note(f.id, f.m) \notin rcache.notes
          /\ inbox' = inbox \cup {Row(f.m, f.id)}
          /\ net' = rest
    /\ UNCHANGED <<sender, conn, want, grace, handled, rcache, rdisk, rcopy, rbehind, rtold, rup, synced, left>>

Handle(r) ==    \* the effect and its note are one transaction
    /\ rup /\ r \in inbox
    /\ inbox' = inbox \ {r}
    /\ handled' = handled \cup {r}
    /\ rcache' = [rcache EXCEPT !.notes = @ \cup {Note(r.id, r.m)}, !.done[r.m] = @ + 1]
    /\ UNCHANGED <<sender, link, want, grace, rdisk, rcopy, rbehind, rtold, rup, synced, left>>

Fail(r) ==      \* the handler raises: no effect, no answer
    /\ Trouble /\ rup /\ r \in inbox
    /\ inbox' = inbox \ {r}
    /\ UNCHANGED <<sender, link, want, grace, handled, rcache, rdisk, rcopy, rbehind, rtold, rup, synced>>

Settle ==       \* the fsync of these transactions, and then their answers
    /\ rup /\ handled # {}
    /\ rdisk' = rcache
    /\ handled' = {}
    /\ net' = IF conn THEN net \cup {Answer(r.id) : r \in handled} ELSE net
    /\ UNCHANGED <<sender, conn, want, grace, inbox, rcache, rcopy, rbehind, rtold, rup, synced, left>>

Forget(n) ==    \* A2: its id cannot come as a copy any more
    /\ rup /\ n \in rdisk.notes /\ handled = {}
    /\ n[1] \notin Live /\ n[1] \notin InTheAir
    /\ up /\ cache = disk
    /\ rcache' = [rcache EXCEPT !.notes = @ \ {n}]
    /\ rdisk' = [rdisk EXCEPT !.notes = @ \ {n}]
    /\ inbox = {}
    /\ UNCHANGED <<sender, link, want, grace, inbox, handled, rcopy, rbehind, rtold, rup, synced, left>>

Subscribe ==
    /\ rup /\ ~want /\ phase = "none"
    /\ want' = TRUE /\ grace' = FALSE
    /\ IF conn
       THEN /\ cache' = [cache EXCEPT !.peer = "listed"]
            /\ disk' = cache'
            /\ synced' = synced \cup Rows(cache)
       ELSE UNCHANGED <<cache, disk, synced>>
    /\ UNCHANGED <<app, batch, phase, cursor, copy, behind, told, doubt, released, up, link,
                   inbox, handled, rcache, rdisk, rcopy, rbehind, rtold, rup, left>>

GraceEnds ==
    /\ rup /\ grace /\ ~want
    /\ grace' = FALSE
    /\ UNCHANGED <<sender, link, want, inbox, handled, rcache, rdisk, rcopy, rbehind, rtold, rup, synced, left>>

REnded == rup' = FALSE /\ conn' = FALSE /\ net' = {} /\ inbox' = {} /\ handled' = {}

RKill ==
    /\ Trouble /\ rup /\ REnded
    /\ UNCHANGED <<sender, want, grace, rcache, rdisk, rcopy, rbehind, rtold, synced>>

RPowerLoss ==
    /\ Trouble /\ rup /\ REnded
    /\ rcache' = rdisk
    /\ UNCHANGED <<sender, want, grace, rdisk, rcopy, rbehind, rtold, synced>>

RTakeCopy ==
    /\ Trouble /\ rcopy = NoCopy
    /\ rcopy' = rdisk
    /\ UNCHANGED <<sender, link, want, grace, inbox, handled, rcache, rdisk, rbehind, rtold, rup, synced>>

RRestore ==
    /\ Trouble /\ ~rup /\ rcopy # NoCopy
    /\ rcache' = rcopy /\ rdisk' = rcopy
    /\ rbehind' = (rbehind \/ rcopy # rcache)
    /\ UNCHANGED <<sender, link, want, grace, inbox, handled, rcopy, rtold, rup, synced>>

ROpen ==        \* a program may open without its subscription, and subscribe later
    /\ ~rup /\ rup' = TRUE
    /\ rdisk' = rcache
    /\ rtold' = (rtold \/ rbehind) /\ rbehind' = FALSE
    /\ want' \in BOOLEAN /\ grace' = ~want'
    /\ UNCHANGED <<sender, link, inbox, handled, rcache, rcopy, synced, left>>

-----------------------------------------------------------------------------
Next ==
    \/ \E m \in Messages : Send(m)
    \/ Write \/ Sync \/ Return \/ Refuse
    \/ \E r \in cache.rows : Transmit(r)
    \/ \E f \in net : GetAck(f) \/ Receive(f) \/ Drop(f)
    \/ HoldEnds \/ Release
    \/ Kill \/ PowerLoss \/ TakeCopy \/ Restore \/ Open
    \/ Connect \/ Cut
    \/ \E r \in inbox : Handle(r) \/ Fail(r)
    \/ Settle \/ Subscribe \/ GraceEnds
    \/ \E n \in rdisk.notes : Forget(n)
    \/ RKill \/ RPowerLoss \/ RTakeCopy \/ RRestore \/ ROpen

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* The promises (docs/guarantees.md).                                      *)

SenderIsTold == told \/ behind      \* or will be, when it opens
ReceiverIsTold == rtold \/ rbehind
Done(m) == rdisk.done[m] > 0

\* What `send` called stored is on disk, or was handled, or somebody is told.
NothingIsLost ==
    \A m \in Messages : app[m] = "stored" =>
        LET first == First(m, disk) IN
        Done(first) \/ first \in Rows(disk) \/ SenderIsTold \/ ReceiverIsTold

\* What was called acknowledged has its effect.
AcknowledgedIsHandled ==
    \A m \in Messages : app[m] = "acked" =>
        Done(m) \/ (IsKeyed(m) /\ \E other \in Messages : KeyOf[other] = KeyOf[m] /\ Done(other))
        \/ SenderIsTold \/ ReceiverIsTold

\* What was called refused is nowhere; what was called given up is not owed any more.
RefusedIsNowhere ==
    \A m \in Messages : app[m] \in {"refused", "nobody"} => m \notin Rows(cache) /\ rcache.done[m] = 0
GivenUpIsGone ==
    \A m \in Messages : app[m] = "gave up" => First(m, cache) \notin Rows(cache) \/ SenderIsTold

\* One message has one effect, unless an operator let doubtful rows go.
EffectsHappenOnce == \A m \in Messages : rcache.done[m] <= 1 \/ released

\* One key has one message, unless the operator was told that commits, and keys with them, are missing.
KeysAreOne ==
    \A m, other \in Messages : (IsKeyed(m) /\ m # other /\ KeyOf[m] = KeyOf[other]) =>
        (rcache.done[m] = 0 \/ rcache.done[other] = 0 \/ SenderIsTold)

\* A message is on disk before it is sent.
SentIsOnDisk == \A f \in net : f.kind = "message" => f.m \in synced

\* One id means one message.
IdsAreOne ==
    /\ \A r, s \in cache.rows \cup batch : r.id = s.id => r = s
    /\ \A f, g \in net : (f.kind = "message" /\ g.kind = "message" /\ f.id = g.id) => f = g
    /\ \A r \in cache.rows \cup batch : r.id \in Ids

\* A program that is up has been told; rows of a database that was put back wait.
RestoredIsTold == up => ~behind

Finished == left = 0 /\ \A m \in Messages : app[m] # "new"
=============================================================================
