"""The store that every adapter uses, for those who drive a node themselves (docs/node.md)."""

from ._store.sqlite import SQLiteStore

__all__ = ["SQLiteStore"]
