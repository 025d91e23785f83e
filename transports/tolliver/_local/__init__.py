"""Local programs: handing messages over to a running instance (D-18, D-19).

They are other programs of this machine, without a certificate and a database.

An instance that accepts has a desk, which serves a Unix socket on a thread of its own. A local program speaks the
message protocol there, as a write-only peer with a derived identity (T-72a) that never becomes a peer of the node. Each
message of its on the reserved channel is an ask, an unreliable message in return is the answer, and the ack follows it.
"""
