"""Links: connections to their end, and a peer's live one.

State: the table of connections by cid (`links`), the remotes that are dialled (`dialing`), each peer's live link, and
the timers that say whether somebody is still there (`keepalive`).

Invariants: a peer has at most one live link (T-70), a derived identity any number (T-72a). A handshake is answered when
the peer's list is in the routes and in the store (T-61). State that lives as long as a connection is gone with it
(T-49): `Links.take_down` is the one place. Each cid ends once, and each dial is told how it ended.
"""
