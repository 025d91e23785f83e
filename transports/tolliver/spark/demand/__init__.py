"""Reactive Streams in Spark: batches with planned demand, and staged streams.

A task of a batch subscribes to one publisher. A stream cannot be resumed (R-31), so for Spark's streams the elements
are staged first, and publishers are granted as many elements as the stage has space for. Workers import single modules
of this folder, so the folder itself imports nothing.
"""
