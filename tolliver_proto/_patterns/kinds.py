"""Patterns that this package has."""

from __future__ import annotations

from .requests import Requests

PATTERNS = (Requests,)
"""All of them, for a node that opens (`Node(patterns=)`): it uses those of which the store has something."""
