"""Outstanding requests, by id, by peer and by deadline."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence

from .._common.timers import Timers
from .._node.actions import Asked
from .._node.outboxes.ids import Randomness

_HALF = 2**32


class WaitingFrames:
    """Frames that wait until a connection with too many unsent bytes can take them: requests with their ids, and
    replies.
    """

    __slots__ = ("_frames", "size")

    def __init__(self) -> None:
        self._frames: deque[tuple[int | None, bytes]] = deque()
        self.size = 0

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, frame: bytes, request_id: int | None) -> None:
        self._frames.append((request_id, frame))
        self.size += len(frame)

    def take(self) -> tuple[int | None, bytes]:
        """Removes the oldest frame; returns the id of its request, None for a reply, and the frame."""
        request_id, frame = self._frames.popleft()
        self.size -= len(frame)
        return request_id, frame


class OpenRequests:
    """Outstanding requests. Their deadlines share one heap, as a timer for each costs more."""

    __slots__ = ("_next_id", "_rng", "by_id", "by_peer", "deadlines", "seeking")

    def __init__(self, rng: Randomness) -> None:
        self._rng = rng
        self._next_id: int | None = None
        self.by_id: dict[int, Asked] = {}
        self.by_peer: dict[Hashable, set[int]] = {}  # unreliable requests, which end with the connection
        self.seeking: dict[Asked, None] = {}  # requests without a responder so far
        self.deadlines = Timers()

    def __len__(self) -> int:
        return len(self.by_id)

    def new_id(self) -> int:
        """Returns an id that is not in use. Ids start at random at each opening, so that late replies to an earlier one
        match none.
        """
        request_id = self._next_id
        if request_id is None:
            request_id = int(self._rng.random() * _HALF) * _HALF + int(self._rng.random() * _HALF)
        while request_id in self.by_id:
            request_id = (request_id + 1) % 2**64
        self._next_id = (request_id + 1) % 2**64
        return request_id

    def add(self, asked: Asked, due: float) -> None:
        self.by_id[asked.request_id] = asked
        self.deadlines.set(asked.request_id, due)

    def ask(self, asked: Asked, peer: Hashable) -> None:
        """Records that this peer may answer the request."""
        asked.left.add(peer)
        if not asked.durable:
            ids = self.by_peer.get(peer)
            if ids is None:
                ids = self.by_peer[peer] = set()
            ids.add(asked.request_id)

    def heard(self, asked: Asked, peer: Hashable) -> None:
        """Records that no further answer comes from this peer."""
        asked.left.remove(peer)
        ids = self.by_peer.get(peer)
        if ids is not None:
            ids.discard(asked.request_id)

    def end(self, asked: Asked) -> None:
        del self.by_id[asked.request_id]
        self.seeking.pop(asked, None)
        self.deadlines.cancel(asked.request_id)
        for peer in [*asked.left]:
            self.heard(asked, peer)

    def lose(self, peer: Hashable) -> Sequence[Asked]:
        """Called when the peer's connection has ended. Returns the requests that no other peer may answer."""
        ended = []
        for request_id in sorted(self.by_peer.pop(peer, ())):
            asked = self.by_id[request_id]
            asked.left.remove(peer)
            asked.lost = True
            if not asked.left:
                ended.append(asked)
        return ended

    def due(self, now: float) -> Sequence[Asked]:
        """Returns the requests whose deadline has passed, each once."""
        due = []
        while (request_id := self.deadlines.pop_due(now)) is not None:
            due.append(self.by_id[request_id])  # type: ignore[index]  # the keys are ids
        return due

    def next_deadline(self) -> float | None:
        first = self.deadlines.earliest()
        return None if first is None else first[0]
