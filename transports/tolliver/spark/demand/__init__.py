"""Reactive Streams in Spark: batches with planned demand, and staged streams.

A task of a batch is the subscriber of one publisher. A stream cannot be taken up again (R-31), so its elements are
staged first, and publishers are granted what the stage has room for.
Workers import single modules of this folder, so nothing is imported by the folder itself.
"""
