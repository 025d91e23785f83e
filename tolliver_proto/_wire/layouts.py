"""Wire layouts of the two drafts, as data.

The idea: a revision is an entry of `LAYOUTS`. Widths, field order, codes and the form of control bodies are values
here, so that a third revision needs a new entry and no new branch anywhere (CONTRIBUTING.md, "Add a wire layout").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from types import MappingProxyType
from typing import Any, NamedTuple

from .._common.records import frozen
from .events import (
    Ack,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Revision,
    Subscribe,
    Unsubscribe,
)

ControlType = type[Subscribe] | type[Unsubscribe]


@frozen
class Fields:
    """A fixed-size head in network order: `Fields("Q version, 16s instance_id")`, types as in `struct`."""

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
        """The largest unsigned number that the field holds."""
        kind = self.spec.split(",")[self.index(name)].split()[0]
        return int(2 ** (8 * Struct(">" + kind).size) - 1)

    def unpack(self, data: bytes, pos: int) -> dict[str, Any]:
        return dict(zip(self.names, self.struct.unpack_from(data, pos), strict=True))

    def pack(self, values: Mapping[str, Any]) -> bytes:
        return self.struct.pack(*[values[name] for name in self.names])


class ControlForm(NamedTuple):
    """A control body: the prefix, the lengths in `entry`, the names."""

    prefix: bytes
    kind: ControlType
    entry: Fields


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """One revision's bytes. Every head begins with the one-byte frame code (T-01)."""

    codes: Mapping[type, int]
    request: Fields
    response: Fields
    final: Fields
    message: Fields
    ack: Fields
    entry: Fields
    """The lengths before the two names of a subscription, in a handshake and in a control body (T-04)."""

    parts: tuple[str, str, str]
    """Order of channel, key and body behind a message's head."""

    statuses: Mapping[HandshakeStatus, int]
    finals: Mapping[bool, int]
    """HandshakeFinal.compatible -> code; any other code is a failure (C1)."""

    controls: Mapping[ControlType, bytes]
    """First bytes of a control body; a type that is missing cannot be expressed (C2, T-21)."""

    unreliable_id: int
    max_body: int = 2**31 - 1

    def control_forms(self) -> list[ControlForm]:
        """The bodies of control messages, for the decoder."""
        return [ControlForm(prefix, kind, self.entry) for kind, prefix in self.controls.items()]


_DRAFT_1 = Layout(
    codes=MappingProxyType({HandshakeRequest: 0, HandshakeResponse: 1, HandshakeFinal: 2, Message: 3, Ack: 4}),
    request=Fields("B code, Q version, 16s instance_id, I count"),
    response=Fields("B code, Q version, 16s instance_id, B status, I count"),
    final=Fields("B code, B final"),
    message=Fields("B code, I channel, I key, I body, I message_id"),
    ack=Fields("B code, I message_id"),
    entry=Fields("I channel, I key"),
    parts=("channel", "key", "body"),
    statuses=MappingProxyType({status: int(status) for status in HandshakeStatus}),
    finals=MappingProxyType({True: 0, False: 1}),
    controls=MappingProxyType({Subscribe: b""}),
    unreliable_id=2**31 - 1,
)

_DRAFT_2 = Layout(
    codes=_DRAFT_1.codes,
    request=_DRAFT_1.request,
    response=_DRAFT_1.response,
    final=_DRAFT_1.final,
    message=_DRAFT_1.message,
    ack=_DRAFT_1.ack,
    entry=_DRAFT_1.entry,
    parts=_DRAFT_1.parts,
    statuses=_DRAFT_1.statuses,
    finals=MappingProxyType({True: 1, False: 2}),
    controls=MappingProxyType({Subscribe: b"\x00", Unsubscribe: b"\x01"}),
    unreliable_id=_DRAFT_1.unreliable_id,
)

LAYOUTS: dict[Revision, Layout] = {Revision.DRAFT_1: _DRAFT_1, Revision.DRAFT_2: _DRAFT_2}
