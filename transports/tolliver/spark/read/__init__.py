"""Recordings as record batches: options, ranges, Arrow columns, reader.

The driver splits files into ranges at the entries of an index; each task parses the blocks of its own ranges with numpy
and Arrow. The audit and both streams take their parser from here.
Workers import single modules of this folder, so nothing is imported by the folder itself.
"""
