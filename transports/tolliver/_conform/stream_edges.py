"""Edge cases of Reactive Streams: cut bytes, large numbers, late frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    Frame,
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

from .cases import Book, Failed, Level, Role
from .flow import ALL, COUNT, ENDLESS, FAILS, NOTHING, OUT, SIZED, Flow, Streams

MUST, SHOULD, _ = Level

MANY = 50_000
"""Elements that fill a socket's buffers."""

edges: Book[Streams] = Book("RSE")
case = edges.case


def _takes(flow: Flow, number: int, expected: list[bytes]) -> None:
    found = flow.take(number, len(expected))
    if found != expected:
        raise Failed(repr(expected)[:100], repr(found)[:100])


def _numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def _dripped(flow: Flow, data: bytes) -> None:
    for at in range(len(data)):
        flow.say(data[at : at + 1])


def _pass_over(flow: Flow, flood: Callable[[Any], bool], wanted: Callable[[Any], bool], count: int, what: str) -> None:
    """Waits for so many frames that are wanted, and drops those of the flood as they come: a step that looks through
    all of them would take its time."""

    def are_there() -> bool:
        flow.frames[:] = [frame for frame in flow.frames if not flood(frame)]
        return sum(map(wanted, flow.frames)) >= count

    if not flow.wait(are_there, flow.patience):
        raise flow.failed(what)


def _of(*ids: int) -> Callable[[Any], bool]:
    """Signals of these ids."""
    kinds = (Subscribed, OnNext, OnNextPacked, OnComplete, OnError)
    return lambda frame: isinstance(frame, kinds) and frame.subscriber_id in ids


# Bytes, however they are cut.


@case(1, "R-02", MUST, "A conversation that comes in writes of one byte is served.", short=True)
def drops(session: Streams) -> None:
    flow = session.stranger()
    number = next(flow.ids)
    _dripped(flow, session.hello() + encode(Subscribe(COUNT, number, 2)) + encode(Request(number, 3)))
    session.greeted(flow)
    flow.opened(number)
    _takes(flow, number, _numbers(5))


@case(2, "R-02 R-25", MUST, "What begins in one write with the end of a hello is served.")
def behind_a_hello(session: Streams) -> None:
    flow = session.stranger()
    number = next(flow.ids)
    hello, wanted = session.hello(), encode(Subscribe(COUNT, number, 2))
    for piece in (hello[:1], hello[1:] + wanted[:5], wanted[5:]):
        flow.say(piece)
        flow.wait(lambda: False, 0.05)
    session.greeted(flow)
    flow.opened(number)
    _takes(flow, number, _numbers(2))


@case(3, "R-02", MUST, "Of ten frames in one write the last may be cut: it is served when it is whole.")
def cut_at_the_end(session: Streams) -> None:
    flow = session.meet()
    *numbers, cut = (next(flow.ids) for _ in range(10))
    last = encode(Subscribe(COUNT, cut, 1))
    flow.say(*(Subscribe(COUNT, number, 1) for number in numbers), last[:-1])
    for number in numbers:
        flow.opened(number)
        _takes(flow, number, _numbers(1))
    flow.still(cut, 0.1)
    flow.say(last[-1:])
    flow.opened(cut)
    _takes(flow, cut, _numbers(1))


@case(4, "R-30", MUST, "An orderly end within a frame ends the connection; the next one is served.")
def end_in_a_frame(session: Streams) -> None:
    flow = session.meet()
    flow.opened(flow.subscribe(ENDLESS, 5))
    flow.say(encode(Subscribe(COUNT, 99, 1))[:4])
    flow.finish()
    flow.ends()
    session.goes_on()


# Hellos and goodbyes.


@case(5, "R-03 R-06", MUST, "A hello whose numbers are longer than they need to be is read.")
def longer_hello(session: Streams) -> None:
    flow = session.stranger()
    kind = session.hello()[0]
    flow.say(bytes((kind | 0x80, 0, 0x80, 0x80, 0, 0x80, 0)))
    session.greeted(flow)
    flow.lives()


@case(6, "R-27", MUST, "A hundred extensions, small and large, are ignored where it knows none of them.")
def many_extensions(session: Streams) -> None:
    flow = session.stranger()
    kind = ClientHello if session.role is Role.DIAL else ServerHello
    flow.say(kind(0, tuple(2**64 - 1 - number * 2**57 for number in range(100))))
    session.greeted(flow)
    flow.lives()


@case(7, "R-26", MUST, "The largest version is another one: a goodbye, and the end.")
def largest_version(session: Streams) -> None:
    flow = session.stranger()
    kind = ClientHello if session.role is Role.DIAL else ServerHello
    flow.say(kind(2**64 - 1))
    flow.parted()


@case(8, "R-26", MUST, "What follows a hello of another version is not served, nor read.")
def behind_another_version(session: Streams) -> None:
    flow = session.stranger()
    kind = ClientHello if session.role is Role.DIAL else ServerHello
    flow.say(kind(1), Subscribe(COUNT, 1, 5), b"\x3f\xff\xff")
    flow.parted()
    if any(isinstance(frame, Subscribed | OnNext) for frame in flow.frames):
        raise flow.failed("no answer to what follows the hello")


@case(9, "R-25", MUST, "A goodbye in place of a hello ends the connection; the next one is served.")
def goodbye_for_a_hello(session: Streams) -> None:
    flow = session.stranger()
    flow.say(Goodbye("another version is spoken here"))
    flow.ends()
    session.goes_on()


@case(10, "R-28 R-34", SHOULD, "A goodbye with a long reason, of characters of four bytes, is answered.")
def long_goodbye(session: Streams) -> None:
    flow = session.meet()
    flow.say(Goodbye("\U0001f30d" * 1000))
    flow.parted()


@case(11, "R-29", MUST, "After its goodbye it asks for nothing more of what it subscribed to.")
def nothing_asked_after_goodbye(session: Streams) -> None:
    flow, _, number, asked = _feeding(session)
    flow.say(*[OnNext(number, b"x")] * asked, Goodbye())
    flow.expect("a goodbye", lambda frame: isinstance(frame, Goodbye))
    flow.frames.clear()
    flow.ends()
    if flow.frames:
        raise flow.failed("nothing after its goodbye")


@case(12, "R-07", MUST, "A type number of 64 bits ends the connection.")
def large_type(session: Streams) -> None:
    flow = session.meet()
    flow.say(b"\xff" * 9 + b"\x01")
    flow.ends()
    session.goes_on()


# The peer publishes.


@case(13, "R-18", MUST, "A hundred requests for one element each bring a hundred.")
def many_requests(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(COUNT, 0)
    flow.opened(number)
    flow.say(*[Request(number, 1)] * ALL)
    _takes(flow, number, _numbers(ALL))


@case(14, "R-17", MUST, "Demand that reaches 2^63 in sum does not turn negative.", short=True)
def sum_of_demands(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(COUNT, 2**62)
    flow.say(Request(number, 2**62))
    flow.opened(number)
    _takes(flow, number, _numbers(ALL))
    flow.completes(number)


@case(15, "R-16 R-17", MUST, "A request for 0 ends a stream without bound too, with an onError that names 3.9.")
def bad_request_without_bound(session: Streams) -> None:
    flow = session.meet()
    number = flow.subscribe(ENDLESS, UNBOUNDED)
    flow.opened(number)
    flow.take(number, 1)
    flow.say(Request(number, 0))
    _pass_over(flow, lambda frame: isinstance(frame, OnNext), lambda frame: isinstance(frame, OnError), 1, "onError")
    flow.fails(number, "3.9")
    flow.lives()
    flow.still(number)


@case(16, "R-16 R-04", MUST, "A request for -2^63 elements: onError that names 3.9; the connection goes on.")
def least_request(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(ENDLESS, 1)
    flow.opened(number)
    flow.take(number, 1)
    flow.say(Request(number, -(2**63)))
    flow.fails(number, "3.9")
    flow.lives()


@case(17, "R-14", MUST, "A refusal needs no demand.")
def refusal_without_demand(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(NOTHING, 0)
    flow.opened(number)
    flow.fails(number)
    flow.lives()


@case(18, "R-14", MUST, "Names are exact: an empty one, one in capitals and one with a space behind are refused.")
def exact_names(session: Streams) -> None:
    flow = session.live()
    for name in ("", COUNT.upper(), f"{COUNT} ", COUNT[:-1]):
        number = flow.subscribe(name, 5)
        flow.opened(number)
        flow.fails(number)
    flow.lives()


@case(19, "R-11", MUST, "The id 0 is an id.")
def zero(session: Streams) -> None:
    flow = session.live()
    flow.subscribe(COUNT, 1, 0)
    flow.opened(0)
    _takes(flow, 0, _numbers(1))
    flow.say(Cancel(0))


@case(20, "R-15 R-10", MUST, "A subscribe that is cancelled in the same write is answered once, and brings no element.")
def cancelled_at_once(session: Streams) -> None:
    flow = session.live()
    number = next(flow.ids)
    flow.say(Subscribe(COUNT, number, 0), Cancel(number), Request(number, 5))
    flow.opened(number)
    flow.lives()
    flow.still(number)


@case(21, "R-15", MUST, "A cancel ends its own stream alone.")
def cancel_of_one(session: Streams) -> None:
    flow = session.live()
    one, other = flow.subscribe(ENDLESS, 2), flow.subscribe(COUNT, 2)
    flow.opened(one)
    flow.opened(other)
    flow.take(one, 2)
    flow.say(Cancel(one), Request(one, 2), Request(other, 3))
    _takes(flow, other, _numbers(5))
    flow.still(one)


@case(22, "R-10 R-14", MUST, "An id may be used again after onError.")
def reused_after_error(session: Streams) -> None:
    flow = session.live()
    for name in (NOTHING, FAILS):
        number = flow.subscribe(name, 10)
        flow.opened(number)
        if name == FAILS:
            flow.take(number, 3)
        flow.fails(number)
        flow.subscribe(COUNT, 2, number)
        flow.opened(number)
        _takes(flow, number, _numbers(2))


@case(
    23, "R-10 R-09", MUST, "Of an id that is used again, signals of the earlier stream end with the second subscribed.",
    short=True,
)  # fmt: skip
def reused_in_flight(session: Streams) -> None:
    flow = session.live()
    number = next(flow.ids)
    flow.say(Subscribe(SIZED, number, 50), Cancel(number), Subscribe(COUNT, number, 3))
    flow.opened(number)
    while not isinstance(signal := flow.signal(number, "the second subscribed"), Subscribed):
        elements = signal.elements if isinstance(signal, OnNextPacked) else (getattr(signal, "element", b""),)
        if any(len(element) != 4 for element in elements):
            raise Failed("elements of 4 bytes before the second subscribed", repr(signal)[:200])
    if signal.element_size:
        raise Failed("no element size", f"{signal.element_size}")
    _takes(flow, number, _numbers(3))
    flow.still(number)


@case(24, "R-18 R-08", MUST, "A stream of a fixed size gives one element for a demand of one.")
def sized_one_by_one(session: Streams) -> None:
    flow = session.live()
    number = flow.subscribe(SIZED, 1)
    flow.opened(number)
    for value in range(5):
        _takes(flow, number, [value.to_bytes(4, "big")])
        flow.still(number, 0.1)
        flow.say(Request(number, 1))


@case(25, "R-32", SHOULD, "Beside two streams of many elements a third one is served.")
def third_stream(session: Streams) -> None:
    flow = session.meet()
    flood = [flow.subscribe(ENDLESS, MANY) for _ in range(2)]
    number = flow.subscribe(COUNT, 2)
    _pass_over(flow, _of(*flood), _of(number), 3, "a third stream beside two")
    flow.opened(number)
    _takes(flow, number, _numbers(2))


# The peer subscribes.


def _feeding(session: Streams, size: int = 0) -> tuple[Flow, int, int, int]:
    """The connection, our id of `conform.out`, the peer's id of `conform.in` and its demand."""
    flow = session.meet()
    out = flow.subscribe(OUT, 1000)
    flow.opened(out)
    number, asked = flow.wanted()
    flow.say(Subscribed(number, size))
    flow.sizes[number] = size
    return flow, out, number, asked


def _fatal(number: int, rulings: str, level: Level, text: str, frame: Frame) -> None:
    """A frame for an id that it never gave."""

    @case(number, rulings, level, text)
    def ends(session: Streams) -> None:
        flow = session.meet()
        flow.say(frame)
        flow.ends()
        session.goes_on()


_fatal(26, "R-08", MUST, "Subscribed for an id that it never gave ends the connection.", Subscribed(99, 0))
_fatal(27, "R-08", MUST, "onComplete for an id that it never gave ends the connection.", OnComplete(99))
_fatal(28, "R-08", MUST, "onError for an id that it never gave ends the connection.", OnError(99, "x"))


@case(29, "R-19", SHOULD, "onComplete before subscribed ends the connection.")
def complete_first(session: Streams) -> None:
    flow = session.meet()
    number, _ = flow.wanted()
    flow.say(OnComplete(number))
    flow.ends()
    session.goes_on()


@case(30, "R-23", MUST, "A pack of as many elements as it asked for is taken whole.", short=True)
def pack_of_its_demand(session: Streams) -> None:
    flow, out, number, asked = _feeding(session, 4)
    said = [b"%04d" % value for value in range(asked)]
    flow.say(OnNextPacked(number, tuple(said)))
    _takes(flow, out, said)


@case(31, "R-02 R-23", MUST, "A pack that comes in writes of one byte is taken.")
def dripped_pack(session: Streams) -> None:
    flow, out, number, asked = _feeding(session, 3)
    said = [b"one", b"two", b"six"][:asked]
    _dripped(flow, encode(OnNextPacked(number, tuple(said)), flow.sizes))
    _takes(flow, out, said)


@case(32, "R-08 R-23", MUST, "Elements of one byte are taken, packed and alone.")
def size_of_one(session: Streams) -> None:
    flow, out, number, _ = _feeding(session, 1)
    flow.say(OnNextPacked(number, (b"a",)))
    _takes(flow, out, [b"a"])


@case(33, "R-23", SHOULD, "A pack that claims 2^62 elements of 4 bytes ends the connection, or its stream.")
def bomb(session: Streams) -> None:
    flow, _, number, _ = _feeding(session, 4)
    flow.say(bytes((10, number)) + b"\x80" * 8 + b"\x40" + b"four")
    if not flow.wait(lambda: flow.end is not None or Cancel(number) in flow.frames, session.setup.patience):
        raise flow.failed("the end of the connection, or a cancel")
    session.goes_on()


@case(34, "R-15 R-09", MUST, "After its cancel, elements of the old size and the end of the stream are dropped.")
def late_after_its_cancel(session: Streams) -> None:
    flow, _, number, _ = _feeding(session, 4)
    flow.say(OnNextPacked(number, (b"pack",) * 3000))
    flow.cancelled(number)
    flow.say(OnNext(number, b"late"), OnNextPacked(number, (b"late", b"late")), OnComplete(number))
    flow.lives()
    flow.quiet("no element of that stream", lambda frame: isinstance(frame, OnNext) and frame.element == b"late")


@case(35, "R-15", MUST, "A second end of a stream is dropped, and an error behind it.")
def ended_twice(session: Streams) -> None:
    flow, out, number, _ = _feeding(session)
    flow.say(OnComplete(number), OnComplete(number), OnError(number, "too late"))
    _takes(flow, out, [b"complete"])
    flow.lives()
    flow.still(out)


@case(36, "R-34", MUST, "An error without words, and one with characters of four bytes, are taken.")
def words_of_errors(session: Streams) -> None:
    for text in ("", "\U0001f30d" * 1000):
        flow, out, number, _ = _feeding(session)
        flow.say(OnError(number, text))
        _takes(flow, out, [b"error"])
        flow.lives()
        flow.close()


@case(37, "R-34", SHOULD, "An error with a text of 100,000 bytes ends its stream, or the connection.")
def long_error(session: Streams) -> None:
    flow, out, number, _ = _feeding(session)
    flow.say(bytes((9, number)) + b"\xa0\x8d\x06" + bytes(100_000))
    if not flow.wait(lambda: flow.end is not None or OnNext(out, b"error") in flow.frames, session.setup.patience):
        raise flow.failed("the element error, or the end of the connection")
    session.goes_on()


@case(38, "R-11", MUST, "The kit's id and the peer's may be the same number: each side's ids are its own.")
def same_numbers(session: Streams) -> None:
    flow = session.meet()
    number, _ = flow.wanted()
    flow.subscribe(OUT, 10, number)
    flow.say(Subscribed(number, 0))
    flow.opened(number)
    flow.say(OnNext(number, b"across"))
    _takes(flow, number, [b"across"])
    flow.say(Cancel(number), OnComplete(number))
    flow.lives()


@case(39, "R-16", MUST, "It never asks for less than one element.")
def asks_for_some(session: Streams) -> None:
    flow, out, number, asked = _feeding(session)
    for _ in range(4):
        flow.say(*[OnNext(number, b"x")] * asked)
        flow.take(out, asked)
        asked = flow.demanded(number)
        if asked < 1:
            raise Failed("a request for at least one element", f"{asked}")


@case(40, "R-32", SHOULD, "Elements are taken while many go the other way.")
def both_ways(session: Streams) -> None:
    flow, out, number, asked = _feeding(session)
    flood = flow.subscribe(ENDLESS, MANY)
    flow.say(*[OnNext(number, b"against the stream")] * asked)
    _pass_over(flow, _of(flood), _of(out), asked, "elements while others go the other way")
    _takes(flow, out, [b"against the stream"] * asked)


CASES = edges.cases
