"""Wire layouts as data, and sets of id intervals, for bulk processing.

`LAYOUTS` has each revision's bytes, `Fields` describes a fixed-size head, `IntervalSet` holds ids as few
intervals, `Runs` holds rows of whole numbers, packed.
"""

from __future__ import annotations

from ._node.intervals import IntervalSet, Runs, spans_of
from ._wire.layouts import LAYOUTS, Fields, Layout

__all__ = ["LAYOUTS", "Fields", "IntervalSet", "Layout", "Runs", "spans_of"]
