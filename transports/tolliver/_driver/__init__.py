"""Adapter code common to both protocols and all loops.

`driver` carries out a machine's actions, `endpoint` opens, listens, dials and closes, `session` is one connection
between TLS and machine, `sockets` the settings of TCP, `adapter` the interface that a loop has to bring. Nothing here
waits, so none of it has to be written again for a loop. Messaging, streams and the adapters build on it.
"""
