"""Spark's streaming source: a stage or recordings, read as a growing log.

The reader has offsets, limits and partitions; a `Log` has the data. A batch lies between two positions in files that
never change, so it can be read again after any failure. Workers import single modules of this folder, so the folder
itself imports nothing.
"""
