"""Simulated networks of nodes: virtual clock, one random generator, every fault.

`virtual_clock`, `adapter_loop`, `network`, `faults`, `world`, `handlers` build the simulator layer by layer, `simnet`
is a whole run of nodes, `deployments` adds second instances and restarts, and `programs` runs a user's own programs.
`tolliver_proto.testing` is the public door. The simulator of streams shares clock, random choices and checks.

State: one heap of events, the hosts with node and store, and one random generator that the door makes: this package has
no chance of its own. Invariants: one seed is one trace, so that a failure can be repeated and made shorter (`shrink`);
the checks (`invariants`, I1 to I6) read bytes and stores, and believe no node.
"""
