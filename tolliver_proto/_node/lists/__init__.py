"""Lists: subscriptions, our own and those of the peers.

State: our subscriptions (`own`), and for each connection what the peer was told of them (`control_sync`); for each
peer its subscriptions, the held ones, and the list that the peer announced on each connection (`peers`).

Invariants: routes change when a peer announces a change; the ack goes out when the change is on disk (T-28, T-61).
After a failed commit the lists are those of the store plus the changes announced since. One subscription too many is
harmless, one too few loses messages: while a peer has two connections, the peer wants the union of both lists (T-70).
"""
