"""Queues that are made when something is put into them.

An empty one takes 760 bytes, and most stay empty.
"""

from __future__ import annotations

from collections import deque
from typing import Any

EMPTY: deque[Any] = deque(maxlen=0)
"""In the place of a queue until there is something for it: only ever read."""
