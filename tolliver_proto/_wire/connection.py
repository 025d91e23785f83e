"""One connection as a pure machine: bytes to events, frames to bytes.

Frames and calls are turned into signals, and `state.TRANSITIONS` gives the effect of each; this module keeps the
version table too (T-60).

State: `state`, a row of the table. Input is parsed on demand: bytes wait in the decoder, and `ready` has the frames of
the hot path that were parsed ahead. `paced` is a frame that waits its turn, because the peer sends too many of its kind
(T-65, T-66); all input behind that frame waits too. Output is in units, each of which is one write (T-69).

Invariants: a frame changes the state when its event is handed out, never earlier, so that an error is the last event
and hides none before it. In a `HOLDING` state nothing is parsed, so that the caller has processed the peer's
subscriptions before the response goes out (T-61). A fault of the peer never raises: it is the `error` of `Closed`. The
machine never acknowledges and never reads a clock.

Parsing all input as it arrives was rejected: frames behind a request would have to be kept until the request is
answered. A look into the table for each message was rejected as too slow: `_PASSING` has, for each state, the frames
that are handed out and change nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

from .._common.arguments import Unchecked
from .._common.dial_causes import DialCause
from .._common.empty_queue import EMPTY
from .._common.errors import (
    ConnectionClosing,
    ConnectionLost,
    HandshakeRejected,
    LocalProtocolError,
    OwnLimitExceeded,
    RemoteProtocolError,
    TolliverError,
    UnexpectedEOF,
    UnexpectedFrame,
)
from .._common.token_bucket import TokenBucket
from .._common.transport import Role
from .dialect import AS_EVERYBODY, Dialect, as_everybody
from .events import (
    Ack,
    Closed,
    Decoded,
    Established,
    Event,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Ignored,
    Message,
    Refusal,
    Revision,
    Sendable,
    Subscribe,
    SubscribeMany,
    Subscription,
    Unsubscribe,
    UnsubscribeMany,
)
from .frames import Decoder, Encoder, encoder
from .layouts import LAYOUTS
from .limits import Limits
from .state import FROM_WIRE, HANDSHAKING, HOLDING, IGNORING, LIVE, TRANSITIONS, Effect, Signal, State, Transition

_RESPONSE_SIGNALS = {
    HandshakeStatus.SAME_VERSION: Signal.RESPONSE_AGREED,
    HandshakeStatus.NEWER_COMPATIBLE: Signal.RESPONSE_AGREED,
    HandshakeStatus.NEWER_INCOMPATIBLE: Signal.RESPONSE_REFUSED,
    HandshakeStatus.OLDER: Signal.RESPONSE_OLDER,
    HandshakeStatus.FAILED: Signal.RESPONSE_REFUSED,
}
_ACCEPT_SIGNALS = {
    HandshakeStatus.SAME_VERSION: Signal.AGREE,
    HandshakeStatus.NEWER_COMPATIBLE: Signal.AGREE,
    HandshakeStatus.NEWER_INCOMPATIBLE: Signal.REFUSE,
    HandshakeStatus.OLDER: Signal.DEFER,
}
_SENDABLE = frozenset((Message, Ack, Refusal, Subscribe, Unsubscribe, SubscribeMany, UnsubscribeMany))
_PASSING = {
    state: _SENDABLE.union((Ignored,))
    if steps.get(Signal.TRAFFIC) == Transition(state, Effect.HAND_OUT)
    else frozenset()
    for state, steps in TRANSITIONS.items()
}
"""Frames that are handed out and change nothing, by state: the hot path."""

_STRAY_PAUSE = 0.1  # seconds that each unexpected frame waits if the peer sends too many of them (T-65)
_ANSWER = "take events until a HandshakeRequest, or a HandshakeResponse with the status OLDER, comes out"
_CALLS = {
    Signal.AGREE: ("accept()", _ANSWER),
    Signal.DEFER: ("accept()", _ANSWER),
    Signal.REJECT: ("reject()", _ANSWER),
    Signal.SEND: ("send()", "take events until Established"),
}
"""The calls that can come at a wrong time, and what the caller has to do first."""


def _speaks_no_other(_version: int) -> bool:
    return False


def _spent(bucket: TokenBucket, now: float) -> float:
    """Spends a token of the rate limit and returns 0.0, or returns the seconds until there is one."""
    pause = bucket.pause(now)
    if not pause:
        bucket.spend(now)
    return pause


class Connection:
    """One side of a connection, without I/O.

    Feed the connection with `receive_data` and `receive_eof`, take events with `next_event` or `events()` until None,
    write the bytes of `data_to_send`, and call `handle_timeout` at `next_timeout()`. Every input takes `now`, monotonic
    seconds; None means the last time seen, and the time never runs backwards.

    A server hands out HandshakeRequest and reads nothing further until `accept()` or `reject()`: the caller processes
    the peer's subscriptions in between (T-61). A client hands out HandshakeResponse and then Established; after a
    response with the status OLDER the client waits for `accept()` or `reject()` too.

    Raises LocalProtocolError for a call that the state does not allow, before anything changes, and
    ConnectionClosing for a send that lost the race with the close.
    """

    __slots__ = (
        "__weakref__",
        "_deadline",
        "_decoder",
        "_dialect",
        "_dialect_of",
        "_eof",
        "_handshaking",
        "_known",
        "_layout",
        "_now",
        "_parts",
        "_passing",
        "_peer_subscriptions",
        "_queue",
        "_renewals",
        "_speaks",
        "_status",
        "_subscriptions",
        "_turn",
        "_unexpected",
        "_units",
        "close_deadline",
        "encoder",
        "instance_id",
        "limits",
        "live",
        "paced",
        "peer_id",
        "peer_version",
        "ready",
        "revision",
        "role",
        "state",
        "unexpected_frames",
        "unreliable_id",
        "unsent_bytes",
        "version",
    )

    def __init__(
        self,
        role: Role,
        *,
        instance_id: UUID,
        version: int = 1,
        subscriptions: Iterable[Subscription] = (),
        revision: Revision = Revision.DRAFT_2,
        limits: Limits | None = None,
        speaks: Callable[[int], bool] = _speaks_no_other,
        dialect: Dialect = AS_EVERYBODY,
        dialect_of: Callable[[UUID], Dialect] = as_everybody,
        now: float | None = None,
    ) -> None:
        """`speaks(version)` is True if we can speak that version, which is never our own.

        `dialect` overrides `version` and `revision`. `dialect_of(peer)` is called once the peer's UUID is known, and
        overrides all of these, except for the version and the revision of a client's own request (C6). A client queues
        its request here. Raises OwnLimitExceeded if a peer would refuse that many `subscriptions` (T-19).
        """
        self.role: Role = role
        self.instance_id: UUID = instance_id
        self.version: int = version if dialect.version is None else dialect.version
        self.revision: Revision = revision if dialect.revision is None else dialect.revision
        self._layout = LAYOUTS[self.revision]
        self.limits: Limits = limits or Limits()
        self.state = State.AWAITING_RESPONSE if role is Role.CLIENT else State.AWAITING_REQUEST
        self._passing = _PASSING[self.state]
        self.live: bool = False
        """True if frames may be sent now."""
        self._handshaking = True
        self.peer_id: UUID | None = None
        self.peer_version: int | None = None
        self.unexpected_frames: int = 0
        self.close_deadline: float | None = None
        self._subscriptions = tuple(subscriptions)
        self._speaks = speaks
        unreliable_id = dialect.unreliable_id
        self.unreliable_id: int = self._layout.unreliable_id if unreliable_id is None else unreliable_id
        """The id of unreliable messages here (T-42)."""
        self._dialect = dialect
        self._dialect_of = dialect_of
        self._known: tuple[UUID, Dialect] | None = None  # the peer that was asked for last, and its dialect
        self.encoder: Encoder = encoder(self.revision, self.unreliable_id)
        """Encoder of this peer's frames; all peers with the same layout and unreliable id share one."""
        self._decoder = Decoder(
            self.revision,
            self.limits,
            accept_either=bool(dialect.accept_either),
            unreliable_id=self.unreliable_id,
        )
        self._decoder.builds_responses = self.state not in IGNORING
        self._decoder.gives_unacked_ids = False
        self.ready: list[Message | Ack] = self._decoder.ready
        """Messages and acks that are parsed already, the next one last. A caller may pop one here: that saves the call
        of `next_event`, which would return the same frame."""
        self._peer_subscriptions: tuple[Subscription, ...] = ()
        self._status = HandshakeStatus.SAME_VERSION
        self._queue: deque[Event] = EMPTY
        self._eof = False
        self._parts: list[bytes] = []
        self._units: list[bytes] = []
        self.unsent_bytes: int = 0
        """Bytes that are queued and not yet taken by `data_to_send`."""
        self._now = 0.0
        self._deadline: float | None = None
        self._unexpected = TokenBucket(self.limits.unexpected_per_minute, self.limits.unexpected_per_minute / 60)
        self._renewals = TokenBucket(self.limits.handshake_burst, 1.0)
        self.paced: Decoded | None = None
        """A frame that waits its turn (T-65, T-66); no frame behind it is read meanwhile (D-12)."""
        self._turn = 0.0  # when the paced frame may be handed out
        self._tick(now)
        if role is Role.CLIENT:
            request = HandshakeRequest(self.version, instance_id, self._listed(self._subscriptions))
            self._write_unit(self._own_handshake(request))

    def __repr__(self) -> str:
        peer = f" with {self.peer_id}" if self.peer_id else ""
        return f"<{type(self).__name__} as {self.role.name.lower()}{peer}, {self.state.name.lower()}>"

    # Input.

    def receive_data(self, data: bytes | bytearray | memoryview, now: float | None = None) -> None:
        """Takes bytes from the peer, cut anywhere. Bytes after the close are dropped."""
        self._tick(now)
        if self.state is not State.CLOSED:
            self._decoder.feed(data)

    def receive_eof(self, now: float | None = None) -> None:
        """Notes that the peer has ended its half: no more bytes will come."""
        self._tick(now)
        self._eof = True

    def handle_timeout(self, now: float | None = None) -> None:
        """Ends the connection if a deadline has passed; does nothing before `next_timeout()`."""
        self._tick(now)
        due = self._deadline if self._handshaking else self.close_deadline
        if due is None or self._now < due:
            return
        if self.state is State.CLOSED:
            self.close_deadline = None
            return
        lost = ConnectionLost(
            f"no handshake within {self.limits.handshake_timeout:g} s (T-68): is this a tolliver peer, and of the "
            "same revision?",
            DialCause.NO_ANSWER,
        )
        if self.state is State.CLOSING:
            lost = ConnectionLost(f"the peer did not close within {self.limits.close_timeout:g} s: abort")
            late = list(self.events())
            self._queue = deque(late)  # the events of input that came in time are handed out before the end
        self._go(TRANSITIONS[self.state][Signal.TIMEOUT].to, lost)

    def next_timeout(self) -> float | None:
        """Returns the time to call `handle_timeout`, or None: the deadline of the handshake or of the close, or the
        turn of the paced frame."""
        due = self._deadline if self._handshaking else self.close_deadline
        if self.paced is None or self._now >= self._turn:
            return due
        return self._turn if due is None else min(due, self._turn)

    # Events.

    def next_event(self) -> Event | None:
        """Returns the next event; None if more input, or a call of `accept` or `reject`, is needed."""
        passing = self._passing
        if passing:
            if self.ready:
                return self.ready.pop()
            try:
                frame = self._decoder.next_frame()
            except RemoteProtocolError as error:
                return self._fault(error)
            if type(frame) in passing:
                return frame
            return self._next_rare_event(frame) if frame is not None or self._eof else None
        if self._queue:
            return self._queue.popleft()
        if self.state in HOLDING or self.state is State.CLOSED:
            return None
        if self.state is State.AGREED:
            return self._establish()
        if self.paced is not None:
            return self._next_paced_event(self.paced)
        return self._next_rare_event(None)

    def _next_paced_event(self, frame: Decoded) -> Event | None:
        if self._now < self._turn and not self._hurries:
            return None
        self.paced = None
        self._passing = _PASSING[self.state]
        event = self._take(frame, is_its_turn=True)
        return self.next_event() if event is None else event

    @property
    def _hurries(self) -> bool:
        """True if no frame is delayed for its rate any more: the rest of the input is bounded, because one side has
        ended.
        """
        return self._eof or self.state is State.CLOSING

    def _next_rare_event(self, frame: Decoded | None) -> Event | None:
        """Returns the next event of a frame: of `frame`, or parsed if that is None. None if more input is needed."""
        while True:
            if frame is None:
                if self.state is State.AWAITING_REQUEST:
                    self._choose_layout()
                try:
                    frame = self._decoder.next_frame()
                except RemoteProtocolError as error:
                    return self._fault(error)
            if frame is None:
                return self._end_of_input() if self._eof else None
            event = self._take(frame)
            if event is not None or self.paced is not None:
                return event
            frame = None

    def events(self) -> Iterator[Event]:
        """Yields the events of `next_event()` until None."""
        next_event = self.next_event
        while (event := next_event()) is not None:
            yield event

    def _take(self, frame: Decoded, *, is_its_turn: bool = False) -> Event | None:
        try:
            signal = self._signal_of(frame)
        except RemoteProtocolError as error:
            return self._fault(error)
        step = TRANSITIONS[self.state].get(signal)
        if step is None:
            steps = TRANSITIONS[self.state]
            expected = ", ".join(
                one.name.lower() for one in steps if one in FROM_WIRE and steps[one].effect is not Effect.IGNORE
            )
            return self._fault(
                UnexpectedFrame(
                    "unexpected_frame",
                    f"{type(frame).__name__} where only {expected} may come (T-63)",
                    frame=type(frame).__name__,
                    state=self.state.name,
                )
            )
        pause = self._pause_before(signal, step)
        if pause and self._hurries and signal is Signal.REQUEST:
            step = Transition(self.state, Effect.IGNORE)  # the peer waits for no answer any more
        elif pause and not self._hurries and not is_its_turn:
            self.paced, self._turn, self._passing = frame, self._now + pause, frozenset()
            return None
        if step.effect is Effect.IGNORE:
            self.unexpected_frames += 1
        if step.effect in (Effect.IGNORE, Effect.NONE):
            self._go(step.to)
            return None
        if isinstance(frame, HandshakeRequest | HandshakeResponse):
            self.peer_id, self.peer_version = frame.instance_id, frame.version
            self._peer_subscriptions = frame.subscriptions
            if isinstance(frame, HandshakeResponse):
                self._status = frame.status
        if signal is Signal.RESPONSE_AGREED and self._layout.final_always:
            self._write_unit(self.encoder.final(HandshakeFinal(True)))
        self._go(step.to, self._rejection() if step.effect is Effect.END else None)
        return frame

    def _pause_before(self, signal: Signal, step: Transition) -> float:
        """Returns the seconds that a frame waits if the peer sends too many of its kind (T-65, T-66), else 0.0."""
        if step.effect is Effect.IGNORE:
            return min(_spent(self._unexpected, self._now), _STRAY_PAUSE)
        if signal is Signal.REQUEST and self.peer_id is not None and step.effect is Effect.HAND_OUT:
            return _spent(self._renewals, self._now)
        return 0.0

    def _signal_of(self, frame: Decoded) -> Signal:
        if isinstance(frame, HandshakeRequest):
            self._check_peer(frame)
            return Signal.REQUEST
        if isinstance(frame, HandshakeResponse):
            if self.state is State.AWAITING_RESPONSE:
                self._check_peer(frame)
                self._check_status(frame)
            return _RESPONSE_SIGNALS[frame.status]
        if isinstance(frame, HandshakeFinal):
            return Signal.FINAL_COMPATIBLE if frame.compatible else Signal.FINAL_FAILURE
        return Signal.TRAFFIC

    def _choose_layout(self) -> None:
        """Switches to the peer's layout once the UUID of its request is here: before the rest of it is parsed (C6)."""
        claimed = self._decoder.claimed()
        if claimed is None:
            return
        revision = self._learn(claimed).revision
        if revision is not None and revision is not self.revision:
            self.revision, self._layout = revision, LAYOUTS[revision]
            self.unreliable_id = self._layout.unreliable_id
            self._decoder.speak(revision)

    def _learn(self, peer: UUID) -> Dialect:
        if self._known is None or self._known[0] != peer:
            self._known = peer, self._dialect_of(peer)
        return self._known[1]

    def _meet(self, peer: UUID) -> None:
        """Switches to the peer's dialect; its UUID is known now (C6)."""
        dialect = self._dialect = self._learn(peer).over(self._dialect)
        if self.state is State.AWAITING_REQUEST and dialect.version is not None:  # a client has sent its version
            self.version = dialect.version
        if dialect.unreliable_id is not None:
            self.unreliable_id = dialect.unreliable_id
        self.encoder = encoder(self.revision, self.unreliable_id)
        self._decoder.use(bool(dialect.accept_either), self.unreliable_id)

    def _check_peer(self, frame: HandshakeRequest | HandshakeResponse) -> None:
        if self.peer_id is None:
            self._meet(frame.instance_id)
        if self._dialect.strict_uuid7 and frame.instance_id.version != 7:
            raise UnexpectedFrame("bad_uuid", f"{frame.instance_id} is not a UUIDv7, and strict_uuid7 is on (T-03)")
        if self.peer_id is not None and (frame.instance_id, frame.version) != (
            self.peer_id,
            self.peer_version,
        ):
            raise UnexpectedFrame(
                "changed_identity",
                f"a handshake by {frame.instance_id} version {frame.version} on a connection of {self.peer_id} "
                f"version {self.peer_version} (T-66)",
                state=self.state.name,
            )

    def _check_status(self, frame: HandshakeResponse) -> None:
        """Checks the status by the client's rows of the version table (T-60). Raises UnexpectedFrame if the status
        contradicts the versions."""
        contradicts = {
            HandshakeStatus.SAME_VERSION: frame.version != self.version,
            HandshakeStatus.NEWER_COMPATIBLE: frame.version <= self.version,
            HandshakeStatus.NEWER_INCOMPATIBLE: frame.version <= self.version,
            HandshakeStatus.OLDER: frame.version >= self.version,
            HandshakeStatus.FAILED: False,
        }[frame.status]
        if not contradicts:
            return
        if frame.status is HandshakeStatus.OLDER:
            self._write_unit(self.encoder.final(HandshakeFinal(False)))
        raise UnexpectedFrame(
            "status_contradicts_versions",
            f"status {frame.status.name} from a peer of version {frame.version}, ours is {self.version} (T-60)",
            frame="HandshakeResponse",
            state=self.state.name,
        )

    def _establish(self) -> Event:
        self._go(TRANSITIONS[self.state][Signal.TAKEN].to)
        assert self.peer_id is not None
        version = min(self.version, self._known_version())
        return Established(version, self.peer_id, self._peer_subscriptions, self._status)

    def _end_of_input(self) -> Event | None:
        error: TolliverError | None = None
        try:
            self._decoder.finish()
        except UnexpectedEOF as partial:
            error = partial
        if error is None and self.state in HANDSHAKING:
            error = UnexpectedEOF(
                "eof_in_handshake",
                "the peer closed before the handshake was over, without saying why (T-67)",
                state=self.state.name,
            )
        return self._end(Signal.EOF, error)

    def _fault(self, error: RemoteProtocolError) -> Event:
        return self._end(Signal.FAULT, error)

    def _end(self, signal: Signal, error: TolliverError | None) -> Event:
        self._go(TRANSITIONS[self.state][signal].to, error)
        return self._queue.popleft()

    def _rejection(self) -> HandshakeRejected:
        return HandshakeRejected(self._status, self._known_version(), self._status is HandshakeStatus.FAILED)

    def _go(self, state: State, error: TolliverError | None = None) -> None:
        if state is self.state:
            return
        self.state = state
        self._passing = _PASSING[state] if self.paced is None else frozenset()
        self._decoder.builds_responses = state not in IGNORING
        self.live = state in LIVE
        self._handshaking = state in HANDSHAKING
        if state in (State.CLOSING, State.CLOSED) and self.close_deadline is None:
            self.close_deadline = self._now + self.limits.close_timeout
        if state is State.CLOSED:
            self.paced = None
            self.ready.clear()  # all input that was not handed out is dropped
            # The error without its traceback: the frames of the stack would hold this connection in a circle.
            self._queue = deque([*self._queue, Closed(error and error.with_traceback(None))])

    # Decisions.

    def accept(self, subscriptions: Iterable[Subscription] | None = None, now: float | None = None) -> None:
        """Answers the handshake that was handed out.

        A server chooses the status by the versions (T-60), and sends `subscriptions`, or the constructor's; with the
        status NEWER_INCOMPATIBLE it closes after the answer, with OLDER nothing follows until the final (T-64). A
        client, after a response with the status OLDER, answers whether it speaks that version.
        """
        self._tick(now)
        own = self._subscriptions if subscriptions is None else tuple(subscriptions)
        if self.state is State.CONFIRMING:
            self._step(Signal.CONFIRM if self._speaks(self._known_version()) else Signal.DENY)
            return
        status = self._status_for(self._known_version()) if self.state in HOLDING else HandshakeStatus.SAME_VERSION
        signal = _ACCEPT_SIGNALS[status]
        if signal is Signal.AGREE and self._layout.final_always:
            signal = Signal.DEFER
        self._allowed(signal)
        refused = status is HandshakeStatus.NEWER_INCOMPATIBLE
        response = HandshakeResponse(self.version, self.instance_id, status, () if refused else self._listed(own))
        unit = self._own_handshake(response)
        self._status = status
        self._step(signal, unit)

    def reject(self, now: float | None = None) -> None:
        """Refuses the peer: a server closes without a frame (T-67), a client after OLDER sends the failure final."""
        self._tick(now)
        self._step(Signal.DENY if self.state is State.CONFIRMING else Signal.REJECT)

    def close(self, now: float | None = None) -> None:
        """Ends the connection in order: queued bytes go out, our half ends, and we read until the peer's half ends."""
        self._tick(now)
        self._step(Signal.CLOSE)

    def _known_version(self) -> int:
        assert self.peer_version is not None
        return self.peer_version

    def _status_for(self, peer_version: int) -> HandshakeStatus:
        """Returns the answer to a peer of this version, by the responder's rows of the version table (T-60)."""
        if peer_version == self.version:
            return HandshakeStatus.SAME_VERSION
        if peer_version > self.version:
            return HandshakeStatus.OLDER
        if self.state is State.RENEWING or self._speaks(peer_version):
            return HandshakeStatus.NEWER_COMPATIBLE
        return HandshakeStatus.NEWER_INCOMPATIBLE

    def _allowed(self, signal: Signal) -> Transition:
        step = TRANSITIONS[self.state].get(signal)
        if step is not None:
            return step
        call, remedy = _CALLS[signal]
        if self.state in (State.CLOSING, State.CLOSED):
            raise ConnectionClosing(f"{call} came after the close began: nothing was sent")
        raise LocalProtocolError("not_now", f"{call} is not possible now: {remedy}", state=self.state.name)

    def _step(self, signal: Signal, unit: bytes | None = None) -> None:
        step = self._allowed(signal)
        if signal in (Signal.CONFIRM, Signal.DENY):
            unit = self.encoder.final(HandshakeFinal(signal is Signal.CONFIRM))
        if unit is not None:
            self._write_unit(unit)
        self._go(step.to, self._rejection() if step.effect is Effect.END else None)

    # Output.

    def send(self, frame: Sendable, now: float | None = None) -> None:
        """Queues a frame. Raises LocalProtocolError (ReservedChannel, OwnLimitExceeded) or ConnectionClosing."""
        self._tick(now)
        self._allowed(Signal.SEND)
        if type(frame) not in _SENDABLE:
            raise LocalProtocolError(
                "not_sendable",
                f"{type(frame).__name__} is the machine's own: send messages, acks, subscriptions",
            )
        if isinstance(frame, Message):
            self._check_message(frame)
        elif isinstance(frame, Subscribe | Unsubscribe):
            self._check_entry(frame)
        elif isinstance(frame, SubscribeMany | UnsubscribeMany):
            for one in frame.subscriptions:
                self._check_names(*one)
        self.send_encoded(self.encoder.encode(frame))

    def send_acks(self, message_ids: Sequence[int], now: float | None = None) -> None:
        """Queues the acks of a run, packed in one call. The ids must be ids that came over the wire: no check."""
        self._tick(now)
        self._allowed(Signal.SEND)
        if message_ids:
            self.send_encoded(self.encoder.acks(message_ids))

    def send_encoded(self, data: bytes) -> None:
        """Queues whole frames that `encoder` made: a message for many peers is encoded once."""
        if not self.live:
            self._allowed(Signal.SEND)
        self._parts.append(data)
        self.unsent_bytes += len(data)

    @property
    def answer(self) -> HandshakeStatus:
        """The status that `accept()` will answer. Raises LocalProtocolError or ConnectionClosing if none is awaited.

        For a client that got OLDER: OLDER if it speaks the peer's version, NEWER_INCOMPATIBLE if it will refuse.
        """
        if self.state not in HOLDING:
            self._allowed(Signal.AGREE)
        if self.state is not State.CONFIRMING:
            return self._status_for(self._known_version())
        return HandshakeStatus.OLDER if self._speaks(self._known_version()) else HandshakeStatus.NEWER_INCOMPATIBLE

    @property
    def awaits_final(self) -> bool:
        """True if the peer sends a final after the `answer`."""
        return self.answer is HandshakeStatus.OLDER or (
            self._layout.final_always and self.answer is not HandshakeStatus.NEWER_INCOMPATIBLE
        )

    def unreliable_frame(self, channel: str, key: str, body: bytes) -> bytes:
        """Returns the bytes of an unreliable message for `send_encoded`, with this peer's unreliable id (T-42)."""
        return self.encoder.message(channel, key, body, None)

    def can_send(self, kind: type) -> bool:
        """True if the revision has frames of the class `kind` (DRAFT_1 has no Unsubscribe, T-21)."""
        return kind in self.encoder.carries

    @property
    def has_lists(self) -> bool:
        """True if the revision's handshakes have a list of subscriptions; else our list is not sent."""
        return self._layout.has_lists

    def data_to_send(self) -> list[bytes]:
        """Returns the bytes to write, in units: each is one write to the socket or the TLS layer, never joined
        (T-69)."""
        self._seal()
        units, self._units = self._units, []
        self.unsent_bytes = 0
        return units

    @property
    def wants_write_shutdown(self) -> bool:
        """True if our half may end once the units of `data_to_send` are written; the peer's half is read to its end."""
        return self.state in (State.CLOSING, State.CLOSED) and not self.unsent_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are received and not yet part of a parsed frame."""
        return self._decoder.buffered

    def _check_message(self, frame: Unchecked) -> None:
        if frame.reliable and not self._layout.has_acks:
            raise LocalProtocolError(
                "not_expressible", "this revision has no acks, so no message is reliable in it: pass message_id=None"
            )
        self._check_entry(frame)
        if isinstance(frame.body, bytes) and len(frame.body) > self.limits.max_body:
            raise OwnLimitExceeded(
                "too_long",
                f"a body of {len(frame.body)} bytes: the limit is {self.limits.max_body} (T-06). Split it, or raise "
                "Limits.max_body here and at the peers",
            )

    def _check_entry(self, frame: Unchecked) -> None:
        self._check_names(frame.channel, frame.key)

    def _check_names(self, *names: Unchecked) -> None:
        for name in names:
            if isinstance(name, str) and len(name) * 4 > self.limits.max_name:
                size = len(name.encode(errors="surrogatepass"))
                if size > self.limits.max_name:
                    raise OwnLimitExceeded(
                        "too_long",
                        f"a name of {size} bytes: the limit is {self.limits.max_name} (T-07). Shorten it",
                    )

    def _listed(self, own: tuple[Subscription, ...]) -> tuple[Subscription, ...]:
        return own if self._layout.has_lists else ()

    def _own_handshake(self, frame: HandshakeRequest | HandshakeResponse) -> bytes:
        count = len(frame.subscriptions)
        for subscription in frame.subscriptions:
            self._check_names(*subscription)
        data = self.encoder.encode(frame)
        if count > self.limits.max_subscriptions or len(data) > self.limits.max_handshake:
            raise OwnLimitExceeded(
                "too_many",
                f"{count} subscriptions in {len(data)} bytes: peers take {self.limits.max_subscriptions} in "
                f"{self.limits.max_handshake} (T-08, T-19). Use wildcards",
            )
        return data

    def _write_unit(self, unit: bytes) -> None:
        self._seal()
        self._units.append(unit)
        self.unsent_bytes += len(unit)

    def _seal(self) -> None:
        if self._parts:
            self._units.append(b"".join(self._parts))
            self._parts.clear()

    def _tick(self, now: float | None) -> None:
        if now is not None and now > self._now:
            self._now = now
        if self._deadline is None and now is not None and self._handshaking:
            self._deadline = self._now + self.limits.handshake_timeout
