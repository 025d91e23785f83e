"""Adapter code common to both protocols and all event loops.

`driver` carries out a machine's actions; `endpoint` opens, listens, dials and closes; `session` joins one connection's
TLS to the machine; `sockets` sets TCP options; `adapter` is the interface that each loop implements. No code here
waits, so each loop can use it unchanged. Messaging, streams and the adapters build on it.
"""
