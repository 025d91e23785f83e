"""The durable store: one SQLite file for each instance.

`sqlite` keeps the contract of `tolliver_proto.store` (one commit, one transaction, with fsync), `file` has the lock,
the layout and errors that say what to do, `checks` detects bits that changed by themselves. Messaging opens one for
each instance; `tolliver.sqlite` is its door for programs that drive a node themselves.
"""
