"""Recordings as record batches: options, file ranges, Arrow columns, and the reader of `spark.read`.

The driver splits files into ranges at the entries of an index; each task parses the blocks of its own ranges with numpy
and Arrow. The audit and both streams take their parser from here.
Workers import single modules of this folder, so nothing is imported by the folder itself.
"""
