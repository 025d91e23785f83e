"""One connection of the messaging protocol, as a pure machine.

`events` has the frames, `layouts` their bytes as data, `frames` the codec, `state` the transition table, `connection`
the machine, `limits` every bound, `dialect` the habits of peers. `frame_boundaries` and `columns` serve recordings.

State: a connection's state in the table, the bytes that are not parsed yet, and the bytes that are not written yet.
Invariants: a frame is checked against every bound before memory is taken for it; the state changes only by the table;
an error is the last event. This room checks frames and does not store, route or acknowledge them, so that recordings,
Spark and tests read the wire without a node. Branches by revision were rejected: a revision is an entry of `LAYOUTS`.
"""
