"""Simulated networks of nodes: virtual clock, one random generator, every fault.

One seed is one story, so a failure can be told again and made shorter. `checks` holds the nodes to their promises (I1
to I6) from the outside, by the bytes and the stores alone. `tolliver_proto.testing` is its door and makes the
generator: chance comes in from outside here too. The simulator of streams shares its clock, dice and checks.
"""
