"""Words and parts shared by the two protocols.

Errors, what a machine says to a transport (Transmit, Dial, PeerIdentity and others), the buffer of received bytes,
timers, and limits of how often a peer may do something. Nothing here knows a frame: so either protocol can change its
wire format without the other. `_wire`, `_node` and `reactive` use it.
"""
