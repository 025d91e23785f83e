"""Node: many connections with one durable outbox, as a pure machine.

Inputs go in, actions come out. `node` is the machine; the modules it inherits from cut it by topic, each calling only
those before it: `base`, `sending`, `receiving`, `handshakes`, `storing`, `maintenance`, `keepalive`. `store` and
`actions` are the words between node and adapter, all others hold one idea each. Messaging adapters, the simulator and
embedders drive it.
"""
