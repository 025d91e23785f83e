"""Node: many connections with one durable outbox, as a pure machine.

Inputs go in, actions come out. `node` is the machine, composed by `parts` of commits, outboxes, lists, inboxes and
links; `context` is what the parts share, `pattern` and `services` are the seam to the patterns above. `store` and
`actions` define the terms between node and adapter. Messaging adapters, the simulator and embedders drive the node.
"""
