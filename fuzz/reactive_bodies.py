"""Checks for the fuzzers of the Reactive Streams protocol.

As in `bodies`, any bytes are a case. `decoder` reads them as what a peer sent, `connection` as a little program of
calls and input. Each case runs several times, fed whole and in pieces, a connection read by events and by runs, and all
must say the same. A `WireMonitor` judges what the connection says, whatever its peer does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tolliver_proto import ConnectionClosing, LocalProtocolError, RemoteProtocolError
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    Closed,
    Connection,
    Decoder,
    Elements,
    Goodbye,
    Limits,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    Role,
    ServerHello,
    State,
    Subscribe,
    Subscribed,
    decode,
    encode,
)
from tolliver_proto.reactive.testing import WireMonitor

from .bodies import MOST_STEPS, bounded

LIMITS = (
    Limits.format(),
    Limits(),
    Limits(max_element=20, max_packed=8, max_name=4, max_text=6, max_extensions=2, max_streams=2, max_answers=30),
)
SIZES = {1: 4, 2: 1}
HELLOS = {Role.CLIENT: ClientHello, Role.SERVER: ServerHello}
ROLES = (Role.CLIENT, Role.SERVER)
OTHER = {Role.CLIENT: Role.SERVER, Role.SERVER: Role.CLIENT}

FRAMES: list[Any] = [
    *(Subscribe("p", number, demand) for number in (1, 2, 3) for demand in (0, 3, UNBOUNDED, -1)),
    *(Request(number, count) for number in (1, 2) for count in (1, UNBOUNDED, 0)),
    *(Cancel(number) for number in (1, 2, 3)),
    *(Subscribed(number, size) for number in (1, 2) for size in (0, 1, 4)),
    *(OnNext(number, element) for number in (1, 2) for element in (b"", b"x", b"1234")),
    *(OnNextPacked(number, (b"1234", b"5678")) for number in (1, 2)),
    *(OnComplete(number) for number in (1, 2)),
    *(OnError(number, "é") for number in (1, 2)),
    ClientHello(0, (1, 300)),
    ServerHello(1),
    Goodbye("bye"),
]
"""Frames that a peer might send. Elements are written as the streams are by then, so that they mean what they say."""


def encoded(frame: Any, sizes: dict[int, int]) -> bytes:
    """The frame's bytes, or none where it does not fit its stream."""
    try:
        return encode(frame, sizes)
    except LocalProtocolError:
        return b""


def decoder_seeds() -> list[bytes]:
    """Every frame, and streams of them, under all limits."""
    known = [encoded(frame, SIZES) for frame in FRAMES]
    streams = [*known, *(b"".join(known[start:]) for start in range(len(known)))]
    return [bytes([limits, 3]) + stream for limits in range(len(LIMITS)) for stream in streams]


def connection_seeds() -> list[bytes]:
    """Programs that say hello, take a stream, give one, and then go on with some of everything."""

    def said(*frames: Any) -> bytes:
        return bytes(byte for frame in frames for byte in (1, FRAMES.index(frame)))

    def call(number: int, argument: int) -> bytes:
        return bytes([4 * number + 3, argument])

    taking = call(0, 1) + said(Subscribed(1, 0), OnNext(1, b"x"), OnNext(1, b""))
    fixed = call(0, 1) + said(Subscribed(1, 4), OnNextPacked(1, (b"1234", b"5678")), OnNext(1, b"1234"))
    giving = (
        said(Subscribe("p", 1, 3), Subscribe("p", 2, UNBOUNDED)) + call(3, 0) + call(3, 13) + call(4, 3) + call(5, 67)
    )
    found = []
    for settings in range(8):
        for beginning in (taking, fixed, giving, giving + taking):
            start = bytes([settings, 0, 2, 3]) + beginning
            found += [start + said(OnComplete(1), frame) for frame in FRAMES]
            found += [start + call(number, 15) + said(*FRAMES[number::5]) for number in range(len(_CALLS))]
    return found[::7]  # of each kind some: the fuzzer mixes them


# The decoder.


def decoder(data: bytes, *, watch_memory: bool = False) -> None:
    """Any bytes: documented errors only, the same frames and the same error however they are cut, bounded memory."""
    settings, stream = data[:2].ljust(2, b"\0"), data[2:]
    limits, piece = LIMITS[settings[0] % 3], settings[1] % 64 + 1
    with bounded(len(stream), watch_memory):
        whole = _read([stream], limits)
    for size in {1, piece}:
        cut = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert _read(cut, limits) == whole, f"cut by {size}"
    sizes = dict(SIZES)
    for frame in whole[0]:
        if frame != OnNextPacked(getattr(frame, "subscriber_id", 0), ()):  # read, and never written
            assert decode(encode(frame, sizes), dict(sizes)) == [frame]
        if isinstance(frame, Subscribed):
            sizes[frame.subscriber_id] = frame.element_size


def _read(pieces: list[bytes], limits: Limits) -> tuple[list[Any], tuple[type, str, int | None] | None]:
    reader = Decoder(dict(SIZES), limits)
    frames: list[Any] = []
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

Step = Callable[["Run"], object]


class Run:
    """A connection under a monitor, what it did, and what must hold after each step."""

    def __init__(self, role: Role, limits: Limits, eager: bool, piece: int | None, by_runs: bool = False) -> None:
        self.conn = Connection(role, limits=limits, eager=eager, now=0.0)
        self.next_item = self.conn.next_run if by_runs else self.conn.next_event
        self.monitor = WireMonitor(checked=[role])
        self.peer = OTHER[role]
        self.piece = piece
        self.sizes: dict[int, int] = {}  # of the streams that the peer gives
        self.now = 0.0
        self.received = 0
        self.events: list[str] = []
        self.seen: list[str] = []  # the same however it is read
        self.written = b""
        self.closed = False

    def feed(self, data: bytes) -> None:
        size = self.piece or max(1, len(data))
        self.flush()
        self.monitor.emitted(self.peer, data)
        for at in range(0, len(data), size):
            self.conn.receive_data(data[at : at + size], self.now)
            self.received += len(data[at : at + size])
            self.take()

    def say(self, frame: Any) -> None:
        data = encoded(frame, self.sizes)
        if isinstance(frame, Subscribed):
            self.sizes[frame.subscriber_id] = frame.element_size
        self.feed(data)

    def take(self) -> None:
        while (item := self.next_item()) is not None:
            assert not self.closed, "nothing may follow Closed"
            self.closed = isinstance(item, Closed)
            self.events.append(repr(item))
            self.seen += map(repr, _one_by_one(item))
            self.flush()
        self.flush()

    def flush(self) -> None:
        self.monitor.processed(self.conn.role, self.received - self.conn.buffered_bytes)
        for unit in self.conn.data_to_send():
            self.monitor.emitted(self.conn.role, unit)
            self.written += unit
        self.monitor.processed(self.peer, len(self.written))  # the peer has it at once

    def check(self) -> None:
        assert self.conn.next_event() is None
        assert self.conn.buffered_bytes <= self.received
        assert self.closed is (self.conn.state is State.CLOSED)
        due = self.conn.next_timeout()
        assert due is None or due >= 0


def _one_by_one(item: Any) -> list[Any]:
    """The item, or each element of a run or a pack."""
    if isinstance(item, Elements | OnNextPacked):
        return [OnNext(item.subscriber_id, element) for element in item.elements]
    return [item]


def connection(data: bytes, *, watch_memory: bool = False) -> None:
    """Any bytes as a program: documented errors only, invariants after each step, however it is fed and read."""
    first, second, *_ = (*data[:2], 0, 0)
    role, eager, limits = ROLES[first % 2], bool(first & 2), LIMITS[1 + second % 2]
    steps = _steps(data[2:])
    runs = []
    for piece, by_runs in ((None, False), (1, False), (len(data) % 32 + 1, True)):
        run = Run(role, limits, eager, piece, by_runs)
        with bounded(4 * len(data), watch_memory and piece is None):
            for step in steps:
                try:
                    step(run)
                except (LocalProtocolError, ConnectionClosing) as error:
                    run.seen.append(type(error).__name__)
                run.take()
                run.check()
        runs.append((run.seen, run.written))
    assert all(run == runs[0] for run in runs)


def _steps(data: bytes) -> list[Step]:
    found: list[Step] = []
    at = 0
    while at < len(data) and len(found) < MOST_STEPS:
        code, argument = data[at], (data[at + 1 : at + 2] or b"\0")[0]
        at += 2
        if code % 4 == 0:
            size = argument % 32
            found.append(_raw(data[at : at + size]))
            at += size
        elif code % 4 == 1:
            found.append(_said(FRAMES[argument % len(FRAMES)]))
        elif code == 2 and argument == 3:
            found.append(lambda run: run.say(HELLOS[run.peer]()))
        else:
            found.append(_CALLS[code // 4 % len(_CALLS)](argument))
    return found


def _raw(data: bytes) -> Step:
    return lambda run: run.feed(data)


def _said(frame: Any) -> Step:
    return lambda run: run.say(frame)


def _wait(eighths: int) -> Step:
    def step(run: Run) -> None:
        run.now += eighths / 8
        run.conn.handle_timeout(run.now)

    return step


def _stream(argument: int) -> int:
    return argument % 3 + 1


_COUNTS = (1, 3, UNBOUNDED, UNBOUNDED + 1, 0, -1)
_CALLS: list[Callable[[int], Step]] = [
    lambda argument: lambda run: run.conn.subscribe("q", _COUNTS[argument % 6]),
    lambda argument: lambda run: run.conn.subscribe("name", 0),
    lambda argument: lambda run: run.conn.request(_stream(argument), _COUNTS[argument // 3 % 6]),
    lambda argument: lambda run: run.conn.subscribed(_stream(argument), argument // 3 % 6),
    lambda argument: lambda run: run.conn.next(_stream(argument), bytes(argument // 3 % 6)),
    lambda argument: lambda run: run.conn.next_many(_stream(argument), [bytes(argument // 3 % 6)] * (argument // 18)),
    lambda argument: lambda run: run.conn.cancel(_stream(argument)),
    lambda argument: lambda run: run.conn.complete(_stream(argument)),
    lambda argument: lambda run: run.conn.error(_stream(argument), "failed"),
    lambda argument: lambda run: run.conn.receive_eof() if argument == 255 else None,
    lambda argument: lambda run: run.conn.goodbye("bye") if argument % 16 == 15 else None,
    _wait,
]
