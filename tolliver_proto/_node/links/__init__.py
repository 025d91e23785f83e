"""Links: connections until their end, and each peer's live link.

State: the table of connections by cid (`links`), the remotes to dial (`dialing`), each peer's live link, and the timers
that check whether the other end is alive (`keepalive`).

Invariants: a peer has at most one live link (T-70), a derived identity any number (T-72a). A handshake is answered once
the peer's list is in the routes and in the store (T-61). State that belongs to a connection is dropped with it (T-49),
by `Links.take_down` alone. Each cid ends once, and each dial reports how it ended.
"""
