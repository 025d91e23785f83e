"""Simulated networks of hubs, and the monitor of the wire.

The monitor reads along on every pair of connections and raises for the first frame that no rule of Reactive Streams
allows; ledgers know what each stream has to bring. Both keep their own accounts, so that a hub cannot hide a mistake.
`tolliver_proto.reactive.testing` is its door.
"""
