"""Outboxes: messages to the socket, and acks to the deleted row.

State: the ledger (`ledger`) counts the owners of each message, by seq, and gives out wire ids; each peer's `Outbox`
has numbers only, never a body. The `Window` of a connection has the bodies that are in flight, within bounds.

Invariants: a message is routed once, when the application sends the message. A row leaves the store with its last
owner, by a commit. The seqs of a peer go out in order; on a new connection all pending messages are sent again, in
order (T-51). A removal is never taken back.

The way of a message: `sender` (routes, room, batch), `commits`, `transmission` (window, frames, socket), and back:
`transmission.settle`, `ledger.release`, `commits`. Rejected: a queue in memory for each peer, as a peer may be away for
a week; and routing again at a new connection, as a subscription then would promise nothing.
"""
