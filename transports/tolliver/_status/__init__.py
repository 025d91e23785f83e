"""Status of a running instance: snapshot, metrics and HTTP endpoint.

It has the frozen snapshot, the table of metrics, and the endpoint that serves both. No code here calls an instance:
`_messages` takes the snapshot on the loop and passes it to the endpoint's thread, which has its own sockets and takes
no time of the loop.
"""
