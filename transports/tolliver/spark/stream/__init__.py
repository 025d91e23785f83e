"""Micro-batch streams: a stage or recordings, read as a growing log.

The reader knows offsets, limits and partitions; a `Log` knows where its bytes stand. A batch is two places
in files that never change, so it can be read again after any failure.
Workers import single modules of this folder, so nothing is imported by the folder itself.
"""
