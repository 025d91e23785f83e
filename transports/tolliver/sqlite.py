"""Durable store, for programs that drive a node themselves (docs/embedding.md)."""

from ._store.sqlite import SQLiteStore

__all__ = ["SQLiteStore"]
