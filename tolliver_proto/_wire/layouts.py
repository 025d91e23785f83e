"""Wire layouts of the two drafts and of other programs, as data.

A revision is an entry of `LAYOUTS`. Its widths, the order of fields and parts, codes, the form of acks and control
bodies, and the frames that it lacks are values, so that another revision needs a new entry and no new branch anywhere
(CONTRIBUTING.md, "Add a wire layout").

State: none; every object here is frozen. Invariants: a frame begins with its one-byte code (T-01); the length of a part
stands before the part, so that a reader knows from the bytes in sight how many more a frame needs at least; the request
begins with code, version and UUID (`OPENING`) in the layout of every program that may dial us, so that the UUID can
choose the layout (C6). A class for each revision, with methods that read and write, was rejected: most layouts differ
in a few values, which `replace` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from struct import Struct
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from .._common.records import frozen
from .events import (
    Ack,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Refusal,
    Revision,
    Subscribe,
    SubscribeMany,
    Unsubscribe,
    UnsubscribeMany,
)

ControlType = type[Subscribe] | type[Unsubscribe]
MANY: Mapping[ControlType, type[SubscribeMany] | type[UnsubscribeMany]] = MappingProxyType(
    {Subscribe: SubscribeMany, Unsubscribe: UnsubscribeMany}
)


@frozen
class Fields:
    """Fields of fixed size in network order: `Fields("Q version, 16s instance_id")`, types as in `struct`."""

    spec: str
    struct: Struct = field(init=False)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        pairs = [part.split() for part in self.spec.split(",")]
        object.__setattr__(self, "struct", Struct(">" + "".join(kind for kind, _ in pairs)))
        object.__setattr__(self, "names", tuple(name for _, name in pairs))

    @property
    def size(self) -> int:
        return self.struct.size

    def index(self, name: str) -> int:
        return self.names.index(name)

    def maximum(self, name: str) -> int:
        """The largest unsigned number that the field called `name` holds."""
        kind = self.spec.split(",")[self.index(name)].split()[0]
        return int(2 ** (8 * Struct(">" + kind).size) - 1)

    def unpack(self, data: bytes | bytearray | memoryview, pos: int) -> dict[str, Any]:
        return dict(zip(self.names, self.struct.unpack_from(data, pos), strict=True))

    def pack(self, values: Mapping[str, Any]) -> bytes:
        return self.struct.pack(*[values[name] for name in self.names])


class Piece(NamedTuple):
    """Section of a Shape: fields of fixed size, and the names of the parts of variable length that follow them."""

    fields: Fields
    parts: tuple[str, ...]


class Reading(NamedTuple):
    """Result of `Shape.read`: the fields, and where each part stands, as far as the bytes have them.

    `end` is the end of the frame if that is `known`, else the end of its next fields.
    """

    values: dict[str, Any]
    places: dict[str, tuple[int, int]]
    end: int
    known: bool


@frozen
class Shape:
    """Layout of one kind of frame: fields of fixed size, and parts of variable length, in the order of the wire, such
    as `Shape("I channel, I key, *channel, *key")`.

    A part is marked with a star; the field of the same name, which stands before the part, has its length in bytes. In
    `Shape("Q channel, *channel, Q key, *key")` each length stands right before its part.
    """

    spec: str
    pieces: tuple[Piece, ...] = field(init=False)
    parts: tuple[str, ...] = field(init=False)
    size: int = field(init=False)
    """Bytes of all fields, without the parts."""

    def __post_init__(self) -> None:
        pieces: list[tuple[list[str], list[str]]] = []
        for one in map(str.strip, self.spec.split(",")):
            if one.startswith("*"):
                pieces[-1][1].append(one[1:])
            elif pieces and not pieces[-1][1]:
                pieces[-1][0].append(one)
            else:
                pieces.append(([one], []))
        made = tuple(Piece(Fields(", ".join(fields)), tuple(parts)) for fields, parts in pieces)
        object.__setattr__(self, "pieces", made)
        object.__setattr__(self, "parts", tuple(part for piece in made for part in piece.parts))
        object.__setattr__(self, "size", sum(piece.fields.size for piece in made))

    @property
    def head(self) -> Fields:
        """The fields that stand before the first part."""
        return self.pieces[0].fields

    @property
    def is_flat(self) -> bool:
        """True if all lengths stand before the first part."""
        return len(self.pieces) == 1

    def maximum(self, name: str) -> int:
        """The largest unsigned number that the field called `name` holds."""
        return next(piece.fields.maximum(name) for piece in self.pieces if name in piece.fields.names)

    def read(self, data: bytes | bytearray | memoryview, pos: int, end: int) -> Reading:
        """Reads the frame that begins at `data[pos]`, as far as its bytes are there, before `end`: the values of its
        fields, and the offsets of its parts. No part is copied, so a length takes no memory, however large. The result
        says whether the frame is whole.
        """
        values: dict[str, Any] = {}
        places: dict[str, tuple[int, int]] = {}
        for fields, parts in self.pieces:
            after = pos + fields.size
            if after > end:
                return Reading(values, places, after, False)
            values.update(zip(fields.names, fields.struct.unpack_from(data, pos), strict=True))
            pos = after
            for part in parts:
                after = pos + values[part]
                places[part] = pos, after
                pos = after
        return Reading(values, places, pos, True)

    def write(self, values: Mapping[str, Any], parts: Mapping[str, bytes]) -> list[bytes]:
        """Returns the bytes of a frame in pieces, which the caller joins. `values` are those of the fields; the lengths
        come from `parts`.
        """
        written: list[bytes] = []
        for fields, names in self.pieces:
            written.append(fields.pack(values))
            written += [parts[name] for name in names]
        return written


class ControlForm(NamedTuple):
    """Layout of a control message's body: the prefix, the count of subscriptions if the layout has one, the
    subscriptions.
    """

    prefix: bytes
    kind: ControlType
    entry: Shape
    counted: Fields | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Layout:
    """Everything about the bytes of one revision, as data: codes, shapes of frames, control bodies, limits. Every head
    begins with the one-byte frame code (T-01).
    """

    codes: Mapping[type, int]
    """Codes of frames. A layout without Ack has no reliable messages: nobody acknowledges the ids of its messages."""

    request: Fields
    response: Fields
    """Heads of the handshake. Heads without the field `count` have no list of subscriptions."""

    final: Fields
    message: Shape
    ack: Fields | None
    """An ack; its field `status`, if there is one, has the codes of `acks`. None if `codes` has no Ack."""

    entry: Shape
    """A subscription, in a handshake and in a control body (T-04)."""

    statuses: Mapping[HandshakeStatus, int]
    finals: Mapping[bool, int]
    """Codes of HandshakeFinal.compatible; any other code is a failure (C1)."""

    controls: Mapping[ControlType, bytes]
    """First bytes of a control body; the layout has no frame of a missing class (C2, T-21)."""

    unreliable_id: int
    acks: Mapping[type[Ack] | type[Refusal], int] = field(default_factory=lambda: {Ack: 0})
    """Status of an ack; any other code is a refusal."""

    list_prefix: bytes = b""
    """Bytes before each entry of a handshake's list."""

    control_count: Fields | None = None
    """Number of entries, after those bytes; None if a control body has one entry and no count."""

    final_always: bool = False
    """True if a final follows every response that is no failure, not only OLDER."""

    loses_lists: bool = False
    """True if its programs may lose their own subscribe in a race, and then send an empty list (T-61)."""

    plaintext: bool = False
    """True if its programs have no TLS."""

    max_body: int = 2**31 - 1
    max_name: int = 2**32 - 1
    max_id: int | None = None
    """The largest message id, if that is less than its field holds."""

    @property
    def has_acks(self) -> bool:
        return Ack in self.codes

    @property
    def has_lists(self) -> bool:
        return "count" in self.request.names

    @property
    def listed_size(self) -> int:
        """Bytes of an entry of a handshake's list, without its names."""
        return len(self.list_prefix) + self.entry.size

    @property
    def greatest_id(self) -> int:
        """The largest id of a message."""
        most = self.message.maximum("message_id")
        return most if self.max_id is None else min(most, self.max_id)

    def longest(self, part: str) -> int:
        """Returns the largest "channel", "key" or "body" of a message, in bytes."""
        return min(self.max_body if part == "body" else self.max_name, self.message.maximum(part))

    def control_forms(self) -> list[ControlForm]:
        """Returns the forms of control bodies, for the decoder."""
        return [ControlForm(prefix, kind, self.entry, self.control_count) for kind, prefix in self.controls.items()]


OPENING = Fields("B code, Q version, 16s instance_id")
"""First bytes of a request, alike in all layouts of programs that may dial us: the UUID can choose the layout (C6)."""

_OPENING_CODE = 0


def opening_of(data: bytes | bytearray | memoryview, pos: int) -> UUID | None:
    """Returns the UUID of the request that begins at `pos`; None if those bytes are not here, or are no request."""
    if len(data) - pos < OPENING.size or data[pos] != _OPENING_CODE:
        return None
    return UUID(bytes=OPENING.unpack(data, pos)["instance_id"])


_STATUSES = MappingProxyType({status: int(status) for status in HandshakeStatus if status <= HandshakeStatus.OLDER})

_DRAFT_1 = Layout(
    codes=MappingProxyType({HandshakeRequest: 0, HandshakeResponse: 1, HandshakeFinal: 2, Message: 3, Ack: 4}),
    request=Fields("B code, Q version, 16s instance_id, I count"),
    response=Fields("B code, Q version, 16s instance_id, B status, I count"),
    final=Fields("B code, B final"),
    message=Shape("B code, I channel, I key, I body, I message_id, *channel, *key, *body"),
    ack=Fields("B code, I message_id"),
    entry=Shape("I channel, I key, *channel, *key"),
    statuses=_STATUSES,
    finals=MappingProxyType({True: 0, False: 1}),
    controls=MappingProxyType({Subscribe: b""}),
    unreliable_id=2**31 - 1,
)

_DRAFT_2 = replace(
    _DRAFT_1,
    finals=MappingProxyType({True: 1, False: 2}),
    controls=MappingProxyType({Subscribe: b"\x00", Unsubscribe: b"\x01"}),
)

_DRAFT_2_LETTER = replace(_DRAFT_2, list_prefix=_DRAFT_2.controls[Subscribe])
"""The entries of a list are in "the same format as for the subscription and unsubscription messages", to the letter."""

_GO_SEED = replace(_DRAFT_2, unreliable_id=2**32 - 1, loses_lists=True)

_GO_D05F89B = replace(_DRAFT_2, unreliable_id=0, loses_lists=True)

_GO_499B76D = replace(
    _GO_SEED,
    statuses=MappingProxyType(
        {
            HandshakeStatus.SAME_VERSION: 0,
            HandshakeStatus.NEWER_COMPATIBLE: 2,
            HandshakeStatus.NEWER_INCOMPATIBLE: 3,
            HandshakeStatus.OLDER: 4,
        }
    ),
    finals=MappingProxyType({True: 2, False: 3}),
)

_GO_2026 = Layout(
    codes=_DRAFT_2.codes,
    request=Fields("B code, Q version, 16s instance_id, Q count"),
    response=Fields("B code, Q version, 16s instance_id, B status, Q count"),
    final=_DRAFT_2.final,
    message=Shape("B code, Q message_id, Q channel, *channel, Q key, *key, Q body, *body"),
    ack=Fields("B code, B status, Q message_id"),
    acks=MappingProxyType({Ack: 0, Refusal: 1}),
    entry=Shape("Q channel, *channel, Q key, *key"),
    statuses=MappingProxyType({**_GO_499B76D.statuses, HandshakeStatus.FAILED: 1}),
    finals=MappingProxyType({True: 0, False: 2}),
    controls=_DRAFT_2.controls,
    control_count=Fields("Q count"),
    unreliable_id=0,
    max_id=2**63 - 1,  # an id is the number of a database row, in that program and here
    loses_lists=True,
)

_RUST_2026 = Layout(
    codes=MappingProxyType({kind: code for kind, code in _DRAFT_2.codes.items() if kind is not Ack}),
    request=OPENING,
    response=Fields("B code, Q version, 16s instance_id, B status"),
    final=_DRAFT_2.final,
    message=Shape("B code, I message_id, H channel, *channel, H key, *key, H body, *body"),
    ack=None,
    entry=Shape("H channel, *channel, H key, *key"),
    statuses=_GO_2026.statuses,
    finals=_GO_2026.finals,
    controls=MappingProxyType({}),
    unreliable_id=0,
    final_always=True,
    plaintext=True,
)

LAYOUTS: dict[Revision, Layout] = {
    Revision.DRAFT_1: _DRAFT_1,
    Revision.DRAFT_2: _DRAFT_2,
    Revision.GO_SEED: _GO_SEED,
    Revision.GO_D05F89B: _GO_D05F89B,
    Revision.GO_499B76D: _GO_499B76D,
    Revision.GO_2026: _GO_2026,
    Revision.RUST_2026: _RUST_2026,
    Revision.DRAFT_2_LETTER: _DRAFT_2_LETTER,
}
