"""The durable store: one SQLite file for each instance.

`sqlite` implements the interface `tolliver_proto.store` (one commit is one transaction, with fsync); `file` has the
lock, the layout and the error texts; `checks` detects silent corruption. Messaging opens a store for each instance;
programs that drive a node themselves import it from `tolliver.sqlite`.
"""
