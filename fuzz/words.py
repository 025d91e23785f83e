"""Dictionaries of the fuzzers: words of a few meaningful bytes.

    python -m fuzz.words        writes fuzz/dictionaries/ anew, after a change of a layout

The layouts are data, so the words come out of them, and a test sees to it that the files are what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tolliver_proto import Limits
from tolliver_proto.layouts import LAYOUTS, Fields, Shape
from tolliver_proto.node import PROBE_CHANNEL, RESERVED_CHANNEL
from tolliver_proto.reactive import DRAFT, UNBOUNDED, _varint
from tolliver_proto.recording import BLOCK, INDEX, INDEX_ENTRY, INDEX_MAGIC, MAGIC, MAX_LENGTH

from .targets import DICTIONARIES, Target

_U32S = (0, 1, 8, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 1, Limits().max_body, Limits().max_name)


def _empty(head: Fields, **values: object) -> bytes:
    """A head in which all else is zero."""
    zeros = dict(zip(head.names, head.struct.unpack(bytes(head.size)), strict=True))
    return head.pack(zeros | values)


def _wide(head: Fields | Shape, name: str, number: int) -> bytes:
    """A number as that field has it."""
    return number.to_bytes(head.maximum(name).bit_length() // 8)


def wire() -> Iterable[bytes]:
    """Heads, codes, names, control bodies and numbers of the messaging protocol, of every revision."""
    for layout in LAYOUTS.values():
        for kind, code in layout.codes.items():
            yield bytes([code])
            head = getattr(layout, kind.__name__.removeprefix("Handshake").lower())
            yield _empty(head.head if isinstance(head, Shape) else head, code=code)
        yield from (_wide(layout.response, "status", status) for status in layout.statuses.values())
        for prefix in layout.controls.values():
            count = layout.control_count.pack({"count": 1}) if layout.control_count is not None else b""
            entry = layout.entry.write({"channel": 1, "key": 1}, {"channel": b"a", "key": b"b"})
            yield b"".join((prefix, count, *entry))
        yield _wide(layout.message, "message_id", layout.unreliable_id)
    yield from (number.to_bytes(4) for number in _U32S)
    yield from (RESERVED_CHANNEL.encode(), PROBE_CHANNEL.encode(), "é".encode(), b"\xff\xfe", b"\xed\xa0\x80")


def reactive() -> Iterable[bytes]:
    """Types, and numbers at every width, of the Reactive Streams protocol."""
    for form in DRAFT.forms:
        yield _varint.write(form.code)
        yield _varint.write(form.code) + bytes(len(form.fields))
        yield _varint.write(form.code) + b"\x01" * len(form.fields)
    numbers = (0, 1, 127, 128, 16383, 16384, 2**21, 2**32 - 1, UNBOUNDED, UNBOUNDED + 1, 2**64 - 1)
    yield from map(_varint.write, numbers)
    yield from (b"\x81\x00", b"\xff" * 10, b"\x80" * 10 + b"\x00", "é".encode(), b"\xff\xfe")


def recording() -> Iterable[bytes]:
    """Magics, versions, lengths and empty heads of recordings and of their indexes."""
    yield from (MAGIC, INDEX_MAGIC, b"\x00\x01", MAX_LENGTH.to_bytes(4), (MAX_LENGTH + 1).to_bytes(4))
    yield from (_empty(BLOCK, magic=MAGIC, layout=1), _empty(INDEX, magic=INDEX_MAGIC, layout=1))
    yield INDEX_ENTRY.pack({"offset": 2**20, "ordinal": 1, "first_time_ns": 0, "time_ns": 2**60})
    yield from (bytes([code, argument]) for code in range(8) for argument in (0, 1, 2, 77, 255))


def trust() -> Iterable[bytes]:
    """Pieces of certificates and files of access rules."""
    yield from (
        b"\x30\x80",
        b"\x30\x82\x01\x00",
        b"\xa0\x03\x02\x01\x02",
        b"\x02\x01\x01",
        b"\x03\x42\x00\x04",
        b"\x84",
    )
    yield from (b"urn:uuid:", b"urn:tolliver:derive:", b"01890000-0000-7000-8000-000000000001", b"f00dbabe0001")
    yield from (b'default = "deny"\n', b'default = "allow"\n', b"[peers.", b"[derived.", b"subscribe = ", b"publish = ")
    yield from (b"connect = false\n", b'[["a", "*"]]\n', b'"*"', b"'''", b'"""', b"{a = 1}", b"[[", b"]\n", b"\\u0000")


def steps() -> Iterable[bytes]:
    """The calls of the programs that drive a node and a hub."""
    from . import node_bodies

    for do in node_bodies._STEPS:
        yield from (node_bodies.step(do, number, argument) for number in (0, 1) for argument in (0, 1, 63, 129, 255))


WORDS: dict[str, Callable[[], Iterable[bytes]]] = {
    "wire": wire,
    "reactive": reactive,
    "recording": recording,
    "trust": trust,
    "steps": steps,
}


def text_of(name: str) -> str:
    """The dictionary as its file has it: each word once, as libFuzzer reads it."""
    found = dict.fromkeys(word for word in WORDS[name]() if word)
    lines = ["".join(f"\\x{byte:02x}" for byte in word) for word in found]
    return "".join([f"# Made by `python -m fuzz.words`: {WORDS[name].__doc__}\n", *(f'"{line}"\n' for line in lines)])


def path_of(name: str) -> Path:
    return DICTIONARIES / f"{name}.dict"


def dictionary_of(target: Target) -> Path:
    return path_of(target.words)


if __name__ == "__main__":
    DICTIONARIES.mkdir(exist_ok=True)
    for each in WORDS:
        path_of(each).write_text(text_of(each))
