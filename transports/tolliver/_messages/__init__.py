"""Messaging without an event loop: all of an instance except the waiting.

`instance` has the calls; `driver` carries out a node's actions; `store_jobs` runs its commits and reads; `mailbox`
passes deliveries to handlers and takes their acknowledgements; `iterators` are for programs that take messages one by
one; `opening` creates the parts; `recorder` writes recordings. Each adapter adds the waiting.
"""
