"""Which messages were handled already: so that a second copy is acknowledged and not delivered again (T-48).

The idea: an exact set of the last N, never a high-water mark, because lower ids do come later (T-09, T-40, T-51). A
copy that comes while the first is still being handled is let go without an ack: it comes again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from uuid import UUID


class Handled:
    """The last `size` handled messages, as (peer, message id), and those that are being handled now."""

    def __init__(self, size: int, known: Iterable[tuple[UUID, int]] = ()) -> None:
        self._size = size
        self._order: deque[tuple[UUID, int]] = deque()
        self._ids: dict[UUID, set[int]] = {}
        self._under_way: dict[UUID, set[int]] = {}
        for peer, message_id in known:
            self.add(peer, message_id)

    def __bool__(self) -> bool:
        return self._size > 0

    def knows(self, peer: UUID, message_id: int) -> bool:
        """Whether it was handled."""
        return message_id in self._ids.get(peer, ())

    def begin(self, peer: UUID, message_id: int) -> bool:
        """It is handed out now; False if another copy of it is being handled."""
        ids = self._under_way.setdefault(peer, set())
        if message_id in ids:
            return False
        ids.add(message_id)
        return True

    def end(self, peer: UUID, message_id: int) -> None:
        """It is not being handled any more, well or not."""
        self._under_way.get(peer, set()).discard(message_id)

    def add(self, peer: UUID, message_id: int) -> None:
        """It was handled well."""
        ids = self._ids.setdefault(peer, set())
        if message_id in ids:
            return
        ids.add(message_id)
        self._order.append((peer, message_id))
        if len(self._order) > self._size:
            old_peer, old_id = self._order.popleft()
            old = self._ids[old_peer]
            old.discard(old_id)
            if not old:
                del self._ids[old_peer]
