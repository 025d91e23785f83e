"""Frames to bytes and back, driven by a layout.

State: an encoder has none, and is shared by all connections of one layout and one unreliable id. A decoder has the
bytes that are not parsed, the frames that were parsed ahead (`ready`), the entries of a handshake that is coming in,
and a cache of names.

The parser is flat. It reads one immutable chunk at an offset. The head of a message has all its lengths; the parser
tests them against the limits (T-06 to T-08) and only then waits for the rest. No head tells the length of a handshake:
a handshake is parsed entry by entry, so that it takes no more memory than the bytes that have arrived.

Invariants: no length that a peer claims takes memory before its bytes are here. Only messages and acks are parsed
ahead, because all other frames may change how the next one is read. After an error a decoder raises the same error for
ever. The hot path (`_parse_run`) reads well-formed frames with known names alone, and leaves all others to
`_next_frame_slowly`, so that each error is found in one place.

Branches by revision were rejected: a layout is compiled once, into packers and readers, and a layout whose message has
another form brings other readers. This module alone knows how bytes become frames: a compiled twin could replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from struct import Struct
from typing import Any, NoReturn, Protocol
from uuid import UUID

from .._common.arguments import Unchecked
from .._common.buffer import Buffer
from .._common.errors import (
    LimitExceeded,
    LocalProtocolError,
    MalformedFrame,
    OwnLimitExceeded,
    RemoteProtocolError,
    ReservedChannel,
    UnexpectedEOF,
)
from .events import (
    RESERVED_CHANNEL,
    Ack,
    Decoded,
    Frame,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    Ignored,
    IgnoreReason,
    Message,
    Refusal,
    Revision,
    Subscribe,
    SubscribeMany,
    Subscription,
    Unsubscribe,
    UnsubscribeMany,
)
from .layouts import LAYOUTS, MANY, OPENING, ControlForm, ControlType, Fields, Layout, Shape, opening_of
from .limits import Limits

_NAMES_CACHED = 1024
_NAME_CACHED = 256
_FRAMES_AT_ONCE = 64
_SHORT_RUN = 16  # up to this number of acks, one call packs all of them
_ACK_RUN = 256  # longer runs are packed in powers of two up to this: structs of all lengths would take 2 MiB
_NO_UUIDS = (UUID(int=0), UUID(int=2**128 - 1))
_FORMAT = Limits.format()
_USUAL_HEAD = ("code", "channel", "key", "body", "message_id")
_USUAL_PARTS = ("channel", "key", "body")
_RESERVED = RESERVED_CHANNEL.encode()
_NO_CODE = -1  # the code of frames that the hot path leaves to the slow one
_NO_ACK = Fields("B message_id")


def encode(frame: Frame, revision: Revision = Revision.DRAFT_2) -> bytes:
    """Returns the frame's bytes.

    Raises LocalProtocolError if the revision cannot express the frame: Unsubscribe in DRAFT_1 (T-21), text that is not
    UTF-8 (T-11), a number too large for its field, a Message with the id that means "unreliable" (T-42). Raises
    ReservedChannel for a Message on the reserved channel (T-27).
    """
    return encoder(revision).encode(frame)


def decode(
    data: bytes | bytearray | memoryview,
    revision: Revision = Revision.DRAFT_2,
    limits: Limits = _FORMAT,
) -> list[Decoded]:
    """Returns all frames of a buffer, in order.

    Raises MalformedFrame or LimitExceeded as a Decoder does, and UnexpectedEOF if the buffer ends inside a frame.
    """
    decoder = Decoder(revision, limits)
    decoder.feed(data)
    frames = []
    while (frame := decoder.next_frame()) is not None:
        frames.append(frame)
    decoder.finish()
    return frames


class Outgoing(Protocol):
    """A reliable message that is to be written."""

    @property
    def wire_id(self) -> int: ...

    @property
    def channel(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def body(self) -> bytes: ...


class Encoder:
    """A layout compiled for writing: one encoder without state for each revision and unreliable id."""

    def __init__(self, layout: Layout, unreliable_id: int) -> None:
        shape = layout.message
        self._layout = layout
        self._codes = layout.codes
        self._pack_message: Callable[..., Any] = shape.head.struct.pack
        self.overhead: int = shape.size
        """Bytes of a message without its names and its body."""
        self._in_order: Callable[[tuple[Any, ...]], Sequence[bytes]] | None = None
        if not shape.is_flat:
            self._pack_message = _as_they_are
            self._in_order = partial(_spread, shape)
        elif (shape.head.names, shape.parts) != (_USUAL_HEAD, _USUAL_PARTS):
            head_order = itemgetter(*[_USUAL_HEAD.index(name) for name in shape.head.names])
            self._pack_message = lambda *head: shape.head.struct.pack(*head_order(head))
            self._in_order = itemgetter(0, *[1 + _USUAL_PARTS.index(name) for name in shape.parts])
        self._max_id = layout.greatest_id
        self._max_channel, self._max_key, self._max_body = map(layout.longest, _USUAL_PARTS)
        self._ack_heads = _ack_heads(layout)
        ack = layout.ack or _NO_ACK
        self._ack_form, self._ack_values = ack.struct.format.lstrip(">"), self._ack_heads.get(Ack, [])
        self._ack_size, self._ack_id_at = len(ack.names), ack.index("message_id")
        self._message_code = layout.codes[Message]
        self._unreliable_id = unreliable_id
        many = MANY.values() if layout.control_count is not None else ()
        self.carries: frozenset[type] = frozenset((*layout.codes, *self._ack_heads, *layout.controls, *many))
        """Frames and control messages that the revision has (T-21)."""
        self._by_type: dict[type, Callable[..., bytes]] = {
            HandshakeRequest: self._request,
            HandshakeResponse: self._response,
            HandshakeFinal: self.final,
            Message: self._message,
            Ack: self._ack,
            Refusal: self._ack,
            Subscribe: self._control,
            Unsubscribe: self._control,
            SubscribeMany: self._controls,
            UnsubscribeMany: self._controls,
        }

    def encode(self, frame: Unchecked) -> bytes:
        write = self._by_type.get(type(frame))
        if write is None:
            raise LocalProtocolError(
                "not_a_frame", f"{type(frame).__name__} cannot be sent: give one of the frame classes"
            )
        return write(frame)

    @property
    def entry_overhead(self) -> int:
        """Bytes that a subscription takes in a handshake, without its names."""
        return self._layout.listed_size

    @property
    def max_sizes(self) -> tuple[int, int, int]:
        """Largest channel, key and body of the format, in bytes."""
        return self._max_channel, self._max_key, self._max_body

    def acks(self, message_ids: Sequence[int]) -> bytes:
        """Returns the bytes of the acks of a run, packed in few calls. Every id must have come over the wire.

        Raises LocalProtocolError if the revision has no acks.
        """
        if not self._ack_values:
            self._ack_head(Ack)  # which raises
        left = len(message_ids)
        if left <= _SHORT_RUN:
            return self._some_acks(message_ids)
        packed = []
        while left:
            count = left if left <= _SHORT_RUN else min(_ACK_RUN, 1 << left.bit_length() - 1)
            packed.append(self._some_acks(message_ids[-left : count - left or None]))
            left -= count
        return b"".join(packed)

    def _some_acks(self, message_ids: Sequence[int]) -> bytes:
        values = self._ack_values * len(message_ids)
        values[self._ack_id_at :: self._ack_size] = message_ids
        return _ack_run(self._ack_form, len(message_ids)).pack(*values)

    def _ack_head(self, kind: type) -> tuple[Fields, list[int]]:
        """Returns the fields of an ack of the class `kind`, and their values without the id. Raises LocalProtocolError
        if there is no such ack.
        """
        ack, head = self._layout.ack, self._ack_heads.get(kind)
        if ack is None or head is None:
            raise LocalProtocolError("not_expressible", f"this revision has no {kind.__name__}: send none")
        return ack, head

    def final(self, frame: Unchecked) -> bytes:
        final = _code(self._layout.finals, frame.compatible, "compatible")
        return self._layout.final.pack({"code": self._codes[HandshakeFinal], "final": final})

    def _message(self, frame: Unchecked) -> bytes:
        if frame.channel == RESERVED_CHANNEL:
            raise ReservedChannel(
                "reserved_channel",
                f"the channel {RESERVED_CHANNEL!r} is the protocol's own: choose another name",
            )
        body = frame.body
        if not isinstance(body, bytes):
            raise LocalProtocolError("not_bytes", f"a body must be bytes, not {type(body).__name__}: encode it first")
        return self.message(frame.channel, frame.key, body, frame.message_id)

    def _control(self, frame: Unchecked) -> bytes:
        subscription = Subscription(frame.channel, frame.key)
        return self._control_message(type(frame), frame, (subscription,))

    def _controls(self, frame: Unchecked) -> bytes:
        kind = next(one for one, many in MANY.items() if type(frame) is many)
        return self._control_message(kind, frame, frame.subscriptions)

    def _control_message(
        self,
        kind: ControlType,
        frame: Unchecked,
        entries: Sequence[Subscription],
    ) -> bytes:
        prefix, count = self._layout.controls.get(kind), self._layout.control_count
        if prefix is None or (count is None and type(frame) is not kind):
            raise LocalProtocolError(
                "not_expressible",
                f"this revision has no {type(frame).__name__}: the peer learns of it at the next handshake (T-21)",
            )
        parts = [prefix]
        if count is not None:
            _number(len(entries), count.maximum("count"), "number of subscriptions")
            parts.append(count.pack({"count": len(entries)}))
        parts += map(self._entry, entries)
        return self.message(RESERVED_CHANNEL, "", b"".join(parts), frame.message_id)

    def message(self, channel: Unchecked, key: Unchecked, body: bytes, message_id: Unchecked) -> bytes:
        """Returns the bytes of a message; a `message_id` of None makes it unreliable. The caller has checked the limits
        of the names (T-07).
        """
        try:
            raw_channel, raw_key = channel.encode(), key.encode()
        except (UnicodeEncodeError, AttributeError):
            raw_channel, raw_key = _text(channel, "channel"), _text(key, "key")
        channel_size, key_size, body_size = len(raw_channel), len(raw_key), len(body)
        if body_size > self._max_body or channel_size > self._max_channel or key_size > self._max_key:
            raise OwnLimitExceeded(
                "too_long",
                f"body of {body_size}, channel of {channel_size}, key of {key_size} bytes: the format "
                f"carries {self._max_body}, {self._max_channel} and {self._max_key} at most (T-06)",
            )
        if message_id is None:
            message_id = self._unreliable_id
        elif message_id == self._unreliable_id:
            raise LocalProtocolError(
                "reserved_id", f"id {message_id} means unreliable on the wire (T-42): pass message_id=None for that"
            )
        elif type(message_id) is not int or not 0 <= message_id <= self._max_id:
            _number(message_id, self._max_id, "message_id")
        head = self._pack_message(self._message_code, channel_size, key_size, body_size, message_id)
        parts = (head, raw_channel, raw_key, body)
        return b"".join(parts if self._in_order is None else self._in_order(parts))

    def messages(self, run: Iterable[Outgoing]) -> bytes:
        """Returns the bytes of reliable messages, as `message` writes them. Names are encoded once if they repeat."""
        pack, in_order, code = self._pack_message, self._in_order, self._message_code
        most, last_id, unreliable = self._max_body, self._max_id, self._unreliable_id
        pieces: list[bytes] = []
        names: tuple[str, str] | None = None
        for one in run:
            body, wire_id = one.body, one.wire_id
            if names != (one.channel, one.key) or len(body) > most or wire_id > last_id or wire_id == unreliable:
                pieces.append(self.message(one.channel, one.key, body, wire_id))  # with all checks
                names = one.channel, one.key
                channel, key = names[0].encode(), names[1].encode()
                sizes = code, len(channel), len(key)
            else:
                parts = (pack(*sizes, len(body), wire_id), channel, key, body)
                pieces += parts if in_order is None else in_order(parts)
        return b"".join(pieces)

    def _ack(self, frame: Unchecked) -> bytes:
        ack, head = self._ack_head(type(frame))
        _number(frame.message_id, ack.maximum("message_id"), "message_id")
        return ack.pack({**dict(zip(ack.names, head, strict=True)), "message_id": frame.message_id})

    def _request(self, frame: Unchecked) -> bytes:
        return self._handshake(self._layout.request, frame, {})

    def _response(self, frame: Unchecked) -> bytes:
        status = _code(self._layout.statuses, frame.status, "status")
        return self._handshake(self._layout.response, frame, {"status": status})

    def _handshake(self, head: Fields, frame: Unchecked, more: dict[str, Any]) -> bytes:
        _number(frame.version, head.maximum("version"), "version")
        if self._layout.has_lists:
            _number(len(frame.subscriptions), head.maximum("count"), "number of subscriptions")
        elif frame.subscriptions:
            raise LocalProtocolError(
                "not_expressible", "a handshake of this revision has no list of subscriptions: give none"
            )
        if not isinstance(frame.instance_id, UUID) or frame.instance_id in _NO_UUIDS:
            raise LocalProtocolError("bad_uuid", f"{frame.instance_id!r:.100} names nobody: give a real UUID (T-03)")
        more |= {
            "code": self._codes[type(frame)],
            "version": frame.version,
            "instance_id": frame.instance_id.bytes,
            "count": len(frame.subscriptions),
        }
        prefix = self._layout.list_prefix
        return head.pack(more) + b"".join([prefix + self._entry(one) for one in frame.subscriptions])

    def _entry(self, subscription: Unchecked) -> bytes:
        channel, key = _text(subscription[0], "channel"), _text(subscription[1], "key")
        entry = self._layout.entry
        if len(channel) > entry.maximum("channel") or len(key) > entry.maximum("key"):
            raise OwnLimitExceeded("too_long", f"channel of {len(channel)}, key of {len(key)} bytes: too long (T-07)")
        return b"".join(entry.write({"channel": len(channel), "key": len(key)}, {"channel": channel, "key": key}))


def _as_they_are(*head: int) -> tuple[int, ...]:
    return head


def _spread(shape: Shape, written: tuple[Any, ...]) -> list[bytes]:
    """Returns the bytes of a message of a shape whose lengths do not all stand before the first part.

    `written` has the values of the usual head, then channel, key and body.
    """
    head, *parts = written
    return shape.write(dict(zip(_USUAL_HEAD, head, strict=True)), dict(zip(_USUAL_PARTS, parts, strict=True)))


def _ack_heads(layout: Layout) -> dict[type, list[int]]:
    """Returns the values of an ack's fields by class; the caller sets the id."""
    if layout.ack is None:
        return {}
    names = layout.ack.names
    kinds = layout.acks if "status" in names else {Ack: 0}
    return {
        kind: [{"code": layout.codes[Ack], "status": status, "message_id": 0}[name] for name in names]
        for kind, status in kinds.items()
    }


@lru_cache(maxsize=64)  # room for all lengths of three forms of acks; a struct takes 64 bytes for each ack
def _ack_run(form: str, count: int) -> Struct:
    return Struct(">" + form * count)


@lru_cache(maxsize=16)
def _compiled(layout: Layout, unreliable_id: int) -> Encoder:
    return Encoder(layout, unreliable_id)


def encoder(revision: Revision, unreliable_id: int | None = None) -> Encoder:
    """Returns the encoder of a revision, with its own unreliable id (None) or the given one (T-42)."""
    layout = LAYOUTS[revision]
    return _compiled(layout, layout.unreliable_id if unreliable_id is None else unreliable_id)


_Places = tuple[int, int, int, int]
"""Start and end of an entry's channel, and of its key."""

_EntryReader = Callable[[bytes, int, int], tuple[int, int, _Places | None]]
"""Function from (data, pos, available) to the least end of the entry at `pos`, the length of the longest name in sight,
and the places of the two names, if both lengths are known."""


@lru_cache(maxsize=16)
def _entry_reader(shape: Shape) -> _EntryReader:
    if not shape.is_flat or shape.head.names != shape.parts:
        return partial(_read_any_entry, shape)
    unpack, size, is_usual = shape.head.struct.unpack_from, shape.size, shape.parts[0] == "channel"

    def read(data: bytes, pos: int, available: int) -> tuple[int, int, _Places | None]:
        start = pos + size
        if start > available:
            return start, 0, None
        first, second = unpack(data, pos)
        middle = start + first
        end = middle + second
        places = (start, middle, middle, end) if is_usual else (middle, end, start, middle)
        return end, first if first > second else second, places

    return read


def _read_any_entry(shape: Shape, data: bytes, pos: int, available: int) -> tuple[int, int, _Places | None]:
    reading = shape.read(data, pos, available)
    longest = max((reading.values[part] for part in reading.places), default=0)
    places = reading.places["channel"] + reading.places["key"] if reading.known else None
    return reading.end, longest, places


def _entry_names(data: bytes, places: _Places) -> Subscription | None:
    channel, channel_end, key, key_end = places
    try:
        return Subscription(data[channel:channel_end].decode(), data[key:key_end].decode())
    except UnicodeDecodeError:
        return None


def _control_entries(form: ControlForm, body: bytes, most: int) -> list[Subscription] | None:
    """Returns the entries of a control body of this form (C2); None if the body has another form, lengths that do
    not add up (T-12), or over `most` entries.

    Each entry takes bytes of the body: a count above the rest of the body is refused before memory is taken for it.
    """
    if not body.startswith(form.prefix):
        return None
    at, left = len(form.prefix), 1
    if form.counted is not None:
        if len(body) < at + form.counted.size:
            return None
        left = form.counted.unpack(body, at)["count"]
        at += form.counted.size
        if left > min(most, (len(body) - at) // form.entry.size):
            return None
    entries: list[Subscription] = []
    read = _entry_reader(form.entry)
    while left:
        at, _, places = read(body, at, len(body))
        names = None if places is None else _entry_names(body, places)
        if names is None:
            return None
        entries.append(names)
        left -= 1
    return entries if at == len(body) else None


def _text(text: Unchecked, what: str) -> bytes:
    try:
        raw: bytes = text.encode()
    except (UnicodeEncodeError, AttributeError):
        raise LocalProtocolError("bad_text", f"{what} {text!r:.100} is not text that UTF-8 can carry (T-11)") from None
    return raw


def _code(codes: Mapping[Any, int], value: object, what: str) -> int:
    if value not in codes:
        raise LocalProtocolError("no_code", f"{what} {value!r:.100} has no code: give one of {[*codes]} (T-60, C1)")
    return codes[value]


def _number(value: Unchecked, maximum: int, what: str) -> None:
    if not isinstance(value, int) or not 0 <= value <= maximum:
        raise LocalProtocolError("bad_number", f"{what} {value!r:.100} is not a whole number from 0 to {maximum}")


class _Handshake:
    """Handshake frame that is being read: its head is parsed, and its subscriptions are coming in."""

    __slots__ = ("count", "head", "kind", "offset", "size", "subscriptions", "wanted")

    def __init__(self, kind: type, head: dict[str, Any], size: int, offset: int) -> None:
        self.kind = kind
        self.head = head
        self.wanted = head.get("count", 0)
        self.count = 0
        self.subscriptions: list[Subscription] = []
        self.size = size
        self.offset = offset


class Decoder:
    """Bytes in, frames out, without a state of the handshake. Recordings and Spark partitions use decoders too.

    After an error the decoder is finished: `next_frame` raises the same error again.
    """

    __slots__ = (
        "__weakref__",
        "_ack_kinds",
        "_acks",
        "_buffer",
        "_error",
        "_finals",
        "_forms",
        "_handshake",
        "_in_order",
        "_kinds",
        "_layout",
        "_limits",
        "_max_id",
        "_maxima",
        "_message_code",
        "_message_size",
        "_names",
        "_statuses",
        "_unpack",
        "_unreliable",
        "builds_responses",
        "gives_unacked_ids",
        "ready",
    )

    def __init__(
        self,
        revision: Revision = Revision.DRAFT_2,
        limits: Limits = _FORMAT,
        *,
        accept_either: bool = False,
        unreliable_id: int | None = None,
    ) -> None:
        """`accept_either` reads DRAFT_1's control bodies too, if the revision has others (T-22). `unreliable_id` is the
        sender's id of unreliable messages, None for the revision's own (T-42)."""
        self._limits = limits
        self._buffer = Buffer()
        self._error: RemoteProtocolError | None = None
        self._handshake: _Handshake | None = None
        self.builds_responses: bool = True
        """False if the list of a response is checked and left out (unexpected frames, T-65)."""
        self.gives_unacked_ids: bool = True
        """False if the ids of a layout without acks are left out: whoever acknowledges has nothing to do with them."""
        self._names: dict[bytes, str] = {}
        self.ready: list[Message | Ack] = []
        """Frames that were parsed ahead, the next one last: messages and acks only, which change no state."""
        self.speak(revision)
        self.use(accept_either, self._layout.unreliable_id if unreliable_id is None else unreliable_id)

    def speak(self, revision: Revision) -> None:
        """Sets the layout of the next frames. No frame was parsed ahead when this is called."""
        self._layout = layout = LAYOUTS[revision]
        limits, tables = self._limits, _tables(layout)
        self._statuses, self._finals, self._kinds = tables.statuses, tables.finals, tables.kinds
        # Field widths for the hot path, in the order in which the parts stand on the wire.
        name = min(limits.max_name, layout.max_name)
        maxima = {"channel": name, "key": name, "body": min(limits.max_body, layout.max_body)}
        self._message_code = tables.hot_code
        self._message_size = layout.message.head.size
        self._unpack, self._in_order, self._acks = tables.unpack, tables.in_order, tables.acks
        self._max_id, self._ack_kinds = layout.greatest_id, tables.ack_kinds
        self._maxima = tuple(maxima[part] for part in layout.message.parts)

    def claimed(self) -> UUID | None:
        """Returns the UUID of the request that comes next, None if those bytes are not here; takes no bytes (C6)."""
        buffer = self._buffer
        if self._error is not None or self._handshake is not None or not buffer.gather(1):
            return None
        buffer.gather(min(len(buffer), OPENING.size))
        return opening_of(buffer.data, buffer.pos)

    def use(self, accept_either: bool, unreliable_id: int) -> None:
        """Sets two habits of the peer for the next frames, those of Dialect. No frame was parsed ahead: a handshake
        ends a run.
        """
        self._unreliable = unreliable_id
        self._forms = _tables(self._layout).forms
        if accept_either:
            self._forms += _tables(LAYOUTS[Revision.DRAFT_1]).forms

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Adds received bytes; an object of class `bytes` is not copied."""
        if self._error is None and data:
            self._buffer.feed(bytes(data))

    @property
    def buffered(self) -> int:
        """Bytes that are held and not parsed yet."""
        return len(self._buffer)

    def finish(self) -> None:
        """Raises UnexpectedEOF if the stream, which has ended, ended inside a frame."""
        if self._error is None and (len(self._buffer) or self._handshake):
            self._error = UnexpectedEOF(
                "eof_in_frame",
                f"the stream ended inside a frame, {len(self._buffer)} bytes after the last whole part",
                offset=self._handshake.offset if self._handshake else self._buffer.offset,
            )
            raise self._error

    def next_frame(self) -> Decoded | None:
        """Returns the next whole frame, or None if more bytes are needed.

        Raises MalformedFrame (T-05, T-10) or LimitExceeded (T-06 to T-08), as soon as the head shows the fault.
        """
        run = self.ready
        if run:
            return run.pop()
        if self._handshake is None and self._buffer.data:
            self._parse_run(run)
            if run:
                return run.pop()
        return self._next_frame_slowly()

    def _parse_run(self, run: list[Message | Ack]) -> None:
        """The hot path: parses whole acks, and whole messages with known names, into `run`, the next frame last."""
        buffer = self._buffer
        data, pos = buffer.data, buffer.pos
        size, code, unpack, names = self._message_size, self._message_code, self._unpack, self._names
        first_max, second_max, third_max = self._maxima
        unreliable, available, in_order = self._unreliable, len(data), self._in_order
        ack_code, ack_size, ack_id_at, unpack_ack = self._acks
        for _ in range(_FRAMES_AT_ONCE):
            start = pos + size
            if start > available or data[pos] != code:
                if pos + ack_size > available or data[pos] != ack_code:
                    break
                run.append(Ack(unpack_ack(data, pos)[ack_id_at]))
                pos += ack_size
                continue
            _, first, second, third, message_id = unpack(data, pos)
            if first > first_max or second > second_max or third > third_max:
                break
            first += start
            second += first
            third += second
            if third > available:
                break
            parts = (data[start:first], data[first:second], data[second:third])
            raw_channel, raw_key, body = parts if in_order is None else in_order(parts)
            try:
                channel, key = names[raw_channel], names[raw_key]
            except KeyError:
                break
            run.append(Message(channel, key, body, None if message_id == unreliable else message_id))
            pos = third
        buffer.move_to(pos)
        run.reverse()

    def _next_frame_slowly(self) -> Decoded | None:
        if self._error is not None:
            raise self._error
        buffer = self._buffer
        if buffer.starved:
            return None
        try:
            if self._handshake is not None:
                return self._read_entries(self._handshake)
            if not buffer.gather(1):
                return None
            known = self._kinds.get(buffer.data[buffer.pos])
            if known is None:
                self._malformed("unknown_type", f"no frame begins with the byte {buffer.data[buffer.pos]} (T-05)")
            if not buffer.gather(known[1].size):
                return None
            return known[2](self)
        except RemoteProtocolError as error:
            self._error = error
            raise

    def _malformed(self, code: str, detail: str, frame: str | None = None) -> NoReturn:
        raise MalformedFrame(code, detail, frame=frame, offset=self._frame_offset())

    def _limit(self, code: str, detail: str, frame: str) -> NoReturn:
        raise LimitExceeded(code, detail, frame=frame, offset=self._frame_offset())

    def _frame_offset(self) -> int:
        return self._handshake.offset if self._handshake else self._buffer.offset

    def _read_message(self) -> Decoded | None:
        buffer = self._buffer
        _, *lengths, message_id = self._unpack(buffer.data, buffer.pos)
        for name, length, maximum in zip(self._layout.message.parts, lengths, self._maxima, strict=True):
            if length > maximum:
                self._too_long(name, length, maximum)
        size = self._message_size + sum(lengths)
        if not buffer.gather(size):
            return None
        data, start = buffer.data, buffer.pos + self._message_size
        parts = []
        for length in lengths:
            parts.append(data[start : start + length])
            start += length
        given_id = None if message_id == self._unreliable else message_id
        if self._message_code == _NO_CODE:
            given_id = self._checked_id(message_id)
        buffer.pos = start
        raw_channel, raw_key, body = parts if self._in_order is None else self._in_order(parts)
        return self._made(raw_channel, raw_key, body, given_id)

    def _read_spread_message(self) -> Decoded | None:
        """Reads a message of a shape whose lengths do not all stand before the first part; each length is checked as
        soon as it is there. None if more bytes are needed.
        """
        buffer, shape = self._buffer, self._layout.message
        while True:
            data = buffer.data
            reading = shape.read(data, buffer.pos, len(data))
            for name, maximum in zip(shape.parts, self._maxima, strict=True):
                length = reading.values.get(name, 0)
                if length > maximum:
                    self._too_long(name, length, maximum)
            if not buffer.gather(reading.end - buffer.pos):
                return None
            if reading.known and buffer.data is data:
                break
        given_id = self._checked_id(reading.values["message_id"])
        buffer.pos = reading.end
        channel, key, body = [data[start:end] for start, end in map(reading.places.__getitem__, _USUAL_PARTS)]
        return self._made(channel, key, body, given_id)

    def _too_long(self, name: str, length: int, maximum: int) -> NoReturn:
        self._limit("too_long", f"a {name} of {length} bytes: the limit is {maximum} (T-06, T-07)", "message")

    def _checked_id(self, message_id: int) -> int | None:
        """Returns the message's id; None if the id means "unreliable", or is not given out. Raises an error for one
        that is too high.
        """
        if message_id == self._unreliable or not (self.gives_unacked_ids or self._layout.has_acks):
            return None
        if message_id > self._max_id:
            self._malformed("bad_id", f"{message_id} is no message id: the largest is {self._max_id}", "message")
        return message_id

    def _made(self, raw_channel: bytes, raw_key: bytes, body: bytes, given_id: int | None) -> Decoded:
        if raw_channel == _RESERVED:
            return self._read_control(raw_key, body, given_id)
        try:
            channel, key = raw_channel.decode(), raw_key.decode()
        except UnicodeDecodeError:
            return Ignored(given_id, IgnoreReason.BAD_TEXT)
        self._remember(raw_channel, channel)
        self._remember(raw_key, key)
        return Message(channel, key, body, given_id)

    def _remember(self, raw: bytes, text: str) -> None:
        # Names repeat: with one string for each name, decoding is saved, and routing computes its hash once. The
        # reserved channel is an ordinary name as a key: it stays out of the cache, so that the hot path never makes a
        # Message of a control message.
        if len(raw) <= _NAME_CACHED and raw != _RESERVED:
            if len(self._names) >= _NAMES_CACHED:
                self._names.clear()
            self._names[raw] = text

    def _read_control(self, key: bytes, body: bytes, message_id: int | None) -> Decoded:
        """Reads a message on the reserved channel; what it is not is handed out as ignored (T-20, T-27)."""
        if key:
            return Ignored(message_id, IgnoreReason.CONTROL_KEY)
        for form in self._forms:
            entries = _control_entries(form, body, self._limits.max_subscriptions)
            if entries is not None and len(entries) == 1:
                return form.kind(*entries[0], message_id)
            if entries is not None:
                return MANY[form.kind](tuple(entries), message_id)
        return Ignored(message_id, IgnoreReason.BAD_CONTROL)

    def _read_ack(self) -> Decoded:
        ack = self._layout.ack
        assert ack is not None
        head = ack.unpack(self._buffer.data, self._buffer.pos)
        self._buffer.pos += ack.size
        return self._ack_kinds.get(head["status"], Refusal)(head["message_id"])

    def _read_whole(self) -> Decoded | None:
        return self.next_frame()  # the bytes are gathered now, so that the hot path takes them

    def _read_final(self) -> HandshakeFinal:
        head = self._layout.final.unpack(self._buffer.data, self._buffer.pos)
        self._buffer.pos += self._layout.final.size
        return HandshakeFinal(self._finals.get(head["final"], False))

    def _read_request(self) -> Decoded | None:
        return self._begin(HandshakeRequest, self._layout.request, "handshake_request")

    def _read_response(self) -> Decoded | None:
        return self._begin(HandshakeResponse, self._layout.response, "handshake_response")

    def _begin(self, kind: type, fields: Fields, name: str) -> Decoded | None:
        buffer, limits = self._buffer, self._limits
        head = fields.unpack(buffer.data, buffer.pos)
        if kind is HandshakeResponse and head["status"] not in self._statuses:
            self._malformed("unknown_status", f"status {head['status']} has no meaning (T-60)", name)
        peer = UUID(bytes=head["instance_id"])
        if peer in _NO_UUIDS:
            self._malformed("bad_uuid", f"{peer} names nobody (T-03)", name)
        handshake = _Handshake(kind, head, fields.size, buffer.offset)
        if handshake.wanted > limits.max_subscriptions:
            self._limit(
                "too_many",
                f"{handshake.wanted} subscriptions: the limit is {limits.max_subscriptions} (T-08)",
                name,
            )
        if fields.size + handshake.wanted * self._layout.listed_size > limits.max_handshake:
            self._limit("too_long", f"a handshake over {limits.max_handshake} bytes (T-08)", name)
        self._handshake = handshake
        buffer.pos += fields.size
        return self._read_entries(self._handshake)

    def _read_entries(self, handshake: _Handshake) -> Decoded | None:
        buffer, limits, entry = self._buffer, self._limits, self._layout.entry
        name = "handshake_request" if handshake.kind is HandshakeRequest else "handshake_response"
        read, max_name = _entry_reader(entry), min(limits.max_name, self._layout.max_name)
        is_built = handshake.kind is HandshakeRequest or self.builds_responses
        prefix = self._layout.list_prefix
        while handshake.count < handshake.wanted:
            if not buffer.gather(len(prefix)):
                return None
            data, start = buffer.data, buffer.pos + len(prefix)
            if (begin := data[buffer.pos : start]) != prefix:
                self._malformed("bad_entry", f"an entry begins with {begin!r}, and not with {prefix!r} (T-04)", name)
            end, longest, places = read(data, start, len(data))
            size = end - buffer.pos
            if longest > max_name:
                self._limit("too_long", f"a name of {longest} bytes: the limit is {max_name} (T-07)", name)
            if handshake.size + size > limits.max_handshake:
                self._limit("too_long", f"a handshake over {limits.max_handshake} bytes (T-08)", name)
            if not buffer.gather(size):
                return None
            if places is None or buffer.data is not data:
                continue
            names = _entry_names(data, places)
            if names is None:
                self._malformed("bad_text", "a subscription that is not UTF-8 (T-10)", name)
            buffer.pos = end
            handshake.size += size
            handshake.count += 1
            if is_built:
                handshake.subscriptions.append(names)
        self._handshake = None
        head = handshake.head
        version, peer = head["version"], UUID(bytes=head["instance_id"])
        subscriptions = tuple(handshake.subscriptions)
        if handshake.kind is HandshakeRequest:
            return HandshakeRequest(version, peer, subscriptions)
        return HandshakeResponse(version, peer, self._statuses[head["status"]], subscriptions)


class _Tables:
    """A layout compiled for reading: one object for all decoders."""

    __slots__ = ("ack_kinds", "acks", "finals", "forms", "hot_code", "in_order", "kinds", "statuses", "unpack")

    def __init__(self, layout: Layout) -> None:
        shape, ack = layout.message, layout.ack
        is_hot = shape.is_flat and layout.has_acks and layout.greatest_id == shape.maximum("message_id")
        self.hot_code = layout.codes[Message] if is_hot else _NO_CODE
        self.statuses = {code: status for status, code in layout.statuses.items()}
        self.finals = {code: compatible for compatible, code in layout.finals.items()}
        # Unbound methods: a decoder that held bound ones would be freed by a full garbage collection alone.
        self.kinds: dict[int, tuple[str, Fields, Callable[[Decoder], Decoded | None]]] = {
            layout.codes[kind]: (name, head, read)
            for kind, name, head, read in (
                (HandshakeRequest, "handshake_request", layout.request, Decoder._read_request),
                (HandshakeResponse, "handshake_response", layout.response, Decoder._read_response),
                (HandshakeFinal, "handshake_final", layout.final, Decoder._read_final),
                (Message, "message", shape.head, _message_reader(shape)),
            )
        }
        self.forms = tuple(layout.control_forms())
        self.unpack: Callable[[bytes, int], tuple[int, ...]] = shape.head.struct.unpack_from
        names = ("code", *shape.parts, "message_id")
        if shape.is_flat and shape.head.names != names:
            head_order = itemgetter(*map(shape.head.index, names))
            self.unpack = lambda data, pos: head_order(shape.head.struct.unpack_from(data, pos))
        self.in_order: Callable[[Sequence[bytes]], tuple[bytes, bytes, bytes]] | None = None
        if shape.parts != _USUAL_PARTS:
            self.in_order = itemgetter(*map(shape.parts.index, _USUAL_PARTS))
        self.ack_kinds = {status: kind for kind, status in layout.acks.items()}
        self.acks: tuple[int, int, int, Callable[..., tuple[Any, ...]]] = (
            _NO_CODE,
            1,
            0,
            _NO_ACK.struct.unpack_from,
        )
        if ack is not None:
            has_status = "status" in ack.names
            if not has_status:
                self.acks = layout.codes[Ack], ack.size, ack.index("message_id"), ack.struct.unpack_from
            self.kinds[layout.codes[Ack]] = "ack", ack, Decoder._read_ack if has_status else Decoder._read_whole


def _message_reader(shape: Shape) -> Callable[[Decoder], Decoded | None]:
    return Decoder._read_message if shape.is_flat else Decoder._read_spread_message


_tables = lru_cache(maxsize=16)(_Tables)
