"""Patience of sends with whoever is connecting (T-62).

Messages sent while a connection is made are kept for it; where they are too many, sends wait: for as long as a
handshake may take, and not again for one that came to nothing, until that remote has been up.
"""

from __future__ import annotations

from collections.abc import Hashable

from .._common.transport import Role
from .link import Link

_REMEMBERED = 10_000  # those that failed: peers that dial us bring any number


class Patience:
    """Remotes, and peers that dial us, whose last connection came to nothing."""

    __slots__ = ("_failed",)

    def __init__(self) -> None:
        self._failed: dict[Hashable, None] = {}

    def is_left(self, link: Link) -> bool:
        """True if sends may wait because of it."""
        return _whom(link) not in self._failed

    def lose(self, link: Link) -> None:
        """It came to nothing."""
        self._failed[_whom(link)] = None
        if len(self._failed) > _REMEMBERED:
            del self._failed[next(iter(self._failed))]

    def regain(self, link: Link) -> None:
        """It is up."""
        self._failed.pop(_whom(link), None)


def _whom(link: Link) -> Hashable:
    return link.remote if link.role is Role.CLIENT else link.peer and link.peer.uuid
