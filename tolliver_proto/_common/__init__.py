"""Terms and tools that the messaging protocol and Reactive Streams share.

Terms: the error tree (`errors`), the causes of failed dials (`dial_causes`, `dial_failures`), the actions that a
machine asks of its transports (`transport`). Tools: the table of connections that a node and a hub are built on
(`connection_table`, `base_link`), the buffer of received bytes, timers, rate limits, sets of numbers (`intervals`).

Invariants: no module here knows a frame, so that either protocol can change its wire format without the other; no
module reads a clock or does I/O: callers pass `now` in monotonic seconds, so that one seed gives one trace.
"""
