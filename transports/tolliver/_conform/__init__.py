"""Kit that plays a peer and judges the other end (`tolliver conform`).

State: the identity and the port of the kit; in a case one session, with its connections and what came on each. `cases`
says what a case is, `wire` moves bytes of one connection, `talk` and `flow` have the verbs of messages and of streams,
`kit` makes connections, `running` runs the cases and `report` shows the results. All else are cases: each is an id, its
rulings, a level, a sentence and a short script.

Invariants: a case depends on no other one, as each has a UUID and a key of its own. A frame that a peer may send at any
time (a probe, a copy, a control message) is never judged; it is answered as a good peer answers. Nothing waits without
a limit. An instance in place of the verbs was rejected: it does nothing wrong, and a kit must.
"""
