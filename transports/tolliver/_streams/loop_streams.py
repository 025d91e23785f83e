"""Core of a program's streams on an event loop.

The loop pulls from plain iterables itself, as waking a task costs more than pulling a few elements. Streams with demand
wait in a queue. At the end of the turn each pulls one batch after the other, in turn with the others, until the time
slice is used up; the rest is pulled in the loop's next iteration.
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
    """Publications and subscriptions of a program whose users, sources and sockets share one event loop."""

    def __init__(self, options: StreamsOptions) -> None:
        super().__init__(options)
        self._to_pull: deque[AsyncOutboundStream] = deque()
        self._begun: set[AsyncOutboundStream] = set()  # streams whose source is open

    def pull_soon(self, stream: AsyncOutboundStream) -> None:
        if not stream.is_queued:
            stream.is_queued = True
            self._to_pull.append(stream)
            self._begun.add(stream)
            self.call_at_end(self)

    def call(self, until: float) -> None:
        """Pull batches from all queued streams in turn, until the monotonic time `until`."""
        waiting = self._to_pull
        while waiting:
            stream = waiting.popleft()
            stream.is_queued = False
            if stream.pull():
                self.run_actions()  # a full batch: send it before pulling the next
                self.pull_soon(stream)
            elif stream.over or stream.has_task:
                self._begun.discard(stream)
            if waiting and monotonic() > until:
                self.call_at_end(self)
                return

    def _leave_nobody_waiting(self, waits_for_commit: bool = False) -> None:
        super()._leave_nobody_waiting(waits_for_commit)
        for running in [*self._outbound.values()]:
            running.cancelled()
        for stream in [*self._begun]:
            stream.pull()  # the stream is over: this closes its source
        self._begun.clear()
