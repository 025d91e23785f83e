"""Wire layouts and sets of ids and messages, for bulk processing.

`LAYOUTS` has the bytes of each revision. `Fields` describes a head of fixed size, `Shape` fields and the parts between
them. `IntervalSet` holds ids as few intervals, `RefCounts` the number of peers that each message is owed to, and
`MessageSet` messages by sender, id and checksum (`checksum_of`), in any order of their ids.
"""

from __future__ import annotations

from ._common.intervals import IntervalSet, RefCounts, spans_of
from ._node.message_set import Handled, Known, MessageSet, checksum_of
from ._wire.dialect import Dialect
from ._wire.events import Decoded, IgnoreReason, Refusal, SubscribeMany, UnsubscribeMany
from ._wire.layouts import LAYOUTS, OPENING, Fields, Layout, Shape
from ._wire.state import State

__all__ = [
    "LAYOUTS",
    "OPENING",
    "Decoded",
    "Dialect",
    "Fields",
    "Handled",
    "IgnoreReason",
    "IntervalSet",
    "Known",
    "Layout",
    "MessageSet",
    "RefCounts",
    "Refusal",
    "Shape",
    "State",
    "SubscribeMany",
    "UnsubscribeMany",
    "checksum_of",
    "spans_of",
]
