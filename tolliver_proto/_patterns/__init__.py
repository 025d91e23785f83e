"""Patterns above the kernel: requests and replies, work queues, last values.

A node uses a pattern from its first call on, or from the opening if the store has data of it (`Node.use`). The node
calls a pattern's hooks (`Pattern`); a pattern calls the node's public methods and its services (`Services`). The kernel
knows no pattern: a program that uses none runs none of their lines.
"""
