"""Simulated networks of hubs, and the monitor of the wire.

`monitor` reads the bytes of every pair of connections and raises for the first frame that breaks a rule of Reactive
Streams; `ledgers` have the expected elements of each stream; `world`, `network` and `streamnet` simulate programs,
transports and applications. `tolliver_proto.reactive.testing` is the public door.

State: one heap of events with a virtual clock, and one random generator that makes all choices. Invariants: one seed
gives one trace; monitor and ledgers share no state with the hubs, so that a hub cannot hide a mistake.
"""
