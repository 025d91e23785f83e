"""Reactive Streams in Spark: batches that ask for a planned number of elements, and streams through a stage.

A task of a batch is the subscriber of one publisher. A stream cannot be taken up again (R-31), so its elements are
staged first, and publishers are granted what the stage has room for.
Workers import single modules of this folder, so nothing is imported by the folder itself.
"""
