"""Inboxes: messages from the wire to the handlers, and their verdicts back.

State: each peer's `Inbox` holds the deliveries in the hands of handlers, of all connections of the peer, and counts the
copies that wait for the same answer. `Delivering` has the handlers and finds those of a message, `Credit` has the
bounds and the handler calls in progress, `Settling` takes the verdicts, `DeadLetters` stores the messages given up.

Invariants: an ack goes out only for a message that was handled, is unwanted, or is stored as a dead letter (I2), and
only on the connection that the message came on (T-49). A message that handlers hold is delivered a second time only
where the policy says so (T-48). Reading pauses for a peer whose own credit is used up, never for another peer's (D-9).
"""
