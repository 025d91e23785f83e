"""Publisher half of a connection: streams on ids of the peer.

A stream is one small record from the peer's subscribe to the stream's end, and no record afterwards. Frames that come
later for its id are ignored (R-15); calls that come later do nothing and return False or 0. Every subscribe is answered
with exactly one `subscribed`, even if it was cancelled before or is refused (R-10, R-14).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .._common.arguments import Unchecked
from .._common.errors import LocalProtocolError, OwnLimitExceeded, UnexpectedFrame
from ._events import Cancel, Demand, OnComplete, OnError, OnNext, OnNextPacked, Request, Subscribe, Subscribed
from ._frames import check_bytes, cut_text
from ._output import Output
from ._runs import Heads, write
from ._varint import MAX_LONG


@dataclass(slots=True)
class _Stream:
    demand: int
    size: int = 0
    answered: bool = False
    heads: Heads | None = None  # first bytes of its frames with elements, if the table has the draft's form


class Publisher:
    """Streams that we publish on one connection: the peer's ids, and the demand on each."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._streams: dict[int, _Stream] = {}

    # Calls. Each returns False or 0 if the stream has ended: the peer may have ended it in the meantime.

    def subscribed(self, subscriber_id: Unchecked, element_size: Unchecked) -> bool:
        """Accepts the subscription; `element_size` is in bytes, 0 if sizes differ. Returns False if the stream has
        ended."""
        stream = self._streams.get(subscriber_id)
        if stream is None:
            return False
        if stream.answered:
            raise LocalProtocolError(
                "answered_already", f"subscriber id {subscriber_id} was answered: one subscribed for each (rule 1.9)"
            )
        self._check_size(element_size)
        self._output.answer(Subscribed(subscriber_id, element_size))
        stream.answered, stream.size = True, element_size
        self._use_layout(subscriber_id, stream)
        return True

    def use_layout(self) -> None:
        """Makes the first bytes of all streams' frames again, as the layout of the output has changed."""
        for subscriber_id, stream in self._streams.items():
            self._use_layout(subscriber_id, stream)

    def _use_layout(self, subscriber_id: int, stream: _Stream) -> None:
        heads = self._output.layout.heads
        stream.heads = heads and heads.of(subscriber_id)

    def next_many(self, subscriber_id: Unchecked, elements: Unchecked) -> int:
        """Sends elements, packed if their size is fixed; returns the number of elements sent."""
        for kind in set(map(type, elements)):
            check_bytes(kind, "element")
        stream = self._streams.get(subscriber_id)
        if stream is None:
            return 0
        lengths = set(map(len, elements))
        self._check_allowed(subscriber_id, stream, len(elements), max(lengths, default=0))
        good = len(elements)
        if stream.size and lengths - {stream.size}:
            good = next(at for at, element in enumerate(elements) if len(element) != stream.size)
        self._write(subscriber_id, stream, elements[:good])
        if stream.demand != MAX_LONG:
            stream.demand -= good
        if good < len(elements):
            wrong = len(elements[good])
            self.error(subscriber_id, f"rule 1.4: an element of {wrong} bytes in a stream of {stream.size} each")
        return good

    def complete(self, subscriber_id: Unchecked) -> bool:
        """Ends the stream without an error. Returns False if it has ended already."""
        return self._finish(OnComplete(subscriber_id))

    def error(self, subscriber_id: Unchecked, text: Unchecked) -> bool:
        """Ends the stream with an error, or refuses it if it is not accepted yet (R-14). A long text is cut (R-34).
        Returns False if the stream has ended already."""
        return self._finish(OnError(subscriber_id, cut_text(text, self._output.limits.max_text)))

    def demand(self, subscriber_id: Unchecked) -> int:
        """Returns the number of elements that may be sent now."""
        stream = self._streams.get(subscriber_id)
        return stream.demand if stream else 0

    def end(self) -> list[Cancel]:
        """Ends all streams with the connection (R-29, R-30); returns a Cancel for each."""
        ended = [Cancel(subscriber_id) for subscriber_id in self._streams]
        self._streams.clear()
        return ended

    # Frames.

    def take(self, frame: Demand) -> Demand | None:
        """Applies the frame; returns the event for the application, or None. Raises UnexpectedFrame or
        LimitExceeded."""
        if isinstance(frame, Subscribe):
            return self._take_subscribe(frame)
        stream = self._streams.get(frame.subscriber_id)
        if stream is None:
            return None  # the stream has ended
        if isinstance(frame, Request) and frame.count > 0:
            stream.demand = min(stream.demand + frame.count, MAX_LONG)
            return frame
        if not stream.answered:
            self._output.answer(Subscribed(frame.subscriber_id))
        del self._streams[frame.subscriber_id]
        if isinstance(frame, Request):
            self._output.answer(OnError(frame.subscriber_id, _not_positive(frame.count)))
        return Cancel(frame.subscriber_id)

    def _take_subscribe(self, frame: Subscribe) -> Subscribe | None:
        self._output.check_answers()
        subscriber_id, limits = frame.subscriber_id, self._output.limits
        if subscriber_id in self._streams:
            raise UnexpectedFrame(
                "duplicate_id",
                f"duplicate subscriber id {subscriber_id}: its stream is active (R-13)",
                frame="Subscribe",
            )
        if len(frame.name) > limits.max_name or len(frame.name.encode()) > limits.max_name:
            refusal = f"the name is too long: the limit is {limits.max_name} bytes"
        elif frame.initial_demand < 0:
            refusal = _not_positive(frame.initial_demand)
        elif len(self._streams) >= limits.max_streams:
            refusal = f"{limits.max_streams} streams are open, which is the limit: cancel one first"
        else:
            self._streams[subscriber_id] = _Stream(frame.initial_demand)
            return frame
        self._output.answer(Subscribed(subscriber_id))
        self._output.answer(OnError(subscriber_id, refusal))
        return None

    def _finish(self, frame: OnComplete | OnError) -> bool:
        stream = self._streams.pop(frame.subscriber_id, None)
        if stream is None:
            return False
        if not stream.answered:
            self._output.answer(Subscribed(frame.subscriber_id))
        self._output.answer(frame)
        return True

    def _check_size(self, element_size: Unchecked) -> None:
        if not isinstance(element_size, int) or element_size < 0:
            raise LocalProtocolError("bad_number", f"element size {element_size!r:.100}: give bytes, 0 if it varies")
        most = self._output.limits.max_element
        if element_size > most:
            raise OwnLimitExceeded("too_long", f"an element size of {element_size}: the limit is {most} (R-20)")

    def _check_allowed(self, subscriber_id: int, stream: _Stream, count: int, longest: int) -> None:
        if not stream.answered:
            raise LocalProtocolError(
                "not_subscribed",
                f"subscriber id {subscriber_id} waits for its answer: call subscribed() first (rule 1.9)",
            )
        if count > stream.demand:
            raise LocalProtocolError(
                "no_demand",
                f"{count} elements where {stream.demand} are wanted: wait for Request (rule 1.1)",
            )
        most = self._output.limits.max_element
        if longest > most:
            raise OwnLimitExceeded("too_long", f"an element of {longest} bytes: the limit is {most} (R-33). Split it")

    def _write(self, subscriber_id: int, stream: _Stream, elements: Sequence[bytes]) -> None:
        output, size = self._output, stream.size
        if stream.heads is None:
            for frame in _framed(subscriber_id, size, elements, output.limits.max_packed):
                output.write(frame, {subscriber_id: size})
        elif elements:
            output.write_bytes(write(stream.heads, size, elements, output.limits))


def _framed(
    subscriber_id: int, size: int, elements: Sequence[bytes], max_packed: int
) -> Iterator[OnNext | OnNextPacked]:
    """Yields the frames of elements one by one, for a layout for which `_runs` cannot write them. `size` is that of an
    element in bytes, 0 if sizes differ; `max_packed` is the most bytes of a packed frame.
    """
    run = max(1, max_packed // size) if size else 1
    for start in range(0, len(elements), run):
        packed = tuple(elements[start : start + run])
        yield OnNextPacked(subscriber_id, packed) if len(packed) > 1 else OnNext(subscriber_id, packed[0])


def _not_positive(count: int) -> str:
    return f"rule 3.9: {count} elements were requested: request one or more"
