"""Status of a running instance.

It has the frozen snapshot, the table of metrics, and the endpoint that serves both. Nothing here asks an instance
anything: `_messages` makes the snapshot on the loop, and gives it to the endpoint's thread, which has sockets of its
own and never takes the loop's time.
"""
