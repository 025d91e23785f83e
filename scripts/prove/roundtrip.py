"""Round trips of random frames (V2).

A stream is a seed. Its frames are made by a random generator that likes edges, written, and read whole and cut at
random; what is read must be what was written. `python -m scripts.prove.proofs frames` tries many. `tests/wire` and
`tests/reactive` do the same with hypothesis, which finds smaller cases and is far slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

import tolliver_proto as wire
from tolliver_proto import layouts, reactive

PER_STREAM = 50
Make = Callable[[Random], Any]


# Frames, by chance.


def _number(rng: Random, bits: int) -> int:
    """Any number of so many bits: edges, small ones, and of every length."""
    if rng.random() < 0.3:
        return rng.choice((0, 1, 2**bits - 1, 2**bits - 2, 2 ** (bits - 1), 2 ** (bits - 1) - 1))
    return rng.getrandbits(rng.randrange(1, bits + 1))


def _text(rng: Random) -> str:
    if rng.random() < 0.4:
        return rng.choice(("", "a", "weather", "é", "tolliver2", "\0", "\U0010ffff", "x" * 300))
    ranges = ((0, 128), (0, 0xD800), (0xE000, 0x110000))
    return "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randrange(12)))


def _message_id(rng: Random) -> int | None:
    found = _number(rng, 32)
    return None if found == 2**31 - 1 else found  # the id of unreliable ones there (T-42)


def _uuid(rng: Random) -> UUID:
    return UUID(int=rng.getrandbits(128) or 1)


def _list(rng: Random) -> tuple[wire.Subscription, ...]:
    return tuple(wire.Subscription(_text(rng), _text(rng)) for _ in range(rng.choice((0, 0, 1, 2, 5))))


_STATUSES = [*wire.HandshakeStatus][:4]  # those of the drafts


def _row_id(rng: Random) -> int | None:
    return _number(rng, 63) or None


_MESSAGES: list[Make] = [
    lambda rng: wire.Message(_text(rng), _text(rng), rng.randbytes(rng.choice((0, 1, 100, 1000))), _message_id(rng)),
    lambda rng: wire.Ack(_number(rng, 32)),
    lambda rng: wire.Subscribe(_text(rng), _text(rng), _message_id(rng)),
    lambda rng: wire.HandshakeRequest(_number(rng, 64), _uuid(rng), _list(rng)),
    lambda rng: wire.HandshakeResponse(_number(rng, 64), _uuid(rng), rng.choice(_STATUSES), _list(rng)),
    lambda rng: wire.HandshakeFinal(rng.random() < 0.5),
]
_MAKE: dict[str, list[Make]] = {
    "draft 1": _MESSAGES,
    "draft 2": [*_MESSAGES, lambda rng: wire.Unsubscribe(_text(rng), _text(rng), _message_id(rng))],
    "Go 2026": [
        lambda rng: wire.Message(_text(rng), _text(rng), rng.randbytes(rng.choice((0, 1, 100, 1000))), _row_id(rng)),
        lambda rng: wire.Ack(_number(rng, 64)),
        lambda rng: layouts.Refusal(_number(rng, 64)),
        lambda rng: wire.Subscribe(_text(rng), _text(rng), _row_id(rng)),
        lambda rng: layouts.UnsubscribeMany(_list(rng) * 2, _row_id(rng)),
        *_MESSAGES[3:],
    ],
    "Rust 2026": [
        lambda rng: wire.Message(
            _text(rng), _text(rng), rng.randbytes(rng.choice((0, 1, 100, 1000))), _number(rng, 32) or None
        ),
        lambda rng: wire.HandshakeRequest(_number(rng, 64), _uuid(rng)),
        lambda rng: wire.HandshakeResponse(_number(rng, 64), _uuid(rng), rng.choice([*wire.HandshakeStatus])),
        lambda rng: wire.HandshakeFinal(rng.random() < 0.5),
    ],
}
_REVISIONS = {
    "draft 1": wire.Revision.DRAFT_1,
    "draft 2": wire.Revision.DRAFT_2,
    "Go 2026": wire.Revision.GO_2026,
    "Rust 2026": wire.Revision.RUST_2026,
}

_SIZES = {3: 4, 300: 1, 2**63: 100}
"""Streams with an element size; those of all other ids have none."""


def _long(rng: Random) -> int:
    found = _number(rng, 64)
    return found - 2**64 if found >= 2**63 else found


def _numbers(rng: Random) -> tuple[int, ...]:
    return tuple(_number(rng, 64) for _ in range(rng.choice((0, 1, 3))))


def _stream(rng: Random) -> int:
    found = _number(rng, 64)
    return found + 1 if found in _SIZES else found


def _fixed(rng: Random) -> Any:
    number, size = rng.choice([*_SIZES.items()])
    elements = tuple(rng.randbytes(size) for _ in range(rng.randrange(1, 9)))
    return reactive.OnNextPacked(number, elements) if rng.random() < 0.5 else reactive.OnNext(number, elements[0])


_STREAMING: list[Make] = [
    lambda rng: reactive.ClientHello(_number(rng, 64), _numbers(rng)),
    lambda rng: reactive.ServerHello(_number(rng, 64), _numbers(rng)),
    lambda rng: reactive.Subscribe(_text(rng), _number(rng, 64), _long(rng)),
    lambda rng: reactive.Request(_number(rng, 64), _long(rng)),
    lambda rng: reactive.Cancel(_number(rng, 64)),
    lambda rng: reactive.Subscribed(_stream(rng), 0),
    lambda rng: reactive.OnNext(_stream(rng), rng.randbytes(rng.choice((0, 1, 100, 1000)))),
    _fixed,
    lambda rng: reactive.OnComplete(_number(rng, 64)),
    lambda rng: reactive.OnError(_number(rng, 64), _text(rng)),
    lambda rng: reactive.Goodbye(_text(rng)),
]
PROTOCOLS = ("draft 1", "draft 2", "reactive")


# There and back.


def differs(protocol: str, seed: int) -> str | None:
    """Fault of the stream of this seed, or None."""
    rng = Random(seed)
    make = _MAKE.get(protocol, _STREAMING)
    frames = [rng.choice(make)(rng) for _ in range(PER_STREAM)]
    try:
        if protocol in _REVISIONS:
            revision = _REVISIONS[protocol]
            data = b"".join(wire.encode(frame, revision) for frame in frames)
            whole = list[Any](wire.decode(data, revision))
            pieces = list(_read(wire.Decoder(revision), data, rng))
        else:
            data = b"".join(reactive.encode(frame, _SIZES) for frame in frames)
            whole = reactive.decode(data, dict(_SIZES))
            pieces = list(_read(reactive.Decoder(dict(_SIZES), reactive.Limits.format()), data, rng))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for how, read in (("whole", whole), ("in pieces", pieces)):
        if read != frames:
            at = next((at for at, pair in enumerate(zip(frames, read, strict=False)) if pair[0] != pair[1]), len(read))
            return f"frame {at}, read {how}: {frames[at : at + 1]} became {read[at : at + 1]}"
    return None


def _read(decoder: Any, data: bytes, rng: Random) -> Iterator[Any]:
    at = 0
    while at < len(data):
        size = rng.choice((1, 2, 7, 50, 1000, 5000))
        decoder.feed(data[at : at + size])
        at += size
        yield from iter(decoder.next_frame, None)
    decoder.finish()
