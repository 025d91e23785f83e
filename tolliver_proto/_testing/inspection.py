"""Door to the parts of a node, for its tests.

A test that has to know what a part knows asks here, so that a move of the parts changes one place.
"""

from __future__ import annotations

from .._node.node import Node
from .._node.parts import Parts


def inside(node: Node) -> Parts:
    """The parts of this node."""
    return node._parts
