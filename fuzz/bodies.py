"""Checks for fuzzers of the messaging protocol, on any bytes.

Any bytes are a case, made up by atheris here and by hypothesis in the tests. `decoder` takes the first ones as settings
and the rest as what a peer sent. `connection` reads them as a little program of calls and input, so that the API is
fuzzed and not only the parser. Each case is run twice, fed whole and in pieces, and both runs must say the same. A
broken promise is an AssertionError; any exception that is not documented comes out as it is.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from tolliver_proto import (
    Ack,
    Closed,
    Connection,
    ConnectionClosing,
    Decoder,
    Established,
    Event,
    Frame,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Ignored,
    Limits,
    LocalProtocolError,
    Message,
    RemoteProtocolError,
    Revision,
    Role,
    Subscribe,
    Subscription,
    Unsubscribe,
    decode,
    encode,
)
from tolliver_proto.layouts import Decoded, Dialect, Refusal, State, SubscribeMany, UnsubscribeMany

ME, PEER = UUID("01890000-0000-7000-8000-00000000000a"), UUID("01890000-0000-7000-8000-00000000000b")
REVISIONS = tuple(Revision)
DRAFTS = (Revision.DRAFT_1, Revision.DRAFT_2)
LIMITS = (
    Limits.format(),
    Limits(),
    Limits(max_body=50, max_name=9, max_subscriptions=2, max_handshake=46, unexpected_per_minute=2, handshake_burst=1),
)
MOST_STEPS = 200
SLACK = 128 * 1024
"""Bytes that a case may take beside a few times its own size: the objects of a decoder and of one run of frames."""

FRAMES: list[Frame] = [
    *(HandshakeRequest(version, PEER, (Subscription("a", "b"), Subscription("", ""))) for version in (4, 5, 6)),
    *(HandshakeResponse(version, PEER, status) for version in (4, 5, 6) for status in [*HandshakeStatus][:4]),
    HandshakeRequest(5, ME),
    HandshakeFinal(True),
    HandshakeFinal(False),
    Message("a", "b", b"body", 1),
    Message("a", "b", bytes(60), None),
    Message("é", "", b"", 2**32 - 1),
    Message("", "tolliver", b"", 0),
    Ack(1),
    Ack(2**31 - 1),
    Subscribe("a", "b", 2),
    Unsubscribe("a", "", 3),
    HandshakeRequest(5, PEER),
    HandshakeResponse(5, PEER, HandshakeStatus.FAILED),
    Refusal(1),
    Message("a", "b", b"body", None),
    SubscribeMany((Subscription("a", "b"), Subscription("", "")), 4),
    UnsubscribeMany((), 5),
]
"""Frames that a well-meaning peer might send: a program picks from these to get past the handshake."""


def decoder_seeds() -> list[bytes]:
    """Cases to begin with: every frame in every revision under all limits, and streams of them."""
    found = []
    for revision in REVISIONS:
        known = [encode(frame, revision) for frame in FRAMES if expressible(frame, revision)]
        streams = [*known, *(b"".join(known[start:]) for start in range(len(known)))]
        number = REVISIONS.index(revision)
        for limits in range(len(LIMITS)) if revision in DRAFTS else (1,):
            settings = bytes([number >> 1 << 2 | number & 1, limits, 3])
            found += [settings + stream for stream in streams]
    return found


_FOREIGN = [number >> 1 << 5 | (number & 1) << 1 | 4 | role for number in range(2, len(REVISIONS)) for role in (0, 1)]
"""Settings of connections that speak as other programs do: clients and servers, which take other versions."""


def connection_seeds() -> list[bytes]:
    """Programs that get past the handshake: an opening, a decision, a final, requests again, some of everything."""
    final, traffic = FRAMES.index(HandshakeFinal(True)), FRAMES.index(HandshakeFinal(False)) + 1
    found = []
    for opening, frame in enumerate(FRAMES[:final]):
        for settings in (*range(8), *_FOREIGN):
            if isinstance(frame, HandshakeRequest) is bool(settings & 1):
                for limits in (0, 1) if settings < 8 else (1,):
                    head = bytes([settings, limits, 1, opening, 2, 0, 1, final])
                    found.append(head + bytes([61, traffic, 13, opening, 2, 0, 1, final, 18, 0]))
                    found.append(head + bytes([13, opening, *[2, 0] * 4, 1, final]))
    return found


def expressible(frame: Frame, revision: Revision) -> bool:
    """True if the revision has such a frame, with such an id, status and list."""
    try:
        encode(frame, revision)
    except LocalProtocolError:
        return False
    return True


def revision_at(number: int) -> Revision:
    return REVISIONS[number % len(REVISIONS)]


@contextmanager
def bounded(size: int, watch: bool) -> Iterator[None]:
    """Fails if the block takes more memory than arrived bytes justify. Slow, so only where `watch` says so."""
    if not watch:
        yield
        return
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < SLACK + 40 * size, f"{peak} bytes for an input of {size}"


# The decoder.


def decoder(data: bytes, *, watch_memory: bool = False) -> None:
    """Any bytes: documented errors only, the same frames and the same error however they are cut, bounded memory."""
    settings, stream = data[:3].ljust(3, b"\0"), data[3:]
    revision, limits = revision_at(settings[0] >> 2 << 1 | settings[0] & 1), LIMITS[settings[1] % 3]
    tolerant = bool(settings[0] & 2)
    piece = settings[2] % 64 + 1
    with bounded(len(stream), watch_memory):
        whole = _read([stream], revision, limits, tolerant)
    for size in {1, piece}:
        cut = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert _read(cut, revision, limits, tolerant) == whole, f"cut by {size}"
    assert whole[1] is None or 0 <= (whole[1][2] or 0) <= len(stream)
    for frame in whole[0]:
        if not isinstance(frame, Ignored):
            assert decode(encode(frame, revision), revision) == [frame]


Reading = tuple[list[Decoded], tuple[type, str, int | None] | None]


def _read(pieces: list[bytes], revision: Revision, limits: Limits, tolerant: bool) -> Reading:
    reader = Decoder(revision, limits, accept_either=tolerant)
    frames: list[Decoded] = []
    fed = 0
    try:
        for piece in pieces:
            reader.feed(piece)
            fed += len(piece)
            while (frame := reader.next_frame()) is not None:
                frames.append(frame)
                assert len(frames) <= fed, "a frame takes at least a byte"
            assert reader.buffered <= fed
        reader.finish()
    except RemoteProtocolError as error:
        return frames, (type(error), error.code, error.offset)
    return frames, None


# The connection.

Step = Callable[[Connection, "Trace"], None]


class Trace:
    """Trace of a run, for comparison, and the checks after each of its steps."""

    def __init__(self, piece: int | None) -> None:
        self.piece = piece
        self.now = 0.0
        self.received = 0
        self.events: list[str] = []
        self.written: list[bytes] = []
        self.refused: list[str] = []
        self.closed = False
        self.established = 0

    def take(self, conn: Connection) -> None:
        for event in conn.events():
            self.note(event)
            assert self.established <= 1

    def note(self, event: Event) -> None:
        assert not self.closed, "nothing may follow Closed"
        self.closed = isinstance(event, Closed)
        self.established += isinstance(event, Established)
        self.events.append(repr(event))

    def feed(self, conn: Connection, data: bytes) -> None:
        size = self.piece or max(1, len(data))
        for at in range(0, len(data), size):
            conn.receive_data(data[at : at + size], self.now)
            self.received += len(data[at : at + size])
            self.take(conn)

    def check(self, conn: Connection) -> None:
        assert conn.buffered_bytes <= self.received
        assert conn.unsent_bytes >= 0
        assert self.closed is (conn.state is State.CLOSED)
        assert conn.next_event() is None
        due = conn.next_timeout()
        assert due is None or due >= 0


def connection(data: bytes, *, watch_memory: bool = False) -> None:
    """Any bytes as a program: documented errors only, invariants after each step, whole == in pieces."""
    reader = Reader(data)
    make = _settings(reader)
    steps = [_step(reader) for _ in range(MOST_STEPS) if reader]
    piece = len(data) % 7 + 1
    with bounded(len(data), watch_memory):
        whole = _run(make, steps, None)
    for size in {1, piece}:
        cut = _run(make, steps, size)
        assert cut.events == whole.events, f"cut by {size}"
        assert (cut.written, cut.refused) == (whole.written, whole.refused)


def _run(make: Callable[[], Connection], steps: list[Step], piece: int | None) -> Trace:
    conn, trace = make(), Trace(piece)
    for step in steps:
        try:
            step(conn, trace)
        except (LocalProtocolError, ConnectionClosing) as error:
            trace.refused.append(type(error).__name__)
        trace.take(conn)
        trace.check(conn)
    trace.written += conn.data_to_send()
    return trace


class Reader:
    """The case's bytes, taken from the front; nothing left reads as zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        return (self.bytes(1) or b"\0")[0]

    def bytes(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


def _settings(reader: Reader) -> Callable[[], Connection]:
    first, limits = reader.byte(), LIMITS[1 + reader.byte() % 2]
    role = Role.SERVER if first & 1 else Role.CLIENT
    revision = revision_at(first >> 5 << 1 | first >> 1 & 1)
    speaks = bool(first & 4)
    dialect = Dialect(strict_uuid7=bool(first & 8), accept_either=bool(first & 16))

    def make() -> Connection:
        return Connection(
            role,
            instance_id=ME,
            version=5,
            revision=revision,
            limits=limits,
            speaks=lambda _version: speaks,
            dialect=dialect,
            now=0.0,
        )

    return make


def _step(reader: Reader) -> Step:
    code = reader.byte()
    argument = reader.byte()
    if code % 4 == 0:
        raw = reader.bytes(argument % 64)
        return lambda conn, trace: trace.feed(conn, raw)
    if code % 4 == 1:
        count, stride = code // 4 % 8 + 1, code // 32 % 2
        return _well_meant([FRAMES[(argument + number * stride) % len(FRAMES)] for number in range(count)])
    return _CALLS[code // 4 % len(_CALLS)](argument)


def _well_meant(frames: list[Frame]) -> Step:
    def step(conn: Connection, trace: Trace) -> None:
        revision = conn.revision
        trace.feed(conn, b"".join(encode(frame, revision) for frame in frames if expressible(frame, revision)))

    return step


def _wait(seconds: int) -> Step:
    def step(conn: Connection, trace: Trace) -> None:
        trace.now += seconds / 8
        conn.handle_timeout(trace.now)

    return step


def _write(_argument: int) -> Step:
    def step(conn: Connection, trace: Trace) -> None:
        trace.written += conn.data_to_send()
        assert conn.unsent_bytes == 0

    return step


_CALLS: list[Callable[[int], Step]] = [
    lambda _argument: lambda conn, _trace: conn.accept(),
    lambda count: lambda conn, _trace: conn.accept([Subscription("own", str(number)) for number in range(count % 4)]),
    lambda _argument: lambda conn, _trace: conn.reject(),
    lambda _argument: lambda conn, _trace: conn.close(),
    lambda _argument: lambda conn, _trace: conn.receive_eof(),
    _wait,
    _write,
    lambda index: lambda conn, _trace: conn.send(FRAMES[index % len(FRAMES)]),  # type: ignore[arg-type]  # some are refused
    lambda count: lambda conn, _trace: conn.send_acks(range(count)),
]
