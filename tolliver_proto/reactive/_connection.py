"""One Reactive Streams connection, without I/O.

The contract is that of the messaging protocol's `Connection`. This module has the life of the connection by the table
of `_state`; `_subscriber` has the streams that we subscribe to, `_publisher` those that we publish.

State: `state`, the decoder with its unread bytes, the output, the two halves with a record for each open stream, and a
queue of events that calls or the end have made.

Invariants: frames are read one at a time as events are taken, so that a frame is read by the state, the element sizes
and the layout of its turn (R-08). Only elements that were requested are read ahead (`next_run`), as they change none of
these. A fault of the peer never raises: it is the `error` of Closed, the last event. The machine never calls back: a
call made while an event is handled writes its frames and returns, so that the stack of the application does not grow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .._common.dial_causes import DialCause
from .._common.errors import (
    ConnectionClosing,
    ConnectionLost,
    LocalProtocolError,
    OwnLimitExceeded,
    RemoteProtocolError,
    TolliverError,
    UnexpectedEOF,
    UnexpectedFrame,
)
from .._common.transport import Role
from .._wire.events import Closed
from ._errors import ConnectionClosed, HelloRefused, VersionMismatch
from ._events import (
    Cancel,
    ClientHello,
    Elements,
    Event,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)
from ._frames import Decoder, cut_text, encode
from ._layout import DRAFT, Extension, Form, Layout
from ._limits import Limits
from ._output import Output
from ._publisher import Publisher
from ._sign_of_life import SIGN_OF_LIFE, Ping, Pong, Sign, SignOfLife
from ._state import ENDING, HANDSHAKING, TRANSITIONS, Effect, Signal, State
from ._subscriber import Subscriber

VERSION = 0
"""The protocol's only version (R-06)."""

DEFAULT_PORT = 7012
ALPN = "tolliver-rs/0"  # offered in TLS, not required

_SIGNALS = {ClientHello: Signal.CLIENT_HELLO, ServerHello: Signal.SERVER_HELLO, Goodbye: Signal.GOODBYE}
_BEGIN = {Role.CLIENT: State.AWAITING_SERVER_HELLO, Role.SERVER: State.AWAITING_CLIENT_HELLO}
_HELLOS = {Role.CLIENT: ClientHello, Role.SERVER: ServerHello}


class Connection:
    """One side of a connection, without I/O. Both sides may publish and subscribe.

    Feed the connection with `receive_data` and `receive_eof`, take events with `next_event` or `events()` until None,
    write the bytes of `data_to_send`, and call `handle_timeout` at `next_timeout()`. Every input takes `now`, monotonic
    seconds; None means the last time seen, and the time never runs backwards. A fault of the peer does not raise: it is
    the `error` of `Closed`, the last event.

    As a subscriber: `subscribe`, `request`, `cancel`; the events are Subscribed, OnNext, OnNextPacked, OnComplete and
    OnError. As a publisher: the events are Subscribe, Request and Cancel; `subscribed`, `next`, `next_many`,
    `complete` and `error` answer them. A client may subscribe at once, a server after ClientHello (R-25).

    Raises LocalProtocolError (OwnLimitExceeded for a bound) for a call that breaks a rule, before anything changes. If
    the Reactive Streams rules forbid to raise (3.9, 3.15, 3.16), the stream ends instead.
    """

    def __init__(
        self,
        role: Role,
        *,
        extensions: Iterable[Extension] = (),
        limits: Limits | None = None,
        layout: Layout = DRAFT,
        eager: bool = False,
        now: float | None = None,
    ) -> None:
        """`eager` makes a server say hello at once, without waiting for the client's hello (R-25)."""
        self.role = role
        self.limits: Limits = limits or Limits()
        self.state: State = _BEGIN[role]
        self.close_deadline: float | None = None
        self.extensions: frozenset[int] = frozenset()
        """The extensions that both sides announced; none before the peer's hello (R-27)."""
        self._own = _by_id(extensions)
        self._hello = self._own_hello(layout)
        self._output = Output(self.limits, layout)
        self._queue: deque[Any] = deque()
        self._subscriber = Subscriber(self._output, self._queue.append)
        self._publisher = Publisher(self._output)
        streams = self._subscriber
        self._decoder = Decoder(streams.sizes, self.limits, layout=layout, known=streams.known, fits=streams.fits)
        self._base = self._reading = layout
        self._extended: dict[type, Callable[[Any, Any], object]] = {}  # `take` of each extension's frames
        self._takers: dict[type, Any] = {
            **dict.fromkeys((Subscribe, Request, Cancel), self._publisher.take),
            **dict.fromkeys((Subscribed, OnNext, OnNextPacked, OnComplete, OnError), self._subscriber.take),
            Ping: self._output.take_ping,
            Pong: _take_pong,
        }
        self._life: SignOfLife | None = None  # once both sides have announced it
        self._greeted = False
        self._eof = False
        self._now = 0.0
        self._deadline: float | None = None
        self._tick(now)
        if role is Role.CLIENT or eager:
            self._greet()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} as {self.role.name.lower()}, {self.state.name.lower()}>"

    # Input.

    def receive_data(self, data: bytes | bytearray | memoryview, now: float | None = None) -> None:
        """Takes bytes from the peer, cut anywhere. Bytes after the end are dropped."""
        self._tick(now)
        if self.state is not State.CLOSED:
            self._decoder.feed(data)
            if self._life is not None:
                self._life.heard(self._now)

    def receive_eof(self, now: float | None = None) -> None:
        """Notes that the peer has ended its half: no more bytes will come."""
        self._tick(now)
        self._eof = True

    def handle_timeout(self, now: float | None = None) -> None:
        """Ends the connection if a deadline has passed; does nothing before `next_timeout()`."""
        self._tick(now)
        due = self.next_timeout()
        if due is None or self._now < due:
            return
        if self.state is State.CLOSED:
            self.close_deadline = None
            return
        if self._life is not None and self.state is State.OPEN:
            self._look(self._life)
            return
        self._read_ahead()
        if self.next_timeout() is None:
            return  # the hello had come in time
        what, seconds = "hello", self.limits.handshake_timeout
        if self.state is State.LEAVING:
            what, seconds = "goodbye", self.limits.close_timeout
        late = ConnectionLost(f"no {what} of the peer's within {seconds:g} s (R-28): abort", DialCause.NO_ANSWER)
        self._end(Signal.TIMEOUT, late, late)

    def excuse(self, now: float | None = None) -> None:
        """Counts the peer's silence anew (R-40): for a transport whose reading is paused, or goes on again, and for one
        that has not written all that it took from `data_to_send`.
        """
        self._tick(now)
        if self._life is not None:
            self._life.excuse(self._now)

    def _look(self, life: SignOfLife) -> None:
        sign = life.look(self._now, waiting=self._subscriber.waits())
        if sign is Sign.ASK:
            self._output.write(Ping(life.number))
        elif sign is Sign.LOST:
            silent = f"the peer gave no sign of life within {life.patience:g} s of a ping (R-40): abort"
            lost = ConnectionLost(silent, DialCause.NO_ANSWER)
            self._end(Signal.TIMEOUT, lost, lost)

    def _read_ahead(self) -> None:
        """Parses the frames that came before the deadline, up to the awaited hello or goodbye; `next_event` gives their
        events before that of the end.
        """
        waiting, events = self.state, list(self._queue)
        self._queue.clear()
        while self.state is waiting and (event := self.next_event()) is not None:
            events.append(event)
        self._queue.extendleft(reversed(events))

    def next_timeout(self) -> float | None:
        """Returns the time to call `handle_timeout`, or None: the deadline of the hello or of the goodbye (R-28), or
        the next look for a sign of life, while streams that we subscribed to are open (R-40)."""
        if self.state in HANDSHAKING:
            return self._deadline
        if self._life is not None and self.state is State.OPEN:
            return self._life.due
        return self.close_deadline

    # Events.

    def next_event(self) -> Event | Any | None:
        """Returns the next event, or None if more input is needed."""
        while not self._queue:
            if self.state is State.CLOSED:
                return None
            try:
                frame = self._decoder.next_frame()
                if frame is not None:
                    event = self._take(frame)
                    if event is not None:
                        return event
                elif self._eof:
                    self._end_of_input()
                else:
                    return None
            except (RemoteProtocolError, VersionMismatch) as error:
                self._end(Signal.FAULT, error, error)
        event = self._queue.popleft()
        if type(event) is OnError:
            self._subscriber.told(event.subscriber_id)
        return event

    @property
    def has_events(self) -> bool:
        """True if a call, not received bytes, has made an event that `next_event` has not given yet."""
        return bool(self._queue)

    def events(self) -> Iterator[Event | Any]:
        """Yields the events of `next_event()` until None."""
        while (event := self.next_event()) is not None:
            yield event

    def next_run(self) -> Elements | Event | Any | None:
        """Returns the next event as `next_event` does, but OnNext and OnNextPacked as `Elements` of one stream.

        Only elements that were requested are read ahead: all other frames are judged in their own turn (R-08, R-18).
        """
        if not self._queue:
            run = self._decoder.next_run(self._subscriber.room)
            if run is not None:
                subscriber_id, elements = run
                self._subscriber.took(subscriber_id, len(elements))
                return Elements(subscriber_id, elements)
        event = self.next_event()
        if type(event) is OnNext:
            return Elements(event.subscriber_id, [event.element])
        if type(event) is OnNextPacked:
            return Elements(event.subscriber_id, list(event.elements))
        return event

    def _take(self, frame: Any) -> Any | None:
        """Applies a received frame to the streams; returns its event for the application, or None if there is none."""
        signal = _SIGNALS.get(type(frame), Signal.TRAFFIC)
        step = TRANSITIONS[self.state].get(signal)
        if step is None:
            raise UnexpectedFrame(
                "unexpected_frame",
                f"{type(frame).__name__} in state {self.state.name}: first the peer's hello, and one only (R-25)",
                frame=type(frame).__name__,
                state=self.state.name,
            )
        if step.effect is Effect.DROP:
            return None
        if signal is Signal.TRAFFIC:
            taker = self._takers.get(type(frame))
            if taker is not None:
                return taker(frame)
            take = self._extended.get(type(frame))
            if take is not None:
                take(self, frame)
            return frame
        if signal is Signal.GOODBYE:
            self._queue.append(frame)
            refused = HelloRefused(frame.reason) if self.state in HANDSHAKING else None
            self._end(signal, refused or ConnectionClosed(frame.reason), refused)
            return None
        self._agree(frame)
        self._go(signal)
        return frame

    def _agree(self, hello: ClientHello | ServerHello) -> None:
        """Takes the peer's hello: version 0 (R-06) or the end (R-26), and the extensions of both sides (R-27)."""
        if hello.version != VERSION:
            raise VersionMismatch(hello.version)
        self._greet()
        self.extensions = frozenset(self._own).intersection(hello.extensions)
        active = [self._own[number] for number in self.extensions]
        self._reading = self._output.layout = self._base.extended(form for one in active for form in one.forms)
        self._decoder.use(self._reading)
        self._extended = {form.frame: one.take for one in active if one.take is not None for form in one.forms}
        quiet = self.limits.sign_of_life
        if SIGN_OF_LIFE in active and quiet is not None:
            self._life = SignOfLife(quiet, self._now)
            if self._subscriber.waits() is not None:  # a client may have subscribed already
                self._life.begin()

    def _end_of_input(self) -> None:
        error: TolliverError = ConnectionLost("the peer closed the connection without a goodbye (R-30)")
        try:
            self._decoder.finish()
        except UnexpectedEOF as partial:
            error = partial
        self._end(Signal.EOF, error, error)

    def _go(self, signal: Signal) -> Effect:
        step = TRANSITIONS[self.state][signal]
        self.state = step.to
        if step.to in ENDING and self.close_deadline is None:
            self.close_deadline = self._now + self.limits.close_timeout
        return step.effect

    def _end(self, signal: Signal, cause: TolliverError, error: TolliverError | None) -> None:
        """Ends the streams with `cause`, and the connection with `error`, None if in order; `signal` moves the state.

        Both errors lose their traceback: the frames of the stack would hold this connection in a circle.
        """
        cause.with_traceback(None)
        cause.__context__ = None
        said = self.state is State.LEAVING
        if self._go(signal) is Effect.END:
            if not said and signal in (Signal.FAULT, Signal.GOODBYE):
                self._say_goodbye(str(error) if signal is Signal.FAULT else "")
            self._end_streams(cause)
            self._queue.append(Closed(error))

    def _end_streams(self, cause: TolliverError) -> None:
        self._queue.extend(self._subscriber.end(cause))
        self._queue.extend(self._publisher.end())

    # As a subscriber.

    def subscribe(self, name: str, initial_demand: int = 0) -> int:
        """Asks the peer for the elements of its publisher `name`; returns the subscriber id of the stream.

        An `initial_demand` below 0 ends the stream with OnError (R-16). Raises LocalProtocolError, OwnLimitExceeded
        if `max_streams` streams are open, and ConnectionClosing.
        """
        self._allow(Signal.USE, "subscribe()")
        subscriber_id = self._subscriber.subscribe(name, initial_demand)
        if self._life is not None:
            self._life.begin()
        return subscriber_id

    def request(self, subscriber_id: int, count: int) -> None:
        """Asks for `count` more elements, or for all with 2^63-1 and above (R-17).

        A `count` below 1 ends the stream with OnError (R-16). Does nothing if the stream or the connection has ended
        (rules 3.6, 3.15).
        """
        self._subscriber.request(subscriber_id, count)

    def cancel(self, subscriber_id: int) -> None:
        """Cancels the stream: elements that still come are dropped. Does nothing if the stream or the connection has
        ended (rule 3.7)."""
        self._subscriber.cancel(subscriber_id)

    # As a publisher.

    def subscribed(self, subscriber_id: int, element_size: int = 0) -> bool:
        """Accepts a subscription; `element_size` is in bytes, 0 if sizes differ. Returns False if the stream has
        ended."""
        return self._publisher.subscribed(subscriber_id, element_size)

    def next(self, subscriber_id: int, element: bytes) -> bool:
        """Sends an element. Returns False if the stream has ended; an element of a wrong size ends the stream (R-24).

        Raises LocalProtocolError without demand (rule 1.1) or before `subscribed` (rule 1.9).
        """
        return self._publisher.next_many(subscriber_id, (element,)) == 1

    def next_many(self, subscriber_id: int, elements: Sequence[bytes]) -> int:
        """Sends elements, packed if their size is fixed; returns the number of elements sent. Raises as `next`."""
        return self._publisher.next_many(subscriber_id, elements)

    def complete(self, subscriber_id: int) -> bool:
        """Ends a stream without an error. Returns False if the stream has ended already."""
        return self._publisher.complete(subscriber_id)

    def error(self, subscriber_id: int, text: str) -> bool:
        """Ends a stream with an error, or refuses it (R-14). The text goes to the peer: give no traceback (R-34).
        Returns False if the stream has ended already."""
        return self._publisher.error(subscriber_id, text)

    def demand(self, subscriber_id: int) -> int:
        """Returns the number of elements that the peer wants; 2^63-1 is without bound, 0 if the stream has ended."""
        return self._publisher.demand(subscriber_id)

    def wanted(self, subscriber_id: int, buffered: int = 0) -> int:
        """Returns the number of elements to pull from the source now: the demand, or 0 at high water (R-32).

        After high water the number stays 0 until low water is reached. `buffered` is the number of bytes that were
        taken from `data_to_send` and are not written yet.
        """
        return 0 if self._output.congested(buffered) else self._publisher.demand(subscriber_id)

    # As a peer.

    def send(self, frame: object) -> None:
        """Sends a frame of an active extension (R-27). Raises LocalProtocolError for any other frame."""
        self._allow(Signal.EXTEND, "send()")
        if type(frame) in self._base.by_frame or type(frame) not in self._output.layout.by_frame:
            raise LocalProtocolError(
                "not_sendable",
                f"{type(frame).__name__} is no frame of an extension that both sides announced (R-27): see extensions",
            )
        self._output.write(frame)

    def change(self, *, reading: Iterable[Form] = (), writing: Iterable[Form] = ()) -> None:
        """Changes the layout of some kinds of frames from the next frame on, of received and of written ones: for the
        `take` of an extension whose frames have agreed on the change (R-27). Raises LocalProtocolError for an unknown
        frame, before anything changes.
        """
        read, written = self._reading.changed(reading), self._output.layout.changed(writing)
        self._reading, self._output.layout = read, written
        self._decoder.use(read)
        self._publisher.use_layout()

    def goodbye(self, reason: str = "", now: float | None = None) -> None:
        """Ends the connection in order: all streams end now, queued bytes go out, Closed follows the peer's goodbye
        (R-28). The peer gets `reason`. A second call does nothing.
        """
        self._tick(now)
        reason = cut_text(reason, self.limits.max_text)
        if self.state not in ENDING:
            self._say_goodbye(reason)
            self._end_streams(ConnectionClosed(reason))
        self._go(Signal.LEAVE)

    # Output.

    def data_to_send(self) -> list[bytes]:
        """Returns the bytes to write, in units: each is one write to the socket or the TLS layer."""
        return self._output.take()

    @property
    def unsent_bytes(self) -> int:
        """Bytes that are queued and not yet taken by `data_to_send`."""
        return self._output.unsent

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are received and not yet parsed."""
        return self._decoder.buffered

    @property
    def wants_write_shutdown(self) -> bool:
        """True if our half may end once the units of `data_to_send` are written; the peer's half is read to its end."""
        return self.state is State.CLOSED and not self._output.unsent

    @property
    def empty_packs(self) -> int:
        """Number of packed frames without an element, which are counted and otherwise ignored (R-22)."""
        return self._subscriber.empty_packs

    def _own_hello(self, layout: Layout) -> bytes:
        """Returns our hello. Raises LocalProtocolError if the extensions are too many, or their frames clash."""
        if len(self._own) > self.limits.max_extensions:
            raise OwnLimitExceeded(
                "too_many", f"{len(self._own)} extensions: peers take {self.limits.max_extensions} (R-27)"
            )
        layout.extended(form for extension in self._own.values() for form in extension.forms)
        return encode(_HELLOS[self.role](VERSION, tuple(self._own)), layout=layout)

    def _greet(self) -> None:
        if not self._greeted:
            self._greeted = True
            self._output.write_bytes(self._hello)

    def _say_goodbye(self, reason: str) -> None:
        self._greet()
        self._output.write(Goodbye(cut_text(reason, self.limits.max_text)))

    def _allow(self, signal: Signal, call: str) -> None:
        if signal in TRANSITIONS[self.state]:
            return
        if self.state in ENDING:
            raise ConnectionClosing(f"{call} came after the close began: nothing was sent")
        raise LocalProtocolError(
            "not_now", f"{call} is not possible yet: take events until the peer's hello (R-25)", state=self.state.name
        )

    def _tick(self, now: float | None) -> None:
        if now is not None and now > self._now:
            self._now = now
        if self._deadline is None and now is not None and self.state in HANDSHAKING:
            self._deadline = self._now + self.limits.handshake_timeout


def _take_pong(_pong: Pong) -> None:
    """Any byte is an answer."""


def _by_id(extensions: Iterable[Extension]) -> dict[int, Extension]:
    every = list(extensions)
    known = {extension.extension_id: extension for extension in every}
    if len(known) < len(every):
        raise LocalProtocolError(
            "id_taken", "two extensions have one id: give each its own; a hub has the sign of life as 1 (R-27, R-40)"
        )
    return known
