"""Core of a program's streams on an event loop.

It pulls from plain sources itself. To wake a task costs more than to pull a few elements. So streams that may be pulled
from wait in a queue; at the end of the turn in which that was heard each gives a lot after the other, in turn, and what
is left when the time for that has passed is pulled when the loop comes round.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TypeVar

from .._driver.loop_endpoint import LoopEndpoint
from .._options.streams import StreamsOptions
from .async_streams import AsyncOutboundStream
from .peers import BasePeer
from .streams import BaseStreamsCore

P = TypeVar("P", bound=BasePeer)


class LoopStreamsCore(LoopEndpoint, BaseStreamsCore[P]):
    """Publications and subscriptions of one program whose users, sources and sockets are on one loop."""

    def __init__(self, options: StreamsOptions) -> None:
        super().__init__(options)
        self._to_pull: deque[AsyncOutboundStream] = deque()
        self._begun: set[AsyncOutboundStream] = set()  # their sources are still to be closed

    def pull_soon(self, stream: AsyncOutboundStream) -> None:
        if not stream.is_queued:
            stream.is_queued = True
            self._to_pull.append(stream)
            self._begun.add(stream)
            self.call_at_end(self)

    def call(self, until: float) -> None:
        """Of each stream a lot after the other, until then."""
        waiting = self._to_pull
        while waiting:
            stream = waiting.popleft()
            stream.is_queued = False
            if stream.pull():
                self.run_actions()  # a full lot: it goes out while the next one is pulled
                self.pull_soon(stream)
            elif stream.over or stream.has_task:
                self._begun.discard(stream)
            if waiting and monotonic() > until:
                self.call_at_end(self)
                return

    def _leave_nobody_waiting(self) -> None:
        super()._leave_nobody_waiting()
        for stream in [*self._begun]:
            stream.pull()  # it is over, and closes its source
        self._begun.clear()
