"""One connection of the messaging protocol, as a pure machine.

`events` has the frames, `layouts` their bytes as data, `frames` the codec, `state` the transition table, `connection`
the machine, `limits` every bound. A frame is checked here and nothing is stored, routed or acknowledged: so recordings,
Spark and tests can read the wire without a node. `_node` holds one `Connection` for each peer.
"""
