"""Placeholder for queues that have no items yet.

An empty deque takes 760 bytes, and most queues stay empty.
"""

from __future__ import annotations

from collections import deque
from typing import Any

EMPTY: deque[Any] = deque(maxlen=0)
"""Stands for a queue without items. Callers only read it: no item can be put into it."""
