"""Patterns above the kernel: requests and replies, work queues, last values.

Each is an object that a node uses from its first call on, or from the opening where the store has something of it
(`Node.use`). It is told by hooks (`Pattern`), and may call the node's public calls and its services (`Services`).
The kernel knows none of them: a program that uses no pattern runs none of their lines.
"""
