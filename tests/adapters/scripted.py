"""Scripted Reactive Streams peer on a real socket, under a monitor.

It obeys no rule, and the monitor judges what the adapter sends. The frames that the adapter has processed when it sends
something cannot be seen from outside, but they can be bounded. A demand counts from when it is written: nobody can have
used it before. The end of a stream counts from when the adapter has answered something later: `sync()` asks for a name
that nobody publishes, and all before that was processed.
"""

from __future__ import annotations

import socket
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from tests.reactive.drive import OTHER, Script
from tolliver_proto.reactive import (
    Cancel,
    ClientHello,
    Decoder,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    Role,
    ServerHello,
    Subscribe,
    Subscribed,
)
from tolliver_proto.reactive.testing import WireMonitor

from .facade import PATIENCE


class Scripted(Script):
    """Has said its hello and heard the other's. Use it as a context manager."""

    def __init__(self, role: Role, stream: socket.socket) -> None:
        stream.settimeout(PATIENCE)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames: list[Any] = []
        """All that came."""
        self._by_id: defaultdict[int, list[Any]] = defaultdict(list)
        self._elements: defaultdict[int, list[bytes]] = defaultdict(list)
        self.ended = False
        self._socket = stream
        self._judge = WireMonitor(checked=(OTHER[role],))
        self._heard = Decoder()
        self._unread = bytearray()
        self._written = 0
        self._uncertain = False  # an end was written, and the adapter may not have seen it yet
        self._asks: dict[int, int] = {}  # where in what was written each id was subscribed
        self._ends: dict[int, int] = {}  # and ended
        self._requested: Counter[int] = Counter()
        self._cancelled: set[int] = set()
        super().__init__(role)
        self.hear(lambda: any(isinstance(frame, ClientHello | ServerHello) for frame in self.frames))

    @classmethod
    def dial(cls, port: int | None) -> Self:
        return cls(Role.CLIENT, socket.create_connection(("127.0.0.1", port or 0), timeout=PATIENCE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    # Its own doings.

    def say(self, *frames: Any) -> None:
        """Send them, in one piece."""
        super().say(*frames)
        pieces = self.data_to_send()
        for frame, piece in zip(frames, pieces, strict=True):
            self._judge.emitted(self.role, piece)
            self._written += len(piece)
            if isinstance(frame, Subscribe):
                self._asks[frame.subscriber_id] = self._written
            elif isinstance(frame, OnComplete | OnError):
                self._ends[frame.subscriber_id] = self._written
            self._uncertain |= _ends(frame)
            if not self._uncertain:
                self._judge.processed(OTHER[self.role], self._written)
        self._socket.sendall(b"".join(pieces))

    def sync(self) -> None:
        """The adapter has processed all that was said until now, and what it sent on that is here."""
        probe = self.subscribe(f"nobody publishes this, {self._written}")
        self.hear_end(probe)
        self._uncertain = False

    def hear(self, enough: Callable[[], object]) -> None:
        """Read until then."""
        while not enough():
            assert self._read(), f"the connection ended after {self.frames}"

    def hear_the_end(self) -> None:
        """Read until the adapter closes the connection."""
        while self._read():
            pass

    def shut(self) -> None:
        """Break the connection off."""
        self._socket.close()

    def answer_goodbye(self) -> Goodbye:
        """The adapter's, which is acknowledged; then both close."""
        self.hear(lambda: isinstance(self.frames[-1], Goodbye))
        self.say(Goodbye(""))
        self._socket.shutdown(socket.SHUT_WR)
        self.hear_the_end()
        (goodbye,) = (frame for frame in self.frames if isinstance(frame, Goodbye))
        return goodbye

    def _read(self) -> bool:
        data = b""
        with suppress(ConnectionError):
            data = self._socket.recv(65536)
        self.ended = not data
        self._unread += data
        self._heard.feed(data)
        self._hear_frames()
        return bool(data)

    def _hear_frames(self) -> None:
        before = self._heard.offset
        while (frame := self._heard.next_frame()) is not None:
            size = self._heard.offset - before
            before += size
            self._judge.processed(OTHER[self.role], self._proved(frame))
            self._judge.emitted(OTHER[self.role], bytes(self._unread[:size]))
            self._judge.processed(self.role, before)
            del self._unread[:size]
            self.frames.append(frame)
            self._sort(frame)

    def _proved(self, frame: Any) -> int:
        """Part that the adapter has processed at least, as it says this: it answers, or uses an id again."""
        before = {Subscribed: self._asks, Subscribe: self._ends}.get(type(frame), {})
        return before.get(getattr(frame, "subscriber_id", 0), 0)

    def _sort(self, frame: Any) -> None:
        number = getattr(frame, "subscriber_id", 0)
        if isinstance(frame, Request):
            self._requested[number] += frame.count
        elif isinstance(frame, Cancel):
            self._cancelled.add(number)
        elif isinstance(frame, Subscribe):
            self._requested[number] = 0
            self._cancelled.discard(number)
        packed = frame.elements if isinstance(frame, OnNextPacked) else None
        single = (frame.element,) if isinstance(frame, OnNext) else ()
        self._by_id[number] += [frame] if packed is None else [OnNext(number, one) for one in packed]
        self._elements[number] += packed or single

    # Frames that it heard.

    def all(self, *kinds: type) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kinds)]

    def heard(self, subscriber_id: int) -> list[Any]:
        """The frames that came for an id, packed elements one by one."""
        return list(self._by_id[subscriber_id])

    def elements(self, subscriber_id: int) -> list[bytes]:
        return list(self._elements[subscriber_id])

    def ends(self, subscriber_id: int) -> list[Any]:
        return [frame for frame in self._by_id[subscriber_id][-2:] if isinstance(frame, OnComplete | OnError)]

    def hear_elements(self, subscriber_id: int, count: int) -> list[bytes]:
        self.hear(lambda: len(self._elements[subscriber_id]) >= count)
        return self.elements(subscriber_id)

    def hear_end(self, subscriber_id: int) -> Any:
        self.hear(lambda: self.ends(subscriber_id))
        (end,) = self.ends(subscriber_id)
        return end

    def hear_subscribe(self, count: int = 1) -> int:
        """The id of the adapter's subscription of that number, from 1."""
        self.hear(lambda: len(self.all(Subscribe)) >= count)
        return int(self.all(Subscribe)[count - 1].subscriber_id)

    def hear_cancel(self, subscriber_id: int) -> None:
        self.hear(lambda: self.cancelled(subscriber_id))

    def cancelled(self, subscriber_id: int) -> bool:
        return subscriber_id in self._cancelled

    def requested(self, subscriber_id: int) -> int:
        """Elements that the adapter has asked for, beside its initial demand."""
        return self._requested[subscriber_id]

    def has_requested(self, subscriber_id: int, count: int) -> bool:
        return self._requested[subscriber_id] >= count


def _ends(frame: Any) -> bool:
    return isinstance(frame, Cancel | OnComplete | OnError | Goodbye) or (
        isinstance(frame, Request) and frame.count <= 0
    )
