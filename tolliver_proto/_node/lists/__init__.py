"""Lists: subscriptions, our own and those of the peers.

State: our entries, with what each connection was told of them (`own`); for each peer the entries as the store has them,
those that are held, and what its connections said (`peers`).

Invariants: routes change when a peer says so, its ack goes out when the change is on disk (T-28, T-61). Where a commit
fails, the lists are as the store has them, and on top is what was said since. Too much is harmless, too little is loss:
while two connections of one peer stand, it wants what it said on either (T-70).
"""
