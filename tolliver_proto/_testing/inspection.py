"""Access to the parts of a node, for its tests.

Tests that read the state of a part use this function, so that a move of the parts changes one place.
"""

from __future__ import annotations

from .._node.node import Node
from .._node.parts import Parts


def inside(node: Node) -> Parts:
    """Returns the parts of which a node is composed, for checks of its state."""
    return node._parts
