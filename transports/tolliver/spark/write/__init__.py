"""Sink: rows to frames, acknowledged before a task ends.

Each task is a derived identity with ids of its own rows, so a receiver counts a row once however often Spark tries
(T-48, T-72a). Rows are encoded by column, and acknowledgements are counted by array.
Workers import single modules of this folder, so nothing is imported by the folder itself.
"""
