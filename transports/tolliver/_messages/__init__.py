"""Messaging without a loop: all of an instance but the waiting.

`instance` has the calls, `driver` carries out a node's actions, `store_jobs` are its commits and reads, `inbox` takes
deliveries to handlers and their answers back, `iterators` are for whoever takes messages one by one, `opening` puts the
parts together, `recorder` writes recordings. Each adapter adds how one waits in its loop.
"""
