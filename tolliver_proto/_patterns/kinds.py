"""Patterns that this package has."""

from __future__ import annotations

from .last_values import LastValues
from .queues import Queues
from .requests import Requests
from .work import QueueWork

PATTERNS = (LastValues, Requests, Queues, QueueWork)
"""All of them, for a node that opens (`Node(patterns=)`): it uses those of which the store has something."""
