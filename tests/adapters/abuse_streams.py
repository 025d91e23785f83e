"""Attacks on streams: by a subscriber, a publisher, and neither."""

from __future__ import annotations

import time

from tolliver._tls.policy import client_context

from tests.certificates import Certificates
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    Goodbye,
    Limits,
    OnComplete,
    OnError,
    OnNext,
    Request,
    Subscribe,
    Subscribed,
)

from .abuse import CLOSED, HARMLESS, Attack, closed, flood
from .facade import until
from .mallory import Streamer, streamed
from .victim import Victim

LIMITS = Limits(max_answers=16 * 2**10, max_streams=50, handshake_timeout=2.0, close_timeout=1.0)
"""For tests: bounds that little passes."""

MOST = b"\xff" * 9 + b"\x01"  # 2^64-1
HALF = b"\xff" * 8 + b"\x7f"  # 2^63-1
SILENT: None = None


def streamer(certs: Certificates, victim: Victim, attack: Attack) -> Streamer:
    context = client_context(certs.tls("mallory"))
    return Streamer(victim.port(), context, hello=attack.wish is not None, deaf=attack.deaf)


def raw(data: bytes, outcome: str, *, begun: bool = True) -> Attack:
    return Attack(lambda m, _victim, _size: m.write(data), outcome, wish=() if begun else SILENT)


def bait(m: Streamer, victim: Victim, demand: int = 4, size: int = 0) -> int:
    """The victim subscribes at it; returns the id, which was answered."""
    victim.offer("bait", demand)
    m.hear(lambda: m.all(Subscribe), "a subscription")
    number = int(m.all(Subscribe)[-1].subscriber_id)
    m.say(Subscribed(number, size))
    return number


def given(data: bytes, outcome: str, *, size: int = 0) -> Attack:
    """These bytes, which name the id 1, as a publisher."""

    def run(m: Streamer, victim: Victim, _size: int) -> None:
        assert bait(m, victim, size=size) == 1
        m.write(data)

    return Attack(run, outcome)


BOMBS: dict[str, Attack] = {
    "2^64-1 extensions": raw(b"\x01\x00" + MOST, closed("too_many"), begun=False),
    "a name of 2^63-1": raw(b"\x03" + HALF, closed("too_long")),
    "a reason of 2^63-1": raw(b"\x0b" + HALF, closed("too_long")),
    "a number without end": raw(b"\x04" + b"\xff" * 11, closed("long_varint")),
    "2^63-1 packed": given(b"\x0a\x01" + HALF, closed("too_long"), size=4),
    "2^64-1 packed without a size": given(b"\x0a\x01" + MOST, closed("not_packable")),
    "an element of 2^63-1": given(b"\x07\x01" + HALF, closed("too_long")),
    "elements of 2^63-1": given(b"\x06\x01" + HALF, closed("too_long")),
    "an error's text of 2^63-1": given(b"\x09\x01" + HALF, closed("too_long")),
}


# As a subscriber.


def requests(m: Streamer, _victim: Victim, size: int) -> None:
    """In one flush, and it reads what comes; then it wants no more."""
    m.say(Subscribe("numbers", 1, 0))
    assert flood(m, [streamed(Request(1, 1))], size)
    m.say(Cancel(1))


def endless_requests(m: Streamer, victim: Victim, size: int) -> None:
    """2^63-1 over and over, of an endless source, and it reads nothing: R-32 is what stops the source."""
    before = victim.pulled("big")
    m.say(Subscribe("big", 1, 0))
    assert flood(m, [streamed(Request(1, UNBOUNDED))], size)
    time.sleep(0.2)  # in which an unbounded one would go on and on
    held = (victim.pulled("big") - before) * 64 * 2**10
    assert held <= 32 * 2**20, f"{held} bytes were pulled for a peer that reads nothing"
    m.say(Cancel(1))


def bad_requests(m: Streamer, _victim: Victim, size: int) -> None:
    for number in range(1, size + 1):
        m.say(Subscribe("numbers", number, 0), Request(number, 0))
    m.hear(lambda: len(m.all(OnError)) >= size, "errors")
    said = [error.message for error in m.all(OnError)]
    assert all("3.9" in text or "the limit" in text for text in said)  # with threads, not so many at once


def to_and_fro(m: Streamer, _victim: Victim, size: int) -> None:
    """It subscribes and cancels at once, and each time it is answered (R-10)."""
    assert flood(m, [streamed(Subscribe("numbers", 1, 5), Cancel(1))], size)


def nobodys(m: Streamer, _victim: Victim, size: int) -> None:
    """It reads what it is told."""
    for first in range(0, size, 100):
        m.say(*(Subscribe(f"name {number}", 1 + number, 1) for number in range(first, first + 100)))
        m.sync()


def deaf_nobodys(m: Streamer, _victim: Victim, size: int) -> None:
    flood(m, [streamed(Subscribe("x" * 150, 1, 1))], size)


def deaf_empties(m: Streamer, _victim: Victim, size: int) -> None:
    """Streams that are over at once: five bytes for its eleven."""
    for first in range(0, size, 10):
        if not m.say(*(Subscribe("empty", 1 + number, 0) for number in range(first, first + 10))):
            return


def too_many(m: Streamer, _victim: Victim, size: int) -> None:
    """More streams than may be open are refused, each for itself; 0 is asked for, so nothing is pulled."""
    m.say(*(Subscribe("numbers", number, 0) for number in range(1, size + 1)))
    m.sync()
    m.say(*(Cancel(number) for number in range(1, size + 1)))


def no_demand(m: Streamer, victim: Victim, size: int) -> None:
    """The publisher holds nothing for who asks for nothing. The good peer takes elements of another source."""
    before = victim.pulled("big")
    m.say(*(Subscribe("big", number, 0) for number in range(1, size + 1)))
    m.hear(lambda: len(m.all(Subscribed)) >= size, "answers")
    assert victim.pulled("big") == before
    m.say(*(Cancel(number) for number in range(1, size + 1)))


def strange_ids(m: Streamer, _victim: Victim, size: int) -> None:
    """R-15: what is not known is not missed."""
    frames = [streamed(one(number)) for number in (0, 1, 2**64 - 1) for one in (Cancel, lambda n: Request(n, 1))]
    for frame in frames:
        assert flood(m, [frame], size)


def same_id(m: Streamer, _victim: Victim, _size: int) -> None:
    m.say(Subscribe("numbers", 1, 0), Subscribe("numbers", 1, 0))


def never_goodbye(m: Streamer, victim: Victim, size: int) -> None:
    """It has streams, and its half of the connection ends without a word (R-30)."""
    before = victim.stats()["streams_given"]
    m.say(*(Subscribe("numbers", number, 1) for number in range(1, size + 1)))
    m.hear(lambda: len(m.all(Subscribed)) >= size, "answers")
    m.half_close()
    until(lambda: victim.stats()["streams_given"] == before)


def after_goodbye(m: Streamer, _victim: Victim, size: int) -> None:
    m.say(Goodbye("so long"))
    flood(m, [streamed(Subscribe("numbers", 1, 1))], size)


def second_hello(m: Streamer, _victim: Victim, _size: int) -> None:
    m.say(ClientHello())


# As a publisher.


def undemanded(m: Streamer, victim: Victim, size: int) -> None:
    """Rule 1.1: more than was asked for ends the stream, and not the connection."""
    number = bait(m, victim)
    flood(m, [streamed(OnNext(number, b"x"))], size)
    m.hear(lambda: m.all(Cancel), "a cancel")


def after_the_end(m: Streamer, victim: Victim, size: int) -> None:
    number = bait(m, victim)
    m.say(OnComplete(number))
    flood(m, [streamed(OnNext(number, b"late")), streamed(OnNext(number, b"late"))], size)
    flood(m, [streamed(OnError(number, "late"))], size)


def one_by_one(m: Streamer, victim: Victim, size: int) -> None:
    """An element in single bytes: no limit of time, but one of memory."""
    frame = streamed(OnNext(bait(m, victim), bytes(size)))
    m.write_each([frame[at : at + 1] for at in range(len(frame))])


def never_answers(m: Streamer, victim: Victim, size: int) -> None:
    """It is asked, and asked again, and says nothing."""
    for _ in range(size):
        victim.offer("bait", 1)
    m.hear(lambda: len(m.all(Subscribe)) >= size, "subscriptions")


def ended(m: Streamer, _victim: Victim, _size: int) -> None:
    m.half_close()


def unsealed(m: Streamer, _victim: Victim, _size: int) -> None:
    m.beneath(b"\x17\x03\x03\x00\x20" + bytes(32))


ABUSES: dict[str, Attack] = {
    "requests in one flush": Attack(requests, HARMLESS, 2_000, 100_000),
    "requests of all, and it reads nothing": Attack(endless_requests, HARMLESS, 500, 100_000),
    "requests of nothing": Attack(bad_requests, HARMLESS, 20, 5_000),
    "subscribing and cancelling": Attack(to_and_fro, HARMLESS, 200, 10_000),
    "subscribing and cancelling, and it reads nothing": Attack(to_and_fro, HARMLESS, 200, 10_000, deaf=True),
    "names that nobody publishes": Attack(nobodys, HARMLESS, 200, 10_000),
    "refusals that it never reads": Attack(deaf_nobodys, CLOSED, 20_000, 200_000, deaf=True),
    "ends that it never reads": Attack(deaf_empties, CLOSED, 0, 2_000_000, deaf=True),
    "more streams than may be": Attack(too_many, HARMLESS, 60, 11_000),
    "no demand": Attack(no_demand, HARMLESS, 40, 250),
    "ids of nobody": Attack(strange_ids, HARMLESS, 500, 50_000),
    "an id twice": Attack(same_id, closed("duplicate_id")),
    "streams that are never ended": Attack(never_goodbye, CLOSED, 20, 250),
    "talking after the goodbye": Attack(after_goodbye, CLOSED, 500, 100_000),
    "a second hello": Attack(second_hello, closed("unexpected_frame")),
    "no hello but a subscription": raw(streamed(Subscribe("numbers", 1, 1)), closed("unexpected_frame"), begun=False),
    "elements without demand": Attack(undemanded, HARMLESS, 500, 100_000),
    "elements after the end": Attack(after_the_end, HARMLESS, 500, 100_000),
    "an id that was never subscribed": given(b"\x07\x63\x01x", closed("unknown_id")),
    "a second answer": given(b"\x06\x01\x00", closed("unexpected_signal")),
    "an element longer than its size": given(b"\x07\x01" + b"\x7e" * 5, closed("unknown_type"), size=4),
    "an element in single bytes": Attack(one_by_one, HARMLESS, 300, 10_000),
    "no answers": Attack(never_answers, HARMLESS, 20, 100),
    "half a connection": Attack(ended, CLOSED),
    "a record that is not sealed": Attack(unsealed, CLOSED),
}


class Good:
    """A subscriber that behaves: a round trip is a request and its element. Use it as a context manager."""

    def __init__(self, certs: Certificates, victim: Victim) -> None:
        self._one = Streamer(victim.port(), client_context(certs.tls("good")))
        self._one.say(Subscribe("numbers", 1, 0))

    def __enter__(self) -> Good:
        return self

    def __exit__(self, *_error: object) -> None:
        self._one.__exit__()

    def round_trip(self) -> float:
        began = time.monotonic()
        self._one.frames.clear()
        self._one.say(Request(1, 1))
        self._one.hear(lambda: self._one.all(OnNext), "an element")
        return time.monotonic() - began
