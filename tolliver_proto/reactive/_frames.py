"""Codec of frames, driven by a layout.

State: the decoder's unread bytes, its plan of readers for each frame type, and the numbers of a list that is coming in.
Reading depends on the streams (R-08): `sizes` maps a subscriber id to the element size of its last `Subscribed`.

Invariants: each length or count is tested against the limits where it is read, before memory is taken for it. A frame
that is not whole is read again from its beginning, but only once the bytes that it is known to need are here; a list of
numbers, of which each may need more bytes, goes on where it stopped. All other frames have few fields, and wait at most
once for each: so the time is linear in the bytes. After an error the decoder is finished.

A connection's decoder knows what its streams want (`fits`), and is lenient where one stream alone is at fault. A packed
frame of any length that its stream wants is handed out in parts, as its elements come. A name or a text that is too
long is read up to the length of a packed frame, for the streams to judge. Without `fits` each limit is the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from .._common.buffer import Buffer
from .._common.errors import (
    LimitExceeded,
    LocalProtocolError,
    MalformedFrame,
    RemoteProtocolError,
    UnexpectedEOF,
    UnexpectedFrame,
)
from . import _runs, _varint
from ._events import OnNextPacked, Subscribed
from ._layout import DRAFT, Kind, Layout
from ._limits import Limits

_FORMAT = Limits.format()
_NO_SIZES: Mapping[int, int] = MappingProxyType({})
_MIN_LONG = -(2**63)


# Writing.


def encode(frame: object, sizes: Mapping[int, int] = _NO_SIZES, *, layout: Layout = DRAFT) -> bytes:
    """Returns the frame's bytes. `sizes` has the element size of each stream that declared one.

    Raises LocalProtocolError for a frame that cannot be written: a number out of range, text that UTF-8 cannot carry,
    an element of another size than the stream's, packed elements in a stream without an element size (R-21), or no
    elements in a packed frame (R-22).
    """
    form = layout.by_frame.get(type(frame))
    if form is None:
        raise LocalProtocolError("not_a_frame", f"{type(frame).__name__} is no frame: give one of the frame classes")
    parts = [_varint.write(form.code)]
    size = 0
    for name, kind in form.fields.items():
        value = getattr(frame, name)
        parts.append(_WRITERS[kind](value, name, size))
        if kind is Kind.STREAM:
            size = sizes.get(value, 0)
    return b"".join(parts)


def _write_number(value: Any, name: str, _size: int) -> bytes:
    _check_number(value, name, 0, _varint.MAX_NUMBER)
    return _varint.write(value)


def _write_long(value: Any, name: str, _size: int) -> bytes:
    _check_number(value, name, _MIN_LONG, _varint.MAX_LONG)
    return _varint.write(_varint.from_long(value))


def _write_numbers(value: Any, name: str, size: int) -> bytes:
    return b"".join([_varint.write(len(value)), *(_write_number(number, name, size) for number in value)])


def _write_text(value: Any, name: str, _size: int) -> bytes:
    raw = text_bytes(value, name)
    return _varint.write(len(raw)) + raw


def _write_element(value: Any, name: str, size: int) -> bytes:
    check_bytes(type(value), name)
    if not size:
        return _varint.write(len(value)) + bytes(value)
    if len(value) != size:
        raise LocalProtocolError("wrong_size", f"{name} of {len(value)} bytes in a stream of {size} each (R-24)")
    return bytes(value)


def _write_elements(value: Any, name: str, size: int) -> bytes:
    if not size or not value:
        raise LocalProtocolError(
            "not_packable", "only elements of a fixed size can be packed, one at least: use OnNext (R-21, R-22)"
        )
    return _varint.write(len(value)) + b"".join([_write_element(element, name, size) for element in value])


_WRITERS: dict[Kind, Callable[[Any, str, int], bytes]] = {
    Kind.NUMBER: _write_number,
    Kind.LONG: _write_long,
    Kind.NUMBERS: _write_numbers,
    Kind.NAME: _write_text,
    Kind.TEXT: _write_text,
    Kind.STREAM: _write_number,
    Kind.SIZE: _write_number,
    Kind.ELEMENT: _write_element,
    Kind.ELEMENTS: _write_elements,
}


def text_bytes(value: Any, name: str) -> bytes:
    """Returns the text as UTF-8. Raises LocalProtocolError, with the field `name`, for a value that is no text or that
    UTF-8 cannot carry.
    """
    try:
        return bytes(value.encode())
    except (UnicodeEncodeError, AttributeError):
        raise LocalProtocolError("bad_text", f"{name} {value!r:.100} is not text that UTF-8 can carry") from None


def cut_text(text: Any, most: int) -> str:
    """Cuts a text to `most` bytes, between two characters (R-34). A character that UTF-8 cannot carry becomes "?"."""
    if not isinstance(text, str):
        raise LocalProtocolError("bad_text", f"{text!r:.100} is not text")
    return text.encode(errors="replace")[:most].decode(errors="ignore")


def check_bytes(kind: type, name: str) -> None:
    if not issubclass(kind, bytes):
        raise LocalProtocolError("not_bytes", f"{name} must be bytes, not {kind.__name__}: encode it first")


def _check_number(value: object, name: str, least: int, most: int) -> None:
    if not isinstance(value, int) or not least <= value <= most:
        raise LocalProtocolError("bad_number", f"{name} {value!r:.100} is not a whole number from {least} to {most}")


# Reading.


def decode(
    data: bytes | bytearray | memoryview,
    sizes: MutableMapping[int, int] | None = None,
    limits: Limits = _FORMAT,
    *,
    layout: Layout = DRAFT,
) -> list[Any]:
    """Returns all frames of a buffer, in order. `sizes` is read, and updated by each `Subscribed`.

    Raises MalformedFrame or LimitExceeded, and UnexpectedEOF if the buffer ends inside a frame.
    """
    decoder = Decoder(sizes, limits, layout=layout)
    decoder.feed(data)
    frames = []
    while (frame := decoder.next_frame()) is not None:
        frames.append(frame)
    decoder.finish()
    return frames


class _Rest(NamedTuple):
    """Elements that are still to come of a packed frame that is handed out in parts."""

    subscriber_id: int
    size: int
    left: int


class _List:
    """Numbers of a list that is still coming in. A list is the only field that may be wrong before it is whole.

    Places are counted from the beginning of the stream, in bytes.
    """

    __slots__ = ("end", "numbers", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.numbers: list[int] = []


class Decoder:
    """Parser of one direction of a connection: bytes in, frames out, one at a time. No frame is read before it is asked
    for.

    `known(subscriber_id)` is True for ids that were ever subscribed: a signal for another id raises UnexpectedFrame
    before the bytes behind the id are here (R-08). `fits(subscriber_id, count)` is True if a stream may get `count`
    elements more. After an error `next_frame` raises the same error again.
    """

    def __init__(
        self,
        sizes: MutableMapping[int, int] | None = None,
        limits: Limits = _FORMAT,
        *,
        layout: Layout = DRAFT,
        known: Callable[[int], bool] | None = None,
        fits: Callable[[int, int], bool] | None = None,
    ) -> None:
        self._sizes = {} if sizes is None else sizes
        self._limits = limits
        self._known = known
        self._fits = fits
        self._longest = max(limits.max_name, limits.max_text, limits.max_packed)
        self._rest: _Rest | None = None
        self._buffer = Buffer()
        self._error: RemoteProtocolError | None = None
        self._id = self._size = 0  # of the stream whose id was read last, and its element size
        self._frame: type | None = None
        self._list: _List | None = None
        self.use(layout)

    def use(self, layout: Layout) -> None:
        """Sets the layout of the next frames."""
        self._plans = {
            form.code: (form.frame, tuple(_READERS[kind] for kind in form.fields.values())) for form in layout.forms
        }
        self._heads = layout.heads
        self._last: tuple[int, _runs.Heads] | None = None  # the last run's stream: the next run is likely of the same

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Adds received bytes; an object of class `bytes` is not copied."""
        if self._error is None and data:
            self._buffer.feed(bytes(data))

    @property
    def buffered(self) -> int:
        """Bytes that are held and not parsed yet."""
        return len(self._buffer)

    @property
    def offset(self) -> int:
        """Position of the next frame in the stream, in bytes."""
        return self._buffer.offset

    def finish(self) -> None:
        """Raises UnexpectedEOF if the stream, which has ended, ended inside a frame (R-30)."""
        if self._error is None and (len(self._buffer) or self._rest is not None):
            self._error = UnexpectedEOF(
                "eof_in_frame",
                f"the stream ended inside a frame, {len(self._buffer)} bytes after its beginning",
                frame=self._name(),
                offset=self._buffer.offset,
            )
            raise self._error

    def next_frame(self) -> Any | None:
        """Returns the next whole frame, or None if more bytes are needed. Raises MalformedFrame or LimitExceeded."""
        if self._error is not None:
            raise self._error
        buffer = self._buffer
        if buffer.starved or not len(buffer):
            return None
        try:
            while True:
                try:
                    frame, pos = self._read_frame(buffer.data, buffer.pos)
                except _varint.Short as short:
                    if not buffer.gather(short.end - buffer.pos):
                        return None
                else:
                    buffer.move_to(pos)
                    return frame
        except _varint.TooLong:
            self._error = self._malformed("long_varint", "a number of more than 64 bits (R-03)")
            raise self._error from None
        except RemoteProtocolError as error:
            self._error = error
            raise

    def next_run(self, room: Callable[[int], int]) -> tuple[int, list[bytes]] | None:
        """Returns a stream's id and its next whole elements, at most `room(id)` of them.

        None: the next bytes are no such elements, and `next_frame` has to read them.
        """
        buffer, heads = self._buffer, self._heads
        data, pos = buffer.data, buffer.pos
        if heads is None or self._rest is not None or self._error is not None or not data.startswith(heads, pos):
            return None
        try:
            subscriber_id = _varint.read(data, _varint.read(data, pos)[1])[0]
        except (_varint.Short, _varint.TooLong):
            return None
        last = self._last
        if last is None or last[0] != subscriber_id:
            last = self._last = (subscriber_id, heads.of(subscriber_id))
        size = self._sizes.get(subscriber_id, 0)
        elements, end = _runs.read(last[1], data, pos, size, room(subscriber_id), self._limits)
        if not elements:
            return None
        buffer.move_to(end)
        return subscriber_id, elements

    def _read_frame(self, data: bytes, pos: int) -> tuple[Any, int]:
        if self._rest is not None:
            elements, pos = self._read_part(data, pos, self._rest)
            return OnNextPacked(self._id, elements), pos
        self._frame, self._size = None, 0
        code, pos = _varint.read(data, pos)
        plan = self._plans.get(code)
        if plan is None:
            raise self._malformed("unknown_type", f"no frame has the type number {code} (R-07)")
        self._frame, readers = plan
        values = []
        for reader in readers:
            value, pos = reader(self, data, pos)
            values.append(value)
        frame = self._frame(*values)
        if self._frame is Subscribed:
            self._remember(frame)
        return frame, pos

    def _remember(self, frame: Subscribed) -> None:
        if frame.element_size:
            self._sizes[frame.subscriber_id] = frame.element_size
        else:
            self._sizes.pop(frame.subscriber_id, None)

    def _name(self) -> str | None:
        return self._frame.__name__ if self._frame else None

    def _malformed(self, code: str, detail: str) -> MalformedFrame:
        return MalformedFrame(code, detail, frame=self._name(), offset=self._buffer.offset)

    def _limit(self, code: str, detail: str) -> NoReturn:
        raise LimitExceeded(code, detail, frame=self._name(), offset=self._buffer.offset)

    def _read_number(self, data: bytes, pos: int) -> tuple[int, int]:
        return _varint.read(data, pos)

    def _read_long(self, data: bytes, pos: int) -> tuple[int, int]:
        number, pos = _varint.read(data, pos)
        return _varint.to_long(number), pos

    def _read_numbers(self, data: bytes, pos: int) -> tuple[tuple[int, ...], int]:
        count, pos = _varint.read(data, pos)
        if count > self._limits.max_extensions:
            self._limit("too_many", f"{count} extensions: the limit is {self._limits.max_extensions} (R-27)")
        base = self._buffer.base
        begun = self._list
        if begun is None or begun.start != base + pos:
            begun = self._list = _List(base + pos)
        pos = begun.end - base
        while len(begun.numbers) < count:
            number, pos = _varint.read(data, pos)
            begun.numbers.append(number)
            begun.end = base + pos
        self._list = None
        return tuple(begun.numbers), pos

    def _read_name(self, data: bytes, pos: int) -> tuple[str, int]:
        return self._read_utf8(data, pos, self._limits.max_name if self._fits is None else self._longest)

    def _read_text(self, data: bytes, pos: int) -> tuple[str, int]:
        if self._fits is None:
            return self._read_utf8(data, pos, self._limits.max_text)
        text, pos = self._read_utf8(data, pos, self._longest)
        return cut_text(text, self._limits.max_text), pos

    def _read_utf8(self, data: bytes, pos: int, most: int) -> tuple[str, int]:
        raw, pos = self._read_bytes(data, pos, most)
        try:
            return raw.decode(), pos
        except UnicodeDecodeError:
            raise self._malformed("bad_text", "text that is not UTF-8 (R-34)") from None

    def _read_bytes(self, data: bytes, pos: int, most: int) -> tuple[bytes, int]:
        length, pos = _varint.read(data, pos)
        if length > most:
            self._limit("too_long", f"{length} bytes in one field: the limit is {most} (R-33, R-34)")
        return _cut(data, pos, length)

    def _read_stream(self, data: bytes, pos: int) -> tuple[int, int]:
        subscriber_id, pos = _varint.read(data, pos)
        if self._known is not None and not self._known(subscriber_id):
            raise UnexpectedFrame(
                "unknown_id",
                f"a signal for the subscriber id {subscriber_id}, which was never subscribed (R-08)",
                frame=self._name(),
                offset=self._buffer.offset,
            )
        self._id, self._size = subscriber_id, self._sizes.get(subscriber_id, 0)
        return subscriber_id, pos

    def _read_size(self, data: bytes, pos: int) -> tuple[int, int]:
        size, pos = _varint.read(data, pos)
        if size > self._limits.max_element:
            self._limit("too_long", f"an element size of {size}: the limit is {self._limits.max_element} (R-20)")
        return size, pos

    def _read_element(self, data: bytes, pos: int) -> tuple[bytes, int]:
        if self._size:
            return _cut(data, pos, self._size)
        return self._read_bytes(data, pos, self._limits.max_element)

    def _read_elements(self, data: bytes, pos: int) -> tuple[tuple[bytes, ...], int]:
        size = self._size
        if not size:
            raise self._malformed("not_packable", "packed elements in a stream without an element size (R-21)")
        count, pos = _varint.read(data, pos)
        if count * size > self._limits.max_packed:
            if self._fits is None or not self._fits(self._id, count):
                self._limit("too_long", f"{count} x {size} bytes packed: the limit is {self._limits.max_packed} (R-23)")
            return self._read_part(data, pos, _Rest(self._id, size, count))
        end = pos + count * size
        if end > len(data):
            raise _varint.Short(end)
        return tuple(_runs.cut(data, pos, end, size)), end

    def _read_part(self, data: bytes, pos: int, rest: _Rest) -> tuple[tuple[bytes, ...], int]:
        """Reads the whole elements that are here of a long packed frame, one at least."""
        subscriber_id, size, count = rest
        here = min(count, (len(data) - pos) // size, max(1, self._limits.max_packed // size))
        if not here:
            raise _varint.Short(pos + size)
        self._id, self._rest = subscriber_id, _Rest(subscriber_id, size, count - here) if here < count else None
        end = pos + here * size
        return tuple(_runs.cut(data, pos, end, size)), end


def _cut(data: bytes, pos: int, length: int) -> tuple[bytes, int]:
    end = pos + length
    if end > len(data):
        raise _varint.Short(end)
    return data[pos:end], end


# Unbound methods: a decoder that held bound ones would be freed by a full garbage collection alone.
_READERS: dict[Kind, Callable[[Decoder, bytes, int], tuple[Any, int]]] = {
    Kind.NUMBER: Decoder._read_number,
    Kind.LONG: Decoder._read_long,
    Kind.NUMBERS: Decoder._read_numbers,
    Kind.NAME: Decoder._read_name,
    Kind.TEXT: Decoder._read_text,
    Kind.STREAM: Decoder._read_stream,
    Kind.SIZE: Decoder._read_size,
    Kind.ELEMENT: Decoder._read_element,
    Kind.ELEMENTS: Decoder._read_elements,
}
