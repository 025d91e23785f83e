"""Subscriber half of a connection: streams on our own ids.

The table `SUBSCRIBING` has the signals that may come for an id. This module has the numbers: answers that are still to
come (R-10), elements that were requested and received (R-17, R-18). An id without a subscription keeps its element size
alone, and only if that is not 0 (R-09).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .._common.arguments import Unchecked
from .._common.errors import LocalProtocolError, OwnLimitExceeded, TolliverError, UnexpectedFrame
from ._events import Cancel, OnComplete, OnError, OnNext, OnNextPacked, Request, Subscribe
from ._events import Signal as Frame
from ._frames import text_bytes
from ._ids import Ids
from ._output import Output
from ._state import LIVE, SUBSCRIBING, TAKING, Id, Step, Turn
from ._varint import MAX_LONG


@dataclass(slots=True)
class _Stream:
    state: Id
    unanswered: int = 0
    requested: int = 0  # in all; 2^63-1 is without bound
    received: int = 0


class Subscriber:
    """Streams that we subscribe to on one connection: our ids, and the demand on each. `emit` takes the events that
    this side makes."""

    def __init__(self, output: Output, emit: Callable[[OnError], None]) -> None:
        self.sizes: dict[int, int] = {}
        self.empty_packs = 0
        self._output = output
        self._emit = emit
        self._streams: dict[int, _Stream] = {}
        self._ids = Ids()
        self._untold: set[int] = set()
        self._live = 0

    def known(self, subscriber_id: int) -> bool:
        """True if the id was ever used."""
        return 0 < subscriber_id <= self._ids.highest

    # Calls.

    def subscribe(self, name: Unchecked, initial_demand: Unchecked) -> int:
        """Asks for `initial_demand` elements of the publisher `name`; returns the id of the new stream."""
        demand = max(0, min(_whole(initial_demand, "initial_demand"), MAX_LONG))
        self._check_room(name)
        highest = self._ids.highest
        subscriber_id = self._ids.take()
        before = Id.UNUSED if subscriber_id > highest else Id.OVER
        stream = self._streams.setdefault(subscriber_id, _Stream(before))
        stream.state = SUBSCRIBING[stream.state][Step.SUBSCRIBE].to
        stream.unanswered += 1
        stream.requested, stream.received = demand, 0
        self._live += 1
        self._output.write(Subscribe(name, subscriber_id, demand))
        if initial_demand < 0:
            self._give_up(subscriber_id, stream, _not_positive(initial_demand))
        return subscriber_id

    def request(self, subscriber_id: Unchecked, count: Unchecked) -> None:
        """Asks for `count` more elements; does nothing if the stream has ended."""
        count = min(_whole(count, "count"), MAX_LONG)
        stream = self._streams.get(subscriber_id)
        if stream is None or stream.state not in LIVE:
            return
        if count <= 0:
            self._give_up(subscriber_id, stream, _not_positive(count))
            return
        stream.requested = min(stream.requested + count, MAX_LONG)
        self._output.write(Request(subscriber_id, count))

    def cancel(self, subscriber_id: Unchecked) -> None:
        """Cancels the stream; does nothing if the stream has ended."""
        stream = self._streams.get(subscriber_id)
        if stream is not None and stream.state in LIVE:
            self._leave(subscriber_id, stream)
            self._ids.cancelled(subscriber_id)

    def told(self, subscriber_id: int) -> None:
        """Frees the id of a stream that this side has ended with an error, now that the application has that error."""
        if subscriber_id in self._untold:
            self._untold.remove(subscriber_id)
            self._ids.cancelled(subscriber_id)

    def end(self, cause: TolliverError) -> list[OnError]:
        """Ends all streams with the connection (R-29, R-30); returns their errors. Later calls do nothing.

        Ids and element sizes stay, so that frames which still come can be read.
        """
        live = [(subscriber_id, stream) for subscriber_id, stream in self._streams.items() if stream.state in LIVE]
        for subscriber_id, stream in live:
            self._turn(subscriber_id, stream, SUBSCRIBING[stream.state][Step.CANCEL])
        return [OnError(subscriber_id, str(cause), cause) for subscriber_id, _ in live]

    # Frames.

    def take(self, frame: Frame) -> Frame | None:
        """Returns the frame if it is for the application, else None. Raises UnexpectedFrame for a wrong frame."""
        stream = self._streams.get(frame.subscriber_id)
        step = self._step(frame, stream)
        state = stream.state if stream else Id.OVER
        turn = SUBSCRIBING[state].get(step)
        if turn is None:
            raise UnexpectedFrame(
                "unexpected_signal",
                f"{type(frame).__name__} for the subscriber id {frame.subscriber_id} in state {state.name} (R-19)",
                frame=type(frame).__name__,
                state=state.name,
            )
        if stream is None:
            if step is Step.TERMINAL:
                self._ids.late_end(frame.subscriber_id)
            return None
        if step is Step.ELEMENT:
            return frame if turn.passed_on and self._count(frame, stream) else None
        if step is Step.TERMINAL and turn.passed_on:
            self._ids.ended(frame.subscriber_id)
        self._turn(frame.subscriber_id, stream, turn)
        return frame if turn.passed_on else None

    def waits(self) -> bool | None:
        """True if the peer owes an answer to a subscription, or elements that were requested; None if no stream is
        open."""
        return (
            None
            if not self._live
            else any(
                stream.state in LIVE and (stream.unanswered or stream.received < stream.requested)
                for stream in self._streams.values()
            )
        )

    def room(self, subscriber_id: int) -> int:
        """Returns the number of elements that were requested and have not come (R-18).

        The number is 0 if the connection is not open, as no stream is active then.
        """
        stream = self._streams.get(subscriber_id)
        return stream.requested - stream.received if stream is not None and stream.state in TAKING else 0

    def fits(self, subscriber_id: int, count: int) -> bool:
        """True if the stream may be given `count` elements more: it requested them, or it is over and drops them."""
        stream = self._streams.get(subscriber_id)
        return stream is None or stream.state not in TAKING or count <= stream.requested - stream.received

    def took(self, subscriber_id: int, count: int) -> None:
        """Counts `count` received elements of a stream; the caller has compared the number with `room`."""
        self._streams[subscriber_id].received += count

    def _step(self, frame: Frame, stream: _Stream | None) -> Step:
        if isinstance(frame, OnNext | OnNextPacked):
            return Step.ELEMENT
        if isinstance(frame, OnComplete | OnError):
            return Step.TERMINAL
        if stream is None or not stream.unanswered:
            return Step.ANSWER
        stream.unanswered -= 1
        return Step.OLD_ANSWER if stream.unanswered else Step.ANSWER

    def _turn(self, subscriber_id: int, stream: _Stream, turn: Turn) -> None:
        self._live += (turn.to in LIVE) - (stream.state in LIVE)
        stream.state = turn.to
        if turn.to is Id.OVER:
            del self._streams[subscriber_id]

    def _count(self, frame: Frame, stream: _Stream) -> bool:
        """Counts the received elements of a frame; returns True if there are any (R-22), and all of them were requested
        (R-18).
        """
        count = len(frame.elements) if isinstance(frame, OnNextPacked) else 1
        self.empty_packs += not count
        stream.received += count
        if stream.received > stream.requested < MAX_LONG:
            self._give_up(
                frame.subscriber_id,
                stream,
                f"rule 1.1: the publisher sent {stream.received} elements, {stream.requested} were requested",
            )
            return False
        return count > 0

    def _give_up(self, subscriber_id: int, stream: _Stream, text: str) -> None:
        """Cancels the stream, and gives the application an OnError with `text` (R-16, R-18)."""
        self._leave(subscriber_id, stream)
        self._untold.add(subscriber_id)
        self._emit(OnError(subscriber_id, text))

    def _leave(self, subscriber_id: int, stream: _Stream) -> None:
        self._output.write(Cancel(subscriber_id))
        self._turn(subscriber_id, stream, SUBSCRIBING[stream.state][Step.CANCEL])

    def _check_room(self, name: Unchecked) -> None:
        limits = self._output.limits
        size = len(text_bytes(name, "name"))
        if size > limits.max_name:
            raise OwnLimitExceeded("too_long", f"a name of {size} bytes: the limit is {limits.max_name}. Shorten it")
        if self._live >= limits.max_streams:
            raise OwnLimitExceeded(
                "too_many", f"{self._live} streams are open, which is the limit: cancel one, or raise max_streams"
            )


def _not_positive(count: int) -> str:
    return f"rule 3.9: {count} elements were requested: request one or more"


def _whole(value: Unchecked, what: str) -> int:
    if not isinstance(value, int):
        raise LocalProtocolError("bad_number", f"{what} {value!r:.100} is not a whole number")
    return value
