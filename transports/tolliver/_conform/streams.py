"""Cases of Reactive Streams over a network."""

from __future__ import annotations

from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
    encode,
)

from .cases import DIAL, LISTEN, Book, Failed, Level, Role
from .flow import ALL, COUNT, ENDLESS, FAILS, NOTHING, OUT, SIZED, Flow, Streams

MUST, SHOULD, MAY = Level

connection: Book[Streams] = Book("RSC")
publisher: Book[Streams] = Book("RSP")
subscriber: Book[Streams] = Book("RSS")

# The connection.


def _goodbye_or_end(flow: Flow) -> None:
    """Fatal (R-07): a goodbye may come before the end."""
    flow.ends()


@connection.case(1, "R-25 R-06", MUST, "Hellos of version 0 are exchanged.", short=True)
def hellos(session: Streams) -> None:
    session.meet().lives()


@connection.case(2, "R-25", MUST, "A server says its hello alone before the client's, or nothing.", roles=DIAL)
def server_waits(session: Streams) -> None:
    flow = session.stranger()
    flow.quiet("nothing but a hello", lambda frame: not isinstance(frame, ServerHello), 1.0)
    flow.say(session.hello())
    session.greeted(flow)
    flow.lives()


@connection.case(3, "R-25", MUST, "A client says its hello first.", roles=LISTEN)
def client_first(session: Streams) -> None:
    flow = session.stranger()
    flow.wait(lambda: flow.frames, session.setup.patience)
    if not flow.frames or not isinstance(flow.frames[0], ClientHello):
        raise flow.failed("clientHello as the first frame")
    flow.say(session.hello())
    session.greeted(flow)
    flow.lives()


@connection.case(4, "R-25", MUST, "Frames in one write with the client's hello are served.", roles=DIAL, short=True)
def optimistic(session: Streams) -> None:
    flow = session.stranger()
    flow.say(session.hello(), Subscribe(COUNT, 1, 3))
    session.greeted(flow)
    flow.opened(1)
    flow.take(1, 3)


@connection.case(5, "R-02", MUST, "A hello that comes byte by byte is read.")
def dripped(session: Streams) -> None:
    flow = session.stranger()
    for byte in session.hello():
        flow.say(bytes((byte,)))
    session.greeted(flow)
    flow.lives()


@connection.case(6, "R-27", MUST, "Extensions that it does not know, and repeated ones, are ignored.")
def extensions(session: Streams) -> None:
    flow = session.stranger()
    kind = ClientHello if session.role is Role.DIAL else ServerHello
    flow.say(kind(0, (777, 777, 2**40)))
    session.greeted(flow)
    flow.lives()


@connection.case(7, "R-26", MUST, "Another version is answered by a goodbye and the end.", short=True)
def other_version(session: Streams) -> None:
    flow = session.stranger()
    kind = ClientHello if session.role is Role.DIAL else ServerHello
    flow.say(kind(1))
    flow.parted()


def _fatal(
    number: int, rulings: str, text: str, data: bytes, *, first: bool = False, roles: frozenset[Role] | None = None,
    level: Level = MUST,
) -> None:  # fmt: skip
    """Bytes that end the connection, as the first ones or after the hellos. The peer serves the next connection."""

    @connection.case(number, rulings, level, text, roles=roles)
    def ends(session: Streams) -> None:
        flow = session.stranger() if first else session.meet()
        flow.say(data)
        _goodbye_or_end(flow)
        session.goes_on()


_HELLOS = encode(ClientHello()), encode(ServerHello())
_fatal(8, "R-25", "A subscribe before the hello ends the connection.", encode(Subscribe(COUNT, 1, 1)), first=True)
_fatal(9, "R-25", "A server's hello from a client ends the connection.", _HELLOS[1], first=True, roles=DIAL)
_fatal(10, "R-25", "A client's hello from a server ends the connection.", _HELLOS[0], first=True, roles=LISTEN)
_fatal(11, "R-25", "A second hello ends the connection.", _HELLOS[0], roles=DIAL)
_fatal(12, "R-25", "A second hello ends the connection.", _HELLOS[1], roles=LISTEN)
_fatal(13, "R-01 R-07", "The type 0 ends the connection.", b"\0")
_fatal(14, "R-07", "The type 63 ends the connection.", b"\x3f")
_fatal(15, "R-01 R-07", "A request of the messaging protocol ends the connection.", bytes(29), first=True)
_fatal(16, "R-02", "A varint of eleven bytes ends the connection.", b"\x04" + b"\xff" * 11)
_fatal(17, "R-02", "A varint above 64 bits ends the connection.", b"\x05" + b"\xff" * 9 + b"\x02")
_fatal(18, "R-08", "An element for an id that it never gave ends the connection.", encode(OnNext(99, b"x")))
_fatal(19, "R-02", "A name that is not UTF-8 ends the connection, or its stream.", b"\x03\x01\xff\x01\x00", level=MAY)


@connection.case(20, "R-28", MUST, "A goodbye is answered by a goodbye, then the end.", short=True)
def goodbye(session: Streams) -> None:
    flow = session.meet()
    flow.say(Goodbye("that is all"))
    flow.parted()


@connection.case(21, "R-29 R-28", MUST, "After a goodbye no signal of a stream follows its own goodbye.")
def goodbye_ends_streams(session: Streams) -> None:
    flow = session.meet()
    number = flow.subscribe(ENDLESS, UNBOUNDED)
    flow.opened(number)
    flow.take(number, 1)
    flow.say(Goodbye())
    flow.expect("a goodbye", lambda frame: isinstance(frame, Goodbye))
    flow.frames.clear()
    flow.ends()
    if flow.frames:
        raise flow.failed("nothing after its goodbye")


@connection.case(22, "R-29", MUST, "What is said after a goodbye is not served.")
def nothing_after_goodbye(session: Streams) -> None:
    flow = session.meet()
    flow.say(Goodbye(), Subscribe(COUNT, 50, 5))
    flow.ends()
    if any(isinstance(frame, OnNext | OnNextPacked) for frame in flow.frames):
        raise flow.failed("no element after a goodbye")


@connection.case(
    23, "R-30", MUST, "An end without a goodbye is answered by its own end; the next connection is served."
)
def no_goodbye(session: Streams) -> None:
    flow = session.meet()
    flow.opened(flow.subscribe(ENDLESS, 5))
    flow.finish()
    flow.ends()
    session.goes_on()


@connection.case(24, "R-30", MUST, "A reset within a frame leaves the peer as it was.")
def reset(session: Streams) -> None:
    flow = session.meet()
    flow.say(encode(Subscribe(COUNT, 1, 1))[:4])
    flow.reset()
    session.goes_on()


@connection.case(25, "R-31", MUST, "Nothing is resumed: a new connection knows no stream of the one before.")
def not_resumed(session: Streams) -> None:
    flow = session.meet()
    number = flow.subscribe(COUNT, 3)
    flow.opened(number)
    flow.take(number, 3)
    flow.close()
    flow = session.meet()
    flow.say(Request(number, 5))
    flow.lives()
    flow.still(number) if number != 1 else None


@connection.case(26, "R-35", SHOULD, "ALPN agrees on tolliver-rs/0 where both offer it.")
def alpn(session: Streams) -> None:
    found = session.meet().pump.application_protocol
    if session.setup.tls is not None and found != session.setup.alpn:
        raise Failed(session.setup.alpn, str(found))


# The peer publishes.


def _numbers(first: int, count: int) -> list[bytes]:
    return [f"{number}".encode() for number in range(first, first + count)]


def _is(found: list[bytes], expected: list[bytes]) -> None:
    if found != expected:
        raise Failed(repr(expected)[:100], repr(found)[:100])


@publisher.case(1, "R-05 R-10 R-19", MUST, "Without demand there is subscribed, and no element.", short=True)
def no_demand(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(COUNT, 0)
    flow.opened(number)
    flow.lives()
    flow.still(number)


@publisher.case(2, "R-18 R-32 R-05", MUST, "So many elements come as were asked for, and not one more.", short=True)
def demand(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(COUNT, 3)
    flow.opened(number)
    _is(flow.take(number, 3), _numbers(0, 3))
    flow.lives()
    flow.still(number)


@publisher.case(3, "R-18", MUST, "A request brings so many more.")
def more_demand(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(COUNT, 0)
    flow.opened(number)
    for first, count in ((0, 1), (1, 5), (6, 2)):
        flow.say(Request(number, count))
        _is(flow.take(number, count), _numbers(first, count))
        flow.still(number, 0.1)


@publisher.case(4, "R-18 R-17", MUST, "Requests add up.")
def demand_adds(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(COUNT, 1)
    flow.say(*[Request(number, 2)] * 3)
    flow.opened(number)
    _is(flow.take(number, 7), _numbers(0, 7))
    flow.still(number)


@publisher.case(5, "R-17 R-15 R-08", MUST, "Without bound all come, then onComplete, and nothing after it.", short=True)
def unbounded(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(COUNT, UNBOUNDED)
    flow.opened(number)
    _is(flow.take(number, ALL), _numbers(0, ALL))
    flow.completes(number)
    flow.still(number)


@publisher.case(6, "R-17", MUST, "Demand above 2^63-1 is demand without bound.")
def overflow(session: Streams) -> None:
    flow = session.live()
    number = next(flow.ids)
    flow.say(Subscribe(COUNT, number, 1), *[Request(number, UNBOUNDED - 1)] * 3)
    flow.opened(number)
    flow.take(number, ALL)
    flow.completes(number)


@publisher.case(7, "R-15 R-18", SHOULD, "onComplete needs no demand.")
def completes_without_demand(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(COUNT, ALL)
    flow.opened(number)
    flow.take(number, ALL)
    flow.completes(number)


@publisher.case(
    8, "R-34 R-14 R-08", MUST, "A publisher that fails sends its elements, then onError with its words.", short=True
)
def fails(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(FAILS, 10)
    flow.opened(number)
    _is(flow.take(number, 3), _numbers(0, 3))
    flow.fails(number, "conform")
    flow.still(number)
    flow.lives()


@publisher.case(9, "R-14", MUST, "A name that nobody publishes: subscribed, then onError.", short=True)
def unknown_name(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(NOTHING, 5)
    flow.opened(number)
    flow.fails(number)
    flow.still(number, 0.1)
    flow.lives()


def _bad_request(number: int, rulings: str, text: str, count: int) -> None:
    @publisher.case(number, rulings, MUST, text)
    def refuses(session: Streams) -> None:
        flow = session.live()
        mine = flow.subscribe(ENDLESS, 2)
        flow.opened(mine)
        flow.take(mine, 2)
        flow.say(Request(mine, count))
        flow.fails(mine, "3.9")
        flow.lives()


_bad_request(10, "R-16", "A request for 0 elements: onError that names 3.9; the connection goes on.", 0)
_bad_request(11, "R-16 R-04", "A request for -1 elements: onError that names 3.9; the connection goes on.", -1)


@publisher.case(12, "R-16 R-04", MUST, "A negative initial demand: subscribed, then onError that names 3.9.")
def negative_initial(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(COUNT, -5)
    flow.opened(number)
    flow.fails(number, "3.9")
    flow.lives()


@publisher.case(13, "R-15", MUST, "After a cancel the elements stop.", short=True)
def cancel(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(ENDLESS, 5)
    flow.opened(number)
    flow.take(number, 5)
    flow.say(Cancel(number), Request(number, 5))
    flow.lives()
    flow.still(number)


@publisher.case(14, "R-15 R-32", MUST, "A cancel stops a stream without bound.")
def cancel_unbounded(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(ENDLESS, UNBOUNDED)
    flow.opened(number)
    flow.take(number, 1)
    flow.say(Cancel(number))
    barrier = flow.subscribe(COUNT, 1)
    flow.opened(barrier)
    flow.frames[:] = [frame for frame in flow.frames if getattr(frame, "subscriber_id", None) != number]
    flow.still(number)


@publisher.case(15, "R-15", MUST, "Requests and cancels for ids that are over or unknown are ignored.")
def strange_ids(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(FAILS, 10)
    flow.opened(number)
    flow.take(number, 3)
    flow.fails(number)
    flow.say(Request(number, 3), Cancel(number), Cancel(number), Request(12345, 1), Cancel(54321))
    flow.lives()
    flow.still(number, 0.1)


@publisher.case(16, "R-13", MUST, "A subscribe with an id that is active ends the connection.")
def duplicate_id(session: Streams) -> None:
    flow = session.meet()
    number = flow.subscribe(ENDLESS, 1)
    flow.opened(number)
    flow.subscribe(COUNT, 1, number)
    flow.ends()
    session.goes_on()


@publisher.case(17, "R-10 R-12", MUST, "An id may be used again after onComplete.")
def reused_after_complete(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(COUNT, UNBOUNDED)
    flow.opened(number)
    flow.take(number, ALL)
    flow.completes(number)
    flow.subscribe(COUNT, 2, number)
    flow.opened(number)
    _is(flow.take(number, 2), _numbers(0, 2))


@publisher.case(18, "R-10", MUST, "An id that was cancelled may be used again: one subscribed for each subscribe.")
def reused_after_cancel(session: Streams) -> None:
    flow = session.live()
    number = next(flow.ids)
    flow.say(Subscribe(ENDLESS, number, 0), Cancel(number), Subscribe(COUNT, number, 2))
    flow.opened(number)
    flow.opened(number)
    _is(flow.take(number, 2), _numbers(0, 2))


@publisher.case(19, "R-11", MUST, "Two streams have demands of their own.")
def two_streams(session: Streams) -> None:
    flow = session.live()
    one, other = flow.subscribe(COUNT, 1), flow.subscribe(COUNT, 0)
    flow.opened(one)
    flow.opened(other)
    _is(flow.take(one, 1), _numbers(0, 1))
    flow.say(Request(other, 4))
    _is(flow.take(other, 4), _numbers(0, 4))
    flow.still(one)
    flow.still(other, 0.0)


@publisher.case(20, "R-02 R-11", MUST, "An id of 64 bits is an id.")
def large_id(session: Streams) -> None:
    flow = session.live()
    for number in (128, 2**32, 2**64 - 1):
        flow.subscribe(COUNT, 1, number)
        flow.opened(number)
        _is(flow.take(number, 1), _numbers(0, 1))
        flow.say(Cancel(number))


@publisher.case(21, "R-03", MUST, "A number that is longer than it needs to be is read.")
def longer_numbers(session: Streams) -> None:
    flow = session.live()
    number = next(flow.ids)
    name = COUNT.encode()
    flow.say(b"\x83\x00" + bytes((len(name) | 0x80, 0)) + name + bytes((number | 0x80, 0x80, 0)) + b"\x83\x80\x00")
    flow.opened(number)
    _is(flow.take(number, 3), _numbers(0, 3))
    flow.say(Cancel(number))


@publisher.case(
    22, "R-08 R-23", MUST, "Elements of a fixed size come as that, packed or alone, all of them.", short=True
)
def sized(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(SIZED, UNBOUNDED)
    size = flow.opened(number)
    if size != 4:
        raise Failed("the element size 4", f"{size}")
    _is(flow.take(number, ALL), [value.to_bytes(4, "big") for value in range(ALL)])
    flow.completes(number)


@publisher.case(23, "R-23 R-18", MUST, "Packed elements count against the demand one by one.", short=True)
def packed_demand(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(SIZED, 3)
    flow.opened(number)
    flow.take(number, 3)
    flow.lives()
    flow.still(number)
    flow.say(Request(number, 5))
    flow.take(number, 5)
    flow.still(number)


@publisher.case(24, "R-22", MUST, "An empty pack is never sent.")
def empty_pack(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(SIZED, ALL + 1)
    flow.opened(number)
    found = 0
    while found < ALL:
        frame = flow.signal(number, "elements")
        if isinstance(frame, OnNextPacked) and not frame.elements:
            raise Failed("packs with elements", "an empty one")
        found += len(frame.elements) if isinstance(frame, OnNextPacked) else 1
    flow.completes(number)


@publisher.case(25, "R-10 R-09", MUST, "An id whose stream had an element size may be used for one without.")
def size_changes(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(SIZED, UNBOUNDED)
    flow.opened(number)
    flow.take(number, ALL)
    flow.completes(number)
    flow.subscribe(COUNT, 2, number)
    if flow.opened(number):
        raise Failed("no element size", "one")
    _is(flow.take(number, 2), _numbers(0, 2))


@publisher.case(26, "R-32", MUST, "A kit that stops reading for a while misses no element.")
def slow_reader(session: Streams) -> None:
    flow = session.meet()
    number = flow.subscribe(ENDLESS, 50_000)
    flow.opened(number)
    flow.wait(lambda: flow.frames, 1.0)
    flow.reads = False
    flow.wait(lambda: False, 1.0)
    flow.reads = True
    _is(flow.take(number, 50_000), _numbers(0, 50_000))


@publisher.case(27, "R-10", MUST, "Twenty subscriptions in one write are each answered once.")
def twenty(session: Streams) -> None:
    flow = session.live()
    numbers = [next(flow.ids) for _ in range(20)]
    flow.say(*(Subscribe(COUNT, number, 1) for number in numbers))
    for number in numbers:
        flow.opened(number)
        _is(flow.take(number, 1), _numbers(0, 1))
        flow.say(Cancel(number))


# The peer subscribes.


def _opened(session: Streams, size: int = 0) -> tuple[Flow, int, int, int]:
    """The connection, our id of `conform.out`, the peer's id of `conform.in` and its demand."""
    flow = session.meet()
    out = flow.subscribe(OUT, 1000)
    flow.opened(out)
    number, asked = flow.wanted()
    flow.say(Subscribed(number, size))
    flow.sizes[number] = size
    return flow, out, number, asked


@subscriber.case(1, "R-05 R-11", MUST, "It subscribes with a demand, and takes elements.", short=True)
def takes(session: Streams) -> None:
    flow, out, number, _ = _opened(session)
    flow.say(OnNext(number, b"one"))
    _is(flow.take(out, 1), [b"one"])


@subscriber.case(2, "R-18 R-32", MUST, "It asks for more as it takes, and takes all in order.", short=True)
def asks_for_more(session: Streams) -> None:
    flow, out, number, asked = _opened(session)
    said: list[bytes] = []
    while len(said) < 150:
        for _ in range(asked):
            said.append(f"element {len(said)}".encode())
            flow.say(OnNext(number, said[-1]))
        asked = flow.demanded(number)
    _is(flow.take(out, len(said)), said)


@subscriber.case(3, "R-18", MUST, "Above its demand: a cancel, and the connection goes on.", short=True)
def above_demand(session: Streams) -> None:
    flow, _, number, _ = _opened(session)
    flow.say(b"".join(encode(OnNext(number, b"x"), flow.sizes) for _ in range(3000)))
    flow.cancelled(number)
    flow.lives()


@subscriber.case(4, "R-19", MUST, "An element before subscribed ends the connection.")
def element_first(session: Streams) -> None:
    flow = session.meet()
    number, _ = flow.wanted()
    flow.say(OnNext(number, b"early"))
    flow.ends()
    session.goes_on()


@subscriber.case(5, "R-19", MUST, "A second subscribed ends the connection.")
def subscribed_twice(session: Streams) -> None:
    flow, _, number, _ = _opened(session)
    flow.say(Subscribed(number, 0))
    flow.ends()
    session.goes_on()


@subscriber.case(6, "R-20", SHOULD, "An element size of 2^40 ends the connection.")
def large_size(session: Streams) -> None:
    flow = session.meet()
    number, _ = flow.wanted()
    flow.say(Subscribed(number, 2**40))
    flow.ends()
    session.goes_on()


@subscriber.case(7, "R-21", MUST, "Packed elements in a stream without an element size end the connection.")
def packed_without_size(session: Streams) -> None:
    flow, _, number, _ = _opened(session)
    flow.say(bytes((10, number, 1)))
    flow.ends()
    session.goes_on()


@subscriber.case(8, "R-22", MUST, "An empty pack is taken as nothing.")
def empty_pack_taken(session: Streams) -> None:
    flow, out, number, _ = _opened(session, 4)
    flow.say(bytes((10, number, 0)), OnNext(number, b"four"))
    _is(flow.take(out, 1), [b"four"])


@subscriber.case(9, "R-08 R-23", MUST, "Elements of a fixed size are taken, packed and alone.", short=True)
def takes_packed(session: Streams) -> None:
    flow, out, number, asked = _opened(session, 4)
    said = [b"0001", b"0002", b"0003", b"0004"][: max(1, min(4, asked))]
    flow.say(OnNextPacked(number, tuple(said[:-1])) if len(said) > 1 else b"", OnNext(number, said[-1]))
    _is(flow.take(out, len(said)), said)


@subscriber.case(10, "R-23 R-18", MUST, "A pack above its demand is refused whole; the connection goes on.")
def pack_above_demand(session: Streams) -> None:
    flow, out, number, _ = _opened(session, 4)
    flow.say(OnNextPacked(number, (b"pack",) * 3000))
    flow.cancelled(number)
    flow.lives()
    flow.quiet("no element of that pack", lambda frame: isinstance(frame, OnNext) and frame.element == b"pack")
    assert out


@subscriber.case(11, "R-15", MUST, "It takes what came before onComplete, then knows the end.", short=True)
def completed(session: Streams) -> None:
    flow, out, number, _ = _opened(session)
    flow.say(OnNext(number, b"last"), OnComplete(number))
    _is(flow.take(out, 2), [b"last", b"complete"])


@subscriber.case(12, "R-34", MUST, "It takes what came before onError, then knows the error.", short=True)
def failed(session: Streams) -> None:
    flow, out, number, _ = _opened(session)
    flow.say(OnNext(number, b"last"), OnError(number, "the kit fails"))
    _is(flow.take(out, 2), [b"last", b"error"])


@subscriber.case(13, "R-14", MUST, "A refusal, onError at once after subscribed, is taken; the connection goes on.")
def refused(session: Streams) -> None:
    flow, out, number, _ = _opened(session)
    flow.say(OnError(number, "refused"))
    _is(flow.take(out, 1), [b"error"])
    flow.lives()


@subscriber.case(14, "R-09 R-15", MUST, "Signals for a stream that is over are dropped.")
def after_the_end(session: Streams) -> None:
    flow, out, number, _ = _opened(session)
    flow.say(OnComplete(number), OnNext(number, b"late"))
    _is(flow.take(out, 1), [b"complete"])
    flow.lives()
    flow.quiet("nothing late", lambda frame: isinstance(frame, OnNext) and frame.element == b"late")


@subscriber.case(15, "R-34", MUST, "An error text that is not UTF-8 ends the connection.")
def error_not_text(session: Streams) -> None:
    flow, _, number, _ = _opened(session)
    flow.say(bytes((9, number, 2)) + b"\xff\xfe")
    flow.ends()
    session.goes_on()


@subscriber.case(16, "R-02", MUST, "An element that comes byte by byte is taken.")
def dripped_element(session: Streams) -> None:
    flow, out, number, _ = _opened(session)
    for byte in encode(OnNext(number, b"drop by drop")):
        flow.say(bytes((byte,)))
    _is(flow.take(out, 1), [b"drop by drop"])


@subscriber.case(17, "R-33", MUST, "An empty element, and one of 1 MiB, are taken.")
def sizes(session: Streams) -> None:
    flow, out, number, asked = _opened(session)
    flow.say(OnNext(number, b""))
    _is(flow.take(out, 1), [b""])
    if asked < 2:
        flow.demanded(number)
    flow.say(OnNext(number, bytes(2**20)))
    _is(flow.take(out, 1), [bytes(2**20)])


@subscriber.case(18, "R-20", SHOULD, "An element that announces 2^40 bytes ends the connection, or its stream.")
def huge_element(session: Streams) -> None:
    flow, _, number, _ = _opened(session)
    flow.say(bytes((7, number)) + b"\x80\x80\x80\x80\x80\x20")
    flow.wait(lambda: flow.end is not None or Cancel(number) in flow.frames, session.setup.patience)
    if flow.end is None and Cancel(number) not in flow.frames:
        raise flow.failed("the end of the connection, or a cancel")


@subscriber.case(19, "R-25 R-11", MUST, "It subscribes to conform.in on each connection.")
def subscribes_again(session: Streams) -> None:
    for _ in range(2):
        flow = session.meet()
        flow.wanted()
        flow.close()


CASES = connection.cases + publisher.cases + subscriber.cases
