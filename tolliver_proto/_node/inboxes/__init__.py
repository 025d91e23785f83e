"""Inboxes: messages from the wire to the handlers, and their verdicts back.

State: each peer's `Inbox` has what handlers have, whichever connection it came on, and the copies that wait for the
same answer. Handlers, by their subscriptions, are `delivering`'s; credit, bounds and calls that hang are `credit`'s;
verdicts are `settling`'s, and dead letters have their own file.

Invariants: an ack goes out only for what was handled, is not wanted, or is a dead letter on disk (I2), and only on the
connection that the message came on (T-49). A message that handlers have is handed out again only where the policy says
so (T-48). Reading pauses where a peer's credit is used up, and never for another peer's sake (D-9).
"""
