"""Wire layouts as data, and sets of id intervals, for bulk processing.

`LAYOUTS` has each revision's bytes, `Fields` describes a fixed-size head, `IntervalSet` holds ids as few
intervals, `RefCounts` how many peers are owed each message.
"""

from __future__ import annotations

from ._node.intervals import IntervalSet, RefCounts, spans_of
from ._wire.layouts import LAYOUTS, Fields, Layout

__all__ = ["LAYOUTS", "Fields", "IntervalSet", "Layout", "RefCounts", "spans_of"]
