"""Spark's batch reader of recordings, which become Arrow record batches.

The driver splits files into ranges at the entries of an index; each task parses the blocks of its ranges with numpy and
Arrow. The audit and both kinds of streams use this parser. Workers import single modules of this folder, so the folder
itself imports nothing.
"""
