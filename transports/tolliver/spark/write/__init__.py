"""Spark's sink: sends rows as messages, acknowledged before a task ends.

Each task has a derived identity and numbers its own rows, so a receiver counts a row once however often Spark retries
(T-48, T-72a). Rows are encoded in columns, and acknowledgements are counted in arrays. Workers import single modules of
this folder, so the folder itself imports nothing.
"""
